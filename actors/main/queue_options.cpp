#include "main/queue_options.hpp"

#include <optional>
#include <string>

namespace godwit::main {

namespace {

constexpr double aging_max_ms = static_cast<double>(protocols::queue_rule::aging_ns_max) * 1e-6;

} // namespace

void declare_queue(runtime::config::registry& r, serve_settings& s) {
  r.add("llumlet.queue_order", s.llumlet.queue_order,
        {{"fcfs", protocols::queue_order::fcfs},
         {"sjf", protocols::queue_order::sjf},
         {"ljf", protocols::queue_order::ljf},
         {"edf", protocols::queue_order::edf}},
        {.doc = "Which request of an instance's queue starts first, among those of one priority that have not run yet: "
                "fcfs, the one that came first; sjf, the shortest, by its prompt and the answer that is expected of "
                "it; ljf, the longest; edf, the one whose first token is due first (admission.ttft, or the request's "
                "own).",
         .flag = "--queue-order"});
  r.add("llumlet.queue_aging", s.llumlet.queue_aging,
        {.doc = "With sjf and ljf: whoever is shorter (longer) by a token goes first although it came so much later. "
                "Less keeps long ones from waiting long, more serves short ones sooner; with 0 the first to come is "
                "the first to start, but for those that have run before.",
         .unit = "ms",
         .min = 0,
         .max = aging_max_ms});
  r.add("llumlet.batch_slo_weight", s.llumlet.batch_slo_weight,
        {.doc =
             "Of a static batch (UELLM's SLO-ODBS): a request joins a batch of n only if this weight x (its objective "
             "in s + the longest of the batch) x (n + 1) + llumlet.batch_length_weight x (its expected answer in "
             "tokens + the longest of the batch) x (n + 1) is at most 1. Both 0: all join that fit.",
         .min = 0,
         .max = 1});
  r.add("llumlet.batch_length_weight", s.llumlet.batch_length_weight,
        {.doc = "Of a static batch: see llumlet.batch_slo_weight.", .min = 0, .max = 1});
  r.relate([&s]() -> std::optional<std::string> {
    const bool rule = s.llumlet.batch_slo_weight > 0 || s.llumlet.batch_length_weight > 0;
    if (!rule || s.llumlet.batching == protocols::batching_mode::static_batch) return std::nullopt;
    return "llumlet.batch_slo_weight and llumlet.batch_length_weight are of static batches; set llumlet.batching "
           "static, or leave them at 0";
  });
}

} // namespace godwit::main
