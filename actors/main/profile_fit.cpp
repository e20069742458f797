#include "main/profile_fit.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <stdexcept>

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

std::uint32_t decodes_of(const step_shape& shape) {
  std::uint32_t out = 0;
  for (const auto& part : shape.parts)
    if (part.tokens == 1) out += part.sequences;
  return out;
}

struct pause_line {
  double none_us, each_us;
};

// Least squares through the medians of the pauses after so many decodes, each as heavy as there are pauses.
pause_line pauses_of(const std::vector<std::vector<served_step>>& instances) {
  std::map<std::uint32_t, std::vector<double>> by_decodes;
  for (const auto& steps : instances)
    for (const auto& step : steps)
      if (step.us > 0 && step.pause_us) by_decodes[decodes_of(step.shape)].push_back(*step.pause_us);
  if (by_decodes.empty()) throw std::runtime_error("no step of the measurement followed another one");
  double weight = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (auto& [decodes, us] : by_decodes) {
    const auto w = static_cast<double>(us.size());
    const double at = decodes, middle = median(std::move(us));
    weight += w;
    x += w * at;
    y += w * middle;
    xx += w * at * at;
    xy += w * at * middle;
  }
  const auto apart = xx - x * x / weight;
  const auto each = apart > 0 ? std::max(0.0, (xy - x * y / weight) / apart) : 0.0;
  return {std::max(0.0, (y - each * x) / weight), each};
}

struct timed_factor {
  double factor, us;
};

// The means of 20 shares of equal time, each weighted by the time of its steps.
std::vector<double> shares_of(std::vector<timed_factor> all) {
  constexpr int shares = 20;
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.factor < b.factor; });
  const auto total =
      std::accumulate(all.begin(), all.end(), 0.0, [](double sum, const auto& one) { return sum + one.us; });
  const auto share = total / shares;
  std::vector<double> out;
  double left = share, sum = 0; // of the next share: time that it wants, and its factors times their times
  for (auto one : all) {
    while (one.us >= left && out.size() + 1 < shares) {
      // In the last bit a mean of equal factors may fall.
      out.push_back(std::max((sum + left * one.factor) / share, out.empty() ? 0.0 : out.back()));
      one.us -= left;
      left = share;
      sum = 0;
    }
    sum += one.us * one.factor;
    left -= one.us;
  }
  out.push_back(std::max(sum / (share - left), out.back()));
  return out;
}

} // namespace

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

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

protocols::step_input step_shape::input(std::uint32_t vocabulary) const {
  protocols::step_input out;
  std::uint32_t block = 0;
  for (const auto& one : parts) {
    for (std::uint32_t i = 0; i < one.sequences; ++i) {
      protocols::step_slice slice;
      slice.request = protocols::request_id(out.slices.size() + 1);
      slice.first_position = one.first;
      for (std::uint64_t t = 0; t < one.tokens; ++t) {
        const auto number = (out.slices.size() + 1) * 7919 + (one.first + t) * 104'729; // two primes
        slice.tokens.push_back(static_cast<protocols::token_id>(number % std::max(vocabulary, 1U)));
      }
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

served_costs fit_served(const latency_model& device, const std::vector<std::vector<served_step>>& instances) {
  served_costs out;
  const auto [overhead_us, per_decode_us] = pauses_of(instances);
  out.overhead_us = overhead_us;
  out.per_decode_us = per_decode_us;
  auto model = device;
  model.base_us = overhead_us;
  model.per_decode_us = per_decode_us;
  std::vector<timed_factor> all;
  double correlation = 0; // of each instance's steps, by how many they are
  for (const auto& steps : instances) {
    std::vector<double> factors;
    for (const auto& step : steps) {
      if (step.us <= 0) continue;
      const auto said = predicted_us(model, step.shape);
      const auto alone = predicted_us(device, step.shape);
      const auto pause = step.pause_us.value_or((said - alone) * step.us / alone); // as much longer as the step
      factors.push_back((step.us + pause) / said);
      all.push_back({factors.back(), said});
    }
    out.steps += factors.size();
    if (factors.size() > 1)
      correlation += correlation_with_next(ranks_of(factors)) * static_cast<double>(factors.size());
  }
  constexpr std::size_t least = 40;
  if (out.steps < least) return out;
  out.spread.factors = shares_of(std::move(all));
  out.spread.kept = std::clamp(correlation / static_cast<double>(out.steps), 0.0, 1.0);
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
