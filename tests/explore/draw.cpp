#include "explore/scenario.hpp"

#include "explore/own_policies.hpp"
#include "explore/requests.hpp"

#include <godwit/actors/policy_plugin.hpp>
#include <godwit/protocols/policy/dispatch.hpp>
#include <godwit/runtime/async/counter_random.hpp>

#include <algorithm>
#include <array>
#include <stdexcept>

namespace godwit::explore {

using namespace std::chrono_literals;
using runtime::async::counter_random;
using std::chrono::nanoseconds;
using enum fault_kind;

namespace {

struct range {
  std::uint32_t least = 0, most = 0;
  [[nodiscard]] std::uint32_t draw(counter_random& random) const {
    return least + static_cast<std::uint32_t>(random.below(most - least + 1));
  }
};

/// What a scenario's parts are drawn from.
struct ingredients {
  std::string name, text;
  range head_instances, machines, requests, faults;
  std::vector<fault_kind> kinds;
  std::uint32_t settings_permille = 0; ///< chance of each to be at an extreme
  bool clients_leave = false;
  bool scales = false;
  nanoseconds span{300ms}; ///< in which everything begins
  bool tight = false;      ///< memory for little more than one request, everywhere
  bool swaps = false;      ///< KV of preempted requests waits in the hosts' memory, and is long on its way
  bool stores = false;     ///< there is a KV store, and few prompts come again and again
};

const std::vector<ingredients>& book() {
  static const std::vector<ingredients> all{
      {"calm",
       "one process, tight memory, nothing happens",
       {2, 2},
       {0, 0},
       {6, 10},
       {0, 0},
       {},
       0,
       false,
       false,
       100ms},
      {"settings", "settings at their extremes, nothing else", {0, 2}, {1, 2}, {6, 20}, {0, 3}, {migrate}, 150},
      {"migrations",
       "requests are moved while links are slow, blocks are lost or late and coordinators fail",
       {0, 1},
       {2, 3},
       {2, 20},
       {4, 16},
       {migrate, migrate, migrate, migrate, delay, cut_blocks, lost_acknowledgements, late_blocks, slow_writes,
        slow_writes, post_fails, coordinator},
       5},
      {"landings",
       "blocks are written late into tight memory, while those who wait for them fail",
       {0, 0},
       {2, 2},
       {20, 40},
       {8, 20},
       {migrate, migrate, migrate, migrate, slow_writes, slow_writes, coordinator, coordinator, coordinator},
       0,
       false,
       false,
       300ms,
       true},
      {"swaps",
       "KV goes to the hosts' memory and back, slowly and in vain, while memory is tight and clients leave",
       {0, 1},
       {2, 2},
       {20, 40},
       {4, 16},
       {client_leaves, client_leaves, client_leaves, client_leaves, migrate, migrate, kill_instance, drain, slow_device,
        step_fails, stop_member},
       0,
       true,
       false,
       300ms,
       true,
       true},
      {"stores",
       "KV comes from a store and goes there, late and in vain, while memory is tight and instances die",
       {0, 1},
       {2, 3},
       {20, 40},
       {4, 16},
       {kill_instance, kill_instance, kill_instance, slow_writes, slow_writes, slow_writes, client_leaves,
        client_leaves, cut_blocks, lost_acknowledgements, late_blocks, post_fails, stop_member, migrate},
       0,
       true,
       false,
       600ms,
       true,
       false,
       true},
      {"links",
       "links between machines are cut, one way or both, and slow",
       {0, 1},
       {2, 4},
       {8, 24},
       {1, 6},
       {cut, cut, cut_one_way, cut_blocks, delay, client_leaves, migrate, migrate},
       20},
      {"crashes",
       "processes are killed and started anew, instances too",
       {0, 1},
       {2, 4},
       {8, 24},
       {1, 5},
       {crash, crash, vanish, kill_instance, stop_member, load_fails, slow_writes, client_leaves, migrate, migrate},
       20},
      {"devices",
       "devices are slow, stuck or fail, processes stand still, clocks jump",
       {0, 1},
       {2, 3},
       {8, 24},
       {1, 6},
       {slow_device, stuck_device, freeze, clock_jump, step_fails, step_fails, load_fails, post_fails, migrate,
        migrate},
       20},
      {"clients",
       "clients leave and stop strings are met, while requests move",
       {0, 1},
       {2, 3},
       {10, 40},
       {2, 12},
       {migrate, migrate, migrate, client_leaves, client_leaves, kill_instance, delay},
       20,
       true},
      {"supervision",
       "scheduler, front end and head die",
       {0, 2},
       {1, 3},
       {8, 24},
       {1, 4},
       {stop_scheduler, stop_scheduler, stop_frontend, crash, kill_instance, coordinator, client_leaves, migrate},
       20},
      {"operators",
       "instances are drained and come back, policies are switched, load scales the cluster",
       {0, 2},
       {1, 3},
       {10, 40},
       {2, 8},
       {drain, drain, policies, policies, role, orders_fail, load_fails, client_leaves, migrate},
       30,
       false,
       true},
      {"chaos",
       "all of it together",
       {0, 1},
       {2, 4},
       {10, 40},
       {3, 12},
       {cut,
        cut_one_way,
        cut_blocks,
        delay,
        lost_acknowledgements,
        late_blocks,
        slow_writes,
        post_fails,
        freeze,
        crash,
        vanish,
        clock_jump,
        slow_device,
        stuck_device,
        step_fails,
        load_fails,
        kill_instance,
        coordinator,
        stop_scheduler,
        stop_frontend,
        stop_member,
        client_leaves,
        migrate,
        migrate,
        migrate,
        drain,
        policies,
        orders_fail,
        role},
       60,
       true,
       true},
  };
  return all;
}

const ingredients& find(const std::string& name) {
  for (const auto& one : book())
    if (one.name == name) return one;
  std::string known;
  for (const auto& one : book()) known += (known.empty() ? "" : ", ") + one.name;
  throw std::invalid_argument("no scenario is called '" + name + "'; there are " + known);
}

// Each part from a sequence of its own, so that adding to one leaves the others as they are.
enum stream : std::uint64_t {
  of_cluster = 101,
  of_requests,
  of_faults,
  of_settings,
  of_looks,
  of_work,
  of_bounds,
  of_roles,
  of_store,
  of_bandwidth,
  of_drafts,
  of_role_policy,
  of_swap,
  of_swap_failures,
  of_swap_rate,
  of_disk,
  of_disk_rate,
  of_disk_failures,
  of_draft_model,
  of_fronts
};

/// In ns; there and back it is below all timeouts of the usual shape.
constexpr std::uint64_t harmless_delay = 15'000'000;

nanoseconds moment(nanoseconds span, counter_random& random) {
  return nanoseconds(static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(span.count()))));
}

nanoseconds milliseconds_below(std::uint64_t most, counter_random& random) {
  return nanoseconds(static_cast<std::int64_t>(1'000'000 * random.below(most)));
}

/// Another sample of an earlier request's prompt, mostly with a seed of its own: asked for together with it, a moment
/// later, or at its own time.
void be_sample_of(const asked_request& first, asked_request& r, counter_random& random) {
  r.kind = random.below(4) == 0 ? first.kind : (first.kind + prompts) % request_kinds;
  r.execution_level = first.execution_level;
  r.priority = first.priority;
  const auto when = random.below(4);
  if (when < 2) r.at = first.at;
  if (when == 2) r.at = first.at + milliseconds_below(30, random);
}

/// The last order to move one so far; null: none.
const fault* last_moved(const scenario& s) {
  const auto found =
      std::find_if(s.faults.rbegin(), s.faults.rend(), [](const auto& other) { return other.second.kind == migrate; });
  return found == s.faults.rend() ? nullptr : &found->second;
}

fault draw_fault(const ingredients& from, const scenario& s, counter_random& random) {
  const auto machines = static_cast<std::uint32_t>(s.machines.size()) + 1;
  fault f;
  f.kind = from.kinds[random.below(from.kinds.size())];
  f.at = moment(from.span, random);
  f.steps = static_cast<std::uint32_t>(random.below(64));
  constexpr std::uint64_t unit = 1'000'000; // ns; short, about as long as detection takes, and long
  const std::uint64_t longest = std::uint64_t{20} << random.below(7);
  f.lasts = nanoseconds(static_cast<std::int64_t>(unit * (1 + random.below(longest))));
  f.machine = static_cast<std::uint32_t>(random.below(machines));
  f.other = (f.machine + 1 + static_cast<std::uint32_t>(random.below(machines - 1))) % machines;
  // A machine that autoscaling has brought, if it has.
  if (s.scales && random.below(3) == 0) f.machine = machines + static_cast<std::uint32_t>(random.below(4));
  f.amount = random.below(8);
  switch (f.kind) {
  case crash:
  case vanish:
  case freeze:
    // Mostly of others than the head, whose death ends everything.
    if (f.machine == 0 && random.below(from.name == "supervision" ? 2 : 6) > 0)
      f.machine = 1 + static_cast<std::uint32_t>(random.below(machines - 1));
    break;
  case stop_member:
    f.machine = 1 + static_cast<std::uint32_t>(random.below(machines - 1));
    break;
  case delay:
    f.amount = unit * (1 + random.below(random.below(2) == 0 ? 50 : 15));
    break;
  case clock_jump:
    f.amount = unit * (1 + random.below(std::uint64_t{4} << random.below(12)));
    break;
  case stuck_device: // now and then longer than a step may take
    if (random.below(6) == 0) f.lasts = 5s;
    break;
  case slow_device:
    f.amount = 2 + random.below(30);
    break;
  case lost_acknowledgements:
    f.amount = 1 + random.below(3);
    break;
  case orders_fail:
  case load_fails:
    f.amount = 1 + random.below(3);
    break;
  case post_fails: // mostly within a move, of which each stage has a landing place and sends of its own
    f.amount = 1 + random.below(3);
    if (const auto* moved = last_moved(s); moved != nullptr && random.below(4) > 0)
      f.at = moved->at + milliseconds_below(8, random);
    break;
  case late_blocks: // now and then later than the last copy may be
    f.amount = unit * (1 + random.below(random.below(2) == 0 ? 100 : 15));
    break;
  case slow_writes: // and long enough for blocks to be used again meanwhile
    f.at /= 2;
    f.lasts += from.span / 2;
    f.amount = unit * (1 + random.below(random.below(3) > 0 ? 300 : 15));
    break;
  case step_fails:
    f.amount = 1 + random.below(20);
    break;
  case coordinator:
    f.subject = static_cast<std::uint32_t>(random.below(coordinator_places.size()));
    if (from.tight && random.below(2) == 0) f.subject = coordinator_places.size() - 1;
    f.amount = 1 + random.below(40 >> f.subject);
    if (const auto* moved = last_moved(s); moved != nullptr && random.below(2) == 0) {
      f.at = moved->at;
      f.amount = 1 + random.below(8);
    }
    break;
  case client_leaves:
    f.subject = static_cast<std::uint32_t>(random.below(s.requests.size()));
    f.at = s.requests[f.subject].second.at + milliseconds_below(random.below(2) == 0 ? 150 : 5, random);
    if (const auto* moved = last_moved(s); moved != nullptr && random.below(2) == 0) { // or while it is moved
      f.subject = moved->subject;
      f.at = moved->at + milliseconds_below(30, random);
    }
    break;
  case migrate:
    f.subject = static_cast<std::uint32_t>(random.below(s.requests.size()));
    // While it runs, or a little before.
    f.at = s.requests[f.subject].second.at + milliseconds_below(150, random);
    break;
  case policies:
    f.amount = random.below(16'384);
    break;
  case role:
    f.subject = static_cast<std::uint32_t>(random.below(protocols::instance_roles.size()));
    break;
  default:
    break;
  }
  return f;
}

} // namespace

std::vector<recipe> recipes() {
  std::vector<recipe> out;
  for (const auto& one : book()) out.push_back({one.name, one.text});
  return out;
}

scenario draw(const std::string& name, std::uint64_t seed) {
  const auto& from = find(name);
  scenario s;
  s.name = name;
  s.seed = seed;
  counter_random cluster(seed, of_cluster), asked(seed, of_requests), faults(seed, of_faults),
      settings(seed, of_settings), looks(seed, of_looks);
  s.head_instances = from.head_instances.draw(cluster);
  s.machines.resize(from.machines.draw(cluster));
  for (auto& instances : s.machines) instances = cluster.below(4) == 0 ? 2 : 1;
  s.scales = from.scales && cluster.below(2) == 0;
  s.blocks = 17 + static_cast<std::uint32_t>(cluster.below(cluster.below(2) == 0 || from.tight ? 12 : 48));
  const auto dispatchers = protocols::dispatcher_names();
  s.dispatch = cluster.below(2) == 0 ? "freeness" : std::string(dispatchers[cluster.below(dispatchers.size())]);
  s.dispatch = dispatch_at_first(s.dispatch, seed);

  const auto count = from.requests.draw(asked);
  const auto first = static_cast<std::uint32_t>(asked.below(prompts));
  for (std::uint32_t i = 0; i < count; ++i) {
    asked_request r;
    r.kind = (first + (from.stores ? i % 10 : i)) % prompts;
    r.at = moment(from.span, asked);
    r.execution_level = asked.below(5) == 0 ? 1 : 0;
    r.priority = asked.below(5) == 0 ? -1 : 0;
    if (from.clients_leave && asked.below(3) == 0)
      r.goes_after = static_cast<std::uint32_t>(asked.below(40));
    else if (from.clients_leave && asked.below(3) == 0)
      r.enough = 1 + static_cast<std::uint32_t>(asked.below(40));
    if (i > 0 && asked.below(4) == 0) be_sample_of(s.requests[asked.below(i)].second, r, asked);
    s.requests.emplace_back(i, r);
  }
  const auto bad = from.kinds.empty() ? 0 : from.faults.draw(faults);
  for (std::uint32_t i = 0; i < bad; ++i) s.faults.emplace_back(i, draw_fault(from, s, faults));
  for (std::size_t i = 0; i < knobs().size(); ++i) {
    const bool extreme = settings.below(1000) < from.settings_permille;
    const bool high = settings.below(2) == 0;
    const bool matters = s.scales || !knobs()[i].of_scaling;
    if (extreme && matters) s.settings.emplace_back(i, high);
  }
  // Rather often: prompts and answers apart, and KV from a store, are other ways through it all.
  const auto also = [&](std::string_view which, stream of, std::uint64_t one_in, std::uint64_t high_one_in = 2) {
    counter_random random(seed, of);
    const auto index = static_cast<std::size_t>(std::ranges::find(knobs(), which, &knob::name) - knobs().begin());
    const auto drawn = [&](const auto& setting) { return setting.first == index; };
    if (!from.kinds.empty() && random.below(one_in) == 0 && std::ranges::none_of(s.settings, drawn))
      s.settings.emplace_back(index, random.below(high_one_in) == 0);
  };
  also("instances.roles", of_roles, 10);
  also("scheduler.roles", of_role_policy, 12);
  also("kv_store.bytes", of_store, from.stores ? 1 : 5);
  also("speculation.tokens_max", of_drafts, 5);
  also("speculation.draft_max", of_draft_model, 6);
  also("(front ends)", of_fronts, 5);
  if (from.swaps || name == "chaos") { // elsewhere it would keep requests from stores and from moving
    also("llumlet.swap_bytes", of_swap, from.swaps ? 1 : 4);
    also("(swaps fail)", of_swap_failures, from.swaps ? 4 : 12);
  }
  if (from.swaps) also("(swap rate)", of_swap_rate, 1, 5);  // blocks are long on their way, or at once
  if (from.stores) also("(bandwidth)", of_bandwidth, 1, 5); // blocks are long on their way, or at once
  if (from.stores || name == "chaos") {
    also("kv_store.disk_bytes", of_disk, from.stores ? 2 : 6);
    also("(disk rate)", of_disk_rate, from.stores ? 5 : 20);
    also("(disks fail)", of_disk_failures, from.stores ? 5 : 20);
  }
  counter_random bounds(seed, of_bounds);
  s.instances_min = 1 + static_cast<std::uint32_t>(bounds.below(3));
  s.instances_max = s.instances_min + 2 + static_cast<std::uint32_t>(bounds.below(4));
  counter_random work(seed, of_work);
  if (!from.kinds.empty() && work.below(3) == 0) {
    constexpr std::array<nanoseconds, 3> most{2us, 10us, 50us};
    s.work = most[work.below(most.size())];
  }
  for (int i = 0; i < 4; ++i) s.looks.push_back(moment(2 * from.span, looks));
  return s;
}

scenario select(scenario s, const selection& keep) {
  const auto filter = [](auto& parts, const std::optional<std::set<std::size_t>>& wanted) {
    if (wanted) std::erase_if(parts, [&](const auto& part) { return !wanted->contains(part.first); });
  };
  filter(s.faults, keep.faults);
  filter(s.requests, keep.requests);
  filter(s.settings, keep.settings);
  return s;
}

shape scenario::cluster() const {
  auto out = usual_shape();
  out.head_instances = head_instances;
  out.machines = machines;
  out.blocks = blocks;
  auto& policies_of = out.node.scheduler.policies;
  policies_of.dispatch = dispatch;
  actors::use_policies(own_policies(), out.node);
  out.node.scheduler.scaling.instances_min = instances_min;
  out.node.scheduler.scaling.instances_max = instances_max;
  policies_of.scaling = scales ? protocols::scaling_mode::on : protocols::scaling_mode::off;
  for (const auto& [index, high] : settings) knobs()[index].set(out, high);
  out.disk.slot_bytes = protocols::blocks_per_chunk * block_bytes_of(out); // as much as a draft model makes of it
  return out;
}

bool scenario::has(fault_kind kind) const {
  return std::any_of(faults.begin(), faults.end(), [kind](const auto& f) { return f.second.kind == kind; });
}

// A machine that nobody hears for a while is taken for dead; clocks that jump and late answers have the same effect.
bool scenario::loses_owners() const {
  return std::any_of(faults.begin(), faults.end(), [](const auto& f) {
    constexpr std::array harmless{client_leaves,         migrate,     policies,    drain,       role,       cut_blocks,
                                  lost_acknowledgements, orders_fail, late_blocks, slow_writes, post_fails, load_fails};
    if (f.second.kind == delay) return f.second.amount > harmless_delay;
    return std::find(harmless.begin(), harmless.end(), f.second.kind) == harmless.end();
  });
}

bool scenario::loses_home() const {
  return has(stop_frontend) || std::any_of(faults.begin(), faults.end(), [](const auto& f) {
           return (f.second.kind == crash || f.second.kind == vanish) && f.second.machine == 0;
         });
}

} // namespace godwit::explore
