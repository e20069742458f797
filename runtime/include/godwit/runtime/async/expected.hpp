#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>

namespace godwit::runtime::async {

/// What can go wrong with something that was waited for.
enum class error_code : std::uint8_t {
  failed,      ///< the other side met an exception or an error of its own; the message says which
  timeout,     ///< no answer in time; whether it was done is unknown
  down,        ///< the other side is dead, or died before it answered
  refused,     ///< the other side answers, and does not want to (full, draining, unknown id)
  aborted,     ///< given up by the caller's own side
  unsupported, ///< the other side does not understand the message, or it cannot leave this process
};
[[nodiscard]] std::string_view to_string(error_code code) noexcept;

/// An error as a value. Travels in messages.
struct error {
  error_code code = error_code::failed;
  std::string message; ///< one line, for people

  error() = default;
  explicit error(error_code what, std::string text = {}) : code(what), message(std::move(text)) {}
  friend bool operator==(const error&, const error&) = default;
  auto fields() { return std::tie(code, message); }
};
[[nodiscard]] std::string to_string(const error& e);

/// A value or an error: what every wait gives.
///
/// `*x`, `x->` and `value()` need a value there (a caller's bug otherwise: std::bad_variant_access); test with `if
/// (x)`.
template <class T> class [[nodiscard]] expected {
public:
  using value_type = T;
  expected(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  expected(async::error e) : state_(std::in_place_index<1>, std::move(e)) {}

  [[nodiscard]] bool has_value() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return has_value(); }
  [[nodiscard]] T& value() & { return std::get<0>(state_); }
  [[nodiscard]] const T& value() const& { return std::get<0>(state_); }
  [[nodiscard]] T&& value() && { return std::get<0>(std::move(state_)); }
  [[nodiscard]] T& operator*() & { return value(); }
  [[nodiscard]] const T& operator*() const& { return value(); }
  [[nodiscard]] T&& operator*() && { return std::move(*this).value(); }
  [[nodiscard]] T* operator->() { return &value(); }
  [[nodiscard]] const T* operator->() const { return &value(); }
  [[nodiscard]] T value_or(T other) const& { return has_value() ? value() : std::move(other); }
  [[nodiscard]] async::error& error() & { return std::get<1>(state_); }
  [[nodiscard]] const async::error& error() const& { return std::get<1>(state_); }
  [[nodiscard]] async::error&& error() && { return std::get<1>(std::move(state_)); }

private:
  std::variant<T, async::error> state_;
};

/// Done, or an error.
template <> class [[nodiscard]] expected<void> {
public:
  using value_type = void;
  expected() noexcept = default;
  expected(async::error e) : state_(std::in_place_index<1>, std::move(e)) {}
  [[nodiscard]] bool has_value() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return has_value(); }
  [[nodiscard]] async::error& error() & { return std::get<1>(state_); }
  [[nodiscard]] const async::error& error() const& { return std::get<1>(state_); }
  [[nodiscard]] async::error&& error() && { return std::get<1>(std::move(state_)); }

private:
  std::variant<std::monostate, async::error> state_;
};

template <class T> inline constexpr bool is_expected = false;
template <class T> inline constexpr bool is_expected<expected<T>> = true;

} // namespace godwit::runtime::async
