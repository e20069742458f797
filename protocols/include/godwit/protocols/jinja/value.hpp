#pragma once

#include <godwit/protocols/jinja/text.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace godwit::protocols::jinja {

class value;
struct dict_entry;

struct list_body {
  std::vector<value> items;
  std::uint32_t depth = 1; ///< of nesting, itself included
};
struct dict_body {
  std::vector<dict_entry> entries; ///< in the order of insertion; no key twice
  std::uint32_t depth = 1;
};
/// What only the interpreter makes: namespaces, loops, functions.
struct object;

struct undefined_t {
  friend bool operator==(undefined_t, undefined_t) = default;
};
struct none_t {
  friend bool operator==(none_t, none_t) = default;
};

/// A value of a template. Cheap to copy; strings, lists and dicts are shared and immutable.
class value {
public:
  enum class kind : std::uint8_t { undefined, none, boolean, integer, large, real, string, list, dict, object };

  value() = default; ///< undefined
  value(none_t none) : data_(none) {}
  value(bool truth) : data_(truth) {}
  value(std::int64_t number) : data_(number) {}
  value(double number) : data_(number) {}
  value(text bytes) : data_(std::make_shared<const text>(std::move(bytes))) {}
  value(std::vector<value> items);
  value(std::shared_ptr<object> thing) : data_(std::move(thing)) {}
  value(const char*) = delete; ///< say whether it is markup: content() or markup()

  /// An integer: `large` beyond int64, which has its digits when it is shown and is a float in calculations.
  [[nodiscard]] static value whole(std::uint64_t number);
  /// What a conversation brings.
  [[nodiscard]] static value content(std::string bytes) { return {text(std::move(bytes), false)}; }
  /// What may become special tokens.
  [[nodiscard]] static value markup(std::string bytes) { return {text(std::move(bytes), true)}; }
  /// Of two entries with the same key the later one counts, in the earlier one's place.
  [[nodiscard]] static value dict(std::vector<dict_entry> entries);

  [[nodiscard]] kind type() const noexcept { return static_cast<kind>(data_.index()); }
  [[nodiscard]] bool is(kind which) const noexcept { return type() == which; }
  [[nodiscard]] bool defined() const noexcept { return !is(kind::undefined); }

  // Each only where type() says so.
  [[nodiscard]] bool as_boolean() const { return std::get<bool>(data_); }
  [[nodiscard]] std::int64_t as_integer() const { return std::get<std::int64_t>(data_); }
  [[nodiscard]] std::uint64_t as_large() const { return std::get<std::uint64_t>(data_); }
  [[nodiscard]] double as_real() const { return std::get<double>(data_); }
  [[nodiscard]] const text& as_text() const { return *std::get<std::shared_ptr<const text>>(data_); }
  [[nodiscard]] const std::vector<value>& items() const {
    return std::get<std::shared_ptr<const list_body>>(data_)->items;
  }
  [[nodiscard]] const std::vector<dict_entry>& entries() const {
    return std::get<std::shared_ptr<const dict_body>>(data_)->entries;
  }
  [[nodiscard]] const std::shared_ptr<object>& as_object() const { return std::get<std::shared_ptr<object>>(data_); }
  /// The value at a key of a dict; null where there is none.
  [[nodiscard]] const value* find(std::string_view key) const;
  /// Nesting of lists and dicts; 0 for what is neither.
  [[nodiscard]] std::uint32_t depth() const noexcept;

private:
  std::variant<undefined_t, none_t, bool, std::int64_t, std::uint64_t, double, std::shared_ptr<const text>,
               std::shared_ptr<const list_body>, std::shared_ptr<const dict_body>, std::shared_ptr<object>>
      data_;
};

struct dict_entry {
  text key;
  value held;
};

} // namespace godwit::protocols::jinja
