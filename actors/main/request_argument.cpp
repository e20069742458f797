#include "main/request_argument.hpp"

#include <charconv>
#include <cstdint>

namespace godwit::main {

request_argument parse_request(const std::string& text) {
  std::uint64_t number = 0;
  const auto* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc{} && stop == end) return {protocols::request_id{number}, {}};
  return {{}, text};
}

} // namespace godwit::main
