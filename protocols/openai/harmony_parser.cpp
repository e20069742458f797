#include <godwit/protocols/openai/harmony_parser.hpp>

#include "openai/call_reader.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace godwit::protocols::openai {

namespace {

constexpr std::string_view marker_start = "<|start|>", marker_end = "<|end|>", marker_message = "<|message|>",
                           marker_channel = "<|channel|>", marker_constrain = "<|constrain|>",
                           marker_return = "<|return|>", marker_call = "<|call|>";
constexpr std::string_view assistant_role = "assistant", function_prefix = "functions.", recipient_mark = "to=";
/// What ends a body, or begins what comes behind it.
constexpr std::array behind_bodies{marker_end, marker_return, marker_call, marker_start, marker_channel};
/// What a header goes to, or breaks off at.
constexpr std::array behind_headers{marker_message, marker_end, marker_return, marker_call, marker_start};
/// What the first header begins with, white space left aside: it may say the role again, or break off at once.
constexpr std::array in_headers{marker_channel, marker_constrain, recipient_mark, marker_message,
                                marker_end,     marker_return,    marker_call,    marker_start};
constexpr std::size_t header_bytes_max = 4096; ///< what is longer is none

constexpr std::string_view header_white = " \t\r\n";

std::string_view behind_white(std::string_view text) noexcept {
  const auto first = text.find_first_not_of(header_white);
  return first == std::string_view::npos ? std::string_view() : text.substr(first);
}

/// Whether a text begins with one of several, or may once there is more of it.
enum class beginning : std::uint8_t { no, maybe, yes };
template <class Texts> beginning begins_with(std::string_view text, const Texts& texts) noexcept {
  auto out = beginning::no;
  for (const auto one : texts) {
    if (text.starts_with(one)) return beginning::yes;
    if (one.starts_with(text)) out = beginning::maybe;
  }
  return out;
}

/// Bytes at the end of `text` that may be the beginning of a marker.
std::size_t maybe_begun(std::string_view text) noexcept {
  std::size_t most = 0;
  for (const auto marker : behind_bodies)
    for (auto size = std::min(text.size(), marker.size() - 1); size > most; --size)
      if (text.ends_with(marker.substr(0, size))) most = size;
  return most;
}

/// Which of several markers comes first in a text, and where; npos, empty: none does.
template <class Markers>
std::pair<std::size_t, std::string_view> first_of(std::string_view text, const Markers& markers) noexcept {
  std::pair<std::size_t, std::string_view> first{std::string_view::npos, {}};
  for (const auto marker : markers)
    if (const auto at = text.find(marker); at < first.first) first = {at, marker};
  return first;
}

/// The word that stands behind `mark` in a header; empty: there is none.
std::string_view word_behind(std::string_view header, std::string_view mark) noexcept {
  const auto at = header.find(mark);
  if (at == std::string_view::npos) return {};
  auto word = header.substr(at + mark.size());
  return word.substr(0, word.find_first_of(" \t\r\n<"));
}

} // namespace

harmony_parser::start harmony_parser::behind(std::string_view prompt, bool continues) noexcept {
  if (continues) return start::text;
  for (const auto marker : {marker_end, marker_return, marker_call})
    if (prompt.ends_with(marker)) return start::between;
  if (!prompt.ends_with(marker_message)) return start::header;
  const auto at = prompt.rfind(marker_channel);
  const bool thinks = at != std::string_view::npos && word_behind(prompt.substr(at), marker_channel) == "analysis";
  return thinks ? start::thought : start::text;
}

std::string harmony_parser::opening_of_text() {
  return std::string(marker_channel) + "final" + std::string(marker_message);
}

std::string harmony_parser::opening_of_call(std::string_view function) {
  return std::string(marker_channel) + "commentary to=" + std::string(function_prefix) + std::string(function) + " " +
         std::string(marker_constrain) + "json" + std::string(marker_message);
}

class harmony_parser::state {
public:
  explicit state(options how) : how_(std::move(how)) {
    if (how_.where == start::thought) at_ = place::thought;
    if (how_.where == start::text) at_ = place::text;
    if (how_.where == start::between) at_ = place::between;
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
    case place::header: // of which nothing came
    case place::between:
      break;
    case place::call: // to a function that takes nothing
      begin_call(out);
      [[fallthrough]];
    case place::arguments:
      end_call(out);
      break;
    case place::thought:
    case place::text:
    case place::left_out:
      body(out, held_.size());
      break;
    }
    held_.clear();
    return out;
  }

  [[nodiscard]] std::uint32_t calls() const noexcept { return std::min(calls_, how_.calls_max); }
  [[nodiscard]] bool thinks() const noexcept { return at_ == place::thought; }

private:
  enum class place : std::uint8_t {
    header,    ///< before or in one
    thought,   ///< in a body
    text,      ///< likewise
    call,      ///< likewise, before its arguments
    arguments, ///< in them, or behind them
    left_out,  ///< in the body of a call that is one too many
    between,   ///< behind a body
  };

  /// True where there may be more to do with what is held.
  bool step(emission& out) {
    switch (at_) {
    case place::header:
      return header(out);
    case place::between:
      return between();
    case place::call:
      return call(out);
    case place::thought:
    case place::text:
    case place::arguments:
    case place::left_out:
      break;
    }
    const auto [found, marker] = next_marker();
    body(out, found);
    if (marker.empty()) return false;
    if (at_ == place::arguments) end_call(out);
    go_behind(marker);
    return true;
  }

  /// Where the body ends so far, and the marker that ends it; empty: none yet.
  [[nodiscard]] std::pair<std::size_t, std::string_view> next_marker() const {
    const auto first = first_of(held_, behind_bodies);
    return first.second.empty() ? std::pair{held_.size() - maybe_begun(held_), std::string_view()} : first;
  }

  /// The marker stands at the beginning of what is held.
  void go_behind(std::string_view marker) {
    if (marker == marker_channel) { // a header without its beginning
      begin_header();
      return;
    }
    held_.erase(0, marker.size());
    if (marker == marker_start)
      begin_header();
    else
      at_ = place::between;
  }

  void begin_header() {
    at_ = place::header;
    first_ = false;
  }

  bool between() {
    const auto rest = behind_white(held_);
    if (rest.empty()) return false;
    const std::array next{marker_start, marker_channel};
    const auto begins = begins_with(rest, next);
    if (begins == beginning::maybe) return false;
    held_.erase(0, held_.size() - rest.size());
    if (begins == beginning::yes)
      go_behind(held_.starts_with(marker_start) ? marker_start : marker_channel);
    else
      begin_body(place::text); // which nobody marked
    return true;
  }

  bool header(emission& out) {
    const auto [end, marker] = first_of(held_, behind_headers);
    if (end != std::string::npos && end <= header_bytes_max && is_header(std::string_view(held_).substr(0, end + 1))) {
      if (marker == marker_message) {
        read_header(std::string_view(held_).substr(0, end));
        held_.erase(0, end + marker.size());
      } else { // it broke off, and says nothing of what comes next
        held_.erase(0, end);
        go_behind(marker);
      }
      return true;
    }
    const bool over = end != std::string::npos || held_.size() >= header_bytes_max + marker_message.size();
    if (!over && is_header(held_)) return false;
    begin_body(place::text); // it was none, and the marker that it may begin with none either
    body(out, 1);
    return true;
  }

  /// The first header stands behind the role; text that begins otherwise is no header.
  [[nodiscard]] bool is_header(std::string_view text) const {
    const auto rest = behind_white(text);
    return !first_ || rest.empty() || begins_with(rest, in_headers) != beginning::no;
  }

  void read_header(std::string_view header) {
    const auto channel = word_behind(header, marker_channel), recipient = word_behind(header, recipient_mark);
    const bool prefixed = recipient.starts_with(function_prefix);
    const auto name = prefixed ? recipient.substr(function_prefix.size()) : recipient;
    const bool to_function = prefixed || std::ranges::find(how_.functions, name) != how_.functions.end();
    if (to_function && !name.empty() && how_.takes_calls) {
      name_ = name;
      at_ = place::call;
    } else if (to_function) {
      begin_body(place::text);
    } else if (channel == "analysis" || (!recipient.empty() && recipient != assistant_role && recipient != "user")) {
      begin_body(place::thought);
    } else {
      begin_body(place::text);
    }
  }

  void begin_body(place which) {
    at_ = which;
    apart_ = true;
  }

  /// Gives out the first `bytes` of what is held.
  void body(emission& out, std::size_t bytes) {
    if (at_ == place::arguments) {
      take_arguments(out, bytes);
    } else if (bytes > 0 && at_ != place::left_out) {
      auto& to = at_ == place::thought ? out.reasoning : out.text;
      bool& some = at_ == place::thought ? some_thought_ : some_text_;
      if (std::exchange(apart_, false) && some) to += '\n'; // between two messages of a kind
      to.append(held_, 0, bytes);
      some = true;
    }
    held_.erase(0, bytes);
  }

  /// Before a call's arguments: whether these begin, or nothing comes, or it is no call.
  bool call(emission& out) {
    const auto rest = behind_white(held_);
    if (rest.empty() || begins_with(rest, behind_bodies) == beginning::maybe) return false;
    if (rest.front() == '{' || begins_with(rest, behind_bodies) == beginning::yes) {
      held_.erase(0, held_.size() - rest.size());
      begin_call(out);
    } else {
      begin_body(place::text);
    }
    return true;
  }

  void begin_call(emission& out) {
    at_ = place::arguments;
    reader_ = call_reader{};
    some_arguments_ = false;
    if (calls_++ < how_.calls_max)
      out.calls.push_back({calls_ - 1, {}, std::exchange(name_, {}), {}, out.text.size()});
    else
      at_ = place::left_out;
  }

  void take_arguments(emission& out, std::size_t bytes) {
    const auto taken = reader_.take(std::string_view(held_).substr(0, bytes));
    if (taken > 0) add_arguments(out, held_.substr(0, taken));
  }

  void add_arguments(emission& out, std::string part) {
    some_arguments_ = true;
    if (!out.calls.empty() && out.calls.back().index == calls_ - 1)
      out.calls.back().arguments += part;
    else
      out.calls.push_back({calls_ - 1, {}, {}, std::move(part), out.text.size()});
  }

  /// A call without arguments has an object of none.
  void end_call(emission& out) {
    if (at_ == place::arguments && !some_arguments_) add_arguments(out, "{}");
  }

  options how_;
  place at_ = place::header;
  bool first_ = true;  ///< header: the answer's own, whose role the prompt has
  bool apart_ = false; ///< a body has begun, and nothing of it was told
  bool some_thought_ = false, some_text_ = false, some_arguments_ = false;
  std::string held_; ///< not looked at yet, or not enough to tell
  std::string name_; ///< of the call that comes
  call_reader reader_;
  std::uint32_t calls_ = 0;
};

harmony_parser::harmony_parser() : harmony_parser(options()) {}
harmony_parser::harmony_parser(options how) : state_(std::make_unique<state>(std::move(how))) {}
harmony_parser::harmony_parser(harmony_parser&&) noexcept = default;
harmony_parser& harmony_parser::operator=(harmony_parser&&) noexcept = default;
harmony_parser::~harmony_parser() = default;
harmony_parser::emission harmony_parser::push(std::string_view piece) { return state_->push(piece); }
harmony_parser::emission harmony_parser::finish() { return state_->finish(); }
std::uint32_t harmony_parser::calls() const noexcept { return state_->calls(); }
bool harmony_parser::thinks() const noexcept { return state_->thinks(); }

} // namespace godwit::protocols::openai
