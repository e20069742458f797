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

double bounded_load(double load) noexcept { return std::isfinite(load) ? std::clamp(load, 0.0, phase_load_most) : 0.0; }

/// `what` of `of`; where there is none of it, the most.
double share_of(double what, double of) noexcept {
  if (what <= 0) return 0;
  return of > 0 ? what / of : phase_load_most;
}

double prompts_left_ns(const load_report& r) noexcept {
  return static_cast<double>(r.prefill_tokens) * r.pace.token + r.prefill_pairs * r.pace.pair;
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
                " for %s: prefill load %.2f of %zu instances, decode load %.2f of %zu; then %.2f and %.2f",
                to_string(to).data(), before.prefill, prefill, before.decode, decode, after.prefill, after.decode);
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

role_balancer::role_balancer(role_settings settings) : settings_(settings) {}

double role_balancer::prefill_load(const measured& m, double instances) const noexcept {
  const auto time = m.time * instances;
  auto load = share_of(m.prompt_ns, time) + share_of(m.left_ns / m.time, time);
  if (settings_.objectives.ttft_ns > 0)
    load = std::max(load, share_of(m.left_ns, time * static_cast<double>(settings_.objectives.ttft_ns)));
  return bounded_load(load);
}

double role_balancer::decode_load(const measured& m, double instances) const noexcept {
  const auto size = instances / static_cast<double>(m.decode_instances); // of what there was
  auto load = std::max(share_of(m.blocks, m.blocks_total * size - settings_.blocks_kept * m.running),
                       m.places_total > 0 ? share_of(m.places, m.places_total * size) : 0.0);
  if (settings_.objectives.tpot_ns > 0)
    load = std::max(load, share_of(m.tpot_ns, m.time * instances * static_cast<double>(settings_.objectives.tpot_ns)));
  return bounded_load(load);
}

// What was since the last time is taken to have been as it is now.
void role_balancer::add(kind& k, const std::vector<const load_report*>& loads, std::int64_t now_ns) const {
  const auto dt = static_cast<double>(now_ns - std::exchange(k.last, now_ns));
  auto& m = k.sums;
  m.time += dt;
  double decoding_elsewhere = 0, running = 0, held = 0;
  for (std::size_t i = 0; i < loads.size(); ++i) {
    const auto& r = *loads[i];
    if (r.role == instance_role::prefill) {
      const auto before = std::exchange(k.there[i].prompt_ns_total, r.prompt_ns_total);
      m.prompt_ns += static_cast<double>(r.prompt_ns_total - std::min(before, r.prompt_ns_total));
      m.left_ns += dt * prompts_left_ns(r);
      decoding_elsewhere += r.decoding;
      continue;
    }
    running += r.running;
    held += r.blocks_used;
    m.blocks += dt * (static_cast<double>(r.blocks_used) + r.outstanding_blocks + r.waiting_blocks);
    m.blocks_total += dt * r.blocks_total;
    if (r.running_max > 0) {
      m.places += dt * (static_cast<double>(r.places_taken()) + r.waiting);
      m.places_total += dt * r.running_max;
    }
    if (r.decoding > 0) m.tpot_ns += dt * expected_tpot_ns(r);
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
    auto& k = kinds_[kv];
    const bool as_before = std::ranges::equal(k.there, there, [](const seen& a, const load_report* b) {
      return a.instance == b->instance && a.generation == b->generation && a.role == b->role;
    });
    if (!as_before) {
      k = {};
      for (const auto* r : there) {
        k.there.push_back({r->instance, r->generation, r->role, r->prompt_ns_total});
        ++(r->role == instance_role::prefill ? k.sums.prefill_instances : k.sums.decode_instances);
      }
      k.since = k.last = now_ns;
      continue;
    }
    add(k, there, now_ns);
    if (now_ns - k.since < settings_.hold_ns || k.sums.time <= 0) continue;
    k.before = k.sums;
    k.since = now_ns;
    k.sums = {};
    k.sums.prefill_instances = k.before->prefill_instances;
    k.sums.decode_instances = k.before->decode_instances;
    if (settings_.policy != role_policy::balance) continue;
    auto decision = decide(*k.before, there);
    if (!decision) continue;
    k.before.reset(); // it says nothing of what is to be
    decisions.push_back(std::move(*decision));
  }
  return decisions;
}

std::optional<role_decision> role_balancer::decide(const measured& m,
                                                   const std::vector<const load_report*>& loads) const {
  const auto go = [&](instance_role to, std::size_t count) {
    std::vector<const load_report*> givers;
    std::ranges::copy_if(loads, std::back_inserter(givers), [&](const auto* r) { return r->role != to; });
    std::ranges::sort(givers, [](const auto* a, const auto* b) { return effort(*a) < effort(*b); });
    role_decision out;
    out.to = to;
    for (std::size_t i = 0; i < count; ++i) out.instances.push_back(givers[i]->instance);
    std::ranges::sort(out.instances);
    return out;
  };
  const auto prefill = m.prefill_instances, decode = m.decode_instances;
  if (prefill == 0 || decode == 0) {
    if (prefill + decode < 2) return std::nullopt;
    const auto to = prefill == 0 ? instance_role::prefill : instance_role::decode;
    auto out = go(to, 1);
    out.why = listed(out.instances) + " for " + std::string(to_string(to)) + ": all others are for " +
              std::string(to_string(other(to)));
    return out;
  }
  const auto with = [&](std::int64_t more) { // of those that prefill
    return phase_loads{prefill_load(m, static_cast<double>(static_cast<std::int64_t>(prefill) + more)),
                       decode_load(m, static_cast<double>(static_cast<std::int64_t>(decode) - more))};
  };
  const auto now = with(0);
  for (const auto to : {instance_role::prefill, instance_role::decode}) {
    const bool more_prefill = to == instance_role::prefill;
    if ((more_prefill ? now.prefill : now.decode) <= settings_.load_min) continue;
    const auto givers = more_prefill ? decode : prefill;
    std::optional<phase_loads> after;
    std::size_t count = 0;
    for (std::size_t n = 1; n < givers && n <= std::max<std::size_t>(givers / 4, 1); ++n) {
      const auto then = with(more_prefill ? static_cast<std::int64_t>(n) : -static_cast<std::int64_t>(n));
      const auto short_of = more_prefill ? then.prefill : then.decode;
      const auto gives = more_prefill ? then.decode : then.prefill;
      if (gives + margin > short_of || gives > load_spared) break;
      after = then;
      count = n;
    }
    if (!after) continue;
    auto out = go(to, count);
    out.why = reason(out.instances, to, now, *after, prefill, decode);
    return out;
  }
  return std::nullopt;
}

bool role_balancer::settling() const noexcept {
  return settings_.policy == role_policy::balance && std::ranges::any_of(kinds_, [](const auto& entry) {
           const auto& k = entry.second;
           return !k.before && k.there.size() > 1;
         });
}

std::optional<phase_loads> role_balancer::loads() const noexcept { return loads_with(0, 0); }

std::optional<phase_loads> role_balancer::loads_with(std::int64_t prefill_more,
                                                     std::int64_t decode_more) const noexcept {
  std::optional<phase_loads> out;
  for (const auto& [kv, k] : kinds_) {
    if (!k.before || k.before->prefill_instances == 0 || k.before->decode_instances == 0) continue;
    const auto& m = *k.before;
    if (!out) out.emplace();
    out->prefill =
        std::max(out->prefill,
                 prefill_load(m, static_cast<double>(static_cast<std::int64_t>(m.prefill_instances) + prefill_more)));
    out->decode = std::max(
        out->decode, decode_load(m, static_cast<double>(static_cast<std::int64_t>(m.decode_instances) + decode_more)));
  }
  return out;
}

} // namespace godwit::protocols
