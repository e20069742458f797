#include <godwit/runtime/trace/analysis/labels.hpp>
#include <godwit/runtime/trace/analysis/sequence.hpp>

#include <spdlog/fmt/fmt.h>

namespace godwit::runtime::trace::analysis {

namespace {

// Both languages take what follows the colon as text, up to the line's end; a few characters mean something there.

std::string for_mermaid(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
    case '#':
      out += "#35;";
      break;
    case ';':
      out += "#59;";
      break;
    case '<':
      out += "#lt;";
      break;
    case '>':
      out += "#gt;";
      break;
    case '"':
      out += "#quot;";
      break;
    case ':':
      out += "#58;";
      break;
    case '%': // %% begins a comment
      out += "#37;";
      break;
    default:
      out += c;
    }
  }
  return out;
}

std::string for_plantuml(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '"') {
      out += "<U+0022>";
    } else if (c == '<') {
      out += "<U+003C>";
    } else if (std::string_view("~*_-/\\").find(c) != std::string_view::npos) {
      // Creole: ** bold, // italics, -- struck, __ underlined, \n a new line; ~ takes the next character as it is.
      out += fmt::format("<U+{:04X}>", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out;
}

std::string times(const sequence_step& s) {
  if (s.lost) return ", not delivered";
  if (s.note) return s.handling_ns > 0 ? ", " + duration_text(s.handling_ns) : "";
  return fmt::format(", {} + {}", duration_text(s.queue_ns), duration_text(s.handling_ns));
}

std::string more(const sequence& s) {
  return fmt::format("{} more left out; show them with --limit {}", s.left_out, s.steps.size() + s.left_out);
}

} // namespace

std::string to_mermaid(const sequence& s) {
  std::string out = "sequenceDiagram\n";
  for (std::size_t i = 0; i < s.participants.size(); ++i)
    out += fmt::format("  participant p{} as {}\n", i, for_mermaid(s.participants[i]));
  for (const auto& step : s.steps) {
    const auto text = for_mermaid(step.text + times(step));
    if (step.note)
      out += fmt::format("  Note over p{}: {}\n", step.to, text);
    else
      out += fmt::format("  p{}{}p{}: {}\n", step.from,
                         step.lost || step.failed ? "--x"
                         : step.answer            ? "-->>"
                                                  : "->>",
                         step.to, text);
  }
  if (s.left_out > 0 && !s.participants.empty()) out += fmt::format("  Note over p0: {}\n", for_mermaid(more(s)));
  return out;
}

std::string to_plantuml(const sequence& s) {
  std::string out = "@startuml\n";
  for (std::size_t i = 0; i < s.participants.size(); ++i)
    out += fmt::format("participant \"{}\" as p{}\n", for_plantuml(s.participants[i]), i);
  for (const auto& step : s.steps) {
    const auto text = for_plantuml(step.text + times(step));
    if (step.note)
      out += fmt::format("note over p{} : {}\n", step.to, text);
    else
      out += fmt::format("p{} {} p{} : {}\n", step.from,
                         step.lost || step.failed ? "-->x"
                         : step.answer            ? "-->"
                                                  : "->",
                         step.to, text);
  }
  if (s.left_out > 0 && !s.participants.empty()) out += fmt::format("note over p0 : {}\n", for_plantuml(more(s)));
  return out + "@enduml\n";
}

std::string to_text(const sequence& s) {
  constexpr std::size_t column = 16;
  const auto centre = [](std::size_t i) { return i * column + column / 2; };
  const auto lifelines = [&] {
    std::string line(s.participants.size() * column, ' ');
    for (std::size_t i = 0; i < s.participants.size(); ++i) line[centre(i)] = '|';
    return line;
  };
  std::string out = fmt::format("{:>12}  ", "s");
  for (const auto& name : s.participants) {
    const auto text = shortened(name, column - 2);
    const auto left = (column - width_of(text)) / 2;
    out += std::string(left, ' ') + text + std::string(column - left - width_of(text), ' ');
  }
  while (out.back() == ' ') out.pop_back();
  out += '\n';
  for (const auto& step : s.steps) {
    auto line = lifelines();
    const auto a = centre(step.from);
    const auto b = centre(step.to);
    if (step.note) {
      line[b] = '*';
    } else if (a == b) {
      line[b + 1] = '<';
      line[b + 2] = '-';
      line[b + 3] = '\'';
    } else {
      const char stroke = step.answer ? '.' : '-';
      for (auto i = std::min(a, b) + 1; i < std::max(a, b); ++i) line[i] = stroke;
      line[a < b ? b - 1 : b + 1] = step.lost || step.failed ? 'x' : a < b ? '>' : '<';
    }
    out +=
        fmt::format("{:>12.6f}  {}  {}{}\n", static_cast<double>(step.queued_ns) / 1e9, line, step.text, times(step));
  }
  if (s.left_out > 0) out += more(s) + "\n";
  return out;
}

} // namespace godwit::runtime::trace::analysis
