#pragma once

#include "main/bench_prompt.hpp"
#include "main/bench_record.hpp"

#include <godwit/protocols/workload/request.hpp>
#include <godwit/runtime/clock.hpp>
#include <godwit/transport/http/client.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace godwit::main {

struct load_progress {
  std::size_t total = 0;
  std::size_t sent = 0;
  std::size_t done = 0; ///< answered or failed
  std::size_t failed = 0;
  std::uint64_t pieces = 0; ///< of text, so far; nearly always a token each
  double elapsed_s = 0.0;

  [[nodiscard]] std::size_t running() const noexcept { return sent - done; }
};

/// Plays a workload against an OpenAI-style server and notes what happened to every request.
///
/// Problem: a generator that waits for a slow server before it sends the next request measures too little of the
/// slowness (coordinated omission). So requests leave when the workload says, whatever became of those before; a record
/// has the intended and the actual time. `concurrency` bounds what is in flight, for closed-loop measurements; requests
/// then start late and the records show it.
class load_generator {
public:
  struct settings {
    std::string url;     ///< of the endpoint: http://host:port/v1/completions
    std::string api_key; ///< empty: none is sent
    std::uint32_t concurrency = 0;
    transport::http::client_settings client;
    std::chrono::milliseconds tick{100};
  };

  /// The clock must outlive the generator.
  load_generator(settings chosen, prompt_writer prompts, const runtime::clock& clock);

  /// Waits until every request is done. `on_tick` is called several times a second on this thread; once it returns
  /// false, nothing more is sent, calls in flight are cancelled, and `run` returns with what there is.
  [[nodiscard]] std::vector<request_record> run(std::span<const protocols::workload::workload_request> workload,
                                                const std::function<bool(const load_progress&)>& on_tick);

private:
  settings settings_;
  prompt_writer prompts_;
  const runtime::clock& clock_;
};

} // namespace godwit::main
