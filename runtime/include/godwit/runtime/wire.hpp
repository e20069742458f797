#pragma once

#include <godwit/runtime/handle.hpp>

#include <array>
#include <bit>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

/// How messages become bytes: little-endian, no padding, no names; both ends run the same version of godwit.
/// Every struct with `fields()` (a tuple of references) goes through here without more being said.
namespace godwit::runtime {

/// Bytes of one message. Actor handles are kept apart, since only the framework can carry them to another node.
class wire_writer {
public:
  std::vector<std::byte> bytes;
  std::vector<actor_ref> actors;
  void raw(const void* data, std::size_t size) {
    const auto* from = static_cast<const std::byte*>(data);
    bytes.insert(bytes.end(), from, from + size);
  }
};

/// Reads what wire_writer wrote. What the peer sent is not trusted: after the first impossible value `ok` is false and
/// everything reads as empty; no length is believed beyond the bytes that are there.
class wire_reader {
public:
  wire_reader(std::span<const std::byte> data, std::span<const actor_ref> handles) : rest_(data), actors_(handles) {}
  [[nodiscard]] bool ok() const noexcept { return ok_; }
  void fail() noexcept {
    ok_ = false;
    rest_ = {};
  }
  [[nodiscard]] std::size_t left() const noexcept { return rest_.size(); }
  void raw(void* to, std::size_t size) {
    if (size > rest_.size()) {
      fail();
      std::memset(to, 0, size);
      return;
    }
    if (size > 0) std::memcpy(to, rest_.data(), size);
    rest_ = rest_.subspan(size);
  }
  [[nodiscard]] actor_ref actor(std::uint32_t index) {
    if (index < actors_.size()) return actors_[index];
    fail();
    return {};
  }

private:
  std::span<const std::byte> rest_;
  std::span<const actor_ref> actors_;
  bool ok_ = true;
};

template <class T>
concept has_fields = requires(T& x) {
  x.fields();
};

/// Specialise for a type that is neither a number, an enumeration, a container of such nor a struct with `fields()`:
///   static void write(wire_writer&, const T&); static void read(wire_reader&, T&);
template <class T> struct wire_format;

template <class T> void wire_write(wire_writer& out, const T& x) { wire_format<T>::write(out, x); }
template <class T> void wire_read(wire_reader& in, T& x) { wire_format<T>::read(in, x); }

namespace detail {
template <class T>
concept wire_scalar = std::is_arithmetic_v<T> || std::is_enum_v<T>;

inline std::uint32_t read_size(wire_reader& in) {
  std::uint32_t n = 0;
  in.raw(&n, sizeof n);
  if (n > in.left()) { // every element takes at least one byte
    in.fail();
    return 0;
  }
  return n;
}
inline void write_size(wire_writer& out, std::size_t n) {
  const auto size = static_cast<std::uint32_t>(n);
  out.raw(&size, sizeof size);
}
static_assert(std::endian::native == std::endian::little, "the wire format is the memory's");
} // namespace detail

template <detail::wire_scalar T> struct wire_format<T> {
  static void write(wire_writer& out, const T& x) { out.raw(&x, sizeof x); }
  static void read(wire_reader& in, T& x) {
    if constexpr (std::is_same_v<T, bool>) {
      std::uint8_t byte = 0;
      in.raw(&byte, 1);
      x = byte != 0;
    } else {
      in.raw(&x, sizeof x);
    }
  }
};

template <has_fields T> struct wire_format<T> {
  static void write(wire_writer& out, const T& x) {
    std::apply([&](auto&... field) { (wire_write(out, std::as_const(field)), ...); }, const_cast<T&>(x).fields());
    if constexpr (std::tuple_size_v<decltype(std::declval<T&>().fields())> == 0) out.bytes.push_back(std::byte{0});
  }
  static void read(wire_reader& in, T& x) {
    std::apply([&](auto&... field) { (wire_read(in, field), ...); }, x.fields());
    if constexpr (std::tuple_size_v<decltype(std::declval<T&>().fields())> == 0) {
      std::byte filler{};
      in.raw(&filler, 1);
    }
  }
};

template <> struct wire_format<std::string> {
  static void write(wire_writer& out, const std::string& x) {
    detail::write_size(out, x.size());
    out.raw(x.data(), x.size());
  }
  static void read(wire_reader& in, std::string& x) {
    x.resize(detail::read_size(in));
    in.raw(x.data(), x.size());
  }
};

template <class T> struct wire_format<std::vector<T>> {
  static constexpr bool bulk = detail::wire_scalar<T> && !std::is_same_v<T, bool>;
  static void write(wire_writer& out, const std::vector<T>& x) {
    detail::write_size(out, x.size());
    if constexpr (bulk)
      out.raw(x.data(), x.size() * sizeof(T));
    else
      for (const auto& element : x) wire_write<T>(out, element);
  }
  static void read(wire_reader& in, std::vector<T>& x) {
    const std::size_t n = detail::read_size(in);
    x.clear();
    if constexpr (bulk) {
      if (n * sizeof(T) > in.left()) return in.fail();
      x.resize(n);
      in.raw(x.data(), n * sizeof(T));
    } else {
      for (std::size_t i = 0; i < n && in.ok(); ++i) {
        T element{};
        wire_read(in, element);
        x.push_back(std::move(element));
      }
    }
  }
};

template <class T, std::size_t N> struct wire_format<std::array<T, N>> {
  static void write(wire_writer& out, const std::array<T, N>& x) {
    for (const auto& element : x) wire_write(out, element);
  }
  static void read(wire_reader& in, std::array<T, N>& x) {
    for (auto& element : x) wire_read(in, element);
  }
};

template <class T> struct wire_format<std::optional<T>> {
  static void write(wire_writer& out, const std::optional<T>& x) {
    wire_write(out, x.has_value());
    if (x) wire_write(out, *x);
  }
  static void read(wire_reader& in, std::optional<T>& x) {
    bool there = false;
    wire_read(in, there);
    x.reset();
    if (there && in.ok()) wire_read(in, x.emplace());
  }
};

template <class A, class B> struct wire_format<std::pair<A, B>> {
  static void write(wire_writer& out, const std::pair<A, B>& x) {
    wire_write(out, x.first);
    wire_write(out, x.second);
  }
  static void read(wire_reader& in, std::pair<A, B>& x) {
    wire_read(in, x.first);
    wire_read(in, x.second);
  }
};

template <class K, class V> struct wire_format<std::map<K, V>> {
  static void write(wire_writer& out, const std::map<K, V>& x) {
    detail::write_size(out, x.size());
    for (const auto& [key, value] : x) {
      wire_write(out, key);
      wire_write(out, value);
    }
  }
  static void read(wire_reader& in, std::map<K, V>& x) {
    const auto n = detail::read_size(in);
    x.clear();
    for (std::uint32_t i = 0; i < n && in.ok(); ++i) {
      std::pair<K, V> entry{};
      wire_read(in, entry);
      x.insert(std::move(entry));
    }
  }
};

template <class K> struct wire_format<std::set<K>> {
  static void write(wire_writer& out, const std::set<K>& x) {
    detail::write_size(out, x.size());
    for (const auto& key : x) wire_write(out, key);
  }
  static void read(wire_reader& in, std::set<K>& x) {
    const auto n = detail::read_size(in);
    x.clear();
    for (std::uint32_t i = 0; i < n && in.ok(); ++i) {
      K key{};
      wire_read(in, key);
      x.insert(std::move(key));
    }
  }
};

template <> struct wire_format<std::monostate> {
  static void write(wire_writer& out, const std::monostate&) { out.bytes.push_back(std::byte{0}); }
  static void read(wire_reader& in, std::monostate&) {
    std::byte filler{};
    in.raw(&filler, 1);
  }
};

template <class... Ts> struct wire_format<std::variant<Ts...>> {
  static void write(wire_writer& out, const std::variant<Ts...>& x) {
    wire_write(out, static_cast<std::uint8_t>(x.index()));
    std::visit([&](const auto& value) { wire_write(out, value); }, x);
  }
  static void read(wire_reader& in, std::variant<Ts...>& x) {
    std::uint8_t index = 0;
    wire_read(in, index);
    if (!read_at(in, x, index, std::index_sequence_for<Ts...>{})) in.fail();
  }

private:
  template <std::size_t... Is>
  static bool read_at(wire_reader& in, std::variant<Ts...>& x, std::size_t index, std::index_sequence<Is...>) {
    return ((Is == index && (wire_read(in, x.template emplace<Is>()), true)) || ...);
  }
};

template <class Rep, class Period> struct wire_format<std::chrono::duration<Rep, Period>> {
  static void write(wire_writer& out, const std::chrono::duration<Rep, Period>& x) { wire_write(out, x.count()); }
  static void read(wire_reader& in, std::chrono::duration<Rep, Period>& x) {
    Rep count{};
    wire_read(in, count);
    x = std::chrono::duration<Rep, Period>{count};
  }
};

template <> struct wire_format<actor_ref> {
  static void write(wire_writer& out, const actor_ref& x) {
    wire_write(out, static_cast<std::uint32_t>(out.actors.size()));
    out.actors.push_back(x);
  }
  static void read(wire_reader& in, actor_ref& x) {
    std::uint32_t index = 0;
    wire_read(in, index);
    x = in.actor(index);
  }
};

template <class Interface> struct wire_format<handle<Interface>> {
  static void write(wire_writer& out, const handle<Interface>& x) { wire_write(out, x.ref()); }
  static void read(wire_reader& in, handle<Interface>& x) {
    actor_ref ref;
    wire_read(in, ref);
    x = handle<Interface>{std::move(ref)};
  }
};

} // namespace godwit::runtime
