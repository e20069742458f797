#pragma once

#include <godwit/runtime/trace/text.hpp>
#include <godwit/runtime/wire.hpp>

#include <cstddef>
#include <cstdint>
#include <new>
#include <string_view>
#include <type_traits>
#include <utility>

namespace godwit::runtime {

/// Specialised by GODWIT_LOCAL_MESSAGE.
template <class T> inline constexpr bool is_local_message = false;

/// Wraps a value that never leaves its node (a shared_ptr, a function) so that it can be sent as a message.
template <class T> struct local {
  T value;
  local() = default;
  explicit local(T v) : value(std::move(v)) {}
};
template <class T> inline constexpr bool is_local_message<local<T>> = true;

/// What the runtime must know of a message type. One object per type; its address is the type's identity in this
/// process.
struct message_type {
  std::string_view name; ///< qualified C++ name; of messages that travel, in a namespace with a name
  std::uint64_t id;      ///< of the name; the type's identity between processes
  std::size_t size;
  std::size_t alignment;
  void (*destroy)(void*) noexcept;
  void (*write)(wire_writer&, const void*); ///< null: stays on its node
  void* (*read)(wire_reader&, void* raw);   ///< constructs in raw memory; null: stays on its node
  // for recordings (trace/recorder.hpp)
  std::uint64_t (*request)(const void*) noexcept;  ///< the model request that it is about; 0: none, or several
  void (*print)(trace::text_writer&, const void*); ///< null: nothing to be said
  void (*record)(wire_writer&, const void*);       ///< as `write`, also for some that stay on their node; or null
  void* (*restore)(wire_reader&, void* raw);       ///< reads what `record` wrote
};

namespace detail {

/// The compiler's spelling of T.
template <class T> constexpr std::string_view type_name() {
  constexpr std::string_view whole = __PRETTY_FUNCTION__;
  constexpr std::string_view mark = "T = ";
  constexpr auto begin = whole.find(mark) + mark.size();
  // g++ goes on with "; std::string_view = ...", clang ends with "]"
  constexpr auto semicolon = whole.find(';', begin);
  constexpr auto end = semicolon != std::string_view::npos ? semicolon : whole.rfind(']');
  return whole.substr(begin, end - begin);
}

constexpr std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t hash = 14695981039346656037ULL;
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 1099511628211ULL;
  }
  return hash;
}

/// Whether two descriptions are of two types, rather than of one that two shared objects describe. In an unnamed
/// namespace a name is one file's, and another file may have a type of the same.
[[nodiscard]] constexpr bool two_types(const message_type& a, const message_type& b) noexcept {
  if (&a == &b) return false;
  if (a.name != b.name || a.size != b.size || a.alignment != b.alignment) return true;
  return a.name.find("{anonymous}") != std::string_view::npos || // g++
         a.name.find("(anonymous namespace)") != std::string_view::npos;
}

template <class T> inline constexpr bool is_wrapped = false;
template <class T> inline constexpr bool is_wrapped<local<T>> = true;

/// Whether `wire_format<T>` is there.
template <class T>
concept wire_known = requires {
  sizeof(wire_format<T>);
};
template <class T>
concept form_known = requires {
  sizeof(trace::recorded_form<T>);
};

template <class T> constexpr void set_recording(message_type& type) {
  type.request = [](const void* x) noexcept { return trace::request_of(*static_cast<const T*>(x)); };
  if constexpr (form_known<T>) {
    type.record = [](wire_writer& out, const void* x) {
      trace::recorded_form<T>::write(out, *static_cast<const T*>(x));
    };
    type.restore = [](wire_reader& in, void* raw) -> void* { return ::new (raw) T(trace::recorded_form<T>::read(in)); };
  } else if constexpr (is_wrapped<T>) {
    using inner = decltype(T::value);
    if constexpr (form_known<inner>) {
      type.record = [](wire_writer& out, const void* x) {
        trace::recorded_form<inner>::write(out, static_cast<const T*>(x)->value);
      };
      type.restore = [](wire_reader& in, void* raw) -> void* {
        return ::new (raw) T(trace::recorded_form<inner>::read(in));
      };
    } else if constexpr (wire_known<inner>) {
      type.record = [](wire_writer& out, const void* x) { wire_write(out, static_cast<const T*>(x)->value); };
      type.restore = [](wire_reader& in, void* raw) -> void* {
        auto* x = ::new (raw) T();
        wire_read(in, x->value);
        return x;
      };
      type.print = [](trace::text_writer& out, const void* x) {
        trace::write_text(out, static_cast<const T*>(x)->value);
      };
    }
  } else if constexpr (!is_local_message<T>) {
    type.record = type.write;
    type.restore = type.read;
    type.print = [](trace::text_writer& out, const void* x) { trace::write_text(out, *static_cast<const T*>(x)); };
  }
}

template <class T> constexpr message_type describe() {
  message_type type{};
  type.name = type_name<T>();
  type.id = fnv1a(type_name<T>());
  type.size = sizeof(T);
  type.alignment = alignof(T);
  type.destroy = [](void* x) noexcept { static_cast<T*>(x)->~T(); };
  if constexpr (!is_local_message<T>) {
    type.write = [](wire_writer& out, const void* x) { wire_write(out, *static_cast<const T*>(x)); };
    type.read = [](wire_reader& in, void* raw) -> void* {
      auto* x = ::new (raw) T();
      wire_read(in, *x);
      return x;
    };
  }
  set_recording<T>(type);
  return type;
}
} // namespace detail

/// Not constexpr, so that it may be compiled in one file (GODWIT_DESCRIBED_ELSEWHERE).
template <class T> inline constinit const message_type message_type_of = detail::describe<T>();

/// The answer of a handler that has nothing to say but that it is done.
struct done {
  done() noexcept {}
  friend bool operator==(const done&, const done&) = default;
  auto fields() { return std::tie(); }
};

/// True for types that g++ 12 frees twice when they are temporaries inside a `co_await` expression: aggregates.
template <class T>
inline constexpr bool is_unsafe_message = std::is_aggregate_v<T> && !std::is_array_v<T> && !std::is_empty_v<T>;

} // namespace godwit::runtime

/// For a message that holds what cannot be written as bytes: it is never sent to another node (an ask fails with
/// error_code::unsupported, a tell is reported). At global scope.
#define GODWIT_LOCAL_MESSAGE(T) template <> inline constexpr bool godwit::runtime::is_local_message<T> = true;

/// How a message type is written, read and printed takes a compiler long, and is the same in each file that sends it.
/// After this nobody describes it; one file has GODWIT_DESCRIBED_HERE of it. Both at global scope, after all that is
/// said of the type (GODWIT_LOCAL_MESSAGE, trace::recorded_form).
#define GODWIT_DESCRIBED_ELSEWHERE(T)                                                                                  \
  extern template const godwit::runtime::message_type godwit::runtime::message_type_of<T>;
#define GODWIT_DESCRIBED_HERE(T) template const godwit::runtime::message_type godwit::runtime::message_type_of<T>;

GODWIT_DESCRIBED_ELSEWHERE(godwit::runtime::done)
