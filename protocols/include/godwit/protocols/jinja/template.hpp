#pragma once

#include <godwit/protocols/expected.hpp>
#include <godwit/protocols/jinja/text.hpp>
#include <godwit/protocols/jinja/value.hpp>

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// The part of Jinja that chat templates are written in, sandboxed.
///
/// Problem: a model directory brings a program (its chat template) that runs on every request, over what strangers
/// wrote. Here it can do nothing but compute a string, within bounds of steps, bytes and depth; it ends in any case,
/// and an error is a value with a line. Source: jinja.palletsprojects.com/en/stable/templates, as set up by Hugging
/// Face's apply_chat_template (trim_blocks, lstrip_blocks, immutable lists and dicts, break and continue, generation
/// tags).
namespace godwit::protocols::jinja {

struct error {
  std::string message;
  std::uint32_t line = 0; ///< of the template; from 1
  bool raised = false;    ///< by the template itself (raise_exception): meant for whoever wrote the conversation
};
/// "line 3: ..."
[[nodiscard]] std::string to_string(const error& what);

/// Bounds of a template's text.
struct source_limits {
  std::size_t bytes_max = 1U << 20U;
  std::uint32_t nesting_max = 100; ///< of blocks and expressions
  std::size_t chain_max = 1000;    ///< branches of an `if`, values that are joined by ~
};

/// Bounds of one rendering.
struct render_limits {
  std::uint64_t steps_max = 4'000'000;     ///< expressions and statements evaluated, items visited
  std::uint64_t bytes_max = 128ULL << 20U; ///< of all strings made on the way
  std::size_t output_bytes_max = 32U << 20U;
  std::uint32_t calls_max = 60;    ///< macros that are called by macros
  std::uint32_t nesting_max = 100; ///< of lists in lists
  std::size_t range_max = 100'000;
};

struct render_options {
  render_limits limits;
  std::int64_t now_s = 0; ///< Unix time for strftime_now, which shows it in UTC
};

using variables = std::vector<std::pair<std::string, value>>;

/// A template, parsed. Immutable: any number of threads may render it at once.
class compiled_template {
public:
  [[nodiscard]] static expected<compiled_template, error> compile(std::string source, const source_limits& limits = {});

  /// The text, byte for byte what Jinja gives, with its markup known.
  [[nodiscard]] expected<text, error> render(const variables& given, const render_options& options = {}) const;

  /// True where the template reads a variable of this name.
  [[nodiscard]] bool reads(std::string_view name) const { return names_->read.contains(name); }
  /// True where it asks whether something of this name, a variable or what belongs to one, is none.
  [[nodiscard]] bool asks_for_none(std::string_view name) const { return names_->compared_with_none.contains(name); }
  [[nodiscard]] const std::string& source() const noexcept { return *source_; }

  struct node;
  struct names {
    std::set<std::string, std::less<>> read;
    std::set<std::string, std::less<>> compared_with_none;
  };

private:
  compiled_template() = default;
  std::shared_ptr<const std::string> source_;
  std::shared_ptr<const node> root_;
  std::shared_ptr<const names> names_;
};

} // namespace godwit::protocols::jinja
