#pragma once

#include <godwit/transport/http/client.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace godwit::main {

/// One request of the demo, as any client of the HTTP endpoint would send it.
struct demo_request {
  std::string question;
  double temperature = 0.0;
  std::uint64_t seed = 0;
  std::uint32_t max_tokens = 0;
};

struct demo_answer {
  std::string text;
  std::string finish_reason;
  std::string error; ///< empty: the stream was complete
  std::uint32_t tokens = 0;
  double first_token_ms = 0;
  double total_ms = 0;
  double longest_pause_ms = 0; ///< between two pieces of the stream
  std::vector<double> gaps_ms;
  friend bool same_text(const demo_answer& a, const demo_answer& b) {
    return a.error.empty() && b.error.empty() && a.text == b.text && a.finish_reason == b.finish_reason;
  }
};

/// Sends requests at once, streams all answers, and keeps them.
class demo_round {
public:
  /// `on_piece(i, text)` sees every piece of text, on an I/O thread.
  demo_round(std::string url, std::string model, const std::vector<demo_request>& requests,
             std::function<void(std::size_t, const std::string&)> on_piece = {});
  demo_round(const demo_round&) = delete;
  demo_round& operator=(const demo_round&) = delete;
  ~demo_round();

  /// True when every answer has ended; false at the timeout.
  [[nodiscard]] bool wait_for(std::chrono::milliseconds timeout);
  [[nodiscard]] std::size_t ended() const noexcept { return ended_; }
  [[nodiscard]] std::uint64_t pieces() const noexcept { return pieces_; }
  [[nodiscard]] double seconds() const noexcept { return seconds_; }
  /// When every answer has ended.
  [[nodiscard]] const std::vector<demo_answer>& answers() const noexcept { return answers_; }

private:
  struct stream;
  void end_one();

  std::function<void(std::size_t, const std::string&)> on_piece_;
  std::vector<demo_answer> answers_;
  std::chrono::steady_clock::time_point started_;
  std::atomic<std::size_t> ended_{0};
  std::atomic<std::uint64_t> pieces_{0};
  std::atomic<double> seconds_{0};
  std::mutex mutex_;
  std::condition_variable all_ended_;
  transport::http::client client_; // last: its callbacks use the rest
};

} // namespace godwit::main
