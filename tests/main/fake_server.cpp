#include "main/fake_server.hpp"

#include <algorithm>
#include <stdexcept>

namespace godwit::main::test {

namespace json = boost::json;
namespace http = transport::http;

namespace {

std::string event(const json::value& data) { return "data: " + json::serialize(data) + "\n\n"; }

json::object piece(bool chat, const std::string& text) {
  if (chat) return {{"choices", {json::object{{"index", 0}, {"delta", json::object{{"content", text}}}}}}};
  return {{"choices", {json::object{{"index", 0}, {"text", text}}}}};
}

} // namespace

fake_server::fake_server(choose chooser, std::string models, std::string key)
    : chooser_(std::move(chooser)), models_(std::move(models)), key_(std::move(key)) {
  server_ = std::make_unique<http::server>(http::server_settings{},
                                           [this](http::request r, auto exchange) { handle(std::move(r), exchange); });
  if (auto wrong = server_->listen("127.0.0.1", 0)) throw std::runtime_error(wrong->message);
}

fake_server::~fake_server() {
  stopping_ = true;
  server_->stop();
  for (auto& t : threads_) t.join();
}

std::string fake_server::url() const { return "http://127.0.0.1:" + std::to_string(server_->local_port()); }

std::vector<json::object> fake_server::bodies() const {
  const auto lock = std::lock_guard(mutex_);
  return bodies_;
}

std::vector<std::string> fake_server::authorizations() const {
  const auto lock = std::lock_guard(mutex_);
  return authorizations_;
}

void fake_server::handle(http::request request, const std::shared_ptr<http::exchange>& exchange) {
  const auto lock = std::lock_guard(mutex_);
  const auto& sent = authorizations_.emplace_back(request.fields.find("Authorization").value_or(""));
  if (!key_.empty() && sent != "Bearer " + key_)
    return exchange->respond({401, "application/json", {}, R"({"error":{"message":"it is not the key"}})"});
  if (request.target == "/v1/models") return exchange->respond({200, "application/json", {}, models_});
  const auto chat = request.target == "/v1/chat/completions";
  auto body = json::parse(request.body).as_object();
  const auto how = chooser_(body, bodies_.size());
  bodies_.push_back(body);
  const auto now = ++running_;
  running_max_ = std::max(running_max_.load(), now);
  threads_.emplace_back([this, how, body = std::move(body), chat, held = exchange]() mutable {
    play(how, body, chat, *held);
    held.reset();
  });
}

void fake_server::play(const script& how, const json::object& body, bool chat, http::exchange& exchange) {
  const auto wait = [&](std::chrono::milliseconds time) {
    const auto end = std::chrono::steady_clock::now() + time;
    while (!stopping_ && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(
          std::min<std::chrono::nanoseconds>(std::chrono::milliseconds(20), end - std::chrono::steady_clock::now()));
  };
  wait(how.first_delay);
  if (how.status != 200) {
    --running_;
    return exchange.respond({how.status,
                             "application/json",
                             {},
                             json::serialize(json::object{{"error", json::object{{"message", how.message}}}})});
  }
  exchange.begin_stream(200, {{"Content-Type", "text/event-stream"}});
  // What OpenAI sends before any text of a chat; not a token.
  if (chat)
    exchange.write(R"(data: {"choices":[{"delta":{"role":"assistant","content":""}}]})"
                   "\n\n");
  const auto tokens = how.tokens.value_or(body.at("max_tokens").to_number<std::uint32_t>());
  for (std::uint32_t i = 0; i < tokens; ++i) {
    if (i > 0) wait(how.gap);
    exchange.write(event(piece(chat, " word")));
  }
  --running_;
  switch (how.end) {
  case script::ending::broken:
    return; // dropped without the end mark
  case script::ending::silence:
    return wait(std::chrono::seconds(60));
  case script::ending::error_event:
    exchange.write(event(json::object{{"error", json::object{{"message", "the engine died"}}}}));
    return exchange.finish();
  case script::ending::without_done:
    return exchange.finish();
  case script::ending::done:
    break;
  }
  if (how.usage)
    exchange.write(
        event(json::object{{"choices", json::array{}},
                           {"usage", json::object{{"prompt_tokens", 7},
                                                  {"completion_tokens", std::int64_t{tokens} + how.usage_offset}}}}));
  exchange.write("data: [DONE]\n\n");
  exchange.finish();
}

} // namespace godwit::main::test
