#include "main/bench_report.hpp"
#include "main/units.hpp"

#include <algorithm>
#include <array>
#include <vector>

namespace godwit::main {

namespace {

struct samples {
  std::vector<double> ttft, ttft_from_send, tpot, itl, e2e, lag;
};

/// Adds an answered request; true if it met the objectives.
bool add(const bench_setup& setup, const request_record& r, samples& into) {
  const auto origin_ns = setup.open_loop ? r.scheduled_ns : r.started_ns;
  const auto ttft = ms(r.first_text_ns - origin_ns);
  into.ttft.push_back(ttft);
  into.ttft_from_send.push_back(ms(r.first_text_ns - r.started_ns));
  into.e2e.push_back(ms(r.ended_ns - origin_ns));
  if (setup.open_loop) into.lag.push_back(ms(r.started_ns - r.scheduled_ns));
  into.itl.insert(into.itl.end(), r.gaps_ms.begin(), r.gaps_ms.end());
  auto met = !setup.ttft_ms || ttft <= *setup.ttft_ms;
  if (r.tokens() > 1 && r.pieces == 0) { // nobody saw when they came
    met = met && !setup.tpot_ms;
  } else if (r.tokens() > 1) {
    const auto tpot = ms(r.last_text_ns - r.first_text_ns) / (r.tokens() - 1);
    into.tpot.push_back(tpot);
    met = met && (!setup.tpot_ms || tpot <= *setup.tpot_ms);
  }
  return met;
}

} // namespace

bench_report make_report(const bench_setup& setup, std::span<const request_record> records) {
  auto out = bench_report{};
  auto all = samples{};
  auto by_level = std::array<samples, 2>{};
  if (!setup.priority.empty()) {
    out.levels.resize(2);
    out.levels[1].name = setup.priority;
  }
  auto end_ns = std::int64_t{0};
  std::size_t good = 0;
  out.requests = records.size();
  for (const auto& r : records) {
    end_ns = std::max(end_ns, r.ended_ns);
    const auto level = static_cast<std::size_t>(r.priority > 0 ? 1 : 0);
    if (!out.levels.empty()) ++out.levels[level].requests;
    if (r.outcome == bench_outcome::failed) {
      ++out.failed;
      auto& kind = out.errors[r.error_kind];
      if (kind.count++ == 0) kind.example = r.error_message;
    }
    if (r.outcome != bench_outcome::answered) continue;
    ++out.answered;
    out.prompt_tokens += r.usage_prompt.value_or(r.prompt_tokens);
    out.answer_tokens += r.tokens();
    out.usage_missing += r.usage_answer ? 0 : 1;
    out.usage_mismatches += r.usage_mismatch() ? 1 : 0;
    out.other_lengths += r.tokens() == r.answer_tokens ? 0 : 1;
    good += add(setup, r, all) ? 1 : 0;
    if (out.levels.empty()) continue;
    ++out.levels[level].answered;
    static_cast<void>(add(setup, r, by_level[level]));
  }
  out.unfinished = out.requests - out.answered - out.failed;
  out.duration_s = static_cast<double>(end_ns) * 1e-9;
  if (end_ns > 0) {
    out.requests_per_s = static_cast<double>(out.answered) / out.duration_s;
    out.prompt_tokens_per_s = static_cast<double>(out.prompt_tokens) / out.duration_s;
    out.answer_tokens_per_s = static_cast<double>(out.answer_tokens) / out.duration_s;
  }
  if (setup.ttft_ms || setup.tpot_ms) out.goodput = end_ns > 0 ? static_cast<double>(good) / out.duration_s : 0.0;
  out.ttft_ms = summarise(std::move(all.ttft));
  out.ttft_from_send_ms = summarise(std::move(all.ttft_from_send));
  out.tpot_ms = summarise(std::move(all.tpot));
  out.itl_ms = summarise(std::move(all.itl));
  out.e2e_ms = summarise(std::move(all.e2e));
  out.start_lag_ms = summarise(std::move(all.lag));
  for (std::size_t i = 0; i < out.levels.size(); ++i) {
    out.levels[i].ttft_ms = summarise(std::move(by_level[i].ttft));
    out.levels[i].tpot_ms = summarise(std::move(by_level[i].tpot));
    out.levels[i].itl_ms = summarise(std::move(by_level[i].itl));
    out.levels[i].e2e_ms = summarise(std::move(by_level[i].e2e));
  }
  return out;
}

} // namespace godwit::main
