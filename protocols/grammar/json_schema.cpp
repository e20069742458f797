#include <godwit/protocols/grammar/json_schema.hpp>

#include "grammar/characters.hpp"
#include "grammar/compiled.hpp"
#include "grammar/lexemes.hpp"
#include "grammar/regex.hpp"
#include "grammar/schema_compiler.hpp"

#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>

#include <algorithm>
#include <limits>
#include <utility>

namespace godwit::protocols::grammar {

namespace json = boost::json;

namespace {

[[noreturn]] void fail(std::string path, std::string message) {
  throw schema_fault{{std::move(path), std::move(message)}};
}

term_id one_of(term_table& terms, const json::array& texts, const schema_limits& limits) {
  if (texts.empty() || texts.size() > limits.alternatives_max)
    fail("", "there must be 1 to " + std::to_string(limits.alternatives_max) + " choices");
  std::vector<term_id> all;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (!texts[i].is_string()) fail(below("", i), "a choice must be a string");
    if (texts[i].get_string().empty()) fail(below("", i), "a choice must not be empty");
    all.push_back(terms.literal(text_of(texts[i].get_string())));
  }
  return terms.choice(all);
}

term_id matching(term_table& terms, std::string_view pattern) {
  pattern_context context;
  context.character = [&terms](const character_set& set) { return utf8_of(terms, set); };
  auto compiled = compile_pattern(terms, pattern, context);
  if (!compiled) fail("", compiled.error());
  return *compiled;
}

/// The parts of a way from the one with this index on.
term_id parts_of(compiled& into, const json::array& parts, std::size_t first, const schema_limits& limits) {
  auto& terms = into.terms;
  const auto literal = [&](const json::value& text) { return terms.literal(text_of(text.get_string())); };
  auto all = term_table::empty;
  for (auto i = first; i < parts.size(); ++i) {
    const auto& part = parts[i];
    auto one = term_table::nothing;
    if (part.is_string()) {
      one = literal(part);
    } else if (!part.is_array()) {
      one = schema_compiler(terms, part, limits).compile(into.rules);
    } else {
      const auto& again = part.get_array();
      if (again.empty() || !again.front().is_string()) fail("", "what stands between parts must be a string");
      const auto once = parts_of(into, again, 1, limits);
      one = terms.sequence(once, terms.repeat(terms.sequence(literal(again.front()), once), 0, unlimited));
    }
    all = terms.sequence(all, one);
  }
  return all;
}

term_id one_of_ways(compiled& into, const json::array& ways, const schema_limits& limits) {
  if (ways.size() > limits.alternatives_max)
    fail("", "there must be 1 to " + std::to_string(limits.alternatives_max) + " ways");
  std::vector<term_id> all;
  for (std::size_t i = 0; i < ways.size(); ++i) {
    if (!ways[i].is_array() || ways[i].get_array().empty()) fail(below("", i), "a way must be a list of parts");
    all.push_back(parts_of(into, ways[i].get_array(), 0, limits));
  }
  return into.terms.choice(all);
}

} // namespace

expected<text_grammar, schema_error> compile_schema(std::string_view text, const schema_limits& limits) {
  if (text.size() > limits.bytes_max)
    return unexpected(schema_error{"", "a schema may have " + std::to_string(limits.bytes_max) +
                                           " bytes, this one has " + std::to_string(text.size())});
  std::shared_ptr<compiled> out;
  try {
    json::parse_options options;
    options.max_depth = 2 * limits.depth_max + 8;
    boost::system::error_code why;
    const auto document = json::parse({text.data(), text.size()}, why, {}, options);
    if (why) return unexpected(schema_error{"", "it is not JSON: " + why.message()});

    out = std::make_shared<compiled>(term_table(limits.terms_max));
    out->terms.limit_work(limits.grammar_work_max);
    if (document.is_array() && !document.get_array().empty() && document.get_array().front().is_array())
      out->start = one_of_ways(*out, document.get_array(), limits);
    else if (document.is_array())
      out->start = one_of(out->terms, document.get_array(), limits);
    else if (document.is_string())
      out->start = matching(out->terms, text_of(document.get_string()));
    else
      out->start = schema_compiler(out->terms, document, limits).compile(out->rules);
    if (!remove_unproductive(*out)) return unexpected(schema_error{"", "no text can fulfil it"});
    if (left_recursive_rule(*out) >= 0)
      return unexpected(schema_error{"", "a $ref leads back to itself without anything in between"});
    classify_bytes(*out);
    out->terms.forget_made();
    out->terms.limit_work(std::numeric_limits<std::uint64_t>::max()); // automata have bounds of their own
    return text_grammar(std::move(out));
  } catch (const schema_fault& fault) {
    return unexpected(fault.error);
  } catch (const too_complex&) {
    const bool work = out->terms.work() > limits.grammar_work_max;
    return unexpected(schema_error{"", work ? "it is too complex: putting its grammar together takes more than " +
                                                  std::to_string(limits.grammar_work_max) +
                                                  " steps; its texts and patterns are too many or too long"
                                            : "it is too complex: its grammar would have more than " +
                                                  std::to_string(limits.terms_max) + " parts"});
  }
}

std::string choice_schema(std::span<const std::string> texts) {
  std::string out = "[";
  for (const auto& text : texts) out += (out.size() > 1 ? "," : "") + quoted(text);
  return out + "]";
}

std::string pattern_schema(std::string_view pattern) { return quoted(pattern); }

} // namespace godwit::protocols::grammar
