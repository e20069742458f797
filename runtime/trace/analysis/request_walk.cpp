#include "trace/analysis/request_walk.hpp"

#include <godwit/runtime/trace/analysis/labels.hpp>

#include <algorithm>

namespace godwit::runtime::trace::analysis {

bool is_step(const index& of, position p) {
  return of[p].kind == event_kind::span && of.source().name_of(of[p]) == "device.step";
}

bool is_for_others(const index& of, position step, std::uint64_t request) {
  const auto named = numbers_in(attribute_of(of[step], "requests"));
  return !named.empty() && named.size() < 1024 && std::ranges::find(named, request) == named.end();
}

request_walk::request_walk(const index& of, const model_request& request) : of_(of), request_(request) {
  look();
  if (const auto last = last_message(); last != nowhere) walk(last);
}

bool request_walk::is(position p, std::string_view type) const {
  return of_[p].kind == event_kind::delivery && of_.source().name_of(of_[p]).ends_with(type);
}

void request_walk::look() {
  look_below(request_.http != nowhere ? request_.http : request_.first);
  for (position p = 0; p < of_.size(); ++p) {
    if (!ours(p)) continue;
    const auto& e = of_[p];
    if (e.kind == event_kind::note && of_.source().name_of(e) == "ownership") said_ = of_.cause(p);
    if (e.kind != event_kind::delivery) continue;
    about_.push_back(p);
    if (is(p, "generate_order") || is(p, "adopt_order") || is(p, "dispatch_query")) arrivals_.push_back(p);
  }
  std::sort(arrivals_.begin(), arrivals_.end());
}

// Before it has a number, a request is known by what follows from its HTTP request. Whoever asks where it should run
// says its number since version 0.3.38; before that, the question was found here too.
void request_walk::look_below(position root) {
  constexpr std::size_t messages_max = 64;
  std::vector<position> todo{root};
  for (std::size_t i = 0; i < todo.size() && i < messages_max; ++i) {
    const auto p = todo[i];
    if (of_.about(p) == 0 || p == root) {
      const auto below = of_.effects(p);
      todo.insert(todo.end(), below.begin(), below.end());
    }
    if (of_.about(p) == 0 && (is(p, "submit_request") || is(p, "dispatch_query"))) arrivals_.push_back(p);
  }
}

// Where its home does not say what ended it: the last message with tokens that is about it, or that an actor sent which
// was given it; a message with the tokens of several requests is about none of them alone.
position request_walk::last_message() const {
  if (said_ != nowhere && is(said_, "token_updates")) return said_;
  std::set<actor_id> given;
  for (const auto p : about_) given.insert(of_[p].receiver);
  auto tokens = nowhere;
  for (position p = 0; p < of_.size(); ++p) {
    if (of_.begin(p) > request_.end_ns) break;
    const auto mine = ours(p) || (of_.about(p) == 0 && given.contains(of_[p].sender));
    if (mine && of_.begin(p) >= request_.begin_ns && is(p, "token_updates")) tokens = p;
  }
  if (tokens != nowhere || about_.empty()) return tokens;
  auto last = about_.back();
  for (const auto p : about_)
    if (of_.begin(p) <= request_.end_ns) last = p;
  return last;
}

// The last one that `at`'s actor handled until then.
position request_walk::latest(const std::vector<position>& among, position at) const {
  auto found = nowhere;
  for (const auto p : among) {
    if (of_.begin(p) > of_.begin(at)) break;
    if (p != at && !of_.before(p, at)) continue; // in simulations much happens at one moment
    if (of_[p].receiver == of_[at].receiver && of_.begin(p) >= request_.begin_ns) found = p;
  }
  return found;
}

// A timer that is about nobody, or about others.
bool request_walk::shared_timer(position p) const { return of_[p].message == message_kind::timer && !ours(p); }

request_walk::climbed request_walk::climb(position from, std::vector<position>& path) const {
  climbed out;
  for (auto p = from; p != nowhere && path.size() <= of_.size(); p = of_.cause(p)) {
    if (p == request_.http) return {true, 0, nowhere};
    if (of_.begin(p) < request_.begin_ns) break;
    if (out.arrived != nowhere && of_.begin(p) < of_.begin(out.arrived)) break;
    path.push_back(p);
    if (p == request_.first && request_.http == nowhere) return {true, 0, nowhere};
    if (of_[p].kind != event_kind::delivery) continue;
    const auto arrived = latest(arrivals_, p);
    if (arrived == nowhere) continue;
    // Where it was before it came to where it is now.
    if (out.arrived != nowhere && of_.before(arrived, out.arrived)) continue;
    // On its own way there is nothing to go over to.
    out = arrived == p ? climbed{} : climbed{false, path.size() - 1, arrived};
    if (shared_timer(p)) break;
  }
  return out;
}

// For actors of other kinds: the earliest message of what was climbed whose actor had handled one about the request.
request_walk::climbed request_walk::guess(std::size_t from, const std::vector<position>& path) const {
  for (auto i = path.size(); i-- > from;) {
    if (of_[path[i]].kind != event_kind::delivery) continue;
    const auto before = latest(about_, path[i]);
    if (before != nowhere && before != path[i] && of_.begin(before) < of_.begin(path[i])) return {false, i, before};
  }
  return {};
}

// Whose step a cause is, or set off. Looked for once: it may have many effects, each of which asks.
request_walk::whose request_walk::step_of(position cause) {
  const auto [known, fresh] = steps_.try_emplace(cause, whose::nobodys);
  if (!fresh) return known->second;
  auto step = is_step(of_, cause) ? cause : nowhere;
  for (const auto beside : of_.effects(cause)) {
    if (step != nowhere) break;
    if (is_step(of_, beside)) step = beside;
  }
  if (step != nowhere) known->second = is_for_others(of_, step, request_.id) ? whose::others : whose::ours;
  return known->second;
}

// What an actor got of a step that was for the request: the step's output, or a message upon that. The step itself is
// beside these, an effect of the order to run it.
bool request_walk::came_of_its_step(position p) {
  constexpr int messages_between = 3;
  if (of_[p].kind != event_kind::delivery) return false;
  auto cause = of_.cause(p);
  for (int i = 0; i < messages_between && cause != nowhere; ++i, cause = of_.cause(cause))
    if (const auto found = step_of(cause); found != whose::nobodys) return found == whose::ours;
  return false;
}

// While an actor had the request and `held` had not come yet, steps may have been for it.
position request_walk::progress(position arrived, position held) {
  for (auto p = held; p-- > arrived;)
    if (of_[p].receiver == of_[held].receiver && of_.begin(p) < of_.begin(held) && came_of_its_step(p)) return p;
  return arrived;
}

void request_walk::walk(position last) {
  std::vector<position> path;
  std::set<position> gone_over;
  for (auto from = last; from != nowhere;) {
    const auto begun = path.size();
    auto found = climb(from, path);
    whole_ = found.done;
    if (whole_) break;
    if (found.arrived == nowhere) found = guess(begun, path);
    if (found.arrived == nowhere) break;
    const auto back = progress(found.arrived, path[found.last]);
    if (!gone_over.insert(back).second) break;
    path.resize(found.last + 1);
    held_.insert(path[found.last]);
    from = back;
  }
  events_.assign(path.rbegin(), path.rend());
}

} // namespace godwit::runtime::trace::analysis
