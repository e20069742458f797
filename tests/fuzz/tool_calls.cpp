// What models write: however an answer is cut, the calls found in it and the text around them are the same, and the
// arguments of a call that was not cut off are JSON.
#include <godwit/protocols/openai/tool_parser.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace {

namespace openai = godwit::protocols::openai;

struct told {
  std::string text;
  std::vector<openai::tool_call_delta> calls;
  friend bool operator==(const told&, const told&) = default;
};

told parse(openai::tool_format format, std::string_view answer, std::size_t step) {
  openai::tool_parser parser(format, {3, "f", {}});
  told out;
  const auto add = [&](const openai::tool_parser::emission& piece) {
    const auto before = out.text.size();
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
  if (parser.calls() != out.calls.size() || out.calls.size() > 3) std::abort();
  return out;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2 || size > 8192) return 0; // longer undecided heads are given up, wherever the cut was
  const auto format = static_cast<openai::tool_format>(data[0] % 6);
  const std::string_view answer(reinterpret_cast<const char*>(data) + 2, size - 2);
  const auto whole = parse(format, answer, answer.size() + 1);
  if (parse(format, answer, 1) != whole) std::abort();
  if (parse(format, answer, 1U + data[1] % 16) != whole) std::abort();
  // Where a schema or a known function makes the whole answer calls, what is cut off is no text.
  const bool all_calls = format == openai::tool_format::arguments || format == openai::tool_format::list;
  if (whole.calls.empty() && whole.text != answer && !all_calls) std::abort();
  return 0;
}
