#include "workload/trace_line.hpp"

#include <algorithm>
#include <initializer_list>
#include <utility>

namespace godwit::protocols::workload {

namespace {

constexpr std::size_t columns_max = 64;

struct field {
  std::size_t column = 1; ///< where its text begins
  std::string_view text;
};

// RFC 4180 without quotes inside quotes: no trace has them.
expected<std::vector<field>, line_error> split(std::string_view line) {
  auto out = std::vector<field>{};
  std::size_t at = 0;
  while (true) {
    if (out.size() == columns_max) return unexpected(line_error{at + 1, "more than 64 columns"});
    if (at < line.size() && line[at] == '"') {
      const auto close = line.find('"', at + 1);
      if (close == std::string_view::npos) return unexpected(line_error{at + 1, "the closing quote is missing"});
      out.push_back({at + 2, line.substr(at + 1, close - at - 1)});
      at = close + 1;
      if (at < line.size() && line[at] != ',') return unexpected(line_error{at + 1, "expected a comma after a quote"});
    } else {
      const auto end = std::min(line.find(',', at), line.size());
      out.push_back({at + 1, line.substr(at, end - at)});
      at = end;
    }
    if (at == line.size()) return out;
    ++at; // the comma
  }
}

struct column_names {
  std::string_view time, prompt, answer;
};

expected<csv_columns, line_error> read_header(std::string_view line, const column_names& names) {
  auto fields = split(line);
  if (!fields) return unexpected(fields.error());
  auto columns = csv_columns{};
  columns.count = fields->size();
  const auto find = [&](std::string_view name, std::size_t& index) {
    for (std::size_t i = 0; i < fields->size(); ++i)
      if ((*fields)[i].text == name) {
        index = i;
        return true;
      }
    return false;
  };
  for (auto [name, index] : std::initializer_list<std::pair<std::string_view, std::size_t*>>{
           {names.time, &columns.time}, {names.prompt, &columns.prompt}, {names.answer, &columns.answer}})
    if (!find(name, *index)) return unexpected(line_error{1, "the column " + quoted(name) + " is missing"});
  return columns;
}

using time_parser = std::optional<std::int64_t> (*)(std::string_view);

expected<trace_line, line_error> read_line(std::string_view line, const csv_columns& columns, time_parser parse_time,
                                           const std::string& time_form) {
  auto fields = split(line);
  if (!fields) return unexpected(fields.error());
  if (fields->size() != columns.count)
    return unexpected(line_error{line.size() + 1, "expected " + std::to_string(columns.count) + " columns, found " +
                                                      std::to_string(fields->size())});
  auto out = trace_line{};
  const auto& time = (*fields)[columns.time];
  const auto time_ns = parse_time(time.text);
  if (!time_ns) return unexpected(line_error{time.column, "expected " + time_form + ", found " + quoted(time.text)});
  out.time_ns = *time_ns;
  for (auto [index, tokens] : std::initializer_list<std::pair<std::size_t, std::uint32_t*>>{
           {columns.prompt, &out.prompt_tokens}, {columns.answer, &out.answer_tokens}}) {
    const auto& f = (*fields)[index];
    const auto count = parse_token_count(f.text);
    if (!count) return unexpected(line_error{f.column, "expected a number of tokens, found " + quoted(f.text)});
    *tokens = *count;
  }
  return out;
}

} // namespace

expected<csv_columns, line_error> read_azure_header(std::string_view line) {
  return read_header(line, {"TIMESTAMP", "ContextTokens", "GeneratedTokens"});
}

expected<csv_columns, line_error> read_burstgpt_header(std::string_view line) {
  return read_header(line, {"Timestamp", "Request tokens", "Response tokens"});
}

expected<trace_line, line_error> read_azure_line(std::string_view line, const csv_columns& columns) {
  return read_line(line, columns, parse_date_time_ns, "a time such as 2023-11-16 18:15:46.6805900");
}

expected<trace_line, line_error> read_burstgpt_line(std::string_view line, const csv_columns& columns) {
  constexpr auto seconds = [](std::string_view text) { return parse_decimal_ns(text, 1'000'000'000); };
  return read_line(line, columns, seconds, "a time in seconds");
}

} // namespace godwit::protocols::workload
