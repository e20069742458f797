#include <godwit/runtime/trace/analysis/slow.hpp>

#include <godwit/runtime/trace/analysis/labels.hpp>

#include <algorithm>
#include <map>
#include <set>

namespace godwit::runtime::trace::analysis {

namespace {

class path_finder {
public:
  path_finder(const index& of, const model_request& request) : of_(of) { out_.request = request; }

  request_path run() {
    const auto last = last_message();
    if (last != nowhere) {
      walk(last);
      time();
    }
    rest(out_.request.end_ns);
    return std::move(out_);
  }

private:
  [[nodiscard]] bool ours(position p) const { return of_.about(p) == out_.request.id; }

  // The message with its last tokens: the one upon which its home said how it ended. Where that is not recorded, the
  // last one that is about it, or that an actor sent which was given it: a message with the tokens of several requests
  // is about none of them alone.
  [[nodiscard]] position last_message() const {
    std::set<actor_id> given;
    auto said = nowhere;
    auto tokens = nowhere;
    auto any = nowhere;
    for (position p = 0; p < of_.size(); ++p) {
      if (of_.begin(p) > out_.request.end_ns || of_.begin(p) < out_.request.begin_ns) continue;
      if (of_[p].kind == event_kind::note && ours(p) && of_.source().name_of(of_[p]) == "ownership")
        said = of_.cause(p);
      if (of_[p].kind != event_kind::delivery) continue;
      if (ours(p)) any = later(any, p);
      if (ours(p)) given.insert(of_[p].receiver);
      const auto mine = ours(p) || (of_.about(p) == 0 && given.contains(of_[p].sender));
      if (mine && brings_tokens(p)) tokens = later(tokens, p);
    }
    if (said != nowhere && brings_tokens(said)) return said;
    return tokens != nowhere ? tokens : any;
  }

  [[nodiscard]] bool brings_tokens(position p) const {
    return of_[p].kind == event_kind::delivery && of_.source().name_of(of_[p]).ends_with("token_updates");
  }

  [[nodiscard]] position later(position a, position b) const {
    return a == nowhere || of_.begin(b) >= of_.begin(a) ? b : a;
  }

  // Backwards along causes for as long as the request was there. True: the beginning was reached.
  bool climb(position from, std::vector<position>& path) const {
    for (auto p = from; p != nowhere && path.size() <= of_.size(); p = of_.cause(p)) {
      if (p == out_.request.http) return true;
      if (of_.begin(p) < out_.request.begin_ns) return false;
      path.push_back(p);
      if (p == out_.request.first) return out_.request.http == nowhere || !of_[p].cause;
    }
    return false;
  }

  // The last message about the request that `at`'s actor handled before `at`.
  [[nodiscard]] position handed_over(position at) const {
    auto found = nowhere;
    for (position p = 0; p < at; ++p)
      if (of_[p].kind == event_kind::delivery && of_[p].receiver == of_[at].receiver && ours(p) &&
          of_.begin(p) >= out_.request.begin_ns)
        found = p;
    return found;
  }

  void walk(position last) {
    std::vector<position> path;
    auto from = last;
    while (!climb(from, path)) {
      out_.whole = false;
      const auto part = segment_;
      segment_ = path.size();
      // The earliest message of what was climbed whose actor had the request by then.
      auto at = path.size();
      auto before = nowhere;
      while (before == nowhere && at > part)
        if (of_[path[--at]].kind == event_kind::delivery) before = handed_over(path[at]);
      if (before == nowhere) break;
      path.resize(at + 1);
      segment_ = path.size();
      held_.insert(path[at]);
      from = before; // it began earlier: this ends
      out_.whole = true;
    }
    out_.events.assign(path.rbegin(), path.rend());
  }

  void spend(position what, spent how, std::int64_t until) {
    until = std::min(until, out_.request.end_ns);
    if (until <= now_) return;
    out_.steps.push_back({what, how, now_, until});
    out_.sums[static_cast<std::size_t>(how)] += until - now_;
    now_ = until;
  }

  // What the effect waited for after its cause had been handled.
  void wait(position cause, position effect) {
    const auto until = of_.queued(effect);
    if (of_[effect].kind == event_kind::delivery && of_[effect].message == message_kind::timer)
      return spend(effect, spent::timer, until);
    for (const auto p : of_.effects(cause)) {
      if (of_[p].kind != event_kind::span || of_.begin(p) >= until || of_.end(p) <= now_) continue;
      const auto name = std::string_view(of_.source().name_of(of_[p]));
      const auto how = name == "device.step"       ? spent::device
                       : name == "fabric.transfer" ? spent::transfer
                                                   : spent::other;
      if (how == spent::other) continue;
      spend(effect, spent::other, of_.begin(p));
      spend(p, how, std::min(until, of_.end(p)));
    }
    spend(effect, spent::other, until);
  }

  void time() {
    now_ = out_.request.begin_ns;
    auto before = nowhere;
    for (const auto p : out_.events) {
      if (before == nowhere) {
        spend(p, out_.request.http != nowhere && out_.whole ? spent::http : spent::other, of_.queued(p));
      } else if (held_.contains(p)) {
        spend(before, spent::handling, of_.end(before));
        spend(p, spent::held, of_.begin(p));
      } else if (of_[before].kind == event_kind::sent) {
        spend(p, spent::network, of_.queued(p));
      } else {
        spend(before, spent::handling, std::min(of_.end(before), of_.queued(p)));
        wait(before, p);
      }
      spend(p, spent::queueing, of_.begin(p));
      before = p;
    }
    spend(before, spent::handling, of_.end(before));
  }

  void rest(std::int64_t until) {
    if (out_.events.empty()) now_ = out_.request.begin_ns;
    const auto http = out_.request.http;
    spend(http, http != nowhere && !out_.events.empty() ? spent::http : spent::other, until);
  }

  const index& of_;
  request_path out_;
  std::set<position> held_; ///< where the path goes over from the request's own messages to those of a batch
  std::size_t segment_ = 0; ///< of the path: where the last climb began
  std::int64_t now_ = 0;
};

} // namespace

std::string_view to_string(spent what) noexcept {
  switch (what) {
  case spent::handling:
    return "handling";
  case spent::queueing:
    return "queueing";
  case spent::network:
    return "network";
  case spent::device:
    return "device";
  case spent::transfer:
    return "transfer";
  case spent::timer:
    return "timer";
  case spent::held:
    return "held";
  case spent::http:
    return "http";
  case spent::other:
    return "other";
  }
  return "unknown";
}

request_path critical_path(const index& of, const model_request& request) { return path_finder(of, request).run(); }

std::vector<model_request> slowest(std::vector<model_request> all, std::size_t count) {
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.duration_ns() > b.duration_ns(); });
  if (all.size() > count) all.resize(count);
  return all;
}

std::vector<path_part> parts_of(const index& of, const request_path& path) {
  std::map<std::pair<std::string, spent>, path_part> parts;
  for (const auto& s : path.steps) {
    auto name = s.what == nowhere ? std::string() : of.source().name_of(of[s.what]);
    if (name.empty() && s.what != nowhere) name = short_name(of.source(), of[s.what]);
    auto& part = parts[{name, s.how}];
    part.name = name;
    part.how = s.how;
    ++part.count;
    part.ns += s.duration_ns();
  }
  std::vector<path_part> out;
  for (auto& [key, part] : parts) out.push_back(std::move(part));
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.ns > b.ns; });
  return out;
}

} // namespace godwit::runtime::trace::analysis
