#include "main/load_board.hpp"

#include <godwit/protocols/policy/freeness.hpp>

#include <cmath>
#include <limits>
#include <string>
#include <utility>

namespace godwit::main {

using protocols::load_report;

load_board::load_board(runtime::metrics::registry& metrics, served_facts facts) : facts_(std::move(facts)) {
  add(metrics, kind::gauge, "godwit_instance_requests_running", "Requests in the batch.",
      [](const load_report& r) { return static_cast<double>(r.running); });
  add(metrics, kind::gauge, "godwit_instance_requests_waiting", "Requests in the queue.",
      [](const load_report& r) { return static_cast<double>(r.waiting); });
  add(metrics, kind::gauge, "godwit_instance_kv_blocks", "KV blocks of 16 tokens in the pool.",
      [](const load_report& r) { return static_cast<double>(r.blocks_total); });
  add(metrics, kind::gauge, "godwit_instance_kv_blocks_used", "KV blocks that requests hold.",
      [](const load_report& r) { return static_cast<double>(r.blocks_used); });
  add(metrics, kind::counter, "godwit_instance_steps_total", "Steps since the instance's last start.",
      [](const load_report& r) { return static_cast<double>(r.steps_total); });
  add(metrics, kind::counter, "godwit_instance_prompt_seconds_total",
      "Time that prompts took the instance since its last start, beyond what requests that decoded beside them did.",
      [](const load_report& r) { return static_cast<double>(r.prompt_ns_total) * 1e-9; });
  add(metrics, kind::counter, "godwit_instance_preemptions_total", "Preemptions since the instance's last start.",
      [](const load_report& r) { return static_cast<double>(r.preemptions_total); });
  add(metrics, kind::gauge, "godwit_instance_requests_swapped",
      "Of those in the queue, requests that were preempted and whose KV is in the host's memory.",
      [](const load_report& r) { return static_cast<double>(r.swapped); });
  add(metrics, kind::gauge, "godwit_instance_swap_blocks", "KV blocks that the host's memory has room for.",
      [](const load_report& r) { return static_cast<double>(r.swap_blocks); });
  add(metrics, kind::gauge, "godwit_instance_swap_blocks_used", "Of these, in use.",
      [](const load_report& r) { return static_cast<double>(r.swap_blocks_used); });
  add(metrics, kind::counter, "godwit_instance_swaps_total",
      "Preemptions since the last start whose KV went to the host's memory.",
      [](const load_report& r) { return static_cast<double>(r.swaps_total); });
  add(metrics, kind::counter, "godwit_instance_swapped_out_tokens_total", "Tokens whose KV got there.",
      [](const load_report& r) { return static_cast<double>(r.swapped_out_tokens_total); });
  add(metrics, kind::counter, "godwit_instance_swapped_in_tokens_total", "Tokens whose KV came back from there.",
      [](const load_report& r) { return static_cast<double>(r.swapped_in_tokens_total); });
  add(metrics, kind::counter, "godwit_instance_prefix_query_tokens_total",
      "Prompt tokens looked up in the prefix cache since the last start.",
      [](const load_report& r) { return static_cast<double>(r.prefix_query_tokens_total); });
  add(metrics, kind::counter, "godwit_instance_prefix_hit_tokens_total", "Of these, found.",
      [](const load_report& r) { return static_cast<double>(r.prefix_hit_tokens_total); });
  add(metrics, kind::counter, "godwit_instance_store_query_tokens_total",
      "Tokens that the prefix cache lacked, looked up in the KV store since the last start.",
      [](const load_report& r) { return static_cast<double>(r.store_query_tokens_total); });
  add(metrics, kind::counter, "godwit_instance_store_hit_tokens_total", "Of these, loaded from it.",
      [](const load_report& r) { return static_cast<double>(r.store_hit_tokens_total); });
  add(metrics, kind::counter, "godwit_instance_drafts_total",
      "Requests in steps that drafted tokens of theirs (speculation) since the last start.",
      [](const load_report& r) { return static_cast<double>(r.drafts_total); });
  add(metrics, kind::counter, "godwit_instance_draft_tokens_total", "Tokens that they drafted.",
      [](const load_report& r) { return static_cast<double>(r.draft_tokens_total); });
  add(metrics, kind::counter, "godwit_instance_accepted_tokens_total", "Of these, those that the model drew, too.",
      [](const load_report& r) { return static_cast<double>(r.accepted_tokens_total); });
  add(metrics, kind::counter, "godwit_instance_model_draft_tokens_total",
      "Of the drafted tokens, those of the draft model.",
      [](const load_report& r) { return static_cast<double>(r.model_draft_tokens_total); });
  add(metrics, kind::counter, "godwit_instance_model_accepted_tokens_total",
      "Of these, those that the model drew, too.",
      [](const load_report& r) { return static_cast<double>(r.model_accepted_tokens_total); });
  add(metrics, kind::counter, "godwit_instance_drafting_seconds_total",
      "Time of steps in which the draft model computed, also in steps without drafts.",
      [](const load_report& r) { return static_cast<double>(r.drafting_ns_total) * 1e-9; });
  add(metrics, kind::gauge, "godwit_instance_virtual_usage_blocks",
      "KV blocks that running requests hold, the head of line demands, and execution priorities keep free.",
      [](const load_report& r) { return static_cast<double>(protocols::virtual_usage(r)); });
  add(metrics, kind::gauge, "godwit_instance_freeness",
      "KV blocks that each running request can still have; absent while the instance drains.",
      [](const load_report& r) {
        return r.terminating ? std::numeric_limits<double>::quiet_NaN() : protocols::finite(protocols::freeness(r));
      });
  add(metrics, kind::gauge, "godwit_instance_terminating", "1 while the instance drains.",
      [](const load_report& r) { return r.terminating ? 1.0 : 0.0; });
  registrations_.push_back(metrics.add_callback_gauges(
      "godwit_instance_role_info", "What the instance is for, in the label: mixed, prefill or decode; always 1.",
      [this] {
        runtime::metrics::registry::samples out;
        each_ready([&](const load_report& report) {
          out.push_back(
              {{{"engine", std::to_string(report.instance.value())}, {"role", std::string(to_string(report.role))}},
               1.0});
        });
        return out;
      }));
  registrations_.push_back(metrics.add_callback_gauges(
      "godwit_instances",
      "Instances by state: ready, draining, starting (its model is loaded), down (failed, and not started anew yet), "
      "ordered. Those of processes that were lost are none.",
      [this] {
        runtime::metrics::registry::samples out;
        const auto add = [&](const char* state, std::uint32_t count) {
          out.push_back({{{"state", state}}, count * 1.0});
        };
        const std::lock_guard lock(mutex_);
        add("ready", ready_);
        add("draining", draining_);
        add("starting", starting_);
        add("down", down_);
        add("ordered", ordered_);
        return out;
      }));
  registrations_.push_back(metrics.add_callback_counters(
      "godwit_instance_restarts_total",
      "How often the instance was started anew since its first start: after a failure, by order, or with its process.",
      [this] {
        runtime::metrics::registry::samples out;
        const std::lock_guard lock(mutex_);
        for (const auto& [id, one] : instances_) {
          const auto restarts = one.generation == 0 ? 0 : one.generation - 1;
          out.push_back({{{"engine", std::to_string(id.value())}}, static_cast<double>(restarts)});
        }
        return out;
      }));
  if (!facts_.model.empty()) add_vllm(metrics);
}

// vLLM's names and labels; what counts starts anew with the instance, as counters of processes do.
void load_board::add_vllm(runtime::metrics::registry& metrics) {
  add_vllm(metrics, kind::gauge, "vllm:num_requests_running", "Requests in the batch.",
           [](const load_report& r) { return static_cast<double>(r.running); });
  add_vllm(metrics, kind::gauge, "vllm:num_requests_waiting", "Requests in the queue.",
           [](const load_report& r) { return static_cast<double>(r.waiting); });
  add_vllm(metrics, kind::gauge, "vllm:kv_cache_usage_perc", "Share of the KV blocks that requests hold; 1 is all.",
           [](const load_report& r) {
             return r.blocks_total == 0 ? 0.0
                                        : static_cast<double>(r.blocks_used) / static_cast<double>(r.blocks_total);
           });
  add_vllm(metrics, kind::counter, "vllm:num_preemptions_total", "Preemptions.",
           [](const load_report& r) { return static_cast<double>(r.preemptions_total); });
  add_vllm(metrics, kind::counter, "vllm:prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache.",
           [](const load_report& r) { return static_cast<double>(r.prefix_query_tokens_total); });
  add_vllm(metrics, kind::counter, "vllm:prefix_cache_hits_total", "Of these, found.",
           [](const load_report& r) { return static_cast<double>(r.prefix_hit_tokens_total); });
  add_vllm(metrics, kind::counter, "vllm:external_prefix_cache_queries_total",
           "Tokens that the prefix cache lacked, looked up in the KV store.",
           [](const load_report& r) { return static_cast<double>(r.store_query_tokens_total); });
  add_vllm(metrics, kind::counter, "vllm:external_prefix_cache_hits_total", "Of these, loaded from it.",
           [](const load_report& r) { return static_cast<double>(r.store_hit_tokens_total); });
  add_vllm(metrics, kind::counter, "vllm:spec_decode_num_drafts_total",
           "Requests in steps that drafted tokens of theirs.",
           [](const load_report& r) { return static_cast<double>(r.drafts_total); });
  add_vllm(metrics, kind::counter, "vllm:spec_decode_num_draft_tokens_total", "Tokens that they drafted.",
           [](const load_report& r) { return static_cast<double>(r.draft_tokens_total); });
  add_vllm(metrics, kind::counter, "vllm:spec_decode_num_accepted_tokens_total",
           "Of these, those that the model drew, too.",
           [](const load_report& r) { return static_cast<double>(r.accepted_tokens_total); });
  add_vllm(metrics, kind::counter, "vllm:prompt_tokens_cached_total", "As vllm:prefix_cache_hits_total.",
           [](const load_report& r) { return static_cast<double>(r.prefix_hit_tokens_total); });
  registrations_.push_back(
      metrics.add_callback_gauges("vllm:num_requests_waiting_by_reason",
                                  "As vllm:num_requests_waiting; nothing waits for anything but room.", [this] {
                                    runtime::metrics::registry::samples out;
                                    each_ready([&](const load_report& report) {
                                      const auto add = [&](const char* reason, double value) {
                                        out.push_back({{{"model_name", facts_.model},
                                                        {"engine", std::to_string(report.instance.value())},
                                                        {"reason", reason}},
                                                       value});
                                      };
                                      add("capacity", report.waiting);
                                      add("deferred", 0);
                                    });
                                    return out;
                                  }));
  registrations_.push_back(
      metrics.add_callback_gauges("vllm:cache_config_info", "The KV cache, in the labels; always 1.", [this] {
        runtime::metrics::registry::samples out;
        each_ready([&](const load_report& report) { out.push_back({cache_labels(report), 1.0}); });
        return out;
      }));
}

runtime::metrics::labels load_board::cache_labels(const load_report& report) const {
  return {{"block_size", "16"},
          {"cache_dtype", facts_.cache_dtype},
          {"enable_prefix_caching", facts_.prefix_caching ? "True" : "False"},
          {"engine", std::to_string(report.instance.value())},
          {"num_gpu_blocks", std::to_string(report.blocks_total)}};
}

void load_board::add_vllm(runtime::metrics::registry& metrics, kind what, const char* name, const char* help,
                          value_of read) {
  const auto samples = [this, read] {
    runtime::metrics::registry::samples out;
    each_ready([&](const load_report& report) {
      out.push_back(
          {{{"model_name", facts_.model}, {"engine", std::to_string(report.instance.value())}}, read(report)});
    });
    return out;
  };
  registrations_.push_back(what == kind::gauge ? metrics.add_callback_gauges(name, help, samples)
                                               : metrics.add_callback_counters(name, help, samples));
}

void load_board::add(runtime::metrics::registry& metrics, kind what, const char* name, const char* help,
                     value_of read) {
  const auto samples = [this, read] {
    runtime::metrics::registry::samples out;
    each_ready([&](const load_report& report) {
      if (const auto value = read(report); !std::isnan(value))
        out.push_back({{{"engine", std::to_string(report.instance.value())}}, value});
    });
    return out;
  };
  registrations_.push_back(what == kind::gauge ? metrics.add_callback_gauges(name, help, samples)
                                               : metrics.add_callback_counters(name, help, samples));
}

void load_board::each_ready(const std::function<void(const load_report&)>& visit) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [id, one] : instances_)
    if (one.ready && one.last.generation == one.generation) visit(one.last);
}

load_board::sums load_board::all() const {
  sums out;
  each_ready([&](const load_report& r) {
    out.running += r.running;
    out.waiting += r.waiting;
    out.blocks_total += r.blocks_total;
    out.blocks_used += r.blocks_used;
  });
  const std::lock_guard lock(mutex_);
  out.prompt_tokens = prompt_tokens_;
  out.answer_tokens = answer_tokens_;
  return out;
}

void load_board::take(const load_report& report) {
  const std::lock_guard lock(mutex_);
  const auto found = instances_.find(report.instance);
  // It lay in the scheduler's mailbox while the instance went, or went down.
  if (found == instances_.end() || report.generation < found->second.generation) return;
  auto& last = found->second.last;
  // An instance that was started anew counts from 0 again.
  const auto more = [&](std::uint64_t before, std::uint64_t now) {
    return last.generation == report.generation && now >= before ? now - before : now;
  };
  prompt_tokens_ += more(last.prompt_tokens_total, report.prompt_tokens_total);
  answer_tokens_ += more(last.generated_tokens_total, report.generated_tokens_total);
  last = report;
}

void load_board::adopt(const actors::topology& news) {
  const std::lock_guard lock(mutex_);
  std::erase_if(instances_, [&](const auto& one) { return news.find(one.first) == nullptr; });
  ready_ = draining_ = starting_ = down_ = 0;
  ordered_ = news.ordered;
  for (const auto& entry : news.instances) {
    auto& one = instances_[entry.instance];
    one.generation = entry.generation;
    one.ready = entry.ready;
    if (!entry.ready)
      ++(entry.llumlet ? starting_ : down_);
    else
      ++(entry.draining ? draining_ : ready_);
  }
}

} // namespace godwit::main
