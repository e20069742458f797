#pragma once

#include <godwit/runtime/metrics/registry.hpp>

#include <vector>

namespace godwit::main {

/// What every exporter tells of its process, under the names of Prometheus' client libraries, and which godwit it is.
/// https://prometheus.io/docs/instrumenting/writing_clientlibs/#process-metrics
[[nodiscard]] std::vector<runtime::metrics::registry::registration>
add_process_metrics(runtime::metrics::registry& metrics);

} // namespace godwit::main
