#include <godwit/runtime/trace/analysis/slow.hpp>

#include <godwit/runtime/trace/analysis/labels.hpp>

#include "trace/analysis/request_walk.hpp"

#include <algorithm>
#include <map>

namespace godwit::runtime::trace::analysis {

namespace {

class path_timer {
public:
  path_timer(const index& of, const model_request& request) : of_(of), walk_(of, request) { out_.request = request; }

  request_path run() {
    out_.events = walk_.events();
    out_.whole = walk_.whole();
    now_ = out_.request.begin_ns;
    if (!out_.events.empty()) time();
    const auto http = out_.request.http;
    spend(http, http != nowhere && !out_.events.empty() ? spent::http : spent::other, out_.request.end_ns);
    return std::move(out_);
  }

private:
  void spend(position what, spent how, std::int64_t until) {
    until = std::min(until, out_.request.end_ns);
    if (until <= now_) return;
    out_.steps.push_back({what, how, now_, until});
    out_.sums[static_cast<std::size_t>(how)] += until - now_;
    now_ = until;
  }

  // What a span takes. For steps that were for others alone this request waited in a queue.
  [[nodiscard]] spent spent_by(position p) const {
    const auto name = std::string_view(of_.source().name_of(of_[p]));
    if (name == "device.step" || name == "device.part")
      return is_for_others(of_, p, out_.request.id) ? spent::held : spent::device;
    // What is brought for it, not what is put away beside its steps.
    return name == "fabric.transfer" || name == "kv_store.load" || name == "kv_swap.in" ? spent::transfer
                                                                                        : spent::other;
  }

  // What the effect waited for after its cause had been handled.
  void wait(position cause, position effect) {
    const auto until = of_.queued(effect);
    if (of_[effect].kind == event_kind::delivery && of_[effect].message == message_kind::timer)
      return spend(effect, spent::timer, until);
    for (const auto p : of_.effects(cause)) {
      if (of_[p].kind != event_kind::span || of_.begin(p) >= until || of_.end(p) <= now_) continue;
      const auto how = spent_by(p);
      if (how == spent::other) continue;
      spend(effect, spent::other, of_.begin(p));
      spend(p, how, std::min(until, of_.end(p)));
    }
    spend(effect, spent::other, until);
  }

  void time() {
    auto before = nowhere;
    for (const auto p : out_.events) {
      if (before == nowhere) {
        spend(p, out_.request.http != nowhere && out_.whole ? spent::http : spent::other, of_.queued(p));
      } else if (walk_.held_until(p)) {
        spend(before, spent::handling, of_.end(before));
        spend(p, spent::held, of_.begin(p));
      } else if (of_[before].kind == event_kind::sent) {
        spend(p, spent::network, of_.queued(p));
      } else if (of_[before].kind == event_kind::span && spent_by(before) != spent::other) {
        spend(before, spent_by(before), std::min(of_.end(before), of_.queued(p)));
        spend(p, spent::other, of_.queued(p));
      } else {
        spend(before, spent::handling, std::min(of_.end(before), of_.queued(p)));
        wait(before, p);
      }
      spend(p, spent::queueing, of_.begin(p));
      before = p;
    }
    spend(before, spent::handling, of_.end(before));
  }

  const index& of_;
  request_walk walk_;
  request_path out_;
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

request_path critical_path(const index& of, const model_request& request) { return path_timer(of, request).run(); }

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
