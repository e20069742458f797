#pragma once

#include "cuda/kernels_sampling_block.hpp"

// Drawing from weights as model::sampler does, to the same token.
//
// The CPU's sums run in its order, one number after the other; a GPU has no time for that. So sums are formed in any
// order first, with a bound on what that may change (`slack`): where a decision is further away than that, it is the
// CPU's. Where it is not, the sum is formed in the CPU's order, which is slow and rare.

namespace godwit::gpu::cuda::sampling {

/// e^x for x <= 0, the operations of model::exp_nonpositive.
GODWIT_DEVICE float exp_nonpositive(float x) {
  const bool representable = x > -87.0F;
  const float bounded = representable ? x : 0.0F;
  const auto n = static_cast<std::int32_t>(simt::add(simt::mul(bounded, 1.44269504F), -0.5F));
  const auto whole = static_cast<float>(n);
  const float r = simt::add(simt::add(bounded, -simt::mul(whole, 0.693359375F)), simt::mul(whole, 2.12194440e-4F));
  float sum = 1.9875691500e-4F;
  sum = simt::add(simt::mul(sum, r), 1.3981999507e-3F);
  sum = simt::add(simt::mul(sum, r), 8.3334519073e-3F);
  sum = simt::add(simt::mul(sum, r), 4.1665795894e-2F);
  sum = simt::add(simt::mul(sum, r), 1.6666665459e-1F);
  sum = simt::add(simt::mul(sum, r), 5.0000001201e-1F);
  sum = simt::add(simt::add(simt::mul(simt::mul(sum, r), r), r), 1.0F);
  const float power = simt::float_of(static_cast<std::uint32_t>((n + 127) * (1 << 23)));
  return representable ? simt::mul(sum, power) : 0.0F;
}

/// What a logit weighs against the highest one.
GODWIT_DEVICE float weight_of(float logit, float highest, float temperature) {
  if (highest == INFINITY || highest == -INFINITY) return logit == highest ? 1.0F : 0.0F;
  return exp_nonpositive(simt::div(simt::add(logit, -highest), temperature));
}

/// model::uniform: Philox4x32-10 at (index, 0, 0, 0) with the seed as its key.
GODWIT_DEVICE double uniform(std::uint64_t seed, std::uint32_t index) {
  std::uint32_t counter[4] = {index, 0, 0, 0};
  std::uint32_t key[2] = {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32U)};
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53U} * counter[0], b = std::uint64_t{0xCD9E8D57U} * counter[2];
    counter[0] = static_cast<std::uint32_t>(b >> 32U) ^ counter[1] ^ key[0];
    counter[1] = static_cast<std::uint32_t>(b);
    counter[2] = static_cast<std::uint32_t>(a >> 32U) ^ counter[3] ^ key[1];
    counter[3] = static_cast<std::uint32_t>(a);
    key[0] += 0x9E3779B9U;
    key[1] += 0xBB67AE85U;
  }
  const std::uint64_t bits = (std::uint64_t{counter[0]} << 21U) ^ (counter[1] >> 11U);
  return simt::mul(static_cast<double>(bits), 0x1.0p-53);
}

/// A row while it is drawn from.
struct drawing {
  board& shared;
  const float* weights; ///< [size]
  std::uint32_t size;
  bool exact_always;
  std::uint32_t exact_walks = 0;

  /// What sums of up to `size` weights in another order may differ by, and a row of subtractions with them.
  [[nodiscard]] GODWIT_DEVICE double slack(double sum) const {
    return simt::mul(sum, simt::mul(static_cast<double>(size + 16), 0x1.0p-50));
  }
};

/// The sum in the CPU's order: eight chains side by side.
GODWIT_DEVICE double exact_sum(drawing& draw) {
  ++draw.exact_walks;
  const std::uint32_t chain = simt::thread_index(), whole = draw.size / 8 * 8;
  if (chain < 8) {
    double sum = 0;
    for (std::uint32_t i = chain; i < whole; i += 8) sum = simt::add(sum, static_cast<double>(draw.weights[i]));
    if (chain == 0)
      for (std::uint32_t i = whole; i < draw.size; ++i) sum = simt::add(sum, static_cast<double>(draw.weights[i]));
    draw.shared.sums[chain] = sum;
  }
  simt::sync_block();
  double sum = 0;
  for (std::uint32_t i = 0; i < 8; ++i) sum = simt::add(sum, draw.shared.sums[i]);
  simt::sync_block();
  return sum;
}

/// The entry on which the draw falls, with the sums before and after it.
struct landing {
  std::uint32_t id = ~0U; ///< none
  double before = 0, after = 0;
};

/// Goes through entries first .. last - 1 in turn; `before` is the sum of those in front. By the first warp.
GODWIT_DEVICE landing walk(const drawing& draw, std::uint32_t first, std::uint32_t last, double before, double target) {
  for (; first < last; first += simt::warp_size) {
    const std::uint32_t i = first + simt::lane();
    const double weight = i < last ? static_cast<double>(draw.weights[i]) : 0.0;
    double after = weight;
    for (std::uint32_t step = 1; step < simt::warp_size; step *= 2) {
      const double other = simt::shuffle(after, simt::lane() - step);
      if (simt::lane() >= step) after = simt::add(after, other);
    }
    after = simt::add(before, after);
    const std::uint32_t beyond = simt::ballot(weight > 0 && after > target);
    if (beyond != 0) {
      const std::uint32_t lane = simt::lowest_bit(beyond);
      landing result;
      result.id = first + lane;
      result.after = simt::shuffle(after, lane);
      // From the sums themselves: `after` less the weight has another error.
      result.before = lane == 0 ? before : simt::shuffle(after, lane == 0 ? 0 : lane - 1);
      return result;
    }
    before = simt::shuffle(after, simt::warp_size - 1);
  }
  return {};
}

/// Over the whole vocabulary, in the order of ids.
GODWIT_DEVICE std::int32_t draw_from_all(drawing& draw, double number, double sum) {
  auto& shared = draw.shared;
  std::uint32_t first = 0, last = draw.size;
  double before = 0;
  const double target = simt::mul(number, sum);
  // Twice: each warp sums its part, and the part on which the draw falls is what is left.
  for (int round = 0; round < 2; ++round) {
    const std::uint32_t each = (last - first + 4 * warps - 1) / (4 * warps) * 4;
    const std::uint32_t from = first + each * simt::warp() < last ? first + each * simt::warp() : last;
    const std::uint32_t to = from + each < last ? from + each : last;
    double mine = 0;
    over(draw.weights, from, to, simt::lane(), simt::warp_size,
         [&](std::uint32_t, float weight) { mine = simt::add(mine, static_cast<double>(weight)); });
    for (std::uint32_t mask = 16; mask > 0; mask /= 2) mine = simt::add(mine, simt::shuffle_xor(mine, mask));
    if (simt::lane() == 0) shared.sums[simt::warp()] = mine;
    simt::sync_block();
    std::uint32_t part = 0;
    double reached = before;
    for (; part + 1 < warps; ++part) {
      const double next = simt::add(reached, shared.sums[part]);
      if (next > target) break;
      reached = next;
    }
    first = first + each * part < last ? first + each * part : last;
    last = first + each < last ? first + each : last;
    before = reached;
    simt::sync_block();
  }
  if (simt::warp() == 0) {
    const landing found = walk(draw, first, last, before, target);
    const double slack = draw.slack(sum);
    // Sure only where the CPU's sums fall on the same side. A target so low that all before must have been zero is
    // sure.
    const bool sure = found.id != ~0U && simt::add(found.after, -target) > slack &&
                      (found.before == 0 || simt::add(target, -found.before) > slack);
    if (simt::lane() == 0) {
      shared.token = static_cast<std::int32_t>(found.id);
      shared.flag = sure && !draw.exact_always;
    }
  }
  simt::sync_block();
  const bool sure = shared.flag != 0;
  std::int32_t token = shared.token;
  simt::sync_block();
  if (sure) return token;
  const double exact = exact_sum(draw);
  if (simt::thread_index() == 0) {
    double left = simt::mul(number, exact);
    token = 0;
    for (std::uint32_t i = 0; i < draw.size; ++i) {
      if (draw.weights[i] <= 0) continue;
      token = static_cast<std::int32_t>(i);
      left = simt::add(left, -static_cast<double>(draw.weights[i]));
      if (left < 0) break;
    }
    shared.token = token;
  }
  simt::sync_block();
  token = shared.token;
  simt::sync_block();
  return token;
}

/// min-p, top-k, top-p, then the draw in the order of weights.
GODWIT_DEVICE std::int32_t draw_filtered(drawing& draw, const sampling_row& row, double number, std::uint64_t* memory) {
  auto& shared = draw.shared;
  const bool narrows = row.top_k > 0 && row.top_k < draw.size, by_mass = row.top_p < 1.0F;
  double kept = 0;
  over(draw.weights, draw.size, [&](std::uint32_t, float weight) {
    kept = simt::add(kept, weight >= row.min_p ? static_cast<double>(weight) : 0.0);
  });
  kept = sum_all(shared, kept);
  double slack = draw.slack(kept);
  const auto keep_exactly = [&] {
    ++draw.exact_walks;
    if (simt::thread_index() == 0) {
      double sum = 0;
      for (std::uint32_t i = 0; i < draw.size; ++i)
        sum = simt::add(sum, draw.weights[i] >= row.min_p ? static_cast<double>(draw.weights[i]) : 0.0);
      shared.sums[0] = sum;
    }
    simt::sync_block();
    kept = shared.sums[0];
    slack = 0;
    simt::sync_block();
  };
  if (draw.exact_always) keep_exactly();
  // What weighs less is, all together, less than what top-p drops.
  const double dust = narrows || !by_mass
                          ? 0.0
                          : simt::mul(simt::mul(0.999, simt::add(1.0, -static_cast<double>(row.top_p))), kept) /
                                static_cast<double>(draw.size);
  const float least = fmaxf(row.min_p, static_cast<float>(dust));
  const auto entry = [&](float value) { return value > 0 && value >= least; };
  list_goal goal;
  if (narrows)
    goal.count = row.top_k;
  else if (by_mass)
    goal.mass = static_cast<std::uint64_t>(simt::mul(simt::mul(static_cast<double>(row.top_p), simt::add(kept, slack)),
                                                     0x1.0p44 * (1 + 0x1.0p-40))) +
                draw.size; // each mass may have lost one
  list_bounds bounds = find_bounds(shared, draw.size, draw.weights, goal, entry);
  for (;;) {
    const std::uint64_t* list = sorted_list(shared, draw.size, draw.weights, bounds, memory, entry);
    if (simt::warp() == 0) {
      std::uint32_t there = bounds.count;
      double all = kept, unsure = slack;
      if (narrows && row.top_k < bounds.total) {
        there = row.top_k;
        all = 0;
        in_turn(list, there, [&](double weight) {
          all = simt::add(all, weight);
          return true;
        });
        unsure = 0;
      }
      const double wanted = simt::mul(static_cast<double>(row.top_p), all);
      double reached = 0;
      std::uint32_t taken = 0;
      bool doubtful = false;
      in_turn(list, there, [&](double weight) {
        if (taken != 0 && by_mass) {
          const double over = simt::add(reached, -wanted);
          doubtful = doubtful || (over <= unsure && over >= -unsure && unsure > 0);
          if (over >= 0) return false;
        }
        reached = simt::add(reached, weight);
        ++taken;
        return true;
      });
      // The list was to be long enough; were it not, there is all of it.
      const bool too_short = by_mass && reached < wanted && bounds.count < bounds.total && there == bounds.count;
      double left = simt::mul(number, reached);
      std::uint32_t at = 0;
      in_turn(list, taken - 1, [&](double weight) {
        left = simt::add(left, -weight);
        if (left < 0) return false;
        ++at;
        return true;
      });
      if (simt::lane() == 0) {
        shared.token = static_cast<std::int32_t>(id_of(list[at]));
        shared.flag = doubtful ? 1 : too_short ? 2 : 0;
      }
    }
    simt::sync_block();
    const std::uint32_t again = shared.flag;
    const std::int32_t token = shared.token;
    simt::sync_block();
    if (again == 0) return token;
    if (again == 1) {
      keep_exactly();
    } else {
      bounds.key = 0;
      bounds.count = bounds.total;
    }
  }
}

} // namespace godwit::gpu::cuda::sampling
