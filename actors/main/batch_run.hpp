#pragma once

#include "main/batch_file.hpp"
#include "main/load_generator.hpp"

#include <godwit/runtime/clock.hpp>
#include <godwit/transport/http/client.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <ostream>
#include <string>

namespace godwit::main {

struct batch_settings {
  std::string base;    ///< of the server: "http://127.0.0.1:8000", without /v1
  std::string api_key; ///< empty: none is sent
  std::uint32_t concurrency = 64;
  std::uint32_t retries = 8; ///< of each request, where its answer was transient
  /// Before the first one; then twice as long each time. What the server says (Retry-After) counts where it is more.
  std::chrono::milliseconds pause_min{500};
  std::chrono::milliseconds pause_max{60'000};
  transport::http::client_settings client;
  std::chrono::milliseconds tick{100};
};

/// What came of the requests that were sent.
struct batch_counts {
  std::uint64_t answered = 0, failed = 0;
  std::uint64_t unfinished =
      0; ///< nothing is known of them, since the run was stopped, or of their answers nothing written
  std::uint64_t retries = 0;
  std::uint64_t prompt_tokens = 0, answer_tokens = 0; ///< of those answered, by their usage
  double duration_s = 0;
  bool written = true;  ///< all that was to be
  bool refused = false; ///< the server does not take the key (401), which ends the run
};

/// Sends requests as fast as `concurrency` lets them, and writes a line for each as its answer comes: an answer, or
/// after the last retry the error. A request that waits for its next try counts as one that runs, so a server that is
/// full is asked for less. A 401 ends the run: no other request would fare better. Memory is bounded by `concurrency`
/// requests with their answers.
///
/// `next` gives the requests, in their order, and nothing at the end. `on_tick` is called several times a second on
/// this thread; once it returns false nothing more is sent, calls in flight are cancelled, and of those nothing is
/// written.
[[nodiscard]] batch_counts run_batch(const batch_settings& settings, std::uint64_t total,
                                     const std::function<std::optional<batch_request>()>& next, std::ostream& to,
                                     const runtime::clock& clock,
                                     const std::function<bool(const load_progress&)>& on_tick);

} // namespace godwit::main
