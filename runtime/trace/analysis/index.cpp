#include <godwit/runtime/trace/analysis/index.hpp>

#include <algorithm>
#include <tuple>

namespace godwit::runtime::trace::analysis {

index::index(const recording& of) : source_(&of) {
  find_causes();
  find_depths();
  find_answers();
  find_about();
  for (position p = 0; p < size(); ++p) {
    first_ns_ = p == 0 ? queued(p) : std::min(first_ns_, queued(p));
    last_ns_ = p == 0 ? end(p) : std::max(last_ns_, end(p));
  }
}

position index::find(event_id id) const noexcept {
  if (!id) return nowhere;
  const auto at = std::lower_bound(by_id_.begin(), by_id_.end(), id,
                                   [this](position p, const event_id& wanted) { return (*this)[p].id < wanted; });
  return at != by_id_.end() && (*this)[*at].id == id ? *at : nowhere;
}

std::span<const position> index::effects(position p) const noexcept {
  return std::span(effects_).subspan(effects_at_[p], effects_at_[p + 1] - effects_at_[p]);
}

void index::find_causes() {
  const auto n = static_cast<position>(size());
  by_id_.resize(n);
  for (position p = 0; p < n; ++p) by_id_[p] = p;
  std::sort(by_id_.begin(), by_id_.end(),
            [this](position a, position b) { return std::pair((*this)[a].id, a) < std::pair((*this)[b].id, b); });
  causes_.resize(n);
  effects_at_.assign(n + 1, 0);
  for (position p = 0; p < n; ++p) {
    causes_[p] = find((*this)[p].cause);
    if (causes_[p] == nowhere)
      roots_.push_back(p);
    else
      ++effects_at_[causes_[p] + 1];
  }
  for (position p = 0; p < n; ++p) effects_at_[p + 1] += effects_at_[p];
  effects_.resize(n - roots_.size());
  auto next = effects_at_;
  for (position p = 0; p < n; ++p)
    if (causes_[p] != nowhere) effects_[next[causes_[p]]++] = p;
}

// From roots down, so that a cycle, which a broken file may have, ends nothing.
void index::find_depths() {
  depths_.assign(size(), 0);
  auto todo = roots_;
  while (!todo.empty()) {
    const auto p = todo.back();
    todo.pop_back();
    for (const auto effect : effects(p)) {
      depths_[effect] = depths_[p] + 1;
      todo.push_back(effect);
    }
  }
}

// A wait's number is unique for the actor that asks: it sends the request and receives the answer.
void index::find_answers() {
  using key = std::tuple<actor_id, std::uint64_t, position>;
  std::vector<key> requests;
  std::vector<key> answers;
  for (position p = 0; p < size(); ++p) {
    const auto& e = (*this)[p];
    if (e.kind != event_kind::delivery || e.wait == 0) continue;
    if (e.message == message_kind::request) requests.emplace_back(e.sender, e.wait, p);
    if (e.message == message_kind::answer || e.message == message_kind::failure)
      answers.emplace_back(e.receiver, e.wait, p);
  }
  std::sort(requests.begin(), requests.end());
  std::sort(answers.begin(), answers.end());
  auto r = requests.begin();
  for (const auto& [who, wait, p] : answers) {
    while (r != requests.end() && std::tie(std::get<0>(*r), std::get<1>(*r)) < std::tie(who, wait)) ++r;
    if (r == requests.end()) break;
    if (std::get<0>(*r) != who || std::get<1>(*r) != wait) continue;
    asked_.emplace_back(std::get<2>(*r), p);
    answered_.emplace_back(p, std::get<2>(*r));
  }
  std::sort(asked_.begin(), asked_.end());
  std::sort(answered_.begin(), answered_.end());
}

position index::partner(position p, message_kind kind) const noexcept {
  const auto& pairs = kind == message_kind::request ? asked_ : answered_;
  const auto at = std::lower_bound(pairs.begin(), pairs.end(), std::pair(p, position{0}));
  return at != pairs.end() && at->first == p ? at->second : nowhere;
}

position index::question(position answer) const noexcept { return partner(answer, message_kind::answer); }

void index::find_about() {
  about_.resize(size());
  for (position p = 0; p < size(); ++p) about_[p] = (*this)[p].request;
  // A delivery is about what was sent, and the reverse.
  for (position p = 0; p < size(); ++p) {
    const auto c = causes_[p];
    if (c == nowhere || (*this)[p].kind != event_kind::delivery || (*this)[c].kind != event_kind::sent) continue;
    if (about_[p] == 0) about_[p] = about_[c];
    if (about_[c] == 0) about_[c] = about_[p];
  }
  for (const auto& [asked, answered] : asked_) {
    if (about_[answered] != 0) continue;
    about_[answered] = about_[asked];
    if (const auto c = causes_[answered]; c != nowhere && (*this)[c].kind == event_kind::sent && about_[c] == 0)
      about_[c] = about_[asked];
  }
}

} // namespace godwit::runtime::trace::analysis
