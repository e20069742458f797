#include "main/status_json.hpp"

#include "main/status_table.hpp"
#include "main/units.hpp"

#include <godwit/protocols/policy/freeness.hpp>

#include <boost/json.hpp>

namespace godwit::main {

namespace json = boost::json;
using protocols::instance_state;

namespace {

constexpr double tokens_per_block = 16;

json::object object_of(const protocols::request_status& r) {
  return {{"id", r.request.value()},
          {"client_id", r.client_id},
          {"epoch", r.epoch.value()},
          {"state", std::string(to_string(r.state))},
          {"priority", r.priority},
          {"execution_level", r.execution_level},
          {"execution_priority", r.execution_priority},
          {"prompt_tokens", r.prompt_tokens},
          {"answer_tokens", r.answer_tokens},
          {"kv_blocks", r.blocks},
          {"preemptions", r.preemptions}};
}

json::object object_of(const protocols::migration_status& m) {
  return {{"id", m.migration.value()}, {"request", m.request.value()},
          {"from", m.source.value()},  {"to", m.destination.value()},
          {"phase", m.phase},          {"stage", m.stage},
          {"bytes", m.bytes},          {"stall_ms", ms(m.stall_ns)},
          {"age_ms", ms(m.age_ns)}};
}

json::object object_of(const protocols::scheduling_status& c) {
  json::array pairs;
  for (const auto& [from, to] : c.pairs) pairs.push_back(json::object{{"from", from.value()}, {"to", to.value()}});
  return {{"scheduler_up", c.scheduler_up},
          {"dispatch_policy", c.dispatch_policy},
          {"migration_policy", c.migration_policy},
          {"migration_paused", c.migration_paused},
          {"scaling", c.scaling},
          {"rounds", c.rounds_total},
          {"marks", c.marks_total},
          {"pairs", std::move(pairs)},
          {"mean_freeness", c.mean_freeness},
          {"provisioning", c.provisioning},
          {"provisioning_s", c.provisioning == 0 ? json::value() : json::value(seconds(c.provisioning_ns))},
          {"scaled_out", c.scaled_out_total},
          {"scaled_in", c.scaled_in_total},
          {"scaling_last", c.scaling_last},
          {"roles", c.roles},
          {"prefill_load", c.phases_known ? json::value(c.prefill_load) : json::value()},
          {"decode_load", c.phases_known ? json::value(c.decode_load) : json::value()},
          {"roles_last", c.roles_last}};
}

json::object object_of(const protocols::instance_status& i, bool with_requests) {
  const auto& load = i.load;
  const bool draining = load.terminating || i.state == instance_state::draining;
  const bool counts = i.state == instance_state::ready && !draining;
  const auto free = protocols::finite(protocols::freeness(load));
  json::object out{
      {"id", i.instance.value()},
      {"state", std::string(to_string(i.state))},
      {"starting_s", i.state == instance_state::starting ? json::value(seconds(i.uptime_ns)) : json::value()},
      {"role", std::string(to_string(load.role))},
      {"node", i.node},
      {"device", i.device},
      {"restarts", i.restarts},
      {"last_error", i.last_error.empty() ? json::value() : json::value(i.last_error)},
      {"uptime_s", seconds(i.uptime_ns)},
      {"running", load.running},
      {"waiting", load.waiting},
      {"terminating", draining},
      {"freeness", counts ? json::value(free) : json::value()},
      {"freeness_steps", counts ? json::value(tokens_per_block * free) : json::value()},
      {"virtual_usage", protocols::virtual_usage(load)},
      {"queued_blocks", load.queued_blocks},
      {"headroom_blocks", load.headroom_blocks},
      {"headroom_profiled", i.headroom_profiled},
      {"kv_blocks", load.blocks_total},
      {"kv_blocks_used", load.blocks_used},
      {"kv_blocks_cached", load.blocks_cached},
      {"steps", load.steps_total},
      {"preemptions", load.preemptions_total},
      {"swaps", load.swaps_total},
      {"swapped", load.swapped},
      {"swap_blocks", load.swap_blocks},
      {"swap_blocks_used", load.swap_blocks_used},
      {"swapped_out_tokens", load.swapped_out_tokens_total},
      {"swapped_in_tokens", load.swapped_in_tokens_total},
      {"prefix_query_tokens", load.prefix_query_tokens_total},
      {"prefix_hit_tokens", load.prefix_hit_tokens_total},
      {"store_query_tokens", load.store_query_tokens_total},
      {"store_hit_tokens", load.store_hit_tokens_total},
      {"prompt_tokens", load.prompt_tokens_total},
      {"generated_tokens", load.generated_tokens_total},
      {"drafts", load.drafts_total},
      {"draft_tokens", load.draft_tokens_total},
      {"accepted_tokens", load.accepted_tokens_total},
      {"model_draft_tokens", load.model_draft_tokens_total},
      {"model_accepted_tokens", load.model_accepted_tokens_total},
      {"drafting_ms", static_cast<double>(load.drafting_ns_total) * 1e-6}};
  if (with_requests) {
    json::array list;
    for (const auto& r : i.requests) list.push_back(object_of(r));
    out["requests"] = std::move(list);
  }
  json::array migrations;
  for (const auto& m : i.migrations) migrations.push_back(object_of(m));
  out["migrations"] = std::move(migrations);
  return out;
}

json::object object_of(const protocols::store_status& s) {
  const auto& r = s.report;
  return {{"node", s.node},
          {"bytes", r.bytes},
          {"bytes_used", r.bytes_used},
          {"chunk_tokens", protocols::tokens_per_chunk},
          {"looked_up", r.looked_up_total},
          {"found", r.found_total},
          {"loaded", r.loaded_total},
          {"filed", r.filed_total},
          {"evicted", r.evicted_total},
          {"failed", r.failed_total},
          {"disk_bytes", r.disk_bytes},
          {"disk_bytes_used", r.disk_bytes_used},
          {"disk_written", r.disk_written_total},
          {"disk_read", r.disk_read_total},
          {"disk_evicted", r.disk_evicted_total},
          {"disk_failed", r.disk_failed_total}};
}

} // namespace

std::string status_json(const protocols::cluster_status& c, bool with_requests) {
  json::array instances;
  for (const auto* i : by_id(c)) instances.push_back(object_of(*i, with_requests));
  json::array stores;
  for (const auto& s : c.stores) stores.push_back(object_of(s));
  json::array frontends;
  for (const auto& f : c.frontends)
    frontends.push_back(json::object{{"node", f.node},
                                     {"home", f.home},
                                     {"answers", f.answers},
                                     {"requests_open", f.requests_open},
                                     {"requests_finished", f.requests_finished_total},
                                     {"requests_failed", f.requests_failed_total}});
  return json::serialize(json::object{{"version", c.version},
                                      {"model", c.model},
                                      {"uptime_s", seconds(c.uptime_ns)},
                                      {"requests_open", c.requests_open},
                                      {"requests_finished", c.requests_finished_total},
                                      {"requests_failed", c.requests_failed_total},
                                      {"redispatches", c.redispatches_total},
                                      {"moves", c.moves_total},
                                      {"scheduling", object_of(c.scheduling)},
                                      {"instances", std::move(instances)},
                                      {"kv_store", std::move(stores)},
                                      {"frontends", std::move(frontends)}});
}

} // namespace godwit::main
