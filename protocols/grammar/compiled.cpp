#include "grammar/compiled.hpp"

#include <utility>

namespace godwit::protocols::grammar {

using kind = term::kind;

void classify_bytes(compiled& grammar) {
  std::array<std::uint16_t, 256> of{};
  std::uint16_t count = 1;
  for (const auto& set : grammar.terms.sets()) {
    std::array<std::uint16_t, 512> parts{}; // by class, and inside or outside of the set; 0: none yet
    count = 0;
    for (unsigned b = 0; b < 256; ++b) {
      auto& part = parts[2U * of[b] + (holds(set, static_cast<std::uint8_t>(b)) ? 1U : 0U)];
      if (part == 0) part = ++count;
      of[b] = static_cast<std::uint16_t>(part - 1U);
    }
  }
  grammar.representatives.assign(count, 0);
  for (unsigned b = 256; b-- > 0;) {
    grammar.class_of[b] = static_cast<std::uint8_t>(of[b]);
    grammar.representatives[of[b]] = static_cast<std::uint8_t>(b);
  }
}

namespace {

/// Which terms stand for a text: what a term waits for tells it, so that each is looked at as often as it is used.
class productive_search {
public:
  explicit productive_search(const compiled& grammar)
      : grammar_(grammar), alive_(grammar.terms.size(), false), first_user_(grammar.terms.size() + 1, 0) {
    each_use([&](term_id child, term_id) { ++first_user_[child + 1]; });
    for (std::size_t i = 1; i < first_user_.size(); ++i) first_user_[i] += first_user_[i - 1];
    users_.resize(first_user_.back());
    auto place = first_user_;
    each_use([&](term_id child, term_id user) { users_[place[child]++] = user; });
  }

  std::vector<bool> run() {
    const auto& terms = grammar_.terms;
    for (term_id id = 0; id < terms.size(); ++id) {
      const auto& t = terms.at(id);
      if (t.what == kind::empty || t.what == kind::bytes || (t.what == kind::repeat && t.least == 0)) reach(id);
    }
    while (!open_.empty()) {
      const auto id = open_.back();
      open_.pop_back();
      for (auto i = first_user_[id]; i < first_user_[id + 1]; ++i) {
        const auto& user = terms.at(users_[i]);
        if (user.what != kind::sequence || (alive_[user.a] && alive_[user.b])) reach(users_[i]);
      }
    }
    return std::move(alive_);
  }

private:
  /// A rule is used by nothing here, but every term that names it uses its body.
  template <class Tell> void each_use(const Tell& tell) const {
    const auto& terms = grammar_.terms;
    for (term_id id = 0; id < terms.size(); ++id) {
      const auto& t = terms.at(id);
      if (t.what == kind::sequence) {
        tell(t.a, id);
        tell(t.b, id);
      } else if (t.what == kind::choice) {
        for (const auto child : terms.choices(t)) tell(child, id);
      } else if (t.what == kind::repeat) {
        tell(t.a, id);
      } else if (t.what == kind::rule) {
        tell(grammar_.rules[t.a], id);
      }
    }
  }
  void reach(term_id id) {
    if (alive_[id]) return;
    alive_[id] = true;
    open_.push_back(id);
  }

  const compiled& grammar_;
  std::vector<bool> alive_;
  std::vector<std::uint32_t> first_user_; ///< by term, in users_
  std::vector<term_id> users_;
  std::vector<term_id> open_;
};

} // namespace

bool remove_unproductive(compiled& grammar) {
  const auto& terms = grammar.terms;
  const auto alive = productive_search(grammar).run();
  std::vector<bool> rule;
  for (const auto body : grammar.rules) rule.push_back(alive[body]);
  if (!alive[grammar.start]) return false;
  bool all = true;
  for (const bool one : rule) all = all && one;
  if (all) return true;

  // Built again without them.
  auto fresh = term_table(terms.size() + 2);
  std::vector<term_id> now(terms.size(), term_table::nothing);
  std::vector<term_id> some;
  for (term_id id = 0; id < terms.size(); ++id) {
    const auto& t = terms.at(id);
    switch (t.what) {
    case kind::nothing:
      break;
    case kind::empty:
      now[id] = term_table::empty;
      break;
    case kind::bytes:
      now[id] = fresh.bytes(terms.set(t));
      break;
    case kind::sequence:
      now[id] = fresh.sequence(now[t.a], now[t.b]);
      break;
    case kind::choice:
      some.clear();
      for (const auto child : terms.choices(t)) some.push_back(now[child]);
      now[id] = fresh.choice(some);
      break;
    case kind::repeat:
      now[id] = fresh.repeat(now[t.a], t.least, t.most);
      break;
    case kind::rule:
      now[id] = rule[t.a] ? fresh.rule(t.a) : term_table::nothing;
      break;
    }
  }
  grammar.start = now[grammar.start];
  for (auto& body : grammar.rules) body = now[body];
  grammar.terms = std::move(fresh);
  return true;
}

namespace {

struct left_search {
  const compiled& grammar;
  std::vector<std::uint8_t> seen; ///< by rule; 1: open, 2: done

  /// The rules that a term may begin with; true when one is open.
  bool leads_to_open(term_id id) {
    for (;;) {
      const auto& t = grammar.terms.at(id);
      switch (t.what) {
      case kind::sequence:
        if (leads_to_open(t.a)) return true;
        if (!grammar.terms.at(t.a).nullable) return false;
        id = t.b;
        continue;
      case kind::repeat:
        id = t.a;
        continue;
      case kind::choice:
        for (const auto child : grammar.terms.choices(t))
          if (leads_to_open(child)) return true;
        return false;
      case kind::rule:
        return visit(t.a);
      default:
        return false;
      }
    }
  }
  bool visit(std::uint32_t rule) {
    if (seen[rule] == 2) return false;
    if (seen[rule] == 1) return true;
    seen[rule] = 1;
    if (leads_to_open(grammar.rules[rule])) return true;
    seen[rule] = 2;
    return false;
  }
};

} // namespace

std::int64_t left_recursive_rule(const compiled& grammar) {
  left_search search{grammar, std::vector<std::uint8_t>(grammar.rules.size(), 0)};
  for (std::uint32_t i = 0; i < grammar.rules.size(); ++i)
    if (search.visit(i)) return i;
  return -1;
}

} // namespace godwit::protocols::grammar
