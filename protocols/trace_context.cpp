#include <godwit/protocols/trace_context.hpp>

#include <algorithm>

namespace godwit::protocols {

namespace {

constexpr std::string_view digits = "0123456789abcdef";
constexpr std::size_t length = 55; // 2-32-16-2

bool is_hex(std::string_view text) { return text.find_first_not_of(digits) == std::string_view::npos; }
bool is_zero(std::string_view text) { return text.find_first_not_of('0') == std::string_view::npos; }

} // namespace

std::optional<trace_context> parse_traceparent(std::string_view text) {
  if (text.size() < length || text[2] != '-' || text[35] != '-' || text[52] != '-') return std::nullopt;
  const auto version = text.substr(0, 2), trace = text.substr(3, 32), parent = text.substr(36, 16),
             flags = text.substr(53, 2);
  if (!is_hex(version) || !is_hex(trace) || !is_hex(parent) || !is_hex(flags)) return std::nullopt;
  if (version == "ff" || is_zero(trace) || is_zero(parent)) return std::nullopt;
  if (text.size() > length && (version == "00" || text[length] != '-')) return std::nullopt;
  const auto value = digits.find(flags[0]) * 16 + digits.find(flags[1]);
  return trace_context{std::string(trace), std::string(parent), static_cast<std::uint8_t>(value)};
}

std::string trace_digits(std::uint64_t number) {
  std::string out(16, '0');
  number = std::max<std::uint64_t>(number, 1);
  for (auto at = out.rbegin(); at != out.rend(); ++at, number >>= 4U) *at = digits[number & 15U];
  return out;
}

std::string to_traceparent(const trace_context& context) {
  std::string out = "00-" + context.trace + "-" + context.parent + "-";
  out += digits[context.flags >> 4U];
  out += digits[context.flags & 15U];
  return out;
}

} // namespace godwit::protocols
