#include <godwit/runtime/trace/analysis/diff.hpp>

#include <godwit/runtime/trace/analysis/labels.hpp>

#include <algorithm>
#include <map>
#include <tuple>

namespace godwit::runtime::trace::analysis {

namespace {

const std::string& name_of(const recording& of, actor_id who) {
  static const std::string none;
  const auto found = of.actors.find(who);
  return found == of.actors.end() ? none : found->second;
}

/// `@12` in a message's text is an actor of this run; its name is the same in another one.
std::string without_ids(const recording& of, const event& e) {
  std::string out;
  const auto& text = e.text;
  for (std::size_t i = 0; i < text.size(); ++i) {
    out += text[i];
    if (text[i] != '@') continue;
    std::uint64_t id = 0;
    auto digit = i + 1;
    for (; digit < text.size() && text[digit] >= '0' && text[digit] <= '9'; ++digit)
      id = id * 10 + static_cast<std::uint64_t>(text[digit] - '0');
    if (digit == i + 1) continue;
    out += name_of(of, {e.receiver.process, id});
    i = digit - 1;
  }
  return out;
}

std::string quoted(std::string_view text) { return "'" + shortened(harmless(text), 200) + "'"; }

/// From a little before the place where they part.
std::string around(std::string_view text, std::size_t at) {
  const auto from = at > 60 ? at - 60 : 0;
  return (from > 0 ? "…" : "") + quoted(text.substr(from));
}

class comparer {
public:
  comparer(const index& a, const index& b, diff_options options) : a_(a), b_(b), options_(options) {}

  diff_result run() {
    match(a_.roots(), b_.roots(), nowhere, nowhere);
    while (!todo_.empty()) {
      const auto [a, b] = todo_.back();
      todo_.pop_back();
      match(a_.effects(a), b_.effects(b), a, b);
    }
    std::stable_sort(found_.begin(), found_.end(),
                     [this](const divergence& x, const divergence& y) { return when(x) < when(y); });
    if (found_.size() > options_.list_max) found_.resize(options_.list_max);
    out_.divergences = std::move(found_);
    return std::move(out_);
  }

private:
  using key = std::tuple<event_kind, message_kind, std::string_view, std::string_view, std::string_view>;
  struct group {
    std::vector<position> a;
    std::vector<position> b;
  };

  static key key_of(const index& of, position p) {
    const auto& e = of[p];
    const auto& r = of.source();
    return {e.kind, e.message, name_of(r, e.receiver), name_of(r, e.sender), r.name_of(e)};
  }

  // As they were made, where one process made them.
  static void sort(const index& of, std::vector<position>& all) {
    std::stable_sort(all.begin(), all.end(), [&of](position x, position y) {
      if (of[x].id.process == of[y].id.process && of[x].cause && of[x].cause.process == of[x].id.process)
        return of[x].id.number < of[y].id.number;
      return of.queued(x) < of.queued(y);
    });
  }

  void match(std::span<const position> as, std::span<const position> bs, position a_cause, position b_cause) {
    std::map<key, group> groups;
    for (const auto p : as)
      if (a_[p].kind != event_kind::gap) groups[key_of(a_, p)].a.push_back(p);
    for (const auto p : bs)
      if (b_[p].kind != event_kind::gap) groups[key_of(b_, p)].b.push_back(p);
    for (auto& [what, g] : groups) {
      sort(a_, g.a);
      sort(b_, g.b);
      const auto both = std::min(g.a.size(), g.b.size());
      for (std::size_t i = 0; i < both; ++i) {
        ++out_.matched;
        compare(g.a[i], g.b[i], a_cause, b_cause);
        todo_.emplace_back(g.a[i], g.b[i]);
      }
      if (g.a.size() > both)
        add({difference::only_in_first, g.a[both], nowhere, a_cause, b_cause, {}}, g.a.size() - both);
      if (g.b.size() > both)
        add({difference::only_in_second, nowhere, g.b[both], a_cause, b_cause, {}}, g.b.size() - both);
    }
  }

  void add(divergence d, std::size_t times = 1) {
    out_.differences += times;
    found_.push_back(std::move(d));
    // Only the earliest are of interest: what a bounded list would lose anyway goes early.
    const auto room = std::max<std::size_t>(options_.list_max, 1);
    if (found_.size() < 4 * room + 64) return;
    const auto before = [this](const divergence& x, const divergence& y) { return when(x) < when(y); };
    std::nth_element(found_.begin(), found_.begin() + static_cast<std::ptrdiff_t>(room), found_.end(), before);
    found_.resize(room);
  }

  void compare(position a, position b, position a_cause, position b_cause) {
    if (!options_.content) return;
    auto detail = different(a, b);
    if (!detail.empty()) add({difference::content, a, b, a_cause, b_cause, std::move(detail)});
  }

  [[nodiscard]] std::string different(position pa, position pb) const {
    const auto& a = a_[pa];
    const auto& b = b_[pb];
    if (a.kind == event_kind::note) return attributes(a, b);
    if (!a.text.empty() && !b.text.empty()) {
      const auto x = without_ids(a_.source(), a);
      const auto y = without_ids(b_.source(), b);
      if (x == y) return {};
      const auto at = std::mismatch(x.begin(), x.end(), y.begin(), y.end()).first - x.begin();
      return around(x, static_cast<std::size_t>(at)) + " and " + around(y, static_cast<std::size_t>(at));
    }
    if (!a.content.empty() && !b.content.empty() && a.content != b.content) return "the messages' bytes";
    return {};
  }

  static std::string attributes(const event& a, const event& b) {
    const auto both = std::min(a.attributes.size(), b.attributes.size());
    for (std::size_t i = 0; i < both; ++i) {
      const auto& x = a.attributes[i];
      const auto& y = b.attributes[i];
      if (x.name != y.name) return "attributes " + quoted(x.name) + " and " + quoted(y.name);
      if (x.value != y.value) return harmless(x.name) + ": " + quoted(x.value) + " and " + quoted(y.value);
    }
    if (a.attributes.size() > both) return "attribute " + quoted(a.attributes[both].name) + " in the first alone";
    if (b.attributes.size() > both) return "attribute " + quoted(b.attributes[both].name) + " in the second alone";
    return {};
  }

  /// Of what happened at one moment, as in simulations, causes come first.
  [[nodiscard]] std::pair<std::int64_t, std::uint32_t> when(const divergence& d) const {
    if (d.first != nowhere) return {a_.begin(d.first) - a_.first_ns(), a_.depth(d.first)};
    return {b_.begin(d.second) - b_.first_ns(), b_.depth(d.second)};
  }

  const index& a_;
  const index& b_;
  diff_options options_;
  diff_result out_;
  std::vector<divergence> found_;
  std::vector<std::pair<position, position>> todo_;
};

} // namespace

diff_result diff(const index& first, const index& second, diff_options options) {
  return comparer(first, second, options).run();
}

} // namespace godwit::runtime::trace::analysis
