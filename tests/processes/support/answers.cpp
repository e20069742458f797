#include "processes/support/answers.hpp"

#include <boost/json.hpp>

#include <array>
#include <utility>

namespace godwit::test {

namespace json = boost::json;

std::vector<question> mixed_questions(std::size_t count, std::uint32_t tokens) {
  constexpr std::array prompts{"A hacker is", "The Jargon File is a collection of", "Unix", "In the early days",
                               "A daemon"};
  std::vector<question> out;
  for (std::size_t i = 0; i < count; ++i) {
    question q;
    q.prompt = std::string(prompts[i % prompts.size()]) + std::string(i / prompts.size(), ' ');
    q.temperature = i % 2 == 0 ? 0.0 : 0.9;
    q.seed = 100 + i;
    q.tokens = tokens;
    out.push_back(std::move(q));
  }
  return out;
}

round_of_answers::round_of_answers(std::string url, const std::vector<question>& questions) {
  for (std::size_t i = 0; i < questions.size(); ++i) all_.push_back(std::make_unique<one>());
  for (std::size_t i = 0; i < questions.size(); ++i) {
    const auto& q = questions[i];
    json::object body{{"prompt", q.prompt}, {"temperature", q.temperature},
                      {"seed", q.seed},     {"max_tokens", q.tokens},
                      {"ignore_eos", true}, {"stream", true},
                      {"logprobs", 1},      {"stream_options", {{"include_usage", true}}}};
    if (!q.request_id.empty()) body["request_id"] = q.request_id;
    if (!q.model.empty()) body["model"] = q.model;
    transport::http::client_request request;
    request.method = "POST";
    request.url = url + "/v1/completions";
    request.fields.add("Content-Type", "application/json");
    request.body = json::serialize(body);
    transport::http::client_callbacks on;
    on.on_head = [this, i](int status, const transport::http::headers&) {
      const std::lock_guard lock(mutex_);
      if (status != 200) all_[i]->answer.error = "status " + std::to_string(status);
    };
    on.on_data = [this, i](std::string_view bytes) {
      const std::lock_guard lock(mutex_);
      (void)all_[i]->parser.feed(bytes, [&](const auto& event) { take(i, event.data); });
      changed_.notify_all();
    };
    on.on_done = [this, i](const std::optional<transport::http::client_error>& error) {
      const std::lock_guard lock(mutex_);
      if (error) all_[i]->answer.error = error->message;
      ++ended_;
      changed_.notify_all();
    };
    (void)client_.send(std::move(request), std::move(on));
  }
}

void round_of_answers::take(std::size_t index, const std::string& event) {
  auto& answer = all_[index]->answer;
  if (event == "[DONE]") return;
  const auto chunk = json::parse(event).as_object();
  if (const auto* error = chunk.if_contains("error")) {
    answer.error = json::serialize(*error);
    return;
  }
  if (const auto* usage = chunk.if_contains("usage"); usage != nullptr && usage->is_object())
    answer.usage_tokens = usage->as_object().at("completion_tokens").to_number<std::uint64_t>();
  for (const auto& value : chunk.at("choices").as_array()) {
    const auto& choice = value.as_object();
    answer.text += std::string(choice.at("text").as_string());
    if (choice.at("finish_reason").is_string()) answer.finish = std::string(choice.at("finish_reason").as_string());
    if (!choice.at("logprobs").is_object()) continue;
    const auto& log = choice.at("logprobs").as_object();
    const auto& names = log.at("tokens").as_array();
    for (std::size_t i = 0; i < names.size(); ++i)
      answer.tokens.push_back(json::serialize(names[i]) + json::serialize(log.at("token_logprobs").as_array().at(i)));
    tokens_ += names.size();
  }
}

std::size_t round_of_answers::tokens() const {
  const std::lock_guard lock(mutex_);
  return tokens_;
}

bool round_of_answers::wait_tokens(std::size_t count, std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  (void)changed_.wait_for(lock, timeout, [&] { return tokens_ >= count || ended_ == all_.size(); });
  return tokens_ >= count && ended_ < all_.size();
}

bool round_of_answers::wait_ended(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, timeout, [&] { return ended_ == all_.size(); });
}

std::vector<streamed_answer> round_of_answers::answers() const {
  const std::lock_guard lock(mutex_);
  std::vector<streamed_answer> out;
  for (const auto& each : all_) out.push_back(each->answer);
  return out;
}

std::vector<streamed_answer> ask_all(const std::string& url, const std::vector<question>& questions) {
  round_of_answers round(url, questions);
  (void)round.wait_ended(std::chrono::seconds(120));
  return round.answers();
}

} // namespace godwit::test
