#include "main/bench_report.hpp"

#include "main/counted.hpp"

#include <boost/json.hpp>
#include <spdlog/fmt/fmt.h>

namespace godwit::main {

namespace json = boost::json;

namespace {

json::value value_of(const std::optional<double>& x) { return x ? json::value(*x) : json::value(nullptr); }

std::string_view name_of(bench_endpoint endpoint) { return endpoint == bench_endpoint::chat ? "chat" : "completions"; }

std::string_view name_of(bench_outcome outcome) {
  switch (outcome) {
  case bench_outcome::waiting:
    return "waiting";
  case bench_outcome::unfinished:
    return "unfinished";
  case bench_outcome::answered:
    return "answered";
  case bench_outcome::failed:
    return "failed";
  }
  return "failed";
}

std::string row(std::string_view name, const latency_stats& s) {
  if (s.count == 0) return fmt::format("{:<18}{:>10}\n", name, "-");
  return fmt::format("{:<18}{:>10.2f} {:>10.2f} {:>10.2f} {:>10.2f} {:>10.2f}  {:>9}\n", name, s.mean, s.p50, s.p90,
                     s.p99, s.max, s.count);
}

std::string objectives(const bench_setup& setup) {
  auto out = std::string{};
  if (setup.ttft_ms) out += fmt::format("TTFT <= {:g} ms", *setup.ttft_ms);
  if (setup.tpot_ms) out += fmt::format("{}TPOT <= {:g} ms", out.empty() ? "" : ", ", *setup.tpot_ms);
  return out;
}

} // namespace

std::string to_table(const bench_setup& setup, const bench_report& report) {
  auto out = fmt::format("{}, model {}, {}\n", setup.url, setup.model, name_of(setup.endpoint));
  out += fmt::format("{}, {}, seed {}\n", setup.workload, setup.arrivals, setup.seed);
  out += fmt::format("{} of {} requests answered, {} failed", report.answered, report.requests, report.failed);
  if (report.unfinished > 0)
    out += fmt::format(", {} not finished (nothing of these is counted below)", report.unfinished);
  out += fmt::format(", in {:.2f} s\n\n", report.duration_s);

  out += fmt::format("{:<18}{:>10} {:>10} {:>10} {:>10} {:>10}  {:>9}\n", "latency (ms)", "mean", "P50", "P90", "P99",
                     "max", "samples");
  out += row("TTFT", report.ttft_ms) + row("TPOT", report.tpot_ms) + row("ITL", report.itl_ms);
  out += row("end to end", report.e2e_ms);
  if (setup.open_loop) out += row("start lag", report.start_lag_ms);

  for (const auto& level : report.levels) {
    out += fmt::format("\n{}: {} of {} requests answered\n",
                       level.name.empty() ? std::string("no execution priority") : "execution priority " + level.name,
                       level.answered, level.requests);
    out += row("TTFT", level.ttft_ms) + row("TPOT", level.tpot_ms) + row("ITL", level.itl_ms);
    out += row("end to end", level.e2e_ms);
  }

  out += fmt::format("\n{:<18}{:>10.2f} requests/s\n", "throughput", report.requests_per_s);
  out +=
      fmt::format("{:<18}{:>10.1f} tokens/s  ({} tokens)\n", "input", report.prompt_tokens_per_s, report.prompt_tokens);
  out += fmt::format("{:<18}{:>10.1f} tokens/s  ({} tokens)\n", "output", report.answer_tokens_per_s,
                     report.answer_tokens);
  if (report.goodput)
    out += fmt::format("{:<18}{:>10.2f} requests/s  ({})\n", "goodput", *report.goodput, objectives(setup));

  for (const auto& [kind, failures] : report.errors)
    out += fmt::format("\n{:<18}{:>10} x  {}", kind, failures.count, failures.example);
  if (!report.errors.empty()) out += '\n';
  if (setup.shortened > 0)
    out += fmt::format("\nnote: shortened to the model's context: {}\n", counted(setup.shortened, "request"));
  if (setup.skipped > 0)
    out +=
        fmt::format("\nnote: left out, since they name no tokens: {} of the trace\n", counted(setup.skipped, "line"));
  if (setup.missing > 0)
    out += fmt::format("\nnote: the trace has {} requests fewer than were asked for\n", setup.missing);
  if (report.other_lengths > 0)
    out += fmt::format("\nnote: {} answers were not as long as asked for\n", report.other_lengths);
  if (report.usage_missing > 0)
    out += fmt::format("\nnote: {} answers came without usage; their tokens are counted by pieces of text\n",
                       report.usage_missing);
  if (report.usage_mismatches > 0)
    out +=
        fmt::format("\nnote: {} answers had more pieces of text than tokens by their usage\n", report.usage_mismatches);
  return out;
}

std::string to_json(const bench_setup& setup, const bench_report& report) {
  auto errors = json::object{};
  for (const auto& [kind, failures] : report.errors)
    errors[kind] = json::object{{"count", failures.count}, {"example", failures.example}};
  auto levels = json::array{};
  for (const auto& level : report.levels)
    levels.push_back(json::object{{"execution_priority", level.name.empty() ? json::value() : json::value(level.name)},
                                  {"requests", level.requests},
                                  {"answered", level.answered},
                                  {"ttft_ms", object_of(level.ttft_ms)},
                                  {"tpot_ms", object_of(level.tpot_ms)},
                                  {"itl_ms", object_of(level.itl_ms)},
                                  {"e2e_ms", object_of(level.e2e_ms)}});
  const auto out = json::object{
      {"url", setup.url},
      {"model", setup.model},
      {"endpoint", json::string_view(name_of(setup.endpoint).data(), name_of(setup.endpoint).size())},
      {"workload", setup.workload},
      {"arrivals", setup.arrivals},
      {"open_loop", setup.open_loop},
      {"seed", setup.seed},
      {"requests", report.requests},
      {"answered", report.answered},
      {"failed", report.failed},
      {"unfinished", report.unfinished},
      {"shortened", setup.shortened},
      {"skipped", setup.skipped},
      {"missing", setup.missing},
      {"duration_s", report.duration_s},
      {"prompt_tokens", report.prompt_tokens},
      {"answer_tokens", report.answer_tokens},
      {"requests_per_s", report.requests_per_s},
      {"prompt_tokens_per_s", report.prompt_tokens_per_s},
      {"answer_tokens_per_s", report.answer_tokens_per_s},
      {"goodput_requests_per_s", value_of(report.goodput)},
      {"slo_ttft_ms", value_of(setup.ttft_ms)},
      {"slo_tpot_ms", value_of(setup.tpot_ms)},
      {"ttft_ms", object_of(report.ttft_ms)},
      {"ttft_from_send_ms", object_of(report.ttft_from_send_ms)},
      {"tpot_ms", object_of(report.tpot_ms)},
      {"itl_ms", object_of(report.itl_ms)},
      {"e2e_ms", object_of(report.e2e_ms)},
      {"start_lag_ms", object_of(report.start_lag_ms)},
      {"levels", std::move(levels)},
      {"errors", errors},
      {"usage_missing", report.usage_missing},
      {"usage_mismatches", report.usage_mismatches},
      {"other_lengths", report.other_lengths},
  };
  return json::serialize(out);
}

std::string to_json(const request_record& r) {
  const auto outcome = name_of(r.outcome);
  const auto since = [](std::int64_t ns) { return static_cast<double>(ns) * 1e-9; };
  const auto count = [](const std::optional<std::uint32_t>& n) { return n ? json::value(*n) : json::value(nullptr); };
  const auto sent = r.outcome != bench_outcome::waiting;
  const auto has_text = r.pieces > 0;
  const auto out = json::object{
      {"index", r.index},
      {"outcome", json::string_view(outcome.data(), outcome.size())},
      {"scheduled_s", since(r.scheduled_ns)},
      {"started_s", sent ? json::value(since(r.started_ns)) : nullptr},
      {"first_text_s", has_text ? json::value(since(r.first_text_ns)) : nullptr},
      {"last_text_s", has_text ? json::value(since(r.last_text_ns)) : nullptr},
      {"ended_s", sent ? json::value(since(r.ended_ns)) : nullptr},
      {"prompt_tokens_asked", r.prompt_tokens},
      {"answer_tokens_asked", r.answer_tokens},
      {"priority", -static_cast<int>(r.priority)},
      {"prompt_tokens", count(r.usage_prompt)},
      {"answer_tokens", count(r.usage_answer)},
      {"pieces", r.pieces},
      {"gaps_ms", json::array(r.gaps_ms.begin(), r.gaps_ms.end())},
      {"finish_reason", r.finish_reason},
      {"status", r.status},
      {"error", r.error_kind},
      {"message", r.error_message},
  };
  return json::serialize(out);
}

} // namespace godwit::main
