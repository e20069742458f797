#include <godwit/protocols/policy/scaling.hpp>

#include <godwit/protocols/policy/freeness.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <tuple>
#include <utility>

namespace godwit::protocols {

namespace {

constexpr std::array modes{std::pair{scaling_mode::off, std::string_view{"off"}},
                           std::pair{scaling_mode::dry_run, std::string_view{"dry_run"}},
                           std::pair{scaling_mode::on, std::string_view{"on"}}};

const char* instances(std::size_t count) noexcept { return count == 1 ? "instance" : "instances"; }

std::string reason(double mean, const char* relation, double bound, std::int64_t hold_ns, std::size_t there) {
  char text[160];
  std::snprintf(text, sizeof text, "mean freeness %.1f %s %g for %g s, %zu %s", mean, relation, bound,
                static_cast<double>(hold_ns) * 1e-9, there, instances(there));
  return text;
}

std::string reason_of_total(double total, const char* relation, double bound, std::size_t there) {
  char text[160];
  std::snprintf(text, sizeof text, "all together have %.1f blocks a request, %s %g, %zu %s", total, relation, bound,
                there, instances(there));
  return text;
}

std::string reason_of_refusals(std::int64_t hold_ns, std::size_t there) {
  char text[160];
  char time[32] = "";
  if (hold_ns > 0) std::snprintf(time, sizeof time, " for %g s,", static_cast<double>(hold_ns) * 1e-9);
  std::snprintf(text, sizeof text, "requests are refused that would be late,%s %zu %s", time, there, instances(there));
  return text;
}

std::string reason_of_prompts(double load, const char* relation, double bound, std::int64_t hold_ns,
                              std::size_t there) {
  char text[160];
  std::snprintf(text, sizeof text, "prefill load %.2f%s %g for %g s, %zu %s", load, relation, bound,
                static_cast<double>(hold_ns) * 1e-9, there, instances(there));
  return text;
}

bool prefills(const load_report& r) noexcept { return r.role == instance_role::prefill; }

/// With one prefill instance less.
bool others_suffice(const scaling_view& view, const std::optional<scaling_roles>& roles) noexcept {
  const auto prefilling = [](const load_report& r) { return prefills(r) && r.takes_requests(); };
  return roles && roles->prefill_with_less && *roles->prefill_with_less < autoscaler::prefill_load_min &&
         std::ranges::count_if(view.loads, prefilling) > 1;
}

/// Who leaves where one does. Null: nobody takes requests.
const load_report* leaver_of(const std::vector<load_report>& loads) noexcept {
  const load_report* found = nullptr;
  // The youngest has the highest id: ids are never given twice.
  const auto rank = [](const load_report& r) {
    return std::tuple{r.running, std::uint64_t{r.waiting} + r.migrating, -std::int64_t{r.instance.value()}};
  };
  for (const auto& load : loads)
    if (load.takes_requests() && (found == nullptr || rank(load) < rank(*found))) found = &load;
  return found;
}

/// Those that are more or fewer by the load: all but prefill instances, where there are others. `kept` holds them then.
const std::vector<load_report>& scaled_of(const std::vector<load_report>& all, std::vector<load_report>& kept) {
  if (std::ranges::none_of(all, prefills) || std::ranges::all_of(all, prefills)) return all;
  std::ranges::remove_copy_if(all, std::back_inserter(kept), prefills);
  return kept;
}

/// Without that one.
bool others_suffice(const std::vector<load_report>& loads, const load_report& leaver, const scaling_settings& s) {
  return s.rule == scaling_rule::total ? total_freeness_without(loads, leaver) > s.freeness_max
                                       : mean_freeness_without(loads, leaver, s) >= s.freeness_min;
}

/// The most that one instance counts, either way.
double cap_of(const scaling_settings& s) noexcept {
  return 2 * std::max(std::abs(s.freeness_min), std::abs(s.freeness_max));
}

} // namespace

/// Without refusals, beyond twice what is remembered: then they are of another load.
constexpr std::int64_t forgiving_holds = 16;

/// What there is too little of, beside freeness.
struct autoscaler::shortage {
  bool refuses = false;
  std::optional<double> prefill; ///< its load, where that is too high
  std::uint32_t missing = 0;
};

struct autoscaler::census {
  std::size_t taking = 0;
  std::size_t terminating = 0;
  std::size_t coming = 0; ///< ordered or starting, whether waited for or not, or silent
};

std::string_view to_string(scaling_mode mode) noexcept {
  for (const auto& [value, name] : modes)
    if (value == mode) return name;
  return "unknown";
}

std::optional<scaling_mode> parse_scaling_mode(std::string_view name) noexcept {
  for (const auto& [value, known] : modes)
    if (known == name) return value;
  return std::nullopt;
}

std::vector<std::string_view> scaling_mode_names() {
  std::vector<std::string_view> list;
  for (const auto& entry : modes) list.push_back(entry.second);
  return list;
}

std::string_view to_string(scaling_rule rule) noexcept { return rule == scaling_rule::total ? "total" : "mean"; }

std::string_view to_string(scaling_decision::kind kind) noexcept {
  switch (kind) {
  case scaling_decision::kind::out:
    return "out";
  case scaling_decision::kind::keep:
    return "keep";
  case scaling_decision::kind::in:
    return "in";
  }
  return "unknown";
}

std::optional<scaling_decision> within_bounds(scaling_decision decision, const scaling_view& view) {
  if (decision.count == 0) return std::nullopt;
  if (decision.what != scaling_decision::kind::out) {
    decision.count = 1; // it is of one instance
    if (decision.what == scaling_decision::kind::keep) return decision;
    const auto takes = [](const load_report& load) { return !load.terminating; };
    const auto victim = std::ranges::find(view.loads, decision.instance, &load_report::instance);
    if (victim == view.loads.end() || !takes(*victim)) return std::nullopt;
    if (static_cast<std::uint64_t>(std::ranges::count_if(view.loads, takes)) <= view.instances_min) return std::nullopt;
    return decision;
  }
  const auto all = view.loads.size() + view.silent.size() + view.starting + view.ordered;
  if (all >= view.instances_max) return std::nullopt;
  decision.count = std::min(decision.count, view.instances_max - static_cast<std::uint32_t>(all));
  return decision;
}

double mean_freeness(const std::vector<load_report>& loads, const scaling_settings& settings) noexcept {
  const auto cap = cap_of(settings);
  double sum = 0;
  std::size_t count = 0;
  for (const auto& load : loads) {
    if (!load.takes_requests()) continue;
    sum += std::clamp(freeness(load), -cap, cap);
    ++count;
  }
  return count == 0 ? -cap : sum / static_cast<double>(count);
}

double mean_freeness_without(const std::vector<load_report>& loads, const load_report& leaving,
                             const scaling_settings& settings) noexcept {
  std::vector<load_report> others;
  for (const auto& load : loads)
    if (load.takes_requests() && load.instance != leaving.instance) others.push_back(load);
  if (others.empty()) return protocols::mean_freeness(others, settings);
  const auto share = [&](std::uint64_t what) {
    return static_cast<std::int64_t>((what + others.size() - 1) / others.size());
  };
  const auto blocks = share(virtual_usage(leaving));
  const auto running = share(leaving.running);
  const auto cap = cap_of(settings);
  double sum = 0;
  for (const auto& load : others) sum += std::clamp(freeness(load, blocks, running), -cap, cap);
  return sum / static_cast<double>(others.size());
}

autoscaler::autoscaler(scaling_settings settings) : settings_(settings) {}

void autoscaler::set_mode(scaling_mode mode) noexcept {
  if (mode == settings_.mode) return;
  settings_.mode = mode;
  forget();
  settling_since_.reset();
  decided_.reset();
  looked_.reset();
}

void autoscaler::forget() noexcept {
  low_since_.reset();
  high_since_.reset();
  few_since_.reset();
  prefill_idle_since_.reset();
}

// Instances that come and go change roles for ever.
bool autoscaler::settles(const scaling_view& view) noexcept {
  if (!view.roles || !view.roles->settling) {
    settling_since_.reset();
    return false;
  }
  if (!settling_since_) settling_since_ = view.now_ns;
  return view.now_ns - *settling_since_ < 3 * settings_.hold_ns;
}

std::optional<scaling_roles> autoscaler::prompts(const scaling_view& view) noexcept {
  if (!view.roles) return std::nullopt;
  const auto there = view.loads.size() + view.silent.size();
  if (!there_) there_ = there;
  if (there > *there_) { // one that has gone and comes again is none of these
    there_ = there;
    others_until_ = view.now_ns;
  }
  return view.roles->measured_since >= others_until_ ? view.roles : std::nullopt;
}

bool autoscaler::waits_for_instances(const scaling_view& view) noexcept {
  const auto now = view.now_ns;
  const auto pending = view.starting + view.ordered;
  // One that is ready for a moment, fails and starts again is what was waited for all along: they are fewer once they
  // have been for a while.
  if (pending >= most_)
    fewer_since_.reset();
  else if (!fewer_since_)
    fewer_since_ = now;
  else if (now - *fewer_since_ >= settings_.hold_ns) {
    most_ = pending;
    fewer_since_.reset();
  }
  if (pending > most_ || view.ordered != ordered_) pending_since_ = now;
  most_ = std::max(most_, pending);
  ordered_ = view.ordered;
  return pending > 0 && now - pending_since_ < settings_.provision_timeout_ns;
}

void autoscaler::follow_drain(const scaling_view& view) noexcept {
  if (!drain_) return;
  if (std::ranges::find(view.silent, *drain_) != view.silent.end()) { // nobody knows; but it was told to stay
    if (kept_ && decided_ && view.now_ns - *decided_ >= settings_.hold_ns) drain_.reset();
    return;
  }
  const auto load = std::ranges::find(view.loads, *drain_, &load_report::instance);
  const bool there = load != view.loads.end();
  // It is over when the instance is gone, or takes requests again; but the last order may still be on its way. What
  // drains on after it was to stay is an operator's by now, and will not come back.
  const bool on_its_way = there && decided_ && view.now_ns - *decided_ < settings_.hold_ns;
  if (!there || (!on_its_way && (!load->terminating || kept_))) drain_.reset();
}

// What holds at this moment is enough for the rule `total`, but it looks rarely; for the first time after a hold.
bool autoscaler::looks(std::int64_t now_ns) noexcept {
  if (!looked_) looked_ = now_ns;
  if (now_ns - *looked_ < settings_.hold_ns) return false;
  looked_ = now_ns;
  return true;
}

std::optional<scaling_decision> autoscaler::step(const scaling_view& view) {
  std::vector<load_report> kept;
  const auto& loads = scaled_of(view.loads, kept);
  const auto now = view.now_ns;
  const bool by_total = settings_.rule == scaling_rule::total;
  mean_ = by_total ? total_freeness(loads) : protocols::mean_freeness(loads, settings_);
  const bool waits = waits_for_instances(view);
  follow_drain(view);
  if (settings_.mode == scaling_mode::off) return std::nullopt;

  // A new instance has to be filled by migrations before the mean says anything; so what was held begins anew.
  if (view.refused > 0) {
    const auto since = refused_ ? now - *refused_ : settings_.hold_ns;
    if (since > (2 * too_few_holds_ + forgiving_holds) * settings_.hold_ns)
      too_few_holds_ = 0; // fewer have been enough
    if (since >= settings_.hold_ns) too_few_holds_ = std::clamp<std::int64_t>(2 * too_few_holds_, 1, 64);
    too_few_ = static_cast<std::size_t>(std::ranges::count_if(view.loads, &load_report::takes_requests));
    refused_ = now;
  }
  shortage what;
  what.refuses = refused_ && now - *refused_ <= settings_.hold_ns / 4;
  const auto roles = prompts(view);
  if (roles && roles->prefill.value_or(0) > prefill_load_max) {
    what.prefill = roles->prefill;
    what.missing = roles->prefill_missing;
  }
  const bool settling = settles(view);
  const bool low = (mean_ < settings_.freeness_min || what.refuses || what.prefill) && (!waits || drain_) && !settling;
  // That the others would do without one is part of it: looked at only once, it would be so for a moment some time.
  const auto* const leaver = mean_ > settings_.freeness_max && !by_total ? leaver_of(loads) : nullptr;
  const auto taking = static_cast<std::size_t>(std::ranges::count_if(view.loads, &load_report::takes_requests));
  const bool too_few_then = refused_ && now - *refused_ < too_few_holds_ * settings_.hold_ns && taking <= too_few_ + 1;
  const bool spared =
      mean_ > settings_.freeness_max && (by_total || (leaver != nullptr && others_suffice(loads, *leaver, settings_)));
  if (!others_suffice(view, roles) || low || waits || too_few_then || settling)
    prefill_idle_since_.reset();
  else if (!prefill_idle_since_)
    prefill_idle_since_ = now;
  const bool idle = prefill_idle_since_ && now - *prefill_idle_since_ >= prefill_idle_holds * settings_.hold_ns;
  const bool measured = !view.roles || roles; // who has just come may be for prompts
  const bool high = spared && !what.prefill && measured && !waits && !too_few_then && !settling;
  if (!low) low_since_.reset();
  if (!high) high_since_.reset();
  if (low && !low_since_) low_since_ = now;
  if (high && !high_since_) high_since_ = now;
  const auto held = [&](const std::optional<std::int64_t>& since) {
    return since && now - *since >= settings_.hold_ns;
  };
  const bool looks_now = by_total && looks(now);
  const auto lasts = [&](const std::optional<std::int64_t>& since) {
    return by_total ? looks_now && since : held(since);
  };

  census there;
  for (const auto& load : view.loads) {
    there.terminating += load.terminating;
    there.taking += load.takes_requests();
  }
  // What was ordered and is waited for no longer never comes; what starts, however long it takes, is there.
  there.coming = view.starting + view.silent.size() + (waits ? view.ordered : 0U);

  std::optional<scaling_decision> decision;
  const bool too_few = there.taking + there.coming < settings_.instances_min;
  if (!too_few) few_since_.reset();
  if (too_few && !few_since_) few_since_ = now;
  // A scheduler that has just come up does not see yet who is about to join again.
  if (too_few && !waits && held(decided_ ? decided_ : few_since_))
    decision = more(loads, there, what);
  else if (lasts(low_since_))
    decision = more(loads, there, what);
  else if (lasts(high_since_))
    decision = less(loads, there);
  if (!decision && idle) decision = less_prefill(view, there);
  if (!decision) return std::nullopt;

  decision->mean = mean_;
  decision->dry = settings_.mode == scaling_mode::dry_run;
  decided_ = now;
  forget();
  if (decision->dry) return decision;
  others_until_ = now;
  there_ = view.loads.size() + view.silent.size() - (decision->what == scaling_decision::kind::in ? 1U : 0U);
  if (decision->what == scaling_decision::kind::in) drain_ = decision->instance;
  kept_ = decision->what == scaling_decision::kind::keep;
  return decision;
}

std::optional<scaling_decision> autoscaler::more(const std::vector<load_report>& loads, const census& there,
                                                 const shortage& what) const {
  scaling_decision decision;
  const bool by_total = settings_.rule == scaling_rule::total;
  const bool too_few = there.taking + there.coming < settings_.instances_min;
  bool by_prompts = false;
  if (too_few) {
    char text[96];
    std::snprintf(text, sizeof text, "%zu %s, at least %u wanted", there.taking, instances(there.taking),
                  settings_.instances_min);
    decision.why = text;
  } else if (what.refuses && mean_ >= settings_.freeness_min) {
    decision.why = reason_of_refusals(by_total ? 0 : settings_.hold_ns, there.taking);
  } else if (what.prefill && mean_ >= settings_.freeness_min) {
    by_prompts = true;
    decision.why = reason_of_prompts(*what.prefill, ", above", prefill_load_max, settings_.hold_ns, there.taking);
  } else if (by_total) {
    decision.why = reason_of_total(mean_, "below", settings_.freeness_min, there.taking);
  } else {
    decision.why = reason(mean_, "below", settings_.freeness_min, settings_.hold_ns, there.taking);
  }
  if (drain_) {
    decision.what = scaling_decision::kind::keep;
    decision.instance = *drain_;
    return decision;
  }
  const auto all = there.taking + there.terminating + there.coming;
  if (all >= settings_.instances_max) return std::nullopt;
  const auto room = settings_.instances_max - static_cast<std::uint32_t>(all);
  decision.what = scaling_decision::kind::out;
  if (by_prompts) decision.count = std::clamp(what.missing, 1U, room);
  // What one of none holds is not known: then it is one at a time.
  while (by_total && !too_few && there.taking > 0 && all + decision.count < settings_.instances_max &&
         total_freeness_with(loads, decision.count) < settings_.freeness_min)
    ++decision.count;
  return decision;
}

bool autoscaler::one_may_leave(const census& there) const noexcept {
  return !drain_ && there.terminating == 0 && there.taking > settings_.instances_min;
}

std::optional<scaling_decision> autoscaler::less(const std::vector<load_report>& loads, const census& there) const {
  if (!one_may_leave(there)) return std::nullopt;
  const auto* const victim = leaver_of(loads);
  if (victim == nullptr || !others_suffice(loads, *victim, settings_)) return std::nullopt;
  scaling_decision decision;
  decision.what = scaling_decision::kind::in;
  decision.instance = victim->instance;
  decision.why = settings_.rule == scaling_rule::total
                     ? reason_of_total(mean_, "above", settings_.freeness_max, there.taking)
                     : reason(mean_, "above", settings_.freeness_max, settings_.hold_ns, there.taking);
  return decision;
}

std::optional<scaling_decision> autoscaler::less_prefill(const scaling_view& view, const census& there) const {
  if (!one_may_leave(there)) return std::nullopt;
  std::vector<load_report> those;
  std::ranges::copy_if(view.loads, std::back_inserter(those), prefills);
  scaling_decision decision;
  decision.what = scaling_decision::kind::in;
  decision.instance = leaver_of(those)->instance; // one of two and more
  decision.why = reason_of_prompts(*view.roles->prefill_with_less, " with one less, below", prefill_load_min,
                                   prefill_idle_holds * settings_.hold_ns, there.taking);
  return decision;
}

} // namespace godwit::protocols
