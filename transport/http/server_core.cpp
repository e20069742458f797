#include "http/server_core.hpp"

namespace godwit::transport::http {

namespace {
std::string plain_error(const std::string& message) {
  auto out = std::string(R"({"error": ")");
  for (const char c : message) {
    if (c == '"' || c == '\\') out.push_back('\\');
    out.push_back(static_cast<unsigned char>(c) < ' ' ? ' ' : c);
  }
  return out + "\"}";
}
} // namespace

response server_core::error(int status, const std::string& message, const request* head) const {
  if (settings.error_response) return settings.error_response(status, message, head);
  auto out = response{};
  out.status = status;
  out.body = plain_error(message);
  return out;
}

void server_core::drained(bool now) {
  auto done = std::vector<std::function<void()>>();
  {
    const auto lock = std::lock_guard(drain_mutex);
    if (!now && (!accepting_ended || connections.load() != 0)) return;
    done.swap(on_drained);
  }
  for (auto& f : done)
    if (f) f();
}

} // namespace godwit::transport::http
