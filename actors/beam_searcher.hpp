#pragma once

#include <godwit/actors/answer_sink.hpp>
#include <godwit/actors/frontend_gate.hpp>
#include <godwit/protocols/decoding/beam_search.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace godwit::actors {

/// One prompt's beam search, as a client of the front end: each step is a request for one token of each beam, with the
/// most probable ones beside it, and what comes of it decides on the next step. Beams share KV by the prefix cache;
/// those of a step go to one instance. In the end the answers' sinks hear all of theirs, best first.
///
/// The beams of an instance that dies, moves or preempts are requests like others, so nothing of this knows of it.
/// Thread-safe: tokens come on the front end's context, `stop` from any thread. Lives as long as a step of it does.
class beam_searcher : public std::enable_shared_from_this<beam_searcher> {
public:
  /// `first`: the request, whose sampling and ends are not looked at. `answers`: as many as beams, in their order.
  beam_searcher(std::shared_ptr<frontend_gate> gate, std::shared_ptr<submission> first,
                protocols::beam_settings settings, std::vector<std::shared_ptr<answer_sink>> answers);
  void start() { ask(); }
  /// Nobody waits any more: no sink hears anything from then on, but for what is said at that moment.
  void stop();

private:
  class step;
  void ask();
  /// Beam `index` has its next token, with those beside it.
  void took(std::size_t index, const answer_usage& usage);
  void go_on(std::size_t index, const answer_usage& usage);
  void failed(const answer_failure& failure);
  bool end(); ///< false: it has ended before
  void tell();

  std::shared_ptr<frontend_gate> gate_;
  std::shared_ptr<submission> first_;
  std::vector<std::shared_ptr<answer_sink>> answers_;

  std::mutex mutex_; // of all that follows
  protocols::beam_search search_;
  std::vector<std::shared_ptr<step>> steps_; ///< that are asked for
  std::vector<protocols::sampled_token> next_;
  std::size_t missing_ = 0;
  std::uint64_t rounds_ = 0;
  answer_usage usage_;
  bool over_ = false;
};

} // namespace godwit::actors
