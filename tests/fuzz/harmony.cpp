// What gpt-oss's models write: however an answer is cut, what is thought, said and called is the same.
#include <godwit/protocols/openai/harmony_parser.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace {

namespace openai = godwit::protocols::openai;

struct told {
  std::string reasoning, text;
  std::vector<openai::tool_call_delta> calls;
  friend bool operator==(const told&, const told&) = default;
};

told parse(openai::harmony_parser::options how, std::string_view answer, std::size_t step) {
  openai::harmony_parser parser(how);
  told out;
  const auto add = [&](const openai::harmony_parser::emission& piece) {
    const auto before = out.text.size();
    out.reasoning += piece.reasoning;
    out.text += piece.text;
    for (const auto& call : piece.calls) {
      if (call.text_before > piece.text.size()) std::abort();
      if (call.index == out.calls.size())
        out.calls.emplace_back(call).text_before += before;
      else if (call.index + 1 == out.calls.size() && call.name.empty())
        out.calls.back().arguments += call.arguments;
      else
        std::abort();
    }
  };
  for (std::size_t at = 0; at < answer.size(); at += step) add(parser.push(answer.substr(at, step)));
  add(parser.finish());
  if (parser.calls() != out.calls.size() || out.calls.size() > how.calls_max) std::abort();
  return out;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2 || size > 16384) return 0;
  const openai::harmony_parser::options how{
      static_cast<openai::harmony_parser::start>(data[0] % 4), data[0] / 4 % 2 == 0, 3, {"x", "f"}};
  const std::string_view answer(reinterpret_cast<const char*>(data) + 2, size - 2);
  const auto whole = parse(how, answer, answer.size() + 1);
  if (parse(how, answer, 1) != whole) std::abort();
  if (parse(how, answer, 1U + data[1] % 16) != whole) std::abort();
  if (whole.text.size() + whole.reasoning.size() > 2 * answer.size()) std::abort();
  return 0;
}
