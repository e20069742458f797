#include "explore/client.hpp"

namespace godwit::explore {

bool client::on_tokens(std::span<const protocols::sampled_token> more, bool) {
  if (endings > 0) complain("tokens after the end");
  if (complete) complain("tokens after the answer was complete");
  if (more.empty()) complain("a delivery without tokens");
  for (const auto& token : more) {
    if (expected_ != nullptr) {
      const auto index = tokens.size();
      if (index >= expected_->tokens.size())
        complain("token " + std::to_string(index) + " is beyond the calm answer's end");
      else if (expected_->tokens[index] != token.id)
        complain("token " + std::to_string(index) + " is not the calm answer's");
    }
    tokens.push_back(token.id);
  }
  if (tokens.size() >= goes_after && !gone) {
    gone = true;
    if (go) go();
  }
  complete = tokens.size() >= enough;
  return !complete;
}

void client::on_finished(protocols::finish_reason reason, const actors::answer_usage& usage) {
  if (++endings > 1) complain("a second ending");
  finished = reason;
  if (usage.answer_tokens != tokens.size())
    complain("billed for " + std::to_string(usage.answer_tokens) + " tokens, got " + std::to_string(tokens.size()));
  if (expected_ == nullptr) return;
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
