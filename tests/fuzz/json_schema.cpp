// Schemas for constrained answers: any bytes are refused, or compile within their bounds to an automaton that never
// runs into a dead end and whose texts are JSON. Input: the schema, a zero byte, and what to choose on the way.
#include <godwit/protocols/grammar/json_schema.hpp>

#include <boost/json/parse.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace {

namespace grammar = godwit::protocols::grammar;

void check(bool good) {
  if (!good) std::abort();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const auto schema = all.substr(0, all.find('\0'));
  const auto choices = schema.size() < all.size() ? all.substr(schema.size() + 1) : std::string_view();
  grammar::schema_limits limits;
  limits.terms_max = 1U << 16U;
  const auto made = grammar::compile_schema(schema, limits);
  if (!made) {
    check(!made.error().message.empty());
    return 0;
  }
  grammar::automaton run(*made);
  std::string text;
  auto at = run.start();
  constexpr std::size_t bytes_max = 256;
  for (std::size_t i = 0; text.size() < bytes_max; ++i) {
    const auto next = run.following(at);
    if (run.exhausted()) return 0;
    std::vector<std::uint8_t> bytes;
    for (unsigned b = 0; b < 256; ++b)
      if (next[b]) bytes.push_back(static_cast<std::uint8_t>(b));
    check(!bytes.empty() || run.may_end(at));
    const auto choice = i < choices.size() ? static_cast<std::uint8_t>(choices[i]) : std::uint8_t{255};
    if (run.may_end(at) && (bytes.empty() || choice % 4 == 3)) {
      check(made->accepts(text));
      // Choices and patterns are texts of their own kind.
      const auto first = schema.find_first_not_of(" \t\r\n");
      if (schema[first] == '[' || schema[first] == '"') return 0;
      boost::json::parse_options deep;
      deep.max_depth = bytes_max;
      boost::system::error_code why;
      (void)boost::json::parse(text, why, {}, deep);
      check(!why);
      return 0;
    }
    const auto byte = bytes[choice % bytes.size()];
    text += static_cast<char>(byte);
    at = run.advance(at, byte);
    check(at != grammar::dead);
  }
  return 0;
}
