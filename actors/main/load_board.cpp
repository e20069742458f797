#include "main/load_board.hpp"

#include <string>

namespace godwit::main {

using protocols::load_report;

load_board::load_board(runtime::metrics::registry& metrics) {
  add(metrics, "godwit_instance_requests_running", "Requests in the batch.",
      [](const load_report& r) { return static_cast<double>(r.running); });
  add(metrics, "godwit_instance_requests_waiting", "Requests in the queue.",
      [](const load_report& r) { return static_cast<double>(r.waiting); });
  add(metrics, "godwit_instance_kv_blocks", "KV blocks of 16 tokens in the pool.",
      [](const load_report& r) { return static_cast<double>(r.blocks_total); });
  add(metrics, "godwit_instance_kv_blocks_used", "KV blocks that requests hold.",
      [](const load_report& r) { return static_cast<double>(r.blocks_used); });
  add(metrics, "godwit_instance_steps", "Steps since the instance's last start.",
      [](const load_report& r) { return static_cast<double>(r.steps_total); });
  add(metrics, "godwit_instance_preemptions", "Preemptions since the instance's last start.",
      [](const load_report& r) { return static_cast<double>(r.preemptions_total); });
  add(metrics, "godwit_instance_prefix_query_tokens",
      "Prompt tokens looked up in the prefix cache since the last start.",
      [](const load_report& r) { return static_cast<double>(r.prefix_query_tokens_total); });
  add(metrics, "godwit_instance_prefix_hit_tokens", "Of these, found.",
      [](const load_report& r) { return static_cast<double>(r.prefix_hit_tokens_total); });
}

void load_board::add(runtime::metrics::registry& metrics, const char* name, const char* help, value_of read) {
  registrations_.push_back(metrics.add_callback_gauges(name, help, [this, read] {
    runtime::metrics::registry::samples out;
    const std::lock_guard lock(mutex_);
    for (const auto& [id, report] : reports_) out.push_back({{{"instance", std::to_string(id.value())}}, read(report)});
    return out;
  }));
}

void load_board::take(const load_report& report) {
  const std::lock_guard lock(mutex_);
  reports_[report.instance] = report;
}

} // namespace godwit::main
