#include <godwit/actors/migration_environment.hpp>

#include <string>

namespace godwit::actors {

migration_metrics::migration_metrics(runtime::metrics::registry& registry)
    : migrations(registry.add_counter_family("godwit_migrations_total",
                                             "Migrations that ended, by outcome, reason and cause.",
                                             {"outcome", "reason", "cause"}, 128)),
      bytes(registry.add_counter("godwit_migration_bytes_total", "KV copied by migrations.")),
      blocks(registry.add_counter("godwit_migration_blocks_total", "KV blocks of requests that have moved.")),
      known_blocks(registry.add_counter("godwit_migration_known_blocks_total",
                                        "Of these, blocks that the destination had already.")),
      stall_seconds(registry.add_histogram("godwit_migration_stall_seconds",
                                           "How long a migrated request was in no batch.",
                                           runtime::metrics::exponential_bounds(0.0001, 2, 18))),
      seconds(registry.add_histogram("godwit_migration_seconds", "From a migration's order to its end.",
                                     runtime::metrics::exponential_bounds(0.001, 2, 18))) {
  using why = protocols::migration_cause::kind;
  for (const auto cause :
       {why::manual, why::freeness, why::defrag, why::drain, why::handoff}) // a rate would miss the first one
    (void)migrations.with({std::string(to_string(protocols::migration_outcome::committed)),
                           std::string(to_string(protocols::migration_reason::none)), std::string(to_string(cause))});
}

void migration_metrics::observe(const protocols::migration_report& report) {
  migrations
      .with({std::string(to_string(report.outcome)), std::string(to_string(report.reason)),
             std::string(to_string(report.cause.what))})
      .increment();
  bytes.increment(report.bytes);
  if (report.committed()) {
    blocks.increment(report.blocks);
    known_blocks.increment(report.known);
  }
  if (report.outcome != protocols::migration_outcome::refused)
    seconds.observe(static_cast<double>(report.duration_ns) * 1e-9);
  if (report.stall_ns > 0) stall_seconds.observe(static_cast<double>(report.stall_ns) * 1e-9);
}

} // namespace godwit::actors
