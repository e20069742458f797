#pragma once

#include <godwit/actors/answer_sink.hpp>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace godwit::test {

/// Keeps what a request's client would see.
class recording_sink final : public actors::answer_sink {
public:
  std::vector<protocols::token_id> tokens;
  std::vector<protocols::sampled_token> sampled; ///< the same with their log-probabilities
  std::vector<protocols::sampled_token> prompt_scores;
  std::vector<std::size_t> batches; ///< sizes of the on_tokens calls
  std::optional<protocols::finish_reason> finished;
  std::optional<actors::answer_failure> failed;
  actors::answer_usage usage;
  std::size_t enough = ~std::size_t{0}; ///< says that the answer is complete after so many tokens
  std::function<void()> on_each;

  bool on_tokens(std::span<const protocols::sampled_token> more, bool) override {
    batches.push_back(more.size());
    for (const auto& token : more) tokens.push_back(token.id);
    sampled.insert(sampled.end(), more.begin(), more.end());
    if (on_each) on_each();
    return tokens.size() < enough;
  }
  void on_prompt_scores(std::vector<protocols::sampled_token> scores) override { prompt_scores = std::move(scores); }
  void on_finished(protocols::finish_reason reason, const actors::answer_usage& used) override {
    ++endings;
    finished = reason;
    usage = used;
  }
  void on_failed(const actors::answer_failure& failure) override {
    ++endings;
    failed = failure;
  }
  [[nodiscard]] bool ended() const { return endings > 0; }
  int endings = 0; ///< must be 1 at the end
};

} // namespace godwit::test
