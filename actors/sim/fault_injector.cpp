#include <godwit/actors/sim/fault_injector.hpp>

#include <algorithm>
#include <utility>

namespace godwit::actors::sim {

using std::chrono::nanoseconds;

fault_injector::fault_injector(simulated_cluster& cluster, fault_plan plan, std::uint64_t seed, std::uint32_t instances)
    : cluster_(cluster), plan_(std::move(plan)) {
  for (std::size_t i = 0; i < plan_.random.size(); ++i) draws_.emplace_back(plan_.random[i], seed, i, instances);
}

void fault_injector::begin() {
  began_ = cluster_.world().now();
  books_.early_end = plan_.planned.size();
  for (const auto& f : plan_.planned)
    at(f.at, [this, &f] {
      --books_.early_end;
      strike(f);
    });
  for (auto& draws : draws_) draw_next(draws);
}

void fault_injector::draw_next(fault_draws& draws) {
  auto next = draws.next();
  if (!next) return;
  const auto when = next->at;
  at(when, [this, &draws, f = std::move(*next)] {
    strike(f);
    draw_next(draws);
  });
}

void fault_injector::at(nanoseconds time, std::function<void()> what) {
  cluster_.world().timers().call_after(began_ + time - cluster_.world().now(), [this, what = std::move(what)] {
    if (!over_) what();
  });
}

void fault_injector::strike(const fault& f) {
  fault_record record{f, inflict(f)};
  if (record.why_not.empty())
    ++books_.struck[std::string(to_string(f.kind))];
  else
    ++books_.missed;
  if (books_.records.size() < fault_books::records_max) books_.records.push_back(std::move(record));
}

std::string fault_injector::why_not(const std::string& process) const {
  if (!cluster_.knows(process)) return process + " had been released";
  if (!cluster_.runs(process)) return process + " was down";
  return {};
}

void fault_injector::mend_later(const fault& f, std::function<void()> how) {
  if (f.lasts) at(cluster_.world().now() - began_ + *f.lasts, std::move(how));
}

std::string fault_injector::inflict(const fault& f) {
  switch (f.kind) {
  case fault_kind::crash:
  case fault_kind::vanish: {
    if (auto why = why_not(f.target); !why.empty()) return why;
    auto& t = targets_[f.target];
    ++t.process;
    t.freezes = 0;
    cluster_.crash(f.target,
                   f.kind == fault_kind::crash ? runtime::sim::crash_kind::reset : runtime::sim::crash_kind::silent);
    mend_later(f, [this, name = f.target] { cluster_.restart(name); });
    return {};
  }
  case fault_kind::cut: {
    for (const auto& end : {f.target, f.other})
      if (!cluster_.knows(end)) return end + " had been released"; // one that is down finds it cut when it comes back
    const std::pair<std::string, std::string> ends = std::minmax(f.target, f.other);
    if (cuts_[ends]++ == 0) cluster_.cut(ends.first, ends.second);
    mend_later(f, [this, ends] {
      if (--cuts_[ends] == 0) cluster_.heal(ends.first, ends.second);
    });
    return {};
  }
  case fault_kind::freeze: {
    if (auto why = why_not(f.target); !why.empty()) return why;
    auto& t = targets_[f.target];
    if (t.freezes++ == 0) cluster_.freeze(f.target);
    mend_later(f, [this, name = f.target, process = t.process] {
      auto& frozen = targets_[name];
      if (frozen.process == process && --frozen.freezes == 0) cluster_.thaw(name);
    });
    return {};
  }
  case fault_kind::slow: {
    if (!cluster_.knows(f.target)) return why_not(f.target);
    targets_[f.target].slow.push_back(f.factor);
    slow_down(f.target);
    mend_later(f, [this, name = f.target, factor = f.factor] {
      auto& all = targets_[name].slow;
      all.erase(std::find(all.begin(), all.end(), factor));
      slow_down(name);
    });
    return {};
  }
  }
  return {};
}

void fault_injector::slow_down(const std::string& name) {
  double slowest = 1;
  for (const auto times : targets_[name].slow) slowest = std::max(slowest, times);
  cluster_.slow_down(name, slowest);
}

} // namespace godwit::actors::sim
