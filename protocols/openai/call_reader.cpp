#include "openai/call_reader.hpp"

#include <boost/json/parse.hpp>

#include <algorithm>
#include <cctype>
#include <cmath>

namespace godwit::protocols::openai {

namespace json = boost::json;

namespace {

constexpr std::size_t depth_max = 64;

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

bool is_scalar(const std::string& text) {
  json::error_code problem;
  const auto value = json::parse(text, problem);
  if (problem || value.is_structured() || value.is_string()) return false;
  return !value.is_double() || std::isfinite(value.get_double()); // 1e400 could not be written again
}

/// Walks over tokens of a call's beginning.
struct cursor {
  std::string_view text;
  std::size_t at = 0;
  bool short_of = false; ///< the text ended

  bool sign(char c) {
    while (at < text.size() && is_space(text[at])) ++at;
    if (at >= text.size()) return short_of = true, false;
    if (text[at] != c) return false;
    ++at;
    return true;
  }
  /// With its quotes.
  bool string(std::string& out) {
    const auto from = at;
    if (!sign('"')) return false;
    for (; at < text.size(); ++at) {
      if (text[at] == '\\') {
        ++at;
      } else if (text[at] == '"') {
        ++at;
        json::error_code problem;
        const auto found = text.find('"', from);
        const auto value = json::parse({text.data() + found, at - found}, problem);
        if (problem) return false;
        out.assign(value.get_string().data(), value.get_string().size());
        return true;
      }
    }
    short_of = true;
    return false;
  }
};

/// An object's member as it is written, of the last one with this name; `text` is an object.
std::string_view written(std::string_view text, std::string_view name) {
  std::string_view out;
  cursor in{text};
  std::string key;
  static_cast<void>(in.sign('{'));
  while (in.string(key) && in.sign(':')) {
    while (is_space(text[in.at])) ++in.at;
    const auto from = in.at;
    bool quoted = false;
    for (std::size_t depth = 0; in.at < text.size(); ++in.at) {
      const char c = text[in.at];
      if (quoted) {
        if (c == '\\') ++in.at;
        quoted = c != '"';
      } else if (c == '"') {
        quoted = true;
      } else if (c == '{' || c == '[') {
        ++depth;
      } else if (c == ',' || c == '}' || c == ']') {
        if (depth == 0) break;
        if (c != ',') --depth;
      }
    }
    if (key == name) out = text.substr(from, in.at - from);
    if (!in.sign(',')) break;
  }
  while (!out.empty() && is_space(out.back())) out.remove_suffix(1);
  return out;
}

call_head whole_call(std::string_view text, bool required) {
  call_reader reader;
  call_head out;
  out.bytes = reader.take(text);
  if (reader.broken()) {
    out.found = call_head::kind::none;
    return out;
  }
  if (!reader.done()) return out;
  out.found = call_head::kind::none;
  json::error_code problem;
  json::parse_options options;
  options.max_depth = depth_max;
  const auto value = json::parse({text.data(), out.bytes}, problem, {}, options);
  if (problem) return out;
  const auto* name = value.get_object().if_contains("name");
  const auto* arguments = value.get_object().if_contains("arguments");
  if (arguments == nullptr) arguments = value.get_object().if_contains("parameters");
  if (name == nullptr || !name->is_string() || name->get_string().empty()) return out;
  if (required && arguments == nullptr) return out;
  if (arguments == nullptr || arguments->is_null()) {
    out.arguments = "{}";
  } else if (arguments->is_object()) {
    // As the model wrote it, as everywhere: 1.0 is not 1E0.
    const std::string_view key = value.get_object().contains("arguments") ? "arguments" : "parameters";
    out.arguments = written(text.substr(0, out.bytes), key);
  } else if (arguments->is_string()) { // an object once more as text
    out.arguments.assign(arguments->get_string().data(), arguments->get_string().size());
    const auto inner = json::parse(out.arguments, problem, {}, options);
    if (problem || !inner.is_object()) return out;
  } else {
    return out;
  }
  out.name.assign(name->get_string().data(), name->get_string().size());
  out.found = call_head::kind::whole;
  return out;
}

} // namespace

call_head read_call_head(std::string_view text, bool required) {
  cursor in{text};
  call_head out;
  std::string key;
  const bool begun = in.sign('{') && in.string(key) && key == "name" && in.sign(':') && in.string(out.name) &&
                     !out.name.empty() && in.sign(',') && in.string(key) &&
                     (key == "arguments" || key == "parameters") && in.sign(':');
  if (begun) {
    while (in.at < text.size() && is_space(text[in.at])) ++in.at;
    if (in.at >= text.size()) return out;
    if (text[in.at] == '{') {
      out.found = call_head::kind::streamed;
      out.bytes = in.at;
      return out;
    }
  }
  if (in.short_of) return out;
  return whole_call(text, required);
}

void call_reader::ended() { state_ = open_.empty() ? state::done : state::next; }

// Numbers and words are checked when they end; then the byte that ended them comes again.
bool call_reader::byte(char c) {
  const auto close = [&](char opened) {
    if (open_.back() != opened) return false;
    open_.pop_back();
    ended();
    return true;
  };
  switch (state_) {
  case state::begin:
    if (c != '{') return false;
    open_.push_back(c);
    state_ = state::first_key;
    return true;
  case state::first_item:
    if (c == ']') return close('[');
    [[fallthrough]];
  case state::value:
    if (is_space(c)) return true;
    if (c == '{' || c == '[') {
      if (open_.size() >= depth_max) return false;
      open_.push_back(c);
      state_ = c == '{' ? state::first_key : state::first_item;
    } else if (c == '"') {
      of_key_ = false;
      state_ = state::string;
    } else if ((c >= '0' && c <= '9') || c == '-' || c == 't' || c == 'f' || c == 'n') {
      scalar_ = c;
      state_ = state::scalar;
    } else {
      return false;
    }
    return true;
  case state::first_key:
    if (c == '}') return close('{');
    [[fallthrough]];
  case state::key:
    if (is_space(c)) return true;
    if (c != '"') return false;
    of_key_ = true;
    state_ = state::string;
    return true;
  case state::colon:
    if (is_space(c)) return true;
    if (c != ':') return false;
    state_ = state::value;
    return true;
  case state::next:
    if (is_space(c)) return true;
    if (c == ',') {
      state_ = open_.back() == '{' ? state::key : state::value;
      return true;
    }
    return (c == '}' && close('{')) || (c == ']' && close('['));
  case state::string:
    if (c == '\\')
      state_ = state::escape;
    else if (c == '"' && of_key_)
      state_ = state::colon;
    else if (c == '"')
      ended();
    else
      return static_cast<unsigned char>(c) >= 0x20;
    return true;
  case state::escape:
    if (std::string_view("\"\\/bfnrtu").find(c) == std::string_view::npos) return false;
    state_ = c == 'u' ? state::digits : state::string;
    digits_ = 0;
    return true;
  case state::digits:
    if (std::isxdigit(static_cast<unsigned char>(c)) == 0) return false;
    if (++digits_ == 4) state_ = state::string;
    return true;
  case state::scalar:
    if (!is_space(c) && c != ',' && c != '}' && c != ']') {
      scalar_ += c;
      return scalar_.size() <= 400;
    }
    if (!is_scalar(scalar_)) return false;
    ended();
    return byte(c);
  case state::done:
  case state::broken:
    return false;
  }
  return false;
}

std::size_t call_reader::take(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (state_ == state::done || state_ == state::broken) return i;
    if (!byte(text[i])) {
      state_ = state::broken;
      return i;
    }
  }
  return text.size();
}

} // namespace godwit::protocols::openai
