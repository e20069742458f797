#include <godwit/runtime/async/expected.hpp>

namespace godwit::runtime::async {

std::string_view to_string(error_code code) noexcept {
  switch (code) {
  case error_code::failed:
    return "failed";
  case error_code::timeout:
    return "timeout";
  case error_code::down:
    return "down";
  case error_code::refused:
    return "refused";
  case error_code::aborted:
    return "aborted";
  case error_code::unsupported:
    return "unsupported";
  }
  return "unknown";
}

std::string to_string(const error& e) {
  std::string text{to_string(e.code)};
  if (!e.message.empty()) text += ": " + e.message;
  return text;
}

} // namespace godwit::runtime::async
