#include "explore/shape.hpp"

#include "explore/requests.hpp"

#include <godwit/gpu/sim/sim_executor.hpp>
#include <godwit/protocols/kv/chunk_name.hpp>

#include <algorithm>
#include <string_view>

namespace godwit::explore {

using namespace std::chrono_literals;

shape usual_shape() {
  shape s;
  s.latency.base_us = 3000;
  s.load_time = 20ms;
  s.fabric.bytes_per_second = 400'000; // a simulated block shows the fabric 128 bytes
  s.fabric.latency = 200us;
  s.fabric.bytes_per_message = 128; // a portion takes several
  s.disk.slot_bytes = protocols::blocks_per_chunk * gpu::sim::sim_block_bytes;
  s.disk.bytes_per_second = 1'000'000;
  s.detection = {80ms, 120ms};
  auto& n = s.node;
  n.backoff_min = 5ms;
  n.backoff_max = 200ms;
  n.settled_after = 500ms;
  n.load_timeout = 20s;
  n.frontend.ask_timeout = 300ms;
  n.frontend.decision_timeout = 100ms;
  n.frontend.migration_timeout = 20s;
  n.frontend.attempts_max = 64; // faults may be many; the setting's own extreme is few
  n.frontend.execution_levels = {"normal", "high"};
  n.scheduler.stale_after = 500ms;
  n.scheduler.migration_interval = 40ms;
  n.scheduler.levels = {{"normal", 0}, {"high", 6}};
  n.scheduler.scaling.freeness_min = 2; // of 17 blocks or some more
  n.scheduler.scaling.freeness_max = 8;
  n.scheduler.scaling.hold_ns = 50'000'000;
  n.scheduler.scaling.provision_timeout_ns = 2'000'000'000;
  n.llumlet.load_timeout = 20s;
  n.llumlet.step_timeout = 3s;
  n.llumlet.report_interval = 50ms;
  n.llumlet.recount = true;
  n.llumlet.selection.cooldown_ns = 50'000'000;
  auto& p = n.llumlet.planner;
  p.context_length = context_length;
  p.step_tokens_max = 64;
  p.running_max = 8;
  p.waiting_max = 64;
  p.eos = {2};
  p.speculation.prediction_max = 16;
  p.execution_levels = n.scheduler.levels;
  auto& m = n.llumlet.migration.settings;
  m.answer_timeout = 40ms;
  m.stage_timeout = 200ms;
  m.last_timeout = 60ms;
  m.lease = 400ms;
  m.claim_timeout = 40ms;
  m.portion_bytes = 1024;
  m.copy_share = 0.5;
  auto& store = n.llumlet.store; // without a shard: there is none
  store.lookup_timeout = 30ms;
  store.silence = 100ms;
  store.load_timeout = 60ms;
  store.put_timeout = 300ms;
  store.report_interval = 50ms;
  store.disk_patience = 100ms;
  store.disk_pause = 20ms;
  store.disk_retry = 200ms;
  s.adapters.load_time = 5ms;
  s.adapters.size = [](const protocols::adapter_ref& which) { return which.id == 3 ? 2U : 1U; };
  n.llumlet.adapter_wait = 100ms;
  s.swap.blocks_per_second = 1000; // two in a step
  s.swap.overhead = 100us;
  n.llumlet.swap_portion_bytes = 2; // of blocks that have no size
  return s;
}

namespace {

/// There is a disk, below little memory, so that there is something to go there.
void have_disk(shape& s) {
  auto& stored = s.node.llumlet.store.bytes;
  if (stored == 0 || stored > 4 * s.disk.slot_bytes) stored = 4 * s.disk.slot_bytes;
  if (s.disk.slots == 0) s.disk.slots = 64;
}

/// One process after the other for prefill and for decoding, at first.
void follow_the_load(shape& s) {
  using enum protocols::instance_role;
  s.node.scheduler.policies.roles = protocols::role_policy::balance;
  s.node.scheduler.roles.hold_ns = 100'000'000;
  if (s.node.roles.empty()) s.node.roles = {prefill, decode};
}

// By the name of the setting, where production has one; others in brackets.
std::vector<knob> all_knobs() {
  std::vector<knob> k;
  const auto add = [&k](const char* name, void (*set)(shape&, bool)) {
    k.push_back({name, set, std::string_view(name).starts_with("scaling.")});
  };
  // Memory and batches
  add("instances.kv_bytes", [](shape& s, bool high) { s.blocks = high ? 512 : 17; });
  add("instances.layers_per_advance", [](shape& s, bool high) { s.node.instance.layers_per_advance = high ? 100 : 1; });
  add("instances.step_timeout", [](shape& s, bool high) {
    s.node.llumlet.step_timeout = high ? 60s : 300ms;
    s.may_give_up = s.may_give_up || !high;
  });
  add("instances.restart_backoff_min", [](shape& s, bool high) { s.node.backoff_min = high ? 500ms : 1ms; });
  add("instances.restart_backoff_max", [](shape& s, bool high) { s.node.backoff_max = high ? 2s : 1ms; });
  add("llumlet.batching", [](shape& s, bool high) {
    using mode = protocols::batching_mode;
    s.node.llumlet.planner.mode = high ? mode::prefill_first : mode::static_batch;
  });
  add("llumlet.step_tokens_max",
      [](shape& s, bool high) { s.node.llumlet.planner.step_tokens_max = high ? 1024 : 16; });
  add("llumlet.sequences_max", [](shape& s, bool high) { s.node.llumlet.planner.running_max = high ? 16 : 1; });
  add("llumlet.queue_max", [](shape& s, bool high) {
    s.node.llumlet.planner.waiting_max = high ? 1000 : 1;
    s.may_overload = s.may_overload || !high;
  });
  add("llumlet.swap_bytes", [](shape& s, bool high) { s.swap.slots = high ? 256 : 6; });
  add("llumlet.preemption", [](shape& s, bool high) {
    s.node.llumlet.planner.preemption = high ? protocols::preemption_mode::swap : protocols::preemption_mode::recompute;
    if (s.swap.slots == 0) s.swap.slots = 64;
  });
  add("(swap rate)", [](shape& s, bool high) {
    s.swap.blocks_per_second = high ? 1e6 : 100;
    if (s.swap.slots == 0) s.swap.slots = 64;
  });
  add("(swaps fail)", [](shape& s, bool high) {
    s.swap_fails_every = high ? 2 : 5;
    if (s.swap.slots == 0) s.swap.slots = 64;
  });
  add("llumlet.prefix_caching", [](shape& s, bool high) { s.node.llumlet.planner.prefix_caching = high; });
  add("priorities.execution", [](shape& s, bool high) {
    s.node.scheduler.levels[1].headroom = high ? 1000 : 0;
    s.node.llumlet.planner.execution_levels = s.node.scheduler.levels;
  });
  add("priorities.profile", [](shape& s, bool high) {
    s.node.llumlet.profile.enabled = high;
    s.node.scheduler.levels[1].headroom.reset();
    s.node.llumlet.planner.execution_levels = s.node.scheduler.levels;
  });
  add("priorities.profile_time_max", [](shape& s, bool high) { s.node.llumlet.profile.time_max = high ? 10s : 1ms; });
  // Devices and links
  add("(step time)", [](shape& s, bool high) { s.latency.base_us = high ? 30'000 : 50; });
  add("(load time)", [](shape& s, bool high) { s.load_time = high ? 2s : 0s; });
  add("(latency of messages)", [](shape& s, bool high) {
    s.links.latency_min = high ? 1ms : 0ns;
    s.links.latency_max = high ? 20ms : 1us;
  });
  add("cluster.connection_timeout", [](shape& s, bool high) {
    if (high)
      s.detection = {1s, 2s};
    else
      s.detection = {45ms, 46ms};
  });
  add("cluster.rejoin_pause_max", [](shape& s, bool high) {
    s.rejoin_min = high ? 1s : 1ms;
    s.rejoin_max = high ? 3s : 5ms;
  });
  add("(bandwidth)", [](shape& s, bool high) { s.fabric.bytes_per_second = high ? 1e9 : 20'000; });
  add("(bytes of a message)",
      [](shape& s, bool high) { s.fabric.bytes_per_message = high ? std::size_t{1} << 20U : 128; });
  // Reports and scheduling
  add("scheduler.report_interval", [](shape& s, bool high) { s.node.llumlet.report_interval = high ? 400ms : 3ms; });
  add("(gap of reports)", [](shape& s, bool high) { s.node.llumlet.report_gap = high ? 200ms : 0ms; });
  add("scheduler.stale_after", [](shape& s, bool high) { s.node.scheduler.stale_after = high ? 10s : 5ms; });
  add("scheduler.migration_interval",
      [](shape& s, bool high) { s.node.scheduler.migration_interval = high ? 500ms : 3ms; });
  add("(queries in line)", [](shape& s, bool high) {
    s.node.scheduler.queries_max = high ? 65536 : 1;
    s.may_overload = s.may_overload || !high;
  });
  add("scheduler.migrate_below",
      [](shape& s, bool high) { s.node.scheduler.pairing.source_below = high ? 1000 : 0.1; });
  add("scheduler.migrate_above",
      [](shape& s, bool high) { s.node.scheduler.pairing.destination_above = high ? 100 : 0.1; });
  add("scheduler.move_cooldown",
      [](shape& s, bool high) { s.node.llumlet.selection.cooldown_ns = high ? 10'000'000'000 : 0; });
  add("scheduler.move_gain", [](shape& s, bool high) { s.node.llumlet.selection.gain_min = high ? 20 : -100; });
  // The home
  add("frontend.requests_max", [](shape& s, bool high) {
    s.node.frontend.requests_max = high ? 4096 : 4;
    s.may_overload = s.may_overload || !high;
  });
  add("frontend.attempts_max", [](shape& s, bool high) {
    s.node.frontend.attempts_max = high ? 1000 : 1;
    s.may_give_up = s.may_give_up || !high;
  });
  add("frontend.placement_timeout", [](shape& s, bool high) {
    s.node.frontend.placement_timeout = high ? 60s : 20ms;
    s.may_not_be_placed = s.may_not_be_placed || !high;
  });
  add("admission.ttft",
      [](shape& s, bool high) { s.node.frontend.objectives.ttft_ns = high ? 1'000'000'000 : 1'000'000; });
  add("admission.tpot",
      [](shape& s, bool high) { s.node.frontend.objectives.tpot_ns = high ? 100'000'000 : 1'000'000; });
  add("admission.margin", [](shape& s, bool high) {
    s.node.frontend.objectives_margin = high ? 0.9 : 0;
    s.node.frontend.objectives.ttft_ns = 30'000'000;
  });
  add("admission.early_rejection", [](shape& s, bool high) {
    s.node.frontend.objectives.refusable = true;
    s.node.frontend.objectives.ttft_ns = high ? 500'000'000 : 20'000'000;
    s.may_be_rejected = true;
  });
  add("frontend.request_timeout", [](shape& s, bool high) {
    s.node.frontend.request_timeout = high ? 0s : 200ms;
    s.may_time_out = s.may_time_out || !high;
  });
  add("(time for an admission)", [](shape& s, bool high) {
    s.node.frontend.ask_timeout = high ? 5s : 12ms; // the latter less than an answer may need, each time
    s.may_not_be_placed = s.may_not_be_placed || !high;
    s.may_give_up = s.may_give_up || !high;
    s.may_run_twice = s.may_run_twice || !high;
  });
  add("(time for a decision)", [](shape& s, bool high) { s.node.frontend.decision_timeout = high ? 2s : 1us; });
  add("(pause before another attempt)", [](shape& s, bool high) {
    s.node.frontend.retry_pause = high ? 1s : 1us;
    s.node.frontend.retry_pause_max = high ? 2s : 1ms;
  });
  add("(history)", [](shape& s, bool high) {
    s.node.frontend.events_max = high ? 1000 : 1;
    s.node.frontend.ended_max = high ? 1000 : 1;
  });
  // Migration
  add("migration.out_max", [](shape& s, bool high) { s.node.llumlet.migration.settings.out_max = high ? 16 : 1; });
  add("migration.in_max", [](shape& s, bool high) { s.node.llumlet.migration.settings.in_max = high ? 16 : 1; });
  add("migration.handoff_max",
      [](shape& s, bool high) { s.node.llumlet.migration.settings.handoff_max = high ? 32 : 1; });
  add("migration.stages_max",
      [](shape& s, bool high) { s.node.llumlet.migration.settings.limits.stages_max = high ? 64 : 1; });
  add("migration.last_blocks_max",
      [](shape& s, bool high) { s.node.llumlet.migration.settings.limits.last_blocks_max = high ? 64 : 0; });
  add("migration.answer_timeout",
      [](shape& s, bool high) { s.node.llumlet.migration.settings.answer_timeout = high ? 2s : 2ms; });
  add("migration.stage_timeout",
      [](shape& s, bool high) { s.node.llumlet.migration.settings.stage_timeout = high ? 5s : 5ms; });
  add("migration.last_timeout",
      [](shape& s, bool high) { s.node.llumlet.migration.settings.last_timeout = high ? 2s : 2ms; });
  add("migration.lease", [](shape& s, bool high) { s.node.llumlet.migration.settings.lease = high ? 20s : 10ms; });
  add("migration.claim_timeout",
      [](shape& s, bool high) { s.node.llumlet.migration.settings.claim_timeout = high ? 500ms : 1ms; });
  add("migration.claims_max",
      [](shape& s, bool high) { s.node.llumlet.migration.settings.claims_max = high ? 10 : 1; });
  add("migration.portion_bytes", [](shape& s, bool high) {
    s.node.llumlet.migration.settings.portion_bytes = high ? std::uint64_t{1} << 30U : 1;
  });
  add("migration.copy_share",
      [](shape& s, bool high) { s.node.llumlet.migration.settings.copy_share = high ? 1 : 0.001; });
  // Supervision and autoscaling
  add("(settled after)", [](shape& s, bool high) { s.node.settled_after = high ? 60s : 0s; });
  add("scaling.rule", [](shape& s, bool high) {
    s.node.scheduler.scaling.rule = high ? protocols::scaling_rule::total : protocols::scaling_rule::mean;
  });
  add("scaling.freeness_min", [](shape& s, bool high) { s.node.scheduler.scaling.freeness_min = high ? 7.5 : -100; });
  add("scaling.freeness_max", [](shape& s, bool high) { // and above the least, whatever that is
    auto& scaling = s.node.scheduler.scaling;
    scaling.freeness_max = high ? 10'000 : scaling.freeness_min + 0.5;
  });
  add("scaling.hold", [](shape& s, bool high) { s.node.scheduler.scaling.hold_ns = high ? 3'000'000'000 : 1'000'000; });
  add("scaling.instances_min", [](shape& s, bool high) { // and no more than the most
    auto& scaling = s.node.scheduler.scaling;
    scaling.instances_min = high ? 5 : 1;
    scaling.instances_max = std::max(scaling.instances_min, scaling.instances_max);
  });
  add("scaling.instances_max", [](shape& s, bool high) { // and no fewer than the least
    auto& scaling = s.node.scheduler.scaling;
    scaling.instances_max = high ? 20 : scaling.instances_min;
  });
  add("scaling.provision_timeout",
      [](shape& s, bool high) { s.node.scheduler.scaling.provision_timeout_ns = high ? 10'000'000'000 : 50'000'000; });
  add("instances.tensor_parallel", [](shape& s, bool high) { s.devices = high ? 4 : 1; });
  // One process after the other, and of two instances of a process one each.
  add("instances.roles", [](shape& s, bool high) {
    using enum protocols::instance_role;
    s.node.roles = high ? std::vector{prefill, decode} : std::vector{decode, prefill};
  });
  add("scheduler.roles", [](shape& s, bool high) {
    follow_the_load(s);
    s.node.scheduler.roles.hold_ns = high ? 30'000'000 : 300'000'000;
    s.node.scheduler.roles.load_min = 0.01;
  });
  add("scheduler.role_hold", [](shape& s, bool high) {
    follow_the_load(s);
    s.node.scheduler.roles.hold_ns = high ? 2'000'000'000 : 1'000'000;
  });
  add("scheduler.role_load_min", [](shape& s, bool high) {
    follow_the_load(s);
    s.node.scheduler.roles.load_min = high ? 1 : 0;
  });
  // The KV store: in every process a shard, of 64 chunks or of one.
  add("kv_store.bytes", [](shape& s, bool high) {
    s.node.llumlet.store.bytes = (high ? 64U : 1U) * protocols::blocks_per_chunk * gpu::sim::sim_block_bytes;
  });
  add("kv_store.load_min", [](shape& s, bool high) { s.node.llumlet.store.load_min = high ? 128 : 1; });
  add("kv_store.lookup_timeout", [](shape& s, bool high) { s.node.llumlet.store.lookup_timeout = high ? 100ms : 1ms; });
  add("kv_store.load_timeout", [](shape& s, bool high) { s.node.llumlet.store.load_timeout = high ? 2s : 2ms; });
  add("kv_store.put_timeout", [](shape& s, bool high) { s.node.llumlet.store.put_timeout = high ? 5s : 5ms; });
  add("kv_store.puts_max", [](shape& s, bool high) { s.node.llumlet.store.puts_max = high ? 16 : 0; });
  add("(puts in line)", [](shape& s, bool high) { s.node.llumlet.store.puts_queued_max = high ? 1000 : 1; });
  add("(offers to a shard)", [](shape& s, bool high) {
    s.node.llumlet.store.offers_max = s.node.llumlet.store.fetches_max = high ? 1000 : 1;
  });
  // With room for the largest adapter alone, or for both of the others, requests wait for each other.
  add("lora.bytes_max", [](shape& s, bool high) {
    s.adapters.slots = high ? 100 : 2;
    s.may_not_be_placed = s.may_not_be_placed || !high;
  });
  add("(load time of an adapter)", [](shape& s, bool high) { s.adapters.load_time = high ? 300ms : 0ms; });
  add("(wait for an adapter)", [](shape& s, bool high) { s.node.llumlet.adapter_wait = high ? 1s : 1ms; });
  add("speculation.tokens_max", [](shape& s, bool high) {
    s.node.llumlet.planner.speculation = {high ? 40U : 3U, 1, 3, 64, 16};
  });
  add("speculation.batch_max", [](shape& s, bool high) {
    s.node.llumlet.planner.speculation = {4, 1, 2, high ? 64U : 1U, 16};
  });
  add("speculation.lookup_min", [](shape& s, bool high) {
    auto& drafts = s.node.llumlet.planner.speculation;
    drafts.lookup_min = high ? 6 : 1;
    drafts.lookup_max = std::max(drafts.lookup_max, drafts.lookup_min);
  });
  add("speculation.lookup_max", [](shape& s, bool high) {
    auto& drafts = s.node.llumlet.planner.speculation;
    drafts.lookup_max = high ? 16 : drafts.lookup_min;
  });
  add("speculation.prediction_max",
      [](shape& s, bool high) { s.node.llumlet.planner.speculation.prediction_max = high ? 64 : 1; });
  // The shards' disks, of 256 chunks or of two, which are as fast as memory, or take as long as a load may.
  add("kv_store.disk_bytes", [](shape& s, bool high) {
    have_disk(s);
    s.disk.slots = high ? 256 : 2;
  });
  add("(disk rate)", [](shape& s, bool high) {
    have_disk(s);
    s.disk.bytes_per_second = high ? 1e12 : 1e4;
  });
  add("(disks fail)", [](shape& s, bool high) {
    have_disk(s);
    s.disk_fails_every = high ? 2 : 5;
  });
  // Where batches are static anyway: more static ones would keep more requests from moving.
  add("llumlet.batch_slo_weight", [](shape& s, bool high) {
    auto& planner = s.node.llumlet.planner;
    if (planner.mode == protocols::batching_mode::static_batch) planner.batch.slo_weight = high ? 1 : 0.001;
  });
  add("llumlet.batch_length_weight", [](shape& s, bool high) {
    auto& planner = s.node.llumlet.planner;
    if (planner.mode == protocols::batching_mode::static_batch) planner.batch.length_weight = high ? 1 : 0.001;
  });
  add("llumlet.queue_order", [](shape& s, bool high) {
    s.node.llumlet.planner.queue.order = high ? protocols::queue_order::edf : protocols::queue_order::sjf;
  });
  add("llumlet.queue_aging", [](shape& s, bool high) {
    auto& queue = s.node.llumlet.planner.queue;
    if (queue.order == protocols::queue_order::fcfs) queue.order = protocols::queue_order::ljf;
    queue.aging_ns = std::chrono::nanoseconds(high ? 10s : 1ms).count();
  });
  // A draft model that is hardly ever right, or nearly always.
  add("speculation.draft_max", [](shape& s, bool high) {
    s.draft_right = high ? 0.9 : 0.2;
    s.node.llumlet.planner.speculation.model_max = high ? 24 : 3;
  });
  add("instances.pipeline_parallel", [](shape& s, bool high) {
    s.stages = high ? 2 : 1;
    s.node.instance.pipeline_rows = 4;
  });
  // Whatever has more than one token is cut, or nothing is.
  add("instances.pipeline_rows", [](shape& s, bool high) {
    s.stages = 2;
    s.node.instance.pipeline_rows = high ? 0 : 1;
  });
  add("instances.pipeline_steps", [](shape& s, bool high) {
    s.stages = 2;
    s.node.instance.pipeline_steps = high ? 64 : 1;
  });
  // Layers that move as soon as there is anything to gain, or hardly ever.
  add("instances.pipeline_balance", [](shape& s, bool high) {
    s.stages = 2;
    s.layer_move = high ? 0ms : 15ms;
    s.node.instance.pipeline_balance = {high ? 0.9 : 1e-3, std::chrono::nanoseconds(10ms).count()};
  });
  add("instances.pipeline_balance_window", [](shape& s, bool high) {
    s.stages = 2;
    s.layer_move = 3ms;
    s.node.instance.pipeline_balance = {1e-3, std::chrono::nanoseconds(high ? 300ms : 1ms).count()};
  });
  add("(front ends)", [](shape& s, bool high) {
    s.fronts = static_cast<std::uint32_t>(high ? s.machines.size() : std::min<std::size_t>(s.machines.size(), 1));
  });
  return k;
}

} // namespace

std::uint64_t block_bytes_of(const shape& s) { return gpu::sim::sim_block_bytes * (s.draft_right < 0 ? 1 : 2); }

const std::vector<knob>& knobs() {
  static const auto all = all_knobs();
  return all;
}

} // namespace godwit::explore
