#pragma once

#include <godwit/protocols/expected.hpp>
#include <godwit/protocols/grammar/automaton.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace godwit::protocols::grammar {

/// What is wrong with a schema.
struct schema_error {
  std::string path; ///< where: "properties.age.minimum", "anyOf[1].type"; empty: the whole
  std::string message;
  friend bool operator==(const schema_error&, const schema_error&) = default;
};

/// Bounds of what is compiled; beyond them an error, never a long wait.
struct schema_limits {
  std::size_t bytes_max = 64U << 10U;
  std::size_t depth_max = 48;
  std::size_t schemas_max = 8192;      ///< subschemas, each as often as it is merged into others
  std::size_t properties_max = 512;    ///< of one object
  std::size_t alternatives_max = 1024; ///< of one enum, anyOf or oneOf
  std::size_t name_bytes_max = 8192;   ///< of one object's properties
  /// Values (and 64 bytes of text as one) copied and compared for allOf, oneOf and $ref with other keywords, terms made
  /// for names that are none of the declared ones.
  std::size_t work_max = 1U << 19U;
  std::size_t terms_max = 1U << 19U; ///< of the grammar; about 32 bytes each
  /// Terms looked up, alternatives put together, ranges of characters and bytes of patterns read, be it again and
  /// again.
  std::uint64_t grammar_work_max = std::uint64_t{1} << 22U;
};

/// Compiles what sampling_params::json_schema says:
/// * an object, `true` or `false`: a JSON Schema (2020-12, the subset of docs/structured_output.md). The texts are JSON
///   values that are valid by it: UTF-8, the properties in the order of their declaration, white space only inside and
///   bounded, numbers of bounded length;
/// * an array of strings: one of these texts as it is;
/// * a string: a text that matches this regular expression as a whole;
/// * an array of arrays: one of these ways to write a text. A way is a list of parts that follow each other: a string
/// is
///   its text as it is; an object, `true` or `false` a JSON Schema; an array parts that come once or more often, behind
///   a string that stands between them.
/// Deterministic: the same text gives the same grammar. What is not supported is refused by name, never ignored,
/// formats of strings apart.
[[nodiscard]] expected<text_grammar, schema_error> compile_schema(std::string_view text,
                                                                  const schema_limits& limits = {});

/// Texts for `compile_schema`.
[[nodiscard]] std::string choice_schema(std::span<const std::string> texts);
[[nodiscard]] std::string pattern_schema(std::string_view pattern);

} // namespace godwit::protocols::grammar
