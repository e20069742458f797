#include "metrics/exposition.hpp"

#include "log/escape.hpp"

#include <array>
#include <charconv>
#include <cmath>

namespace godwit::runtime::metrics {

namespace {

bool letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool digit(char c) { return c >= '0' && c <= '9'; }

// HELP escapes backslash and newline; a label's value the quote as well. Prometheus refuses all where one value is no
// UTF-8.
void append_escaped(std::string& out, std::string_view text, bool quotes) {
  std::string valid;
  log::append_escaped(valid, text, log::escape::nothing);
  for (const char c : valid) {
    if (c == '\\')
      out.append("\\\\");
    else if (c == '\n')
      out.append("\\n");
    else if (c == '"' && quotes)
      out.append("\\\"");
    else
      out.push_back(c);
  }
}

void append_label(std::string& out, bool& first, std::string_view name, std::string_view value) {
  out.push_back(first ? '{' : ',');
  first = false;
  out.append(name).append("=\"");
  append_escaped(out, value, true);
  out.push_back('"');
}

} // namespace

bool legal_metric_name(std::string_view name) noexcept {
  if (name.empty() || digit(name.front())) return false;
  for (const char c : name)
    if (!letter(c) && !digit(c) && c != ':') return false;
  return true;
}

bool legal_label_name(std::string_view name) noexcept {
  return legal_metric_name(name) && name.find(':') == std::string_view::npos && !name.starts_with("__") && name != "le";
}

std::string number_text(double x) {
  if (std::isnan(x)) return "NaN";
  if (std::isinf(x)) return x > 0 ? "+Inf" : "-Inf";
  auto digits = std::array<char, 32>{};
  return {digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), x).ptr};
}

void append_header(std::string& out, std::string_view name, std::string_view help, std::string_view type) {
  out.append("# HELP ").append(name).push_back(' ');
  append_escaped(out, help, false);
  out.append("\n# TYPE ").append(name).append(" ").append(type).push_back('\n');
}

void append_sample(std::string& out, std::string_view name, std::string_view suffix, const labels& of,
                   std::string_view le, std::string_view value) {
  out.append(name).append(suffix);
  auto first = true;
  for (const auto& [key, text] : of) append_label(out, first, key, text);
  if (!le.empty()) append_label(out, first, "le", le);
  if (!first) out.push_back('}');
  out.append(" ").append(value).push_back('\n');
}

void append_histogram(std::string& out, std::string_view name, const labels& of, const histogram& h) {
  const auto now = h.read();
  for (std::size_t i = 0; i < h.bounds().size(); ++i)
    append_sample(out, name, "_bucket", of, number_text(h.bounds()[i]), std::to_string(now.cumulative[i]));
  const auto total = std::to_string(now.cumulative.back());
  append_sample(out, name, "_bucket", of, "+Inf", total);
  append_sample(out, name, "_sum", of, "", number_text(now.sum));
  append_sample(out, name, "_count", of, "", total);
}

} // namespace godwit::runtime::metrics
