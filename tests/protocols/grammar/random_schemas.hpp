#pragma once

#include <boost/json/value.hpp>

#include <cstdint>
#include <random>
#include <string>

namespace godwit::protocols::grammar::testing_support {

/// Makes schemas of everything that is supported, and values that are valid by them.
class schema_maker {
public:
  explicit schema_maker(std::uint32_t seed) : random_(seed) {}
  /// A document with a few $defs, which may refer to each other.
  [[nodiscard]] boost::json::value document();
  /// A text that is valid by it, in the order and with the white space that answers have; empty: none was found.
  [[nodiscard]] std::string text_for(const boost::json::value& schema, const boost::json::value& root, int depth);

  [[nodiscard]] std::uint32_t below(std::uint32_t bound) { return random_() % bound; }

private:
  [[nodiscard]] boost::json::object schema(int depth);
  [[nodiscard]] std::string space();
  [[nodiscard]] std::string string_text(std::uint32_t least, std::uint32_t most);
  std::mt19937 random_;
};

/// A validator of its own, by the words of JSON Schema 2020-12.
[[nodiscard]] bool valid(const boost::json::value& schema, const boost::json::value& of,
                         const boost::json::value& root);

} // namespace godwit::protocols::grammar::testing_support
