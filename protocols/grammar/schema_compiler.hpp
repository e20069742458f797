#pragma once

#include "grammar/lexemes.hpp"
#include "grammar/terms.hpp"

#include <godwit/protocols/grammar/json_schema.hpp>

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace godwit::protocols::grammar {

/// Thrown inside the compiler, caught by compile_schema.
struct schema_fault {
  schema_error error;
};

[[nodiscard]] std::string below(const std::string& path, std::string_view name);
[[nodiscard]] std::string below(const std::string& path, std::size_t index);
/// True for a keyword that, with this value and among the others of its schema, says nothing about what is valid.
[[nodiscard]] bool says_nothing(const boost::json::key_value_pair& field, const boost::json::object& among);
/// True for those that say something, and for what tells a oneOf's alternatives apart.
[[nodiscard]] bool means_something(const boost::json::key_value_pair& field, const boost::json::object& among);
/// OpenAPI 3.0's "or null".
[[nodiscard]] bool is_nullable(const boost::json::object& schema);
[[nodiscard]] inline std::string_view text_of(const boost::json::string& s) { return {s.data(), s.size()}; }

/// One schema document on its way to a grammar.
///
/// Compound values become rules, and an object's rest after each property, too: then a state of the automaton is as
/// short as the text is deep, and what is compiled is never copied.
class schema_compiler {
public:
  schema_compiler(term_table& terms, const boost::json::value& root, const schema_limits& limits)
      : terms_(terms), root_(root), limits_(limits) {}

  /// The whole document; `rules` gets the bodies, behind those it has.
  [[nodiscard]] term_id compile(std::vector<term_id>& rules);

private:
  using object = boost::json::object;
  using value = boost::json::value;

  [[nodiscard]] term_id schema(const value& from, const std::string& path, std::size_t depth);
  [[nodiscard]] term_id keywords(const object& from, const std::string& path, std::size_t depth);
  [[nodiscard]] term_id alternatives(const object& from, std::string_view name, const std::string& path,
                                     std::size_t depth);
  [[nodiscard]] term_id listed(const object& from, const std::string& path);
  /// Of the listed values those that the keywords about strings and numbers allow.
  void keep_valid(std::vector<const value*>& listed, const object& from, const std::string& path);
  [[nodiscard]] term_id typed(std::string_view type, const object& from, const std::string& path, std::size_t depth);
  [[nodiscard]] term_id string_of(const object& from, const std::string& path);
  [[nodiscard]] term_id number_of(const object& from, const std::string& path, bool integer);
  [[nodiscard]] term_id array_of(const object& from, const std::string& path, std::size_t depth);
  [[nodiscard]] term_id object_of(const object& from, const std::string& path, std::size_t depth);
  [[nodiscard]] term_id member(std::string_view name, term_id of);
  [[nodiscard]] term_id any_value();

  [[nodiscard]] std::set<std::string, std::less<>> types_of(const object& from, const std::string& path) const;
  void check_keywords(const object& from, const std::string& path) const;

  /// The schema that a "$ref" names.
  [[nodiscard]] const value& target(std::string_view reference, const std::string& path) const;
  [[nodiscard]] term_id reference(std::string_view to, const std::string& path);
  /// One object that says what both say; refuses what cannot be said so.
  [[nodiscard]] object merged(const object& a, const object& b, const std::string& path, std::size_t depth);
  [[nodiscard]] object without_references(const value& from, const std::string& path, std::size_t depth);
  [[nodiscard]] object without_nullable(const object& from, const std::string& path);
  /// True where no value can be valid by both.
  [[nodiscard]] bool exclusive(const value& a, const value& b, const std::string& path, std::size_t depth);

  /// True where the discriminator's property is a different constant in each of the alternatives, all of them objects.
  [[nodiscard]] bool told_apart(const object& from, const boost::json::array& all, const std::string& path);
  /// What a property of an object may be; empty: not a list of constants, or it may be no object.
  [[nodiscard]] std::vector<const value*> constants_of(const value& of, std::string_view property,
                                                       const std::string& path);

  [[nodiscard]] term_id new_rule(term_id body);
  [[noreturn]] void fail(std::string path, std::string message) const;
  /// Counts a subschema, and work that references and allOf cause; a schema that means too much of it is refused.
  void count_schema(const std::string& path);
  void count_work(std::size_t nodes, const std::string& path);

  term_table& terms_;
  const value& root_;
  const schema_limits& limits_;
  std::vector<term_id> rules_;
  std::map<std::string, std::uint32_t, std::less<>> references_; ///< by pointer
  std::deque<std::pair<std::uint32_t, std::string>> open_;       ///< rules whose bodies are still to be compiled
  std::map<std::string, term_id, std::less<>> patterns_;         ///< by their text: what matches within a JSON string
  std::map<std::string, std::shared_ptr<automaton>, std::less<>> searches_; ///< by pattern: finds it in a plain text
  term_id any_ = term_table::nothing;
  std::size_t schemas_ = 0;
  std::size_t work_ = 0;
};

} // namespace godwit::protocols::grammar
