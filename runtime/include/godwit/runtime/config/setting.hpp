#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <ratio>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace godwit::runtime::config {

/// Where a value comes from, weakest first: a stronger source wins whatever the order of loading.
enum class source : std::uint8_t { built_in, file, environment, flag };

struct origin {
  source from = source::built_in;
  std::string where; ///< "godwit.toml:12", "GODWIT_HTTP_THREADS", "--http-threads"
};

enum class value_kind : std::uint8_t { boolean, integer, real, text, choice, duration, bytes, list };

/// A value on its way between text, TOML and a variable. Durations are nanoseconds, bytes and integers are integers.
using value = std::variant<bool, std::int64_t, std::uint64_t, double, std::string, std::vector<std::string>>;

/// The declaration of a setting, apart from its name and its variable.
struct options {
  std::string doc;                ///< one or more sentences, saying why one would change it
  std::string unit = {};          ///< "requests"; "bytes" on an integer makes "512MiB" a legal value
  std::optional<double> min = {}; ///< in the setting's unit; for a duration in milliseconds
  std::optional<double> max = {};
  std::string flag = {}; ///< "--port" where a short flag is worth it; otherwise made from the name
};

/// One declared setting, as help texts, reference pages and command lines need it.
struct setting {
  std::string name;     ///< "scheduler.queue_max": the TOML key queue_max in the table [scheduler]
  std::string flag;     ///< "--scheduler-queue-max"
  std::string variable; ///< "GODWIT_SCHEDULER_QUEUE_MAX"
  value_kind kind = value_kind::text;
  options declared;
  std::vector<std::string> choices; ///< of an enumeration
  std::string default_text;
  origin set_by;

  std::function<value()> get;                                              ///< reads the variable
  std::function<std::optional<std::string>(const value&, bool check)> put; ///< what is wrong, or assigns unless `check`
};

/// What the type of a variable says about a setting; specialise for types of your own.
template <class T> struct binding;

template <> struct binding<bool> {
  static constexpr value_kind kind = value_kind::boolean;
  static value to_value(bool x) { return x; }
  static std::optional<bool> from_value(const value& v) {
    const auto* x = std::get_if<bool>(&v);
    return x != nullptr ? std::optional(*x) : std::nullopt;
  }
};

template <class T>
requires(std::integral<T> && !std::same_as<T, bool>) struct binding<T> {
  static constexpr value_kind kind = value_kind::integer;
  static value to_value(T x) {
    if constexpr (std::signed_integral<T>)
      return static_cast<std::int64_t>(x);
    else
      return static_cast<std::uint64_t>(x);
  }
  static std::optional<T> from_value(const value& v) {
    if (const auto* x = std::get_if<std::int64_t>(&v); x != nullptr && std::in_range<T>(*x)) return static_cast<T>(*x);
    if (const auto* x = std::get_if<std::uint64_t>(&v); x != nullptr && std::in_range<T>(*x)) return static_cast<T>(*x);
    return std::nullopt;
  }
};

template <std::floating_point T> struct binding<T> {
  static constexpr value_kind kind = value_kind::real;
  static value to_value(T x) { return static_cast<double>(x); }
  static std::optional<T> from_value(const value& v) {
    if (const auto* x = std::get_if<double>(&v)) return static_cast<T>(*x);
    if (const auto* x = std::get_if<std::int64_t>(&v)) return static_cast<T>(*x);
    if (const auto* x = std::get_if<std::uint64_t>(&v)) return static_cast<T>(*x);
    return std::nullopt;
  }
};

template <> struct binding<std::string> {
  static constexpr value_kind kind = value_kind::text;
  static value to_value(const std::string& x) { return x; }
  static std::optional<std::string> from_value(const value& v) {
    const auto* x = std::get_if<std::string>(&v);
    return x != nullptr ? std::optional(*x) : std::nullopt;
  }
};

template <> struct binding<std::vector<std::string>> {
  static constexpr value_kind kind = value_kind::list;
  static value to_value(const std::vector<std::string>& x) { return x; }
  static std::optional<std::vector<std::string>> from_value(const value& v) {
    const auto* x = std::get_if<std::vector<std::string>>(&v);
    return x != nullptr ? std::optional(*x) : std::nullopt;
  }
};

template <class Rep, class Period> struct binding<std::chrono::duration<Rep, Period>> {
  using type = std::chrono::duration<Rep, Period>;
  static constexpr value_kind kind = value_kind::duration;
  static value to_value(type x) {
    return static_cast<std::int64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(x).count());
  }
  /// Nothing where the variable is too coarse to hold the value exactly: 1500us in a variable of milliseconds.
  static std::optional<type> from_value(const value& v) {
    const auto* x = std::get_if<std::int64_t>(&v);
    if (x == nullptr) return std::nullopt;
    const auto exact = std::chrono::nanoseconds(*x);
    const auto rounded = std::chrono::duration_cast<type>(exact);
    if (std::chrono::duration_cast<std::chrono::nanoseconds>(rounded) != exact) return std::nullopt;
    return rounded;
  }
};

} // namespace godwit::runtime::config
