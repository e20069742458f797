#include <godwit/gpu/sim/latency_model.hpp>
#include <godwit/gpu/sim/profile.hpp>

#include <algorithm>

namespace godwit::gpu::sim {

namespace {

constexpr double us_per_second = 1e6;

} // namespace

double step_table::at(std::uint32_t count) const noexcept {
  if (points.empty() || count == 0) return 0;
  const auto above = std::lower_bound(points.begin(), points.end(), count,
                                      [](const point& p, std::uint32_t n) { return p.count < n; });
  if (above == points.end()) return points.back().us * count / points.back().count;
  if (above == points.begin() || above->count == count) return above->us;
  const auto& below = *(above - 1);
  return below.us + (above->us - below.us) * (count - below.count) / (above->count - below.count);
}

latency_model::latency_model() { linear.points = {{1, 30}}; }

latency_model::latency_model(const profile& from)
    : base_us(from.overhead_us), per_decode_us(from.per_decode_us), linear(from.linear), logits(from.logits),
      per_kv_token_us(from.kv_bytes_per_token * us_per_second / from.kv_bytes_per_second), kv(from.kv),
      per_pair_us(from.flops_per_pair * us_per_second / from.flops_per_second), per_copy_us(from.per_copy_us),
      spread(from.spread) {}

double latency_model::attention_us(std::uint32_t first, std::uint32_t tokens) const noexcept {
  const double before = first, mine = tokens;
  const auto pairs = mine * before + mine * (mine + 1) / 2;
  return std::max(per_kv_token_us * (before + mine), per_pair_us * pairs);
}

std::chrono::nanoseconds latency_model::step_time(const protocols::step_input& input) const {
  double us = base_us;
  const auto all = input.tokens();
  const auto linear_us = linear.at(all);
  std::uint32_t drawn = 0, read = 0;
  for (const auto& slice : input.slices) {
    const auto tokens = static_cast<std::uint32_t>(slice.tokens.size());
    const bool decodes = tokens - slice.drafted == 1; // drafts read the same KV once more for nothing
    // Each slice adds its share of the linear layers, not all of them at once: toy steps keep their last bit that way.
    us += linear_us * tokens / std::max(all, 1U) + (decodes ? per_decode_us : 0.0);
    if (decodes && !kv.points.empty())
      read += slice.first_position + tokens;
    else
      us += attention_us(slice.first_position, tokens);
    drawn += slice.draws();
  }
  us += logits.at(drawn) + kv.at(read);
  us += per_copy_us * static_cast<double>(input.copies.size());
  return std::chrono::nanoseconds(static_cast<std::int64_t>(us * 1000));
}

} // namespace godwit::gpu::sim
