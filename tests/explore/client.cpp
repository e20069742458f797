#include "explore/client.hpp"

#include <utility>

namespace godwit::explore {

void client::on_prompt_scores(std::vector<protocols::sampled_token> scores) {
  if (endings > 0) complain("scores of the prompt after the end");
  if (!tokens.empty()) complain("scores of the prompt after tokens");
  if (!prompt_scores.empty()) complain("scores of the prompt twice");
  prompt_scores = std::move(scores);
}

void client::leave() {
  if (std::exchange(gone, true)) return;
  if (go) go();
}

bool client::on_tokens(std::span<const protocols::sampled_token> more, bool) {
  if (endings > 0) complain("tokens after the end");
  if (complete) complain("tokens after the answer was complete");
  if (more.empty()) complain("a delivery without tokens");
  if (expected_ != nullptr && tokens.empty() && prompt_scores != expected_->prompt_scores)
    complain("the prompt's scores are not the calm answer's");
  for (const auto& token : more) {
    if (expected_ != nullptr) {
      const auto index = tokens.size();
      if (index >= expected_->tokens.size())
        complain("token " + std::to_string(index) + " is beyond the calm answer's end");
      else if (expected_->tokens[index].id != token.id)
        complain("token " + std::to_string(index) + " is not the calm answer's");
      else if (expected_->tokens[index] != token)
        complain("token " + std::to_string(index) + " has other log-probabilities than the calm answer's");
    }
    tokens.push_back(token);
  }
  if (tokens.size() >= goes_after) leave();
  complete = tokens.size() >= enough;
  return !complete;
}

void client::on_finished(protocols::finish_reason reason, const actors::answer_usage& usage) {
  if (++endings > 1) complain("a second ending");
  finished = reason;
  if (usage.answer_tokens != tokens.size())
    complain("billed for " + std::to_string(usage.answer_tokens) + " tokens, got " + std::to_string(tokens.size()));
  if (expected_ == nullptr) return;
  if (usage.prompt_tokens != expected_->prompt_tokens)
    complain("billed for a prompt of " + std::to_string(usage.prompt_tokens) + " tokens, asked with " +
             std::to_string(expected_->prompt_tokens));
  if (usage.cached_tokens > usage.prompt_tokens)
    complain("billed for " + std::to_string(usage.cached_tokens) + " cached tokens of a prompt of " +
             std::to_string(usage.prompt_tokens));
  if (tokens.size() >= enough) {
    if (reason != protocols::finish_reason::stop) complain("a stopped answer must end with `stop`");
    return;
  }
  if (tokens.size() != expected_->tokens.size())
    complain("finished after " + std::to_string(tokens.size()) + " of " + std::to_string(expected_->tokens.size()) +
             " tokens");
  else if (reason != expected_->finish)
    complain("finished with `" + std::string(to_string(reason)) + "` where the calm answer has `" +
             std::string(to_string(expected_->finish)) + "`");
}

void client::on_failed(const actors::answer_failure& failure) {
  if (++endings > 1) complain("a second ending");
  failed = failure;
  if (failure.message.empty()) complain("an error that names no cause");
}

} // namespace godwit::explore
