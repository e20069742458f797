// Events written by one side and read by the other are the same, wherever the stream is cut.
#include <godwit/protocols/openai/sse.hpp>
#include <godwit/transport/http/sse_parser.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace {

using godwit::transport::http::sse_event;
using events = std::vector<sse_event>;

/// Feeds `step` bytes at a time.
bool parse(std::string_view bytes, std::size_t step, events& out) {
  godwit::transport::http::sse_parser parser(1 << 20);
  while (!bytes.empty()) {
    if (!parser.feed(bytes.substr(0, step), [&](const sse_event& e) { out.push_back(e); })) return false;
    bytes.remove_prefix(bytes.size() < step ? bytes.size() : step);
  }
  return true;
}

/// As the format says: any end of line arrives as a line feed.
std::string with_line_feeds(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r' && text.substr(i, 2) == "\r\n") continue;
    out += text[i] == '\r' ? '\n' : text[i];
  }
  return out;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t step = 1 + data[0] % 17;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);

  events whole, cut;
  if (parse(text, text.size() + 1, whole) != parse(text, step, cut) || whole != cut) std::abort();

  events back;
  const auto written = godwit::protocols::openai::sse_event(text) + std::string(godwit::protocols::openai::sse_done());
  if (!parse(written, step, back) || back.size() != 2) std::abort();
  if (back[0].data != with_line_feeds(text) || back[1].data != "[DONE]") std::abort();
  return 0;
}
