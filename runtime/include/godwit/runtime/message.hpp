#pragma once

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
  std::string_view name; ///< qualified C++ name
  std::uint64_t id;      ///< of the name; the type's identity between processes
  std::size_t size;
  std::size_t alignment;
  void (*destroy)(void*) noexcept;
  void (*write)(wire_writer&, const void*); ///< null: stays on its node
  void* (*read)(wire_reader&, void* raw);   ///< constructs in raw memory; null: stays on its node
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

template <class T> constexpr message_type describe() {
  message_type type{type_name<T>(),
                    fnv1a(type_name<T>()),
                    sizeof(T),
                    alignof(T),
                    [](void* x) noexcept { static_cast<T*>(x)->~T(); },
                    nullptr,
                    nullptr};
  if constexpr (!is_local_message<T>) {
    type.write = [](wire_writer& out, const void* x) { wire_write(out, *static_cast<const T*>(x)); };
    type.read = [](wire_reader& in, void* raw) -> void* {
      auto* x = ::new (raw) T();
      wire_read(in, *x);
      return x;
    };
  }
  return type;
}
} // namespace detail

template <class T> inline constexpr message_type message_type_of = detail::describe<T>();

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
