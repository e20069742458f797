#pragma once

#include <godwit/protocols/messages/ids.hpp>
#include <godwit/runtime/handle.hpp>
#include <godwit/runtime/wire.hpp>

#include <chrono>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>

/// Messages as text for people, and what they are about: made from `fields()`, as their bytes are.
namespace godwit::runtime::trace {

/// Collects the text of one message. Bounded: what comes after `bytes_max` is left out, with "..." in its place.
class text_writer {
public:
  static constexpr std::size_t bytes_max = 2048;
  /// Without `prompts`, lists of tokens are replaced by their number, single ones by a word, and a schema by its
  /// length: they are what clients and the model said.
  explicit text_writer(bool prompts) : prompts_(prompts) {}
  void add(std::string_view text) {
    if (full_) return;
    if (out_.size() + text.size() <= bytes_max) {
      out_ += text;
      return;
    }
    full_ = true;
    out_ += "...";
  }
  void quote(std::string_view text);
  [[nodiscard]] bool full() const noexcept { return full_; }
  [[nodiscard]] bool prompts() const noexcept { return prompts_; }
  [[nodiscard]] std::string take() && { return std::move(out_); }

private:
  std::string out_;
  bool prompts_;
  bool full_ = false;
};

template <class T> void write_text(text_writer& out, const T& x);

/// A struct that is about one token, its `id`.
template <class T>
concept is_token = has_fields<T> && requires(T& x) {
  { x.id } -> std::same_as<protocols::token_id&>;
};

/// A struct with the JSON Schema that a client has sent.
template <class T>
concept has_schema = has_fields<T> && requires(T& x) {
  { x.json_schema } -> std::same_as<std::string&>;
};

namespace detail {
template <class T>
concept listed = requires(const T& x) {
  x.begin() != x.end();
  x.size();
};

template <class Tuple> void write_list(text_writer& out, const Tuple& values) {
  bool first = true;
  out.add("(");
  std::apply([&](const auto&... value) { ((out.add(first ? "" : ", "), first = false, write_text(out, value)), ...); },
             values);
  out.add(")");
}
} // namespace detail

template <class T> void write_text(text_writer& out, const T& x) {
  if constexpr (std::is_same_v<T, bool>) {
    out.add(x ? "true" : "false");
  } else if constexpr (std::is_enum_v<T>) {
    if constexpr (requires {
                    { to_string(x) } -> std::convertible_to<std::string_view>;
                  })
      out.add(to_string(x));
    else
      out.add(std::to_string(static_cast<std::int64_t>(x)));
  } else if constexpr (std::is_arithmetic_v<T>) {
    out.add(std::to_string(x));
  } else if constexpr (std::is_convertible_v<const T&, std::string_view>) {
    out.quote(x);
  } else if constexpr (std::is_same_v<T, actor_ref>) {
    out.add("@" + std::to_string(x.id()));
  } else if constexpr (requires { x.ref(); }) {
    out.add("@" + std::to_string(x.ref().id()));
  } else if constexpr (requires {
                         x.has_value();
                         *x;
                       }) {
    if (x.has_value())
      write_text(out, *x);
    else
      out.add("none");
  } else if constexpr (requires {
                         x.value();
                         typename T::rep;
                       }) {
    out.add(std::to_string(x.value())); // an id
  } else if constexpr (requires {
                         x.count();
                         typename T::period;
                       }) {
    out.add(std::to_string(std::chrono::duration_cast<std::chrono::nanoseconds>(x).count()) + "ns");
  } else if constexpr (detail::listed<T>) {
    using element = std::remove_cvref_t<decltype(*x.begin())>;
    if constexpr (std::is_same_v<element, protocols::token_id>) {
      if (!out.prompts()) return out.add("[" + std::to_string(x.size()) + " tokens]");
    }
    out.add("[");
    bool first = true;
    for (const auto& value : x) {
      if (out.full()) break;
      if (!first) out.add(", ");
      first = false;
      write_text(out, value);
    }
    out.add("]");
  } else if constexpr (requires { x.valueless_by_exception(); }) {
    std::visit([&](const auto& value) { write_text(out, value); }, x);
  } else if constexpr (std::is_same_v<T, std::monostate>) {
    out.add("-");
  } else if constexpr (is_token<T>) {
    // a drawn token, or how likely another one was: what the model said
    if (!out.prompts()) return out.add("(token)");
    detail::write_list(out, const_cast<T&>(x).fields());
  } else if constexpr (has_schema<T>) {
    if (out.prompts() || x.json_schema.empty()) return detail::write_list(out, const_cast<T&>(x).fields());
    auto told = x;
    told.json_schema = "(schema, " + std::to_string(x.json_schema.size()) + " bytes)";
    detail::write_list(out, told.fields());
  } else if constexpr (has_fields<T>) {
    detail::write_list(out, const_cast<T&>(x).fields());
  } else if constexpr (requires {
                         x.first;
                         x.second;
                       }) {
    detail::write_list(out, std::tie(x.first, x.second));
  } else {
    out.add("?");
  }
}

/// The model request that a message is about; 0: none, or several. Found by the names that messages use.
template <class T> std::uint64_t request_of(const T& x) noexcept {
  if constexpr (std::is_same_v<T, protocols::request_id>)
    return x.value();
  else if constexpr (requires { x.request; })
    return request_of(x.request);
  else if constexpr (requires { x.commit; })
    return request_of(x.commit);
  else if constexpr (requires { x.report.request; })
    return request_of(x.report.request);
  else if constexpr (requires { x.status.request; })
    return request_of(x.status.request);
  else
    return 0;
}

/// Specialise for a message that stays on its node, where a recording shall keep what replay needs of it, or for one of
/// which it shall keep less than all:
///   static void write(wire_writer&, const T&); static T read(wire_reader&);
template <class T> struct recorded_form;

} // namespace godwit::runtime::trace
