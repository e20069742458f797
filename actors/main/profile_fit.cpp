#include "main/profile_fit.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace godwit::main {

using gpu::sim::latency_model;
using gpu::sim::step_table;
using protocols::tokens_per_block;

namespace {

// The non-decreasing sequence next to the measured one, from a point on: pool adjacent violators.
void make_monotone(step_table& table, std::size_t from) {
  struct pool {
    double us;
    std::size_t count;
  };
  std::vector<pool> pools;
  for (auto& point : table.points) {
    point.us = std::max(point.us, 0.0);
    if (from > 0) {
      --from;
      continue;
    }
    pools.push_back({point.us, 1});
    while (pools.size() > 1 && pools[pools.size() - 2].us > pools.back().us) {
      const auto last = pools.back();
      pools.pop_back();
      auto& before = pools.back();
      before.us = (before.us * static_cast<double>(before.count) + last.us * static_cast<double>(last.count)) /
                  static_cast<double>(before.count + last.count);
      before.count += last.count;
    }
  }
  auto at = table.points.rbegin();
  for (auto one = pools.rbegin(); one != pools.rend(); ++one)
    for (std::size_t i = 0; i < one->count; ++i) (at++)->us = one->us;
}

// What the linear layers or the logits took, once attention and the other table are taken off.
step_table table_of(const std::vector<step_sample>& samples, step_role role, const latency_model& rest) {
  step_table out;
  for (const auto& sample : samples)
    if (sample.role == role)
      out.points.push_back({role == step_role::linear ? sample.shape.tokens() : sample.shape.sequences(),
                            sample.us - predicted_us(rest, sample.shape)});
  std::sort(out.points.begin(), out.points.end(), [](const auto& a, const auto& b) { return a.count < b.count; });
  make_monotone(out, 1);
  return out;
}

double attended(const step_shape& shape, bool pairs) {
  double sum = 0;
  for (const auto& part : shape.parts) {
    const double first = part.first, tokens = part.tokens;
    sum += part.sequences * (pairs ? tokens * first + tokens * (tokens + 1) / 2 : first + tokens);
  }
  return sum;
}

// What decodes take to read so many positions together: the mean over the steps that read as many.
step_table kv_table_of(const std::vector<step_sample>& samples, const latency_model& rest) {
  std::map<std::uint32_t, std::pair<double, int>> sums;
  for (const auto& sample : samples) {
    if (sample.role != step_role::decode) continue;
    auto& [us, count] = sums[static_cast<std::uint32_t>(attended(sample.shape, false))];
    us += sample.us - predicted_us(rest, sample.shape);
    ++count;
  }
  step_table out;
  for (const auto& [positions, sum] : sums) out.points.push_back({positions, sum.first / sum.second});
  make_monotone(out, 0);
  // Below the first point: in proportion.
  if (!out.points.empty() && out.points.front().count > 1)
    out.points.insert(out.points.begin(), {1, out.points.front().us / out.points.front().count});
  return out;
}

// us per unit of attention: least squares of relative errors, so that short steps count as much as long ones.
double rate_of(const std::vector<step_sample>& samples, step_role role, const latency_model& rest) {
  double over = 0, under = 0;
  for (const auto& sample : samples) {
    if (sample.role != role) continue;
    const auto units = attended(sample.shape, role == step_role::prefill);
    const auto weight = 1 / (sample.us * sample.us);
    over += weight * units * (sample.us - predicted_us(rest, sample.shape));
    under += weight * units * units;
  }
  // A device, or noise, may hide attention altogether; the file's rates are finite.
  constexpr double least = 1e-6;
  return under > 0 ? std::max(least, over / under) : least;
}

// Of each value among all, from 0; equal ones share the middle of theirs.
std::vector<double> ranks_of(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return values[a] < values[b]; });
  std::vector<double> out(values.size());
  for (std::size_t i = 0, end = 0; i < order.size(); i = end) {
    while (end < order.size() && values[order[end]] == values[order[i]]) ++end;
    for (auto at = i; at < end; ++at) out[order[at]] = static_cast<double>(i + end - 1) / 2;
  }
  return out;
}

// Of each value with the next one.
double correlation_with_next(const std::vector<double>& values) {
  const auto mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  double together = 0, alone = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    alone += (values[i] - mean) * (values[i] - mean);
    if (i > 0) together += (values[i] - mean) * (values[i - 1] - mean);
  }
  return alone > 0 ? together / alone : 0;
}

} // namespace

std::uint32_t step_shape::sequences() const noexcept {
  return std::accumulate(parts.begin(), parts.end(), 0U,
                         [](std::uint32_t n, const part& p) { return n + p.sequences; });
}

std::uint32_t step_shape::tokens() const noexcept {
  return std::accumulate(parts.begin(), parts.end(), 0U,
                         [](std::uint32_t n, const part& p) { return n + p.sequences * p.tokens; });
}

std::uint64_t step_shape::blocks() const noexcept {
  std::uint64_t sum = 0;
  for (const auto& one : parts)
    sum += std::uint64_t{one.sequences} * ((one.first + one.tokens + tokens_per_block - 1) / tokens_per_block);
  return sum;
}

protocols::step_input step_shape::input() const {
  protocols::step_input out;
  std::uint32_t block = 0;
  for (const auto& one : parts) {
    for (std::uint32_t i = 0; i < one.sequences; ++i) {
      protocols::step_slice slice;
      slice.request = protocols::request_id(out.slices.size() + 1);
      slice.first_position = one.first;
      for (std::uint32_t t = 0; t < one.tokens; ++t) slice.tokens.push_back(static_cast<protocols::token_id>(t % 8));
      const auto end = one.first + one.tokens;
      for (std::uint32_t used = 0; used < end; used += tokens_per_block) slice.blocks.emplace_back(block++);
      slice.samples = one.samples;
      slice.sampling.seed = out.slices.size();
      out.slices.push_back(std::move(slice));
    }
  }
  return out;
}

std::string to_string(const step_shape& shape) {
  std::string out;
  for (const auto& part : shape.parts)
    out += fmt::format("{}{} x {} tokens after {}", out.empty() ? "" : ", ", part.sequences, part.tokens, part.first);
  return out;
}

std::string to_string(step_role role) {
  switch (role) {
  case step_role::linear:
    return "linear layers";
  case step_role::logits:
    return "logits";
  case step_role::decode:
    return "decode";
  case step_role::prefill:
    return "prefill";
  case step_role::check:
    break;
  }
  return "not fitted";
}

latency_model fit_steps(const std::vector<step_sample>& samples) {
  latency_model out;
  out.base_us = out.per_decode_us = out.per_kv_token_us = out.per_pair_us = out.per_copy_us = 0;
  out.linear.points.clear();
  // Each part is what the others leave; the short steps of the tables have next to no attention, so this settles at
  // once.
  constexpr int rounds = 8;
  for (int round = 0; round < rounds; ++round) {
    const auto without = [&](auto clear) {
      auto rest = out;
      clear(rest);
      return rest;
    };
    out.linear = table_of(samples, step_role::linear, without([](latency_model& m) { m.linear.points.clear(); }));
    out.logits = table_of(samples, step_role::logits, without([](latency_model& m) { m.logits.points.clear(); }));
    const auto unread = without([](latency_model& m) {
      m.per_kv_token_us = m.per_pair_us = 0;
      m.kv.points.clear();
    });
    out.per_kv_token_us = rate_of(samples, step_role::decode, unread);
    out.kv = kv_table_of(samples, unread);
    out.per_pair_us = rate_of(samples, step_role::prefill, unread);
  }
  return out;
}

gpu::sim::step_spread fit_spread(const std::vector<double>& factors) {
  constexpr std::size_t least = 40, shares_max = 20;
  gpu::sim::step_spread out;
  if (factors.size() < least) return out;
  auto sorted = factors;
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t i = 0; i < shares_max; ++i) {
    const auto from = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() * i / shares_max);
    const auto to = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() * (i + 1) / shares_max);
    out.factors.push_back(std::accumulate(from, to, 0.0) / static_cast<double>(to - from));
  }
  out.kept = std::sqrt(std::clamp(correlation_with_next(ranks_of(factors)), 0.0, 1.0));
  return out;
}

double mean_factor(const gpu::sim::step_spread& spread) {
  if (spread.factors.empty()) return 1;
  return std::accumulate(spread.factors.begin(), spread.factors.end(), 0.0) /
         static_cast<double>(spread.factors.size());
}

double predicted_us(const latency_model& model, const step_shape& shape) {
  return static_cast<double>(model.step_time(shape.input()).count()) * 1e-3;
}

fit_error error_of(const latency_model& model, const std::vector<step_sample>& samples, step_role role) {
  fit_error out;
  for (const auto& sample : samples) {
    if (sample.role != role) continue;
    const auto error = predicted_us(model, sample.shape) / sample.us - 1;
    ++out.steps;
    out.mean += std::abs(error);
    out.bias += error;
    out.max = std::max(out.max, std::abs(error));
  }
  if (out.steps > 0) {
    out.mean /= static_cast<double>(out.steps);
    out.bias /= static_cast<double>(out.steps);
  }
  return out;
}

} // namespace godwit::main
