#include "sim/cluster_load.hpp"

#include <godwit/gpu/sim/profile.hpp>
#include <godwit/protocols/workload/lengths.hpp>
#include <godwit/protocols/workload/workload.hpp>

#include <main/migration_parts.hpp>
#include <main/parts.hpp>
#include <main/sim_command.hpp>

#include <chrono>
#include <cstdlib>

namespace godwit::bench {

namespace workload = protocols::workload;

actors::sim::simulation_options simulated_load(std::uint32_t instances, std::size_t requests, double rate_of_16) {
  const auto settings = main::sim_defaults();
  auto device = gpu::sim::open_profile("llama-7b-a10");
  auto lengths = workload::parse_lengths("M-M");
  if (!device || !lengths) std::abort(); // both are compiled in
  actors::sim::simulation_options out;
  out.cluster.instances = instances;
  out.cluster.device = std::move(*device);
  auto& node = out.cluster.node;
  node.llumlet = main::make_llumlet_options(settings, settings.model.context_max, {},
                                            main::make_migration(settings, nullptr, {}), {});
  node.scheduler = main::make_scheduler_options(settings, {});
  node.frontend.requests_max = settings.frontend.requests_max;
  node.frontend.placement_timeout = settings.frontend.placement_timeout;
  workload::workload_spec spec;
  spec.requests = requests;
  spec.arrivals.rate = rate_of_16 / 16 * instances;
  spec.lengths = std::move(*lengths);
  out.requests = workload::make_workload(spec);
  workload::clamp_to_context(out.requests, actors::sim::context_length_of(out.cluster));
  return out;
}

} // namespace godwit::bench
