#pragma once

#include "explore/requests.hpp"

#include <godwit/actors/answer_sink.hpp>

#include <cstddef>
#include <functional>
#include <limits>
#include <optional>
#include <string>

namespace godwit::explore {

/// The client of one request: compares what it gets with the calm answer, token by token and figure by figure.
class client final : public actors::answer_sink {
public:
  static constexpr std::size_t never = std::numeric_limits<std::size_t>::max();

  /// Null: it only listens.
  explicit client(const calm_answer* expected) : expected_(expected) {}

  std::size_t enough = never;     ///< says after so many tokens that the answer is complete
  std::size_t goes_after = never; ///< calls `go` after so many
  std::function<void()> go;       ///< must only post
  bool gone = false;              ///< withdrawn
  std::vector<protocols::sampled_token> tokens;
  std::vector<protocols::sampled_token> prompt_scores;
  int endings = 0;
  std::optional<protocols::finish_reason> finished;
  std::optional<actors::answer_failure> failed;
  bool complete = false; ///< it has said so
  std::string wrong;     ///< the first thing that must not be; empty: none

  void on_prompt_scores(std::vector<protocols::sampled_token> scores) override;
  [[nodiscard]] bool on_tokens(std::span<const protocols::sampled_token> more, bool ends_with_stop_token) override;
  void on_finished(protocols::finish_reason reason, const actors::answer_usage& usage) override;
  void on_failed(const actors::answer_failure& failure) override;
  [[nodiscard]] bool over() const noexcept { return endings > 0 || gone; }
  /// Withdraws its request, whatever has become of it.
  void leave();

private:
  void complain(const std::string& what) {
    if (wrong.empty()) wrong = what;
  }
  const calm_answer* expected_;
};

} // namespace godwit::explore
