#include "jinja/interpreter.hpp"
#include "jinja/numbers.hpp"
#include "jinja/unicode.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace godwit::protocols::jinja {

namespace {

using kind = value::kind;

constexpr auto hex_digits = "0123456789abcdef";

void append_escape(std::string& out, std::uint32_t unit) {
  out += "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) out += hex_digits[(unit >> static_cast<unsigned>(shift)) & 15U];
}

/// A character outside ASCII as \uXXXX, those beyond the first plane as two.
void append_ascii(std::string& out, std::string_view character) {
  std::uint32_t code = 0xfffd;
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(character[i])); };
  if (character.size() == 2) code = ((byte(0) & 0x1fU) << 6U) | (byte(1) & 0x3fU);
  if (character.size() == 3) code = ((byte(0) & 0x0fU) << 12U) | ((byte(1) & 0x3fU) << 6U) | (byte(2) & 0x3fU);
  if (character.size() == 4)
    code = ((byte(0) & 0x07U) << 18U) | ((byte(1) & 0x3fU) << 12U) | ((byte(2) & 0x3fU) << 6U) | (byte(3) & 0x3fU);
  if (code >= 0x10000) {
    append_escape(out, 0xd800U + ((code - 0x10000U) >> 10U));
    code = 0xdc00U + ((code - 0x10000U) & 0x3ffU);
  }
  append_escape(out, code);
}

/// Writes JSON as Python's json.dumps does.
class json_writer {
public:
  json_writer(interpreter& machine, const call_arguments& with) : machine_(machine) {
    // In the order of transformers' own function.
    if (const auto* ascii = with.get(0, "ensure_ascii")) ascii_ = machine.truth(*ascii);
    if (const auto* indent = with.get(1, "indent"); indent != nullptr && !indent->is(kind::none)) {
      const auto width = machine.integer(*indent, "'indent'");
      if (width < 0 || width > 16) machine.fail("'indent' must be from 0 to 16");
      indent_ = static_cast<std::size_t>(width);
      pretty_ = true;
      item_separator_ = text(",", true);
    }
    if (const auto* sort = with.get(3, "sort_keys")) sort_ = machine.truth(*sort);
    if (const auto* separators = with.get(2, "separators"); separators != nullptr && !separators->is(kind::none)) {
      const auto both = machine.iterate(*separators);
      if (both.size() != 2) machine.fail("'separators' must be two strings");
      item_separator_ = machine.string(both[0], "a separator");
      key_separator_ = machine.string(both[1], "a separator");
    }
  }

  void write(text& out, const value& of, std::size_t level = 0) {
    machine_.charge(1);
    if (out.size() > machine_.limits().output_bytes_max) machine_.fail("JSON grows too long");
    switch (of.type()) {
    case kind::none:
      return out.append("null", true);
    case kind::boolean:
      return out.append(of.as_boolean() ? "true" : "false", true);
    case kind::integer:
      return out.append(std::to_string(of.as_integer()), true);
    case kind::large:
      return out.append(std::to_string(of.as_large()), true);
    case kind::real:
      return real(out, of.as_real());
    case kind::string:
      return string(out, of.as_text());
    case kind::list:
      return list(out, of.items(), level);
    case kind::dict:
      return dict(out, of.entries(), level);
    case kind::undefined:
      machine_.fail("an undefined value is no JSON");
    case kind::object:
      machine_.fail("a function or namespace is no JSON");
    }
  }

private:
  void real(text& out, double number) {
    if (std::isnan(number)) return out.append("NaN", true);
    if (std::isinf(number)) return out.append(number < 0 ? "-Infinity" : "Infinity", true);
    out.append(show_real(number), true);
  }

  void line(text& out, std::size_t level) {
    if (!pretty_) return;
    out.append("\n", true);
    out.append(std::string(level * indent_, ' '), true);
  }

  void list(text& out, const std::vector<value>& items, std::size_t level) {
    out.append("[", true);
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out.append(item_separator_);
      line(out, level + 1);
      write(out, items[i], level + 1);
    }
    if (!items.empty()) line(out, level);
    out.append("]", true);
  }

  void dict(text& out, const std::vector<dict_entry>& entries, std::size_t level) {
    std::vector<const dict_entry*> sorted;
    for (const auto& entry : entries) sorted.push_back(&entry);
    if (sort_)
      std::sort(sorted.begin(), sorted.end(),
                [](const auto* a, const auto* b) { return a->key.bytes() < b->key.bytes(); });
    out.append("{", true);
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      if (i > 0) out.append(item_separator_);
      line(out, level + 1);
      string(out, sorted[i]->key);
      out.append(key_separator_);
      write(out, sorted[i]->held, level + 1);
    }
    if (!sorted.empty()) line(out, level);
    out.append("}", true);
  }

  void string(text& out, const text& of) {
    machine_.charge_copies(of);
    out.append("\"", true);
    std::size_t from = 0;
    for (const auto& run : of.runs()) {
      out.append(escaped(std::string_view(of.bytes()).substr(from, run.end - from)), run.markup);
      from = run.end;
    }
    out.append("\"", true);
  }

  [[nodiscard]] std::string escaped(std::string_view bytes) const {
    std::string out;
    out.reserve(bytes.size() + 8);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const auto c = static_cast<unsigned char>(bytes[i]);
      constexpr std::string_view special = "\"\\\n\r\t\b\f";
      constexpr std::string_view letters = "\"\\nrtbf";
      if (const auto at = special.find(bytes[i]); at != std::string_view::npos) {
        out += '\\';
        out += letters[at];
      } else if (c < 0x20) {
        append_escape(out, c);
      } else if (ascii_ && c >= 0x80) {
        const auto length = character_bytes(bytes, i);
        append_ascii(out, bytes.substr(i, length));
        i += length - 1;
      } else {
        out += bytes[i];
      }
    }
    return out;
  }

  interpreter& machine_;
  std::size_t indent_ = 0;
  bool pretty_ = false;
  bool ascii_ = false;
  bool sort_ = false;
  text item_separator_{", ", true};
  text key_separator_{": ", true};
};

} // namespace

value interpreter::to_json(const value& of, const call_arguments& with) {
  text out;
  json_writer(*this, with).write(out, of);
  return make(std::move(out));
}

// Python's repr.
void interpreter::show_quoted(text& out, const value& of) {
  charge(1);
  charge_bytes(2);
  switch (of.type()) {
  case kind::undefined:
    return out.append("Undefined", true);
  case kind::none:
    return out.append("None", true);
  case kind::boolean:
    return out.append(of.as_boolean() ? "True" : "False", true);
  case kind::integer:
    return out.append(std::to_string(of.as_integer()), true);
  case kind::large:
    return out.append(std::to_string(of.as_large()), true);
  case kind::real:
    return out.append(show_real(of.as_real()), true);
  case kind::string: {
    const auto& bytes = of.as_text();
    charge_copies(bytes);
    charge(bytes.size() / 16);
    const bool doubled = bytes.bytes().find('\'') != std::string::npos && bytes.bytes().find('"') == std::string::npos;
    const std::string_view quote = doubled ? "\"" : "'";
    out.append(quote, true);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const auto c = static_cast<unsigned char>(bytes.bytes()[i]);
      const bool markup = c < 0x80 && bytes.markup_at(i);
      if (c == '\\' || c == static_cast<unsigned char>(quote[0]))
        out.append(std::string("\\") + bytes.bytes()[i], markup);
      else if (c == '\n' || c == '\r' || c == '\t')
        out.append(c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t", markup);
      else if (c < 0x20 || c == 0x7f)
        out.append(std::string("\\x") + hex_digits[c >> 4U] + hex_digits[c & 15U], markup);
      else
        out.append(bytes, i, i + 1);
    }
    return out.append(quote, true);
  }
  case kind::list: {
    out.append("[", true);
    bool first = true;
    for (const auto& item : of.items()) {
      if (!std::exchange(first, false)) out.append(", ", true);
      show_quoted(out, item);
    }
    return out.append("]", true);
  }
  case kind::dict: {
    out.append("{", true);
    bool first = true;
    for (const auto& entry : of.entries()) {
      if (!std::exchange(first, false)) out.append(", ", true);
      show_quoted(out, value(entry.key));
      out.append(": ", true);
      show_quoted(out, entry.held);
    }
    return out.append("}", true);
  }
  case kind::object:
    return out.append(
        "<" + std::string(of.as_object()->type == object::kind::name_space ? "namespace" : "function") + ">", true);
  }
}

} // namespace godwit::protocols::jinja
