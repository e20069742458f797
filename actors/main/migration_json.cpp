#include "main/migration_json.hpp"

#include <string>

namespace godwit::main {

namespace json = boost::json;

json::object migration_json(const protocols::migration_report& r) {
  const bool known = r.epoch != protocols::epoch{}; // otherwise there is no such request
  json::object cause{{"kind", std::string(to_string(r.cause.what))}};
  if (r.cause.what != protocols::migration_cause::kind::manual) {
    cause["round"] = r.cause.round;
    cause["source_freeness_before"] = r.cause.source_before;
    cause["source_freeness_after"] = r.cause.source_after;
    cause["destination_freeness_before"] = r.cause.destination_before;
    cause["destination_freeness_after"] = r.cause.destination_after;
  }
  return {{"migration", r.migration.value()},
          {"request", r.request.value()},
          {"from", known ? json::value(r.source.value()) : json::value()},
          {"to", r.destination.value()},
          {"outcome", std::string(to_string(r.outcome))},
          {"reason", std::string(to_string(r.reason))},
          {"cause", std::move(cause)},
          {"stages", r.stages},
          {"kv_blocks", r.blocks},
          {"known_blocks", r.known},
          {"bytes", r.bytes},
          {"last_stage_bytes", r.last_bytes},
          {"stall_ms", static_cast<double>(r.stall_ns) / 1e6},
          {"duration_ms", static_cast<double>(r.duration_ns) / 1e6}};
}

} // namespace godwit::main
