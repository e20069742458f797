#pragma once

#include <godwit/protocols/openai/error.hpp>

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace godwit::protocols::openai {

/// Thrown by the readers, caught by parse_completion, parse_chat and their siblings: the first fault ends the parsing.
struct parse_failure {
  api_error error;
};

/// A body's object. Refuses what is not JSON, not UTF-8, too deep, or names a key twice (clients and servers that
/// disagree about which one counts can be played off against each other).
[[nodiscard]] boost::json::value parse_body(std::string_view body, std::size_t bytes_max, std::size_t depth_max);

/// Reads the fields of one object by type and range, and remembers which ones anybody asked for. null is the same as
/// absent.
class json_reader {
public:
  /// `path` names the object in errors: "" for the body, "stream_options" for a part of it.
  explicit json_reader(const boost::json::object& object, std::string path = {});

  [[nodiscard]] const boost::json::value* value(std::string_view name);
  [[nodiscard]] std::optional<bool> boolean(std::string_view name);
  [[nodiscard]] std::optional<std::int64_t> integer(std::string_view name, std::int64_t minimum, std::int64_t maximum);
  /// `minimum` itself is out of range when `above`.
  [[nodiscard]] std::optional<float> number(std::string_view name, float minimum, float maximum, bool above = false);
  [[nodiscard]] std::optional<std::string> text(std::string_view name);
  [[nodiscard]] std::string required_text(std::string_view name);
  [[nodiscard]] const boost::json::object* object(std::string_view name);
  [[nodiscard]] const boost::json::array* array(std::string_view name);

  /// The full name of a field.
  [[nodiscard]] std::string path_of(std::string_view name) const;
  /// Fields that nobody asked for, but for those that are null.
  [[nodiscard]] std::vector<std::string> unasked() const;

private:
  const boost::json::object& object_;
  std::string path_;
  std::set<std::string, std::less<>> asked_;
};

[[noreturn]] void fail(api_error error);
/// "'path' is required."
[[noreturn]] void fail_missing(const std::string& path);
/// "'path' must be <what>, not <a number, a string, ...>."
[[noreturn]] void fail_type(std::string path, std::string_view what, const boost::json::value& is);
/// An integral number, written as 3 or 3.0.
[[nodiscard]] std::optional<std::int64_t> integral(const boost::json::value& value) noexcept;
[[nodiscard]] std::string text_of(const boost::json::value& value);

} // namespace godwit::protocols::openai
