#include <godwit/protocols/policy/role_balance.hpp>

#include <godwit/protocols/policy/expected_latency.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <tuple>

namespace godwit::protocols {

namespace {

bool takes_part(const load_report& r) noexcept { return r.takes_requests() && r.role != instance_role::mixed; }

instance_role other(instance_role role) noexcept {
  return role == instance_role::prefill ? instance_role::decode : instance_role::prefill;
}

/// Holds, beyond those that are waited for, within which what comes back does so soon.
constexpr std::int64_t soon = 16;
constexpr double queue_gone_ns = 30e9;

double bounded_load(double load) noexcept { return std::isfinite(load) ? std::clamp(load, 0.0, phase_load_most) : 0.0; }

/// `what` of `of`; where there is none of it, the most.
double share_of(double what, double of) noexcept {
  if (what <= 0) return 0;
  return of > 0 ? what / of : phase_load_most;
}

double prompts_left_ns(const load_report& r) noexcept {
  const double all = static_cast<double>(r.prefill_tokens) * r.pace.token + r.prefill_pairs * r.pace.pair;
  return r.pace.overlap > 1 ? all / r.pace.overlap : all; // of steps that overlap each adds so much
}

/// Those that go first: with the least to do in their role, the youngest of equals.
auto effort(const load_report& r) noexcept {
  const auto decode = std::tuple{std::uint64_t{r.running} + r.waiting, std::uint64_t{r.blocks_used}};
  const auto prefill = std::tuple{r.prefill_tokens, std::uint64_t{r.running} + r.waiting};
  return std::tuple_cat(r.role == instance_role::prefill ? prefill : decode,
                        std::tuple{-std::int64_t{r.instance.value()}});
}

std::string listed(const std::vector<instance_id>& all) {
  std::string out = all.size() == 1 ? "instance" : "instances";
  for (std::size_t i = 0; i < all.size(); ++i)
    out += (i == 0 ? " " : i + 1 == all.size() ? " and " : ", ") + std::to_string(all[i].value());
  return out;
}

std::string reason(const std::vector<instance_id>& who, instance_role to, const phase_loads& before,
                   const phase_loads& after, std::size_t prefill, std::size_t decode) {
  char text[160];
  std::snprintf(text, sizeof text,
                " for %s: the load of %zu for prefill is %.2f, of %zu that decode %.2f; then %.2f and %.2f",
                to_string(to).data(), prefill, before.prefill, decode, before.decode, after.prefill, after.decode);
  return listed(who) + text;
}

} // namespace

std::string_view to_string(role_policy policy) noexcept {
  for (const auto& [value, name] : role_policies)
    if (value == policy) return name;
  return "unknown";
}

std::optional<role_policy> parse_role_policy(std::string_view name) noexcept {
  for (const auto& [value, known] : role_policies)
    if (known == name) return value;
  return std::nullopt;
}

std::vector<std::string_view> role_policy_names() {
  std::vector<std::string_view> list;
  for (const auto& entry : role_policies) list.push_back(entry.second);
  return list;
}

void role_balancer::measured::operator+=(const measured& more) noexcept {
  time += more.time;
  prefill_time += more.prefill_time;
  decode_time += more.decode_time;
  prompt_ns += more.prompt_ns;
  left_ns += more.left_ns;
  running += more.running;
  blocks += more.blocks;
  blocks_total += more.blocks_total;
  places += more.places;
  places_total += more.places_total;
  decoding_time += more.decoding_time;
  light_ns += more.light_ns;
  beyond_ns += more.beyond_ns;
}

role_balancer::role_balancer(role_settings settings) : settings_(settings) {
  settings_.load_min = std::min(settings_.load_min, 1.0);
}

void role_balancer::set_policy(role_policy policy) noexcept {
  if (std::exchange(settings_.policy, policy) != policy) kinds_.clear();
}

double role_balancer::prefill_load(const measured& m, double instances) const noexcept {
  if (m.time <= 0) return 0;
  const double left = m.left_ns / m.time;
  auto load = share_of(m.prompt_ns + left, m.time * instances * busy_share);
  if (const auto ttft = static_cast<double>(settings_.objectives.ttft_ns); ttft > 0)
    load = std::max(load, share_of(left, instances * ttft / 2));
  return bounded_load(load);
}

double role_balancer::decode_load(const measured& m, double instances) const noexcept {
  if (m.time <= 0 || m.decode_time <= 0) return 0;
  const auto of = [&](double total) { return total / m.decode_time * instances; };
  auto load = std::max(share_of(m.blocks / m.time, of(m.blocks_total) - settings_.blocks_kept * m.running / m.time),
                       m.places_total > 0 ? share_of(m.places / m.time, of(m.places_total)) : 0.0);
  if (const auto tpot = static_cast<double>(settings_.objectives.tpot_ns); tpot > 0 && m.decoding_time > 0) {
    const double left = tpot - m.light_ns / m.decoding_time;
    const double beyond = m.beyond_ns / m.decoding_time * share_of(m.decode_time / m.time, instances);
    if (left > 0) load = std::max(load, beyond / left);
  }
  return bounded_load(load);
}

// What was since the last time is taken to have been as it is now.
void role_balancer::add(kind& k, const std::vector<const load_report*>& there, std::int64_t now_ns) const {
  const auto dt = static_cast<double>(now_ns - std::exchange(k.last, now_ns));
  auto& m = k.sums;
  m.time += dt;
  double decoding_elsewhere = 0, running = 0, held = 0;
  for (const auto* load : there) {
    const auto& r = *load;
    const auto known = k.seen.find(r.instance);
    const bool goes_on = known != k.seen.end() && known->second.generation == r.generation;
    const auto took = goes_on && r.prompt_ns_total > known->second.prompt_ns
                          ? static_cast<double>(r.prompt_ns_total - known->second.prompt_ns)
                          : 0.0;
    k.seen.insert_or_assign(r.instance, totals{r.generation, r.prompt_ns_total});
    if (r.role == instance_role::prefill) {
      m.prefill_time += dt;
      m.prompt_ns += took;
      m.left_ns += dt * prompts_left_ns(r);
      decoding_elsewhere += r.decoding;
      continue;
    }
    m.decode_time += dt;
    running += r.running;
    held += r.blocks_used;
    m.blocks += dt * (static_cast<double>(r.blocks_used) + r.outstanding_blocks + r.waiting_blocks);
    m.blocks_total += dt * r.blocks_total;
    if (r.running_max > 0) {
      m.places += dt * (static_cast<double>(r.places_taken()) + r.waiting);
      m.places_total += dt * r.running_max;
    }
    if (r.decoding == 0) continue;
    const double tpot = expected_tpot_ns(r), light = r.pace.light > 0 ? std::min(r.pace.light, tpot) : tpot / 2;
    m.decoding_time += dt;
    m.light_ns += dt * light;
    m.beyond_ns += dt * (tpot - light);
  }
  m.running += dt * (running + decoding_elsewhere);
  if (running > 0) m.blocks += dt * decoding_elsewhere * held / running; // of the usual size
  if (m.places_total > 0) m.places += dt * decoding_elsewhere;
}

std::vector<role_decision> role_balancer::step(std::int64_t now_ns, const std::vector<load_report>& loads) {
  std::map<std::uint64_t, std::vector<const load_report*>> by_kind;
  for (const auto& load : loads)
    if (takes_part(load)) by_kind[load.kv_kind].push_back(&load);
  std::erase_if(kinds_, [&](const auto& known) { return !by_kind.contains(known.first); });

  std::vector<role_decision> decisions;
  for (const auto& [kv, there] : by_kind) {
    const auto [found, fresh] = kinds_.try_emplace(kv);
    auto& k = found->second;
    if (fresh) k.since = k.last = now_ns;
    add(k, there, now_ns);
    if (now_ns - k.since < settings_.hold_ns || k.sums.time <= 0) continue;
    k.before_since = std::exchange(k.since, now_ns);
    k.longer += k.sums;
    k.recent.push_back(k.sums);
    if (k.recent.size() > holds_kept) k.recent.pop_front();
    k.before = std::exchange(k.sums, {});
    k.settling = false;
    k.prefill = static_cast<std::size_t>(
        std::ranges::count(there, instance_role::prefill, [](const load_report* r) { return r->role; }));
    k.decode = there.size() - k.prefill;
    std::erase_if(k.seen, [&](const auto& one) {
      return !std::ranges::binary_search(there, one.first, {}, [](const load_report* r) { return r->instance; });
    });
    ++k.since_last;
    ++k.waited;
    k.pending = false;
    if (settings_.policy != role_policy::balance) {
      k.longer = {};
      continue;
    }
    const bool waits = k.waited < k.waits;
    const bool one_role = k.prefill == 0 || k.decode == 0;
    auto decision = decide(k, one_role || waits ? *k.before : k.longer, there);
    if (waits && decision && !one_role && !is_clear(k)) {
      k.pending = true;
      continue;
    }
    if (!decision) {
      if (waits) continue;
      k.longer = {};
      k.waited = 0;
      if (k.since_last > k.waits + soon) k.waits = std::max<std::int64_t>(k.waits / 2, 1);
      continue;
    }
    k.longer = {};
    k.waited = 0;
    if (k.last_to == other(decision->to) && k.since_last <= k.waits + soon) k.waits = std::min(2 * k.waits, waits_max);
    k.last_to = decision->to;
    k.since_last = 0;
    k.settling = true;
    decisions.push_back(std::move(*decision));
  }
  return decisions;
}

// The giver by the worst of the last holds.
phase_loads role_balancer::loads_by(const kind& k, const measured& m, std::int64_t prefill_more) const noexcept {
  const auto prefill = static_cast<double>(static_cast<std::int64_t>(k.prefill) + prefill_more);
  const auto decode = static_cast<double>(static_cast<std::int64_t>(k.decode) - prefill_more);
  phase_loads loads{prefill_load(m, prefill), decode_load(m, decode)};
  for (const auto& one : k.recent) {
    if (prefill_more < 0) loads.prefill = std::max(loads.prefill, prefill_load(one, prefill));
    if (prefill_more > 0) loads.decode = std::max(loads.decode, decode_load(one, decode));
  }
  return loads;
}

// One phase had too much in each of them, and the other would have had enough.
bool role_balancer::is_clear(const kind& k) const noexcept {
  if (k.recent.size() < holds_kept) return false;
  const auto all = [&](std::int64_t more) {
    return std::ranges::all_of(k.recent, [&](const measured& one) {
      const auto now = loads_by(k, one, 0), then = loads_by(k, one, more);
      return more > 0 ? now.prefill > 1 && then.decode <= load_spared : now.decode > 1 && then.prefill <= load_spared;
    });
  };
  return (k.decode > 1 && all(1)) || (k.prefill > 1 && all(-1));
}

std::optional<role_decision> role_balancer::decide(const kind& k, const measured& m,
                                                   const std::vector<const load_report*>& there) const {
  const auto go = [&](instance_role to, std::size_t count) {
    std::vector<const load_report*> givers;
    std::ranges::copy_if(there, std::back_inserter(givers), [&](const auto* r) { return r->role != to; });
    std::ranges::sort(givers, [](const auto* a, const auto* b) { return effort(*a) < effort(*b); });
    role_decision out;
    out.to = to;
    for (std::size_t i = 0; i < count; ++i) out.instances.push_back(givers[i]->instance);
    std::ranges::sort(out.instances);
    return out;
  };
  if (k.prefill == 0 || k.decode == 0) {
    const auto to = k.prefill == 0 ? instance_role::prefill : instance_role::decode;
    if (there.size() < 2 || (k.prefill == 0 ? m.prefill_time : m.decode_time) > 0) return std::nullopt;
    auto out = go(to, 1);
    out.why = listed(out.instances) + " for " + std::string(to_string(to)) + ": all others are for " +
              std::string(to_string(other(to)));
    return out;
  }
  const auto with = [&](std::int64_t more) { return loads_by(k, m, more); };
  const auto now = with(0);
  for (const auto to : {instance_role::prefill, instance_role::decode}) {
    const bool more_prefill = to == instance_role::prefill;
    const auto of_receiver = [&](const phase_loads& l) { return more_prefill ? l.prefill : l.decode; };
    const auto of_giver = [&](const phase_loads& l) { return more_prefill ? l.decode : l.prefill; };
    if (of_receiver(now) <= settings_.load_min) continue;
    const auto givers = more_prefill ? k.decode : k.prefill;
    auto best = now;
    std::size_t count = 0;
    for (std::size_t n = 1; n < givers && n <= std::max<std::size_t>(givers / 4, 1); ++n) {
      const auto then = with(more_prefill ? static_cast<std::int64_t>(n) : -static_cast<std::int64_t>(n));
      const bool evens = of_giver(then) <= 1 && of_giver(then) + margin <= of_receiver(then);
      const bool relieves = of_receiver(best) > 1 && of_giver(then) <= load_spared;
      if (!evens && !relieves) break;
      best = then;
      count = n;
    }
    if (count == 0) continue;
    auto out = go(to, count);
    out.why = reason(out.instances, to, now, best, k.prefill, k.decode);
    return out;
  }
  return std::nullopt;
}

std::int64_t role_balancer::measured_since() const noexcept {
  std::optional<std::int64_t> first;
  for (const auto& [kv, k] : kinds_)
    if (k.before) first = std::min(first.value_or(k.before_since), k.before_since);
  return first.value_or(0);
}

bool role_balancer::settling() const noexcept {
  return std::ranges::any_of(kinds_, [](const auto& entry) { return entry.second.settling || entry.second.pending; });
}

std::optional<phase_loads> role_balancer::loads_with(std::int64_t prefill_more) const noexcept {
  std::optional<phase_loads> out;
  for (const auto& [kv, k] : kinds_) {
    if (!k.before || k.prefill == 0 || k.decode == 0) continue;
    if (!out) out.emplace();
    const auto prefill = static_cast<std::int64_t>(k.prefill) + prefill_more;
    const auto load = prefill > 0 ? prefill_load(*k.before, static_cast<double>(prefill)) : phase_load_most;
    out->prefill = std::max(out->prefill, load);
    out->decode = std::max(out->decode, decode_load(*k.before, static_cast<double>(k.decode)));
  }
  return out;
}

std::uint32_t role_balancer::prefill_missing() const noexcept {
  std::uint32_t most = 0;
  for (const auto& [kv, k] : kinds_) {
    if (!k.before || k.prefill == 0 || k.decode == 0) continue;
    const auto& m = *k.before;
    const auto have = static_cast<double>(k.prefill);
    const auto wanted = (m.prompt_ns + m.left_ns / std::max(m.time, queue_gone_ns)) / m.time / busy_share;
    most = std::max(most, static_cast<std::uint32_t>(std::clamp(std::ceil(wanted - have), 0.0, have)));
  }
  return most;
}

} // namespace godwit::protocols
