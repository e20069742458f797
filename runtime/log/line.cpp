#include <godwit/runtime/log/backend.hpp>

#include "log/escape.hpp"

#include <array>
#include <cstdio>
#include <ctime>

namespace godwit::runtime::log {

namespace {

// 2026-11-21T01:40:13.000250Z
std::string time_text(std::chrono::nanoseconds since_1970) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(since_1970);
  const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(since_1970 - seconds).count();
  const auto whole = static_cast<std::time_t>(seconds.count());
  auto t = std::tm{};
  gmtime_r(&whole, &t);
  auto text = std::array<char, 64>{};
  const auto n = std::snprintf(text.data(), text.size(), "%04d-%02d-%02dT%02d:%02d:%02d.%06dZ", t.tm_year + 1900,
                               t.tm_mon + 1, t.tm_mday, t.tm_hour, t.tm_min, t.tm_sec, static_cast<int>(micros));
  return {text.data(), static_cast<std::size_t>(n)};
}

// Quotes only where a value could be mistaken for what follows it.
void append_value(std::string& out, std::string_view value) {
  const auto bare = !value.empty() && value.find_first_of(" \"=") == std::string_view::npos;
  if (!bare) out.push_back('"');
  append_escaped(out, value, bare ? escape::text : escape::quoted);
  if (!bare) out.push_back('"');
}

void append_member(std::string& out, std::string_view key, std::string_view value) {
  out.append(",\"");
  append_escaped(out, key, escape::json);
  out.append("\":\"");
  append_escaped(out, value, escape::json);
  out.push_back('"');
}

} // namespace

std::string to_line(const record& r, format f) {
  auto out = std::string();
  out.reserve(96 + r.message.size());
  if (f == format::json) {
    out.append("{\"time\":\"").append(time_text(r.time)).append("\"");
    append_member(out, "level", name(r.severity));
    append_member(out, "component", r.component);
    if (r.fields != nullptr)
      for (const auto& [key, value] : *r.fields) append_member(out, key, value);
    append_member(out, "message", r.message);
    out.push_back('}');
    return out;
  }
  out.append(time_text(r.time)).append(" ").append(name(r.severity)).append(" ");
  append_escaped(out, r.component.empty() ? std::string_view("-") : r.component, escape::text);
  if (r.fields != nullptr)
    for (const auto& [key, value] : *r.fields) {
      out.push_back(' ');
      append_escaped(out, key, escape::text);
      out.push_back('=');
      append_value(out, value);
    }
  // What follows ": " is the message, so a message cannot pretend to be a field.
  out.append(": ");
  append_escaped(out, r.message, escape::text);
  return out;
}

} // namespace godwit::runtime::log
