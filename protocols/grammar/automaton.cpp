#include <godwit/protocols/grammar/automaton.hpp>

#include "grammar/compiled.hpp"

#include <algorithm>

namespace godwit::protocols::grammar {

using kind = term::kind;

namespace {

/// Terms that an automaton may add to those of its grammar before it counts as crowded, and before it gives up.
constexpr std::size_t terms_crowded = 1U << 16U;
constexpr std::size_t terms_exhausted = 1U << 17U;
constexpr std::size_t choices_crowded = 1U << 19U;
constexpr std::size_t table_bytes_crowded = 16U << 20U;
constexpr std::uint32_t clamp_depth = 256;

} // namespace

std::size_t text_grammar::terms() const noexcept { return from_->terms.size(); }

bool text_grammar::accepts(std::string_view text) const {
  automaton run(*this);
  return run.may_end(run.advance(run.start(), text));
}

automaton::automaton(text_grammar of)
    : grammar_(std::move(of)), terms_(std::make_unique<term_table>(grammar_.get().terms)),
      class_of_(grammar_.get().class_of), classes_(grammar_.get().representatives.size()) {
  terms_->limit(terms_->size() + terms_exhausted);
}
automaton::~automaton() = default;
automaton::automaton(automaton&&) noexcept = default;

state automaton::start() const noexcept { return grammar_.get().start; }

bool automaton::may_end(state at) const noexcept { return terms_->at(at).nullable; }

state automaton::advance(state from, std::string_view text) {
  for (const char c : text) from = from == dead ? dead : advance(from, static_cast<std::uint8_t>(c));
  return from;
}

std::array<bool, 256> automaton::following(state at) {
  std::array<bool, 256> out{};
  for (unsigned b = 0; b < 256; ++b) out[b] = advance(at, static_cast<std::uint8_t>(b)) != dead;
  return out;
}

state automaton::derive_byte(state from, std::uint8_t byte) {
  if (exhausted_) return dead;
  try {
    return derive(from, class_of_[byte]);
  } catch (const too_complex&) {
    exhausted_ = true;
    return dead;
  }
}

state automaton::derive(state from, std::uint32_t by_class) {
  const auto what = terms_->at(from).what;
  if (what == kind::nothing || what == kind::empty) return dead;
  if (what == kind::bytes)
    return holds(terms_->set(terms_->at(from)), grammar_.get().representatives[by_class]) ? only_end() : dead;
  if (from >= rows_.size()) rows_.resize(terms_->size(), 0);
  if (rows_[from] == 0) {
    table_.resize(table_.size() + classes_, unknown);
    rows_[from] = static_cast<std::uint32_t>(table_.size() / classes_);
  }
  const auto place = (rows_[from] - 1) * classes_ + by_class;
  if (table_[place] == unknown) {
    const auto next = derive_anew(from, by_class);
    table_[place] = next;
  }
  return table_[place];
}

state automaton::derive_anew(state from, std::uint32_t by_class) {
  // By value: the table of terms grows meanwhile.
  const auto t = terms_->at(from);
  switch (t.what) {
  case kind::sequence: {
    const auto through = terms_->sequence(derive(t.a, by_class), t.b);
    return terms_->at(t.a).nullable ? terms_->choice({through, derive(t.b, by_class)}) : through;
  }
  case kind::choice: {
    const auto children = terms_->choices(t);
    std::vector<term_id> next(children.begin(), children.end());
    for (auto& child : next) child = derive(child, by_class);
    return terms_->choice(next);
  }
  case kind::repeat: {
    const auto first = derive(t.a, by_class);
    if (first == dead) return dead;
    const auto rest = terms_->repeat(t.a, t.least == 0 ? 0 : t.least - 1, t.most == unlimited ? unlimited : t.most - 1);
    return terms_->sequence(first, rest);
  }
  case kind::rule:
    return derive(grammar_.get().rules[t.a], by_class);
  default:
    return dead;
  }
}

std::vector<std::pair<state, state>> automaton::split(state at) const {
  std::vector<std::pair<state, state>> out;
  std::vector<state> open{at};
  for (std::size_t rules = 0; !open.empty();) {
    const auto id = open.back();
    open.pop_back();
    const auto& t = terms_->at(id);
    if (t.what == kind::choice)
      open.insert(open.end(), terms_->choices(t).begin(), terms_->choices(t).end());
    else if (t.what == kind::rule && rules++ < grammar_.get().rules.size())
      open.push_back(grammar_.get().rules[t.a]);
    else if (t.what == kind::sequence)
      out.emplace_back(t.a, t.b);
    else if (id > only_end())
      out.emplace_back(id, only_end());
  }
  return out;
}

state automaton::within(state at, std::uint32_t bytes_max) {
  if (clamped_to_ != bytes_max) clamped_.clear();
  clamped_to_ = bytes_max;
  try {
    return clamp(at, bytes_max, clamp_depth);
  } catch (const too_complex&) {
    exhausted_ = true;
    return dead;
  }
}

state automaton::clamp(state at, std::uint32_t bytes_max, std::uint32_t depth) {
  const auto t = terms_->at(at);
  // Each turn of a repetition takes a byte or more, as far as turns matter.
  if (t.what == kind::repeat) {
    if (terms_->at(t.a).nullable) return at;
    return terms_->repeat(t.a, std::min(t.least, bytes_max + 1), t.most > bytes_max ? unlimited : t.most);
  }
  if ((t.what != kind::sequence && t.what != kind::choice) || depth == 0) return at;
  if (const auto known = clamped_.find(at); known != clamped_.end()) return known->second;
  state now = at;
  if (t.what == kind::sequence) {
    const auto second = clamp(t.b, bytes_max, depth - 1);
    now = terms_->sequence(clamp(t.a, bytes_max, depth - 1), second);
  } else {
    const auto children = terms_->choices(t);
    std::vector<term_id> next(children.begin(), children.end());
    for (auto& child : next) child = clamp(child, bytes_max, depth - 1);
    now = terms_->choice(next);
  }
  clamped_.emplace(at, now);
  return now;
}

std::uint64_t automaton::work() const noexcept { return terms_->work(); }
void automaton::limit_work(std::uint64_t work_max) noexcept { terms_->limit_work(work_max); }

bool automaton::crowded() const noexcept {
  return terms_->size() > grammar_.get().terms.size() + terms_crowded ||
         terms_->choices() > grammar_.get().terms.choices() + choices_crowded ||
         table_.size() * sizeof(state) > table_bytes_crowded || exhausted_;
}

std::size_t automaton::memory_bytes() const noexcept {
  return terms_->memory_bytes() + (rows_.capacity() + table_.capacity()) * sizeof(std::uint32_t) + clamped_.size() * 32;
}

} // namespace godwit::protocols::grammar
