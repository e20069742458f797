#include "main/load_board.hpp"

#include <godwit/protocols/policy/freeness.hpp>

#include <cmath>
#include <limits>
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
  add(metrics, "godwit_instance_virtual_usage_blocks",
      "KV blocks that running requests hold, the head of line demands, and execution priorities keep free.",
      [](const load_report& r) { return static_cast<double>(protocols::virtual_usage(r)); });
  add(metrics, "godwit_instance_freeness",
      "KV blocks that each running request can still have; absent while the instance drains.",
      [](const load_report& r) {
        return r.terminating ? std::numeric_limits<double>::quiet_NaN() : protocols::finite(protocols::freeness(r));
      });
  add(metrics, "godwit_instance_terminating", "1 while the instance drains.",
      [](const load_report& r) { return r.terminating ? 1.0 : 0.0; });
}

void load_board::add(runtime::metrics::registry& metrics, const char* name, const char* help, value_of read) {
  registrations_.push_back(metrics.add_callback_gauges(name, help, [this, read] {
    runtime::metrics::registry::samples out;
    const std::lock_guard lock(mutex_);
    for (const auto& [id, report] : reports_)
      if (const auto value = read(report); !std::isnan(value))
        out.push_back({{{"instance", std::to_string(id.value())}}, value});
    return out;
  }));
}

void load_board::take(const load_report& report) {
  const std::lock_guard lock(mutex_);
  reports_[report.instance] = report;
}

void load_board::retain(const std::set<protocols::instance_id>& there) {
  const std::lock_guard lock(mutex_);
  std::erase_if(reports_, [&](const auto& known) { return !there.contains(known.first); });
}

} // namespace godwit::main
