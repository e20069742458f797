#include <godwit/protocols/workload/trace.hpp>

#include "workload/trace_line.hpp"

#include <algorithm>

namespace godwit::protocols::workload {

namespace {

std::string_view without_end(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

bool blank(std::string_view line) { return line.find_first_not_of(" \t") == std::string_view::npos; }

std::string_view without_mark(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  return text;
}

/// Takes lines one by one; knows the header of a CSV file once it has seen it.
class line_reader {
public:
  explicit line_reader(trace_format format) : format_(format) {}

  [[nodiscard]] bool wants_header() const { return format_ != trace_format::mooncake && !columns_; }

  std::optional<line_error> header(std::string_view line) {
    auto columns = format_ == trace_format::azure ? read_azure_header(line) : read_burstgpt_header(line);
    if (!columns) return columns.error();
    columns_ = *columns;
    return std::nullopt;
  }
  [[nodiscard]] expected<trace_line, line_error> line(std::string_view text) const {
    if (format_ == trace_format::azure) return read_azure_line(text, *columns_);
    if (format_ == trace_format::burstgpt) return read_burstgpt_line(text, *columns_);
    return read_mooncake_line(text);
  }

private:
  trace_format format_;
  std::optional<csv_columns> columns_;
};

void make_relative(std::vector<workload_request>& requests) {
  std::stable_sort(requests.begin(), requests.end(),
                   [](const auto& a, const auto& b) { return a.arrival_ns < b.arrival_ns; });
  if (requests.empty()) return;
  const auto first = requests.front().arrival_ns;
  for (auto& r : requests) r.arrival_ns -= first;
}

} // namespace

std::optional<trace_format> detect_trace_format(std::string_view text) noexcept {
  text = without_mark(text);
  const auto begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return std::nullopt;
  text.remove_prefix(begin);
  if (text.front() == '{') return trace_format::mooncake;
  const auto line = text.substr(0, text.find('\n'));
  if (line.find("ContextTokens") != std::string_view::npos) return trace_format::azure;
  if (line.find("Request tokens") != std::string_view::npos) return trace_format::burstgpt;
  return std::nullopt;
}

expected<trace, workload_error> read_trace(std::string_view text, trace_format format, const trace_limits& limits) {
  auto out = trace{};
  out.format = format;
  auto reader = line_reader(format);
  text = without_mark(text);
  for (std::size_t number = 1; !text.empty() && out.requests.size() < limits.requests_max; ++number) {
    const auto end = std::min(text.find('\n'), text.size());
    const auto line = without_end(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (blank(line)) continue;
    if (line.size() > limits.line_bytes_max)
      return unexpected(workload_error{number, limits.line_bytes_max + 1, "the line is too long"});
    if (reader.wants_header()) {
      if (auto wrong = reader.header(line)) return unexpected(workload_error{number, wrong->column, wrong->message});
      continue;
    }
    auto read = reader.line(line);
    if (!read) return unexpected(workload_error{number, read.error().column, read.error().message});
    if (read->prompt_tokens == 0 || read->answer_tokens == 0) {
      ++out.skipped;
      continue;
    }
    auto& r = out.requests.emplace_back();
    r.arrival_ns = read->time_ns;
    r.prompt_tokens = read->prompt_tokens;
    r.answer_tokens = read->answer_tokens;
    r.prefix_hashes = std::move(read->prefix_hashes);
  }
  if (out.requests.empty())
    return unexpected(workload_error{0, 0,
                                     out.skipped == 0
                                         ? "the trace holds no requests"
                                         : "the trace holds no requests: none of its " + std::to_string(out.skipped) +
                                               " lines names tokens of a prompt and of an answer"});
  make_relative(out.requests);
  return out;
}

expected<trace, workload_error> read_trace(std::string_view text, const trace_limits& limits) {
  if (const auto format = detect_trace_format(text)) return read_trace(text, *format, limits);
  return unexpected(workload_error{1, 1,
                                   "no known trace format: expected a header with ContextTokens (Azure) or Request "
                                   "tokens (BurstGPT), or JSON lines with input_length (Mooncake)"});
}

} // namespace godwit::protocols::workload
