#include "sim/cluster_load.hpp"

#include <godwit/gpu/sim/profile.hpp>
#include <godwit/protocols/workload/lengths.hpp>
#include <godwit/protocols/workload/workload.hpp>

#include <main/simulate.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

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
  out.cluster.node = main::sim_node(settings);
  workload::workload_spec spec;
  spec.requests = requests;
  spec.arrivals.rate = rate_of_16 / 16 * instances;
  spec.lengths = std::move(*lengths);
  out.requests = workload::make_workload(spec);
  workload::clamp_to_context(out.requests, actors::sim::context_length_of(out.cluster));
  return out;
}

actors::sim::simulation_result serve_all(actors::sim::simulation_options load) {
  const auto asked = load.requests.size();
  auto result = actors::sim::simulate(std::move(load));
  const auto& all = result.requests;
  const auto answered =
      static_cast<std::size_t>(std::count_if(all.begin(), all.end(), [](const auto& r) { return r.answered(); }));
  std::string wrong = result.trouble;
  if (wrong.empty() && !result.complaints.empty()) wrong = result.complaints.front();
  if (wrong.empty() && answered != asked)
    wrong = std::to_string(answered) + " of " + std::to_string(asked) + " requests were answered";
  if (wrong.empty()) return result;
  std::fprintf(stderr, "bench sim: the cluster cannot be measured: %s\n", wrong.c_str());
  std::exit(1);
}

} // namespace godwit::bench
