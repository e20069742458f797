#pragma once

#include <godwit/transport/http/client.hpp>
#include <godwit/transport/http/sse_parser.hpp>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace godwit::test {

/// A request for a streamed completion that always has `tokens` tokens.
struct question {
  std::string prompt;
  double temperature = 0;
  std::uint64_t seed = 0;
  std::uint32_t tokens = 200;
  std::string request_id{}; ///< empty: the server makes one
  std::string model{};      ///< empty: the one that there is
};
/// So many different ones, half of them greedy, half drawn with a seed.
[[nodiscard]] std::vector<question> mixed_questions(std::size_t count, std::uint32_t tokens);

/// What a client got, token by token with the logarithm of its probability: equal only where the numbers were.
struct streamed_answer {
  std::string text;
  std::vector<std::string> tokens;
  std::string finish;
  std::string error; ///< of the connection or in the stream; empty: none
  std::uint64_t usage_tokens = 0;
  friend bool operator==(const streamed_answer&, const streamed_answer&) = default;
};

/// All questions at once over HTTP.
class round_of_answers {
public:
  round_of_answers(std::string url, const std::vector<question>& questions);
  /// Of all answers so far.
  [[nodiscard]] std::size_t tokens() const;
  /// False at the timeout, or where all ended before.
  [[nodiscard]] bool wait_tokens(std::size_t count, std::chrono::milliseconds timeout);
  [[nodiscard]] bool wait_ended(std::chrono::milliseconds timeout);
  [[nodiscard]] std::vector<streamed_answer> answers() const;

private:
  struct one {
    streamed_answer answer;
    transport::http::sse_parser parser;
  };
  void take(std::size_t index, const std::string& event);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<one>> all_;
  std::size_t tokens_ = 0;
  std::size_t ended_ = 0;
  transport::http::client client_; // last: its callbacks use the rest
};

/// The answers of a run that nothing disturbs.
[[nodiscard]] std::vector<streamed_answer> ask_all(const std::string& url, const std::vector<question>& questions);

} // namespace godwit::test
