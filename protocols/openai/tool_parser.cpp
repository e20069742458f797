#include <godwit/protocols/openai/tool_parser.hpp>

#include "openai/call_reader.hpp"

#include <algorithm>
#include <utility>

namespace godwit::protocols::openai {

namespace {

constexpr std::string_view hermes_start = "<tool_call>";
constexpr std::string_view hermes_end = "</tool_call>";
constexpr std::string_view mistral_start = "[TOOL_CALLS]";
constexpr std::size_t undecided_bytes_max = 16U << 10U; ///< what cannot be told after so many bytes is no call
constexpr std::string_view python_tag = "<|python_tag|>";

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

std::size_t spaces(std::string_view text) {
  return static_cast<std::size_t>(std::find_if_not(text.begin(), text.end(), is_space) - text.begin());
}

/// Bytes at the end of `text` that may be the beginning of `marker`.
std::size_t maybe_begun(std::string_view text, std::string_view marker) {
  for (auto size = std::min(text.size(), marker.size() - 1); size > 0; --size)
    if (text.ends_with(marker.substr(0, size))) return size;
  return 0;
}

} // namespace

tool_format tool_format_of(std::string_view text) noexcept {
  const auto has = [&](std::string_view what) { return text.find(what) != std::string_view::npos; };
  // Newer Mistral's, Qwen3-Coder's, GLM's: the same markers around calls that are written otherwise.
  for (const auto* unread : {"[ARGS]", "<function=", "<arg_key>"})
    if (has(unread)) return tool_format::none;
  if (has("<|channel|>") && has("<|message|>")) return tool_format::harmony;
  if (has(hermes_start)) return tool_format::hermes;
  if (has(mistral_start)) return tool_format::mistral;
  if (has(python_tag) || has("\"parameters\": ")) return tool_format::llama;
  return tool_format::none;
}

class tool_parser::state {
public:
  state(tool_format format, options how) : format_(format), how_(std::move(how)) {
    switch (format_) {
    case tool_format::none:
    case tool_format::harmony:
      at_ = place::plain;
      break;
    case tool_format::hermes:
    case tool_format::mistral:
      at_ = place::text;
      break;
    case tool_format::llama:
    case tool_format::list:
      at_ = place::start;
      break;
    case tool_format::arguments:
      at_ = place::named;
      break;
    }
  }

  emission push(std::string_view piece) {
    held_ += piece;
    emission out;
    while (step(out)) {
    }
    return out;
  }

  emission finish() {
    auto out = push({});
    switch (at_) {
    case place::plain:
    case place::text:
    case place::start:
    case place::call: // of what a schema made of it nothing is text, wherever it was cut
      if (format_ != tool_format::list) out.text += raw_ + held_;
      break;
    case place::named: // nothing came
    case place::arguments:
    case place::close:
    case place::after:
    case place::gap:
      break;
    }
    held_.clear();
    white_ = 0;
    raw_.clear();
    return out;
  }

  [[nodiscard]] std::uint32_t calls() const noexcept { return std::min(calls_, how_.calls_max); }

private:
  enum class place : std::uint8_t {
    plain,     ///< nothing but text comes any more
    text,      ///< text, until a marker
    start,     ///< the answer's beginning, where the whole may be calls
    named,     ///< before the arguments of a known function
    call,      ///< at or in the part of a call before its arguments
    arguments, ///< in them
    close,     ///< behind them, before the call's }
    after,     ///< behind a call, before what ends it or leads to the next
    gap,       ///< behind what ends it
  };

  /// True where there may be more to do with what is held.
  bool step(emission& out) {
    switch (at_) {
    case place::plain:
      out.text += std::exchange(held_, {});
      white_ = 0;
      return false;
    case place::text:
      return text(out);
    case place::start:
      return start(out);
    case place::named:
      return named(out);
    case place::call:
      return call(out);
    case place::arguments:
      return arguments(out);
    case place::close:
      return close();
    case place::after:
      return after();
    case place::gap:
      return gap();
    }
    return false;
  }

  void drop(std::size_t bytes) {
    held_.erase(0, bytes);
    white_ -= std::min(white_, bytes);
  }
  /// White space at the beginning of what is held. No byte of it is looked at twice: an answer may have nothing else.
  [[nodiscard]] std::size_t leading_white() {
    white_ += spaces(std::string_view(held_).substr(white_));
    return white_;
  }
  void set_aside(std::size_t bytes) {
    raw_.append(held_, 0, bytes);
    drop(bytes);
  }
  /// It was text after all.
  bool give_up(emission& out, place next) {
    out.text += std::exchange(raw_, {});
    at_ = next;
    return !held_.empty();
  }
  [[nodiscard]] std::string_view marker() const {
    return format_ == tool_format::hermes ? hermes_start : mistral_start;
  }

  bool text(emission& out) {
    const auto found = held_.find(marker());
    const auto clear = found == std::string::npos ? held_.size() - maybe_begun(held_, marker()) : found;
    out.text.append(held_, 0, clear);
    drop(clear);
    if (found == std::string::npos) return false;
    set_aside(marker().size());
    at_ = format_ == tool_format::mistral ? place::start : place::call;
    return true;
  }

  bool start(emission& out) {
    const auto space = leading_white();
    if (space > undecided_bytes_max && format_ != tool_format::list) return give_up(out, place::plain);
    if (space == held_.size()) return false;
    const std::string_view rest = std::string_view(held_).substr(space);
    if (format_ == tool_format::llama) {
      if (rest.size() < python_tag.size() && python_tag.starts_with(rest)) return false;
      set_aside(space + (rest.starts_with(python_tag) ? python_tag.size() : 0));
      at_ = place::call;
      return true;
    }
    if (rest.front() == '[') {
      set_aside(space + 1);
      at_ = place::call;
    } else {
      held_.insert(0, std::exchange(raw_, {}));
      white_ = 0;
      at_ = place::plain;
    }
    return true;
  }

  bool named(emission& out) {
    const auto space = leading_white();
    if (space == held_.size()) return false;
    drop(space);
    begin(out, how_.function, {});
    return true;
  }

  void begin(emission& out, std::string name, std::string arguments) {
    raw_.clear();
    if (calls_++ < how_.calls_max)
      out.calls.push_back({calls_ - 1, {}, std::move(name), std::move(arguments), out.text.size()});
    reader_ = call_reader{};
    at_ = place::arguments;
  }

  bool call(emission& out) {
    const auto space = leading_white();
    const auto no_call = format_ == tool_format::hermes ? place::text : place::plain;
    if (space > undecided_bytes_max && format_ != tool_format::list) return give_up(out, no_call);
    if (space == held_.size()) return false;
    // Without a marker an answer in JSON may look like a call, and is one only if there is such a function.
    const bool marked = format_ != tool_format::llama;
    auto head = read_call_head(std::string_view(held_).substr(space), !marked);
    if (!marked && head.found != call_head::kind::more && !how_.functions.empty() &&
        std::ranges::find(how_.functions, head.name) == how_.functions.end())
      head.found = call_head::kind::none;
    switch (head.found) {
    case call_head::kind::more:
      if (held_.size() <= undecided_bytes_max) return false;
      [[fallthrough]];
    case call_head::kind::none:
      return give_up(out, no_call);
    case call_head::kind::streamed:
      drop(space + head.bytes);
      begin(out, head.name, {});
      return true;
    case call_head::kind::whole:
      drop(space + head.bytes);
      begin(out, head.name, head.arguments);
      at_ = place::after;
      return true;
    }
    return false;
  }

  bool arguments(emission& out) {
    const auto taken = reader_.take(held_);
    if (taken > 0 && calls_ <= how_.calls_max) {
      const auto part = held_.substr(0, taken);
      if (!out.calls.empty() && out.calls.back().index == calls_ - 1)
        out.calls.back().arguments += part;
      else
        out.calls.push_back({calls_ - 1, {}, {}, part, out.text.size()});
    }
    drop(taken);
    if (reader_.broken()) { // what has been told cannot be taken back
      at_ = place::gap;
      return !held_.empty();
    }
    if (!reader_.done()) return false;
    at_ = format_ == tool_format::arguments ? place::gap : place::close;
    return true;
  }

  /// Up to the call's }: further fields (Mistral's id) are left out.
  bool close() {
    bool quoted = false;
    std::size_t open = 0;
    for (std::size_t i = 0; i < held_.size(); ++i) {
      const char c = held_[i];
      if (quoted && c == '\\')
        ++i;
      else if (c == '"')
        quoted = !quoted;
      else if (!quoted && (c == '{' || c == '['))
        ++open;
      else if (!quoted && open > 0 && (c == '}' || c == ']'))
        --open;
      else if (!quoted && c == '}') {
        drop(i + 1);
        at_ = place::after;
        return true;
      }
    }
    if (held_.size() > undecided_bytes_max) at_ = place::gap;
    return at_ == place::gap;
  }

  bool after() {
    const auto space = leading_white();
    if (space == held_.size()) return false;
    const std::string_view rest = std::string_view(held_).substr(space);
    if (format_ == tool_format::hermes) {
      if (rest.size() < hermes_end.size() && hermes_end.starts_with(rest)) return false;
      if (rest.starts_with(hermes_end)) drop(space + hermes_end.size());
      at_ = place::gap;
      return true;
    }
    const char separator = format_ == tool_format::llama ? ';' : ',';
    if (rest.front() == separator) {
      set_aside(space + 1);
      at_ = place::call;
      return true;
    }
    if (rest.front() == ']') drop(space + 1);
    at_ = place::gap;
    return true;
  }

  /// White space between and after calls is no text.
  bool gap() {
    const auto space = leading_white();
    if (space == held_.size()) return false;
    const std::string_view rest = std::string_view(held_).substr(space);
    if (format_ == tool_format::hermes) {
      if (rest.size() < hermes_start.size() && hermes_start.starts_with(rest)) return false;
      if (rest.starts_with(hermes_start)) drop(space);
      at_ = place::text;
      return true;
    }
    at_ = place::plain;
    return true;
  }

  tool_format format_;
  options how_;
  place at_ = place::plain;
  std::string held_;      ///< not looked at yet, or not enough to tell
  std::size_t white_ = 0; ///< bytes at its beginning that are known to be white space
  std::string raw_;       ///< what was consumed of a call that is not certain yet
  call_reader reader_;
  std::uint32_t calls_ = 0;
};

tool_parser::tool_parser(tool_format format) : tool_parser(format, options()) {}
tool_parser::tool_parser(tool_format format, options how) : state_(std::make_unique<state>(format, std::move(how))) {}
tool_parser::tool_parser(tool_parser&&) noexcept = default;
tool_parser& tool_parser::operator=(tool_parser&&) noexcept = default;
tool_parser::~tool_parser() = default;
tool_parser::emission tool_parser::push(std::string_view piece) { return state_->push(piece); }
tool_parser::emission tool_parser::finish() { return state_->finish(); }
std::uint32_t tool_parser::calls() const noexcept { return state_->calls(); }

} // namespace godwit::protocols::openai
