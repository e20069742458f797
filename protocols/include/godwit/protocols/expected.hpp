#pragma once

#include <godwit/protocols/ensure.hpp>

#include <type_traits>
#include <utility>
#include <variant>

namespace godwit::protocols {

/// Wraps an error on its way into an `expected`.
template <class E> struct unexpected {
  E error;
  explicit unexpected(E value) : error(std::move(value)) {}
};
template <class E> unexpected(E) -> unexpected<E>;

/// A value or the reason why there is none; the part of C++23's std::expected that godwit uses.
/// Reading the side that is not there is a caller's bug: contract_violation.
template <class T, class E> class [[nodiscard]] expected {
public:
  using value_type = T;
  using error_type = E;

  expected(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  template <class F>
  requires std::is_constructible_v<E, F> expected(unexpected<F> failure)
      : state_(std::in_place_index<1>, std::move(failure.error)) {}

  [[nodiscard]] bool has_value() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return has_value(); }

  [[nodiscard]] T& value() & { return checked(), *std::get_if<0>(&state_); }
  [[nodiscard]] const T& value() const& { return checked(), *std::get_if<0>(&state_); }
  [[nodiscard]] T&& value() && { return checked(), std::move(*std::get_if<0>(&state_)); }
  [[nodiscard]] T& operator*() & { return value(); }
  [[nodiscard]] const T& operator*() const& { return value(); }
  [[nodiscard]] T&& operator*() && { return std::move(*this).value(); }
  [[nodiscard]] T* operator->() { return &value(); }
  [[nodiscard]] const T* operator->() const { return &value(); }

  [[nodiscard]] const E& error() const& { return failed(), *std::get_if<1>(&state_); }
  [[nodiscard]] E&& error() && { return failed(), std::move(*std::get_if<1>(&state_)); }

private:
  void checked() const { ensure(has_value(), "expected: a value is read where there is an error"); }
  void failed() const { ensure(!has_value(), "expected: an error is read where there is a value"); }

  std::variant<T, E> state_;
};

} // namespace godwit::protocols
