#include <godwit/transport/http/sse_parser.hpp>

namespace godwit::transport::http {

bool sse_parser::feed(std::string_view bytes, const std::function<void(const sse_event&)>& on_event) {
  while (!bytes.empty() && !failed_) {
    if (after_cr_) {
      after_cr_ = false;
      if (bytes.front() == '\n') {
        bytes.remove_prefix(1);
        continue;
      }
    }
    const auto end = bytes.find_first_of("\r\n");
    const auto piece = bytes.substr(0, end);
    if (line_.size() + event_.data.size() + piece.size() > event_bytes_max_) {
      failed_ = true;
      break;
    }
    line_.append(piece);
    if (end == std::string_view::npos) break;
    after_cr_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
    end_line(on_event);
  }
  return !failed_;
}

void sse_parser::end_line(const std::function<void(const sse_event&)>& on_event) {
  auto line = std::string_view(line_);
  if (first_line_ && line.starts_with("\xEF\xBB\xBF")) line.remove_prefix(3);
  first_line_ = false;
  if (line.empty()) {
    if (has_data_) {
      event_.data.pop_back(); // every data line appended a newline
      on_event(event_);
    }
    event_.type.clear();
    event_.data.clear();
    has_data_ = false;
  } else if (const auto colon = line.find(':'); colon == std::string_view::npos) {
    field(line, {});
  } else if (colon > 0) { // else a comment
    auto value = line.substr(colon + 1);
    if (value.starts_with(' ')) value.remove_prefix(1);
    field(line.substr(0, colon), value);
  }
  line_.clear();
}

void sse_parser::field(std::string_view name, std::string_view value) {
  if (name == "data") {
    event_.data.append(value).push_back('\n');
    has_data_ = true;
  } else if (name == "event") {
    event_.type = value;
  } else if (name == "id" && value.find('\0') == std::string_view::npos) {
    event_.id = value;
  } // `retry` and unknown fields are ignored
}

} // namespace godwit::transport::http
