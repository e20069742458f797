#include <godwit/runtime/trace/page_json.hpp>

#include "trace/page_selection.hpp"

#include <godwit/protocols/openai/json_text.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <string_view>
#include <unordered_map>

namespace godwit::runtime::trace {

namespace {

using protocols::openai::append_json_string;

/// What a browser's numbers hold exactly.
constexpr std::uint64_t exact_max = std::uint64_t{1} << 53U;

template <class Number> void append(std::string& out, Number n) {
  std::array<char, 24> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), n).ptr;
  out.append(digits.data(), end);
}

template <class Number> void append_quoted(std::string& out, Number n) {
  out += '"';
  append(out, n);
  out += '"';
}

/// Numbers the things that the chosen events name, in order of their first use; 0 is "none".
template <class Key> class numbering {
public:
  std::size_t of(const Key& key) {
    const auto [at, fresh] = numbers_.try_emplace(key, keys_.size() + 1);
    if (fresh) keys_.push_back(key);
    return at->second;
  }
  [[nodiscard]] const std::vector<Key>& keys() const noexcept { return keys_; }

private:
  struct hash {
    std::size_t operator()(std::uint64_t n) const noexcept { return std::hash<std::uint64_t>{}(n); }
    std::size_t operator()(const actor_id& a) const noexcept {
      return std::hash<std::uint64_t>{}(a.id * 0x9E3779B97F4A7C15ULL + a.process);
    }
  };
  std::unordered_map<Key, std::size_t, hash> numbers_;
  std::vector<Key> keys_;
};

class writer {
public:
  writer(const recording& from, const page_json_options& options)
      : from_(from), options_(options), chosen_(choose(from, options)) {}

  std::string write() {
    out_.reserve(4096 + chosen_.indexes.size() * 80);
    out_ += "{\"godwit_trace_page\":1,\"title\":";
    append_json_string(out_, options_.title);
    out_ += options_.live ? ",\"live\":true" : ",\"live\":false";
    field("events_total", from_.events.size());
    field("left_out", chosen_.older);
    field("others_left_out", chosen_.others);
    out_ += ",\"origin_ns\":";
    append_quoted(out_, chosen_.origin_ns);
    processes();
    columns();
    far_causes();
    contents();
    attributes();
    field("texts_left_out", texts_.left_out);
    field("attributes_left_out", values_.left_out);
    tables();
    out_ += '}';
    escape_markup();
    return std::move(out_);
  }

private:
  void field(std::string_view name, std::uint64_t value) {
    (((out_ += ",\"") += name) += "\":");
    append(out_, value);
  }

  void processes() {
    out_ += ",\"processes\":[";
    for (std::size_t i = 0; i < from_.processes.size(); ++i) {
      const auto& p = from_.processes[i];
      out_ += i == 0 ? "{\"key\":" : ",{\"key\":";
      append_quoted(out_, p.key);
      out_ += ",\"name\":";
      append_json_string(out_, p.name);
      out_ += ",\"started_unix_ns\":";
      append_quoted(out_, p.started_unix_ns);
      out_ += ",\"facts\":[";
      for (std::size_t f = 0; f < p.facts.size(); ++f) {
        out_ += f == 0 ? "[" : ",[";
        append_json_string(out_, p.facts[f].name);
        out_ += ',';
        text(p.facts[f].value);
        out_ += ']';
      }
      out_ += "]}";
    }
    out_ += ']';
  }

  /// `value(event)` of each chosen event; what a browser's number cannot hold becomes a string.
  template <class Function> void column(std::string_view name, Function value) {
    if (out_.back() != '{') out_ += ',';
    ((out_ += '"') += name) += "\":[";
    bool first = true;
    for (const auto index : chosen_.indexes) {
      if (!first) out_ += ',';
      first = false;
      const auto number = value(from_.events[index]);
      if constexpr (std::is_unsigned_v<decltype(number)>) {
        if (number > exact_max) {
          append_quoted(out_, number);
          continue;
        }
      }
      append(out_, number);
    }
    out_ += ']';
  }

  void columns() {
    out_ += ",\"columns\":{";
    column("process", [](const event& e) { return e.id.process; });
    column("number", [](const event& e) { return e.id.number; });
    column("kind", [](const event& e) { return static_cast<unsigned>(e.kind); });
    column("message", [](const event& e) { return static_cast<unsigned>(e.message); });
    column("flags", [](const event& e) { return (e.outside ? 1U : 0U) | (e.resumed ? 2U : 0U); });
    column("cause", [this](const event& e) -> std::int64_t {
      if (!e.cause) return 0;
      const auto at = chosen_.find(e.cause);
      return at ? static_cast<std::int64_t>(*at) + 1 : -1;
    });
    column("sender", [this](const event& e) { return actor(e.sender, e); });
    column("receiver", [this](const event& e) { return actor(e.receiver, e); });
    column("name", [this](const event& e) { return e.name == 0 ? 0 : names_.of(e.name); });
    column("request", [this](const event& e) { return e.request == 0 ? 0 : requests_.of(e.request); });
    column("thread", [](const event& e) { return e.thread; });
    auto before = chosen_.origin_ns;
    column("begin", [this, &before](const event& e) {
      const auto begin = from_.at(e);
      const auto step = begin - before;
      before = begin;
      return step;
    });
    column("queued", [](const event& e) { return e.begin_ns - e.queued_ns; });
    column("length", [](const event& e) { return e.end_ns - e.begin_ns; });
    column("wait", [](const event& e) { return e.wait; });
    column("made", [](const event& e) { return e.made; });
    column("count", [](const event& e) { return e.count; });
    column("bytes", [](const event& e) { return e.bytes; });
    column("depth", [](const event& e) { return e.depth; });
    out_ += '}';
  }

  /// A sender that is no actor is shown where somebody else is meant: at messages, as the outside of the process.
  std::size_t actor(actor_id who, const event& e) {
    const bool message = e.kind == event_kind::delivery || e.kind == event_kind::sent;
    if (!who && !message) return 0;
    return actors_.of(who);
  }

  /// One entry [event, ...] for each chosen event that `has` something; `rest` writes what follows its index. Asked
  /// from the last event on: where there is room for some only, it is the newest.
  template <class Has, class Rest> void sparse(std::string_view name, Has has, Rest rest) {
    ((out_ += ",\"") += name) += "\":[";
    std::vector<bool> wanted(chosen_.indexes.size());
    for (auto i = wanted.size(); i-- > 0;) wanted[i] = has(from_.events[chosen_.indexes[i]]);
    bool first = true;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (!wanted[i]) continue;
      const auto& e = from_.events[chosen_.indexes[i]];
      out_ += first ? "[" : ",[";
      first = false;
      append(out_, i);
      rest(e);
      out_ += ']';
    }
    out_ += ']';
  }

  void far_causes() {
    sparse(
        "far_causes", [this](const event& e) { return e.cause && !chosen_.find(e.cause); },
        [this](const event& e) {
          out_ += ',';
          append(out_, e.cause.process);
          out_ += ',';
          append_quoted(out_, e.cause.number);
        });
  }

  void contents() {
    sparse(
        "contents",
        [this](const event& e) { return (!e.content.empty() || !e.text.empty()) && room(texts_, e.text.size()); },
        [this](const event& e) {
          out_ += ',';
          append(out_, e.content.size());
          out_ += ",[";
          for (std::size_t i = 0; i < std::min(e.actors.size(), actors_of_content_max); ++i) {
            if (i != 0) out_ += ',';
            append(out_, actors_.of(e.actors[i]));
          }
          out_ += "],";
          text(e.text);
        });
  }

  void attributes() {
    sparse(
        "attributes",
        [this](const event& e) {
          std::size_t bytes = 0;
          for (const auto& a : e.attributes) bytes += a.name.size() + a.value.size();
          return !e.attributes.empty() && room(values_, bytes);
        },
        [this](const event& e) {
          for (const auto& a : e.attributes) {
            out_ += ',';
            text(a.name);
            out_ += ',';
            text(a.value);
          }
        });
  }

  struct budget {
    std::size_t used = 0;
    std::uint64_t left_out = 0; ///< events
  };

  bool room(budget& of, std::size_t bytes) {
    if (of.used + bytes > options_.texts_max) {
      ++of.left_out;
      return false;
    }
    of.used += bytes;
    return true;
  }

  void text(std::string_view t) {
    if (t.size() <= options_.text_max) return append_json_string(out_, t);
    auto cut = std::string(t.substr(0, options_.text_max));
    while (!cut.empty() && (static_cast<unsigned char>(t[cut.size()]) & 0xC0U) == 0x80U) cut.pop_back();
    cut += "\n[" + std::to_string(t.size() - cut.size()) + " more bytes in the recording]";
    append_json_string(out_, cut);
  }

  void tables() {
    out_ += ",\"names\":[\"\"";
    for (const auto n : names_.keys()) {
      out_ += ',';
      if (n < from_.names.size())
        text(from_.names[n]);
      else
        out_ += "\"\"";
    }
    out_ += "],\"requests\":[\"\"";
    for (const auto request : requests_.keys()) {
      out_ += ',';
      append_quoted(out_, request);
    }
    out_ += "],\"actors\":[";
    bool first = true;
    for (const auto& who : actors_.keys()) {
      out_ += first ? "[" : ",[";
      first = false;
      append(out_, who.process);
      out_ += ',';
      append_quoted(out_, who.id);
      out_ += ',';
      const auto at = from_.actors.find(who);
      text(at == from_.actors.end() ? std::string_view{} : std::string_view{at->second});
      out_ += ']';
    }
    out_ += "],\"remarks\":[";
    for (std::size_t i = 0; i < from_.remarks.size(); ++i) {
      if (i != 0) out_ += ',';
      text(from_.remarks[i]);
    }
    out_ += ']';
  }

  /// '<' stands only inside strings here, where it may as well be written as an escape.
  void escape_markup() {
    const auto found = static_cast<std::size_t>(std::count(out_.begin(), out_.end(), '<'));
    if (found == 0) return;
    std::string escaped;
    escaped.reserve(out_.size() + found * 5);
    for (const char c : out_) {
      if (c == '<')
        escaped += "\\u003c";
      else
        escaped += c;
    }
    out_ = std::move(escaped);
  }

  static constexpr std::size_t actors_of_content_max = 256;

  const recording& from_;
  const page_json_options& options_;
  page_selection chosen_;
  numbering<std::uint64_t> names_;
  numbering<std::uint64_t> requests_;
  numbering<actor_id> actors_;
  budget texts_;
  budget values_; // its own: contents must not push out what names a request and its steps
  std::string out_;
};

} // namespace

std::string page_json(const recording& from, const page_json_options& options) { return writer(from, options).write(); }

} // namespace godwit::runtime::trace
