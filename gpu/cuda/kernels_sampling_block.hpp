#pragma once

#include "cuda/kernels_common.hpp"

#include <cmath>

// What the block of threads that draws from a row of logits does together: sums, the best entry, the smallest key of
// the first entries, sorting. All functions here are called by all of its threads.

namespace godwit::gpu::cuda::sampling {

inline constexpr std::uint32_t threads = 512;
inline constexpr std::uint32_t warps = threads / simt::warp_size;
inline constexpr std::uint32_t buckets = 2048;

/// The block's shared memory.
struct board {
  double sums[warps];
  float values[warps];
  std::uint32_t ids[warps];
  std::uint64_t mass;   ///< of the buckets before the one that was chosen
  std::uint32_t count;  ///< likewise
  std::uint32_t inside; ///< entries of the chosen bucket
  std::uint32_t bucket; ///< buckets: none
  std::uint32_t total;  ///< entries of all buckets
  std::uint32_t listed;
  std::uint32_t flag;
  std::int32_t token;
  std::uint32_t padding;
  std::uint32_t counts[buckets];
  std::uint64_t masses[buckets]; ///< or a short list, when it is sorted
};
inline constexpr std::uint32_t short_list = buckets;
inline constexpr std::uint32_t short_sort = 128;

/// Larger floats have larger keys; both zeros have one.
GODWIT_DEVICE std::uint32_t key_of(float x) {
  const std::uint32_t bits = simt::bits_of(simt::add(x, 0.0F));
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}

/// In one order; every thread gets it.
GODWIT_DEVICE double sum_all(board& shared, double x) {
  for (std::uint32_t mask = 16; mask > 0; mask /= 2) x = simt::add(x, simt::shuffle_xor(x, mask));
  if (simt::lane() == 0) shared.sums[simt::warp()] = x;
  simt::sync_block();
  double sum = 0;
  for (std::uint32_t i = 0; i < warps; ++i) sum = simt::add(sum, shared.sums[i]);
  simt::sync_block();
  return sum;
}

/// `use(i, value)` for values first .. last - 1, by `count` threads of which this is the `own`th; several loads of 16
/// bytes under way. `first` is a multiple of 4, and `values` is aligned.
template <class Use>
GODWIT_DEVICE void over(const float* values, std::uint32_t first, std::uint32_t last, std::uint32_t own,
                        std::uint32_t count, const Use& use) {
  constexpr std::uint32_t at_once = 4;
  for (std::uint32_t base = first + own * 4; base < last; base += count * 4 * at_once) {
    float held[at_once][4];
    GODWIT_UNROLL
    for (std::uint32_t u = 0; u < at_once; ++u)
      if (base + u * count * 4 + 4 <= last) simt::load4(values + base + u * count * 4, held[u]);
    GODWIT_UNROLL
    for (std::uint32_t u = 0; u < at_once; ++u) {
      const std::uint32_t at = base + u * count * 4;
      if (at + 4 <= last) {
        GODWIT_UNROLL
        for (std::uint32_t k = 0; k < 4; ++k) use(at + k, held[u][k]);
      } else {
        for (std::uint32_t i = at; i < last; ++i) use(i, values[i]);
      }
    }
  }
}
/// By all threads of the block.
template <class Use> GODWIT_DEVICE void over(const float* values, std::uint32_t size, const Use& use) {
  over(values, 0, size, simt::thread_index(), threads, use);
}

GODWIT_DEVICE float clean(float logit) { return logit == logit ? logit : -INFINITY; }

struct best_entry {
  float value = -INFINITY;
  std::uint32_t id = ~0U;
};

GODWIT_DEVICE void prefer(best_entry& mine, float value, std::uint32_t id) {
  if (value > mine.value || (value == mine.value && id < mine.id)) mine = {value, id};
}

/// The highest value, and of those with it the lowest id. NaN counts as minus infinity.
GODWIT_DEVICE best_entry best_of(board& shared, std::uint32_t size, const float* values) {
  best_entry mine;
  over(values, size, [&](std::uint32_t i, float value) { prefer(mine, clean(value), i); });
  for (std::uint32_t mask = 16; mask > 0; mask /= 2) {
    const float value = simt::shuffle_xor(mine.value, mask);
    const std::uint32_t id = simt::shuffle_xor(mine.id, mask);
    prefer(mine, value, id);
  }
  if (simt::lane() == 0) {
    shared.values[simt::warp()] = mine.value;
    shared.ids[simt::warp()] = mine.id;
  }
  simt::sync_block();
  best_entry best;
  for (std::uint32_t i = 0; i < warps; ++i) prefer(best, shared.values[i], shared.ids[i]);
  simt::sync_block();
  return best;
}

/// How far down the order of keys a list has to go: until it has `count` entries or `mass` (in 2^-44).
struct list_goal {
  std::uint32_t count = ~0U;
  std::uint64_t mass = ~std::uint64_t{0};
};
struct list_bounds {
  std::uint32_t key = 0;   ///< the list is of all entries with this key or a larger one
  std::uint32_t count = 0; ///< of the list
  std::uint32_t total = 0; ///< of all entries
};

GODWIT_DEVICE std::uint64_t mass_of(float weight) {
  return static_cast<std::uint64_t>(simt::mul(static_cast<double>(weight), 0x1.0p44));
}

/// The first bucket, from the highest down, in which a goal is reached. By the first warp.
GODWIT_DEVICE void choose_bucket(board& shared, const list_goal& goal, std::uint32_t count, std::uint64_t mass) {
  constexpr std::uint32_t each = buckets / simt::warp_size;
  const std::uint32_t lane = simt::lane(), top = buckets - 1 - lane * each;
  const bool weighs = goal.mass != ~std::uint64_t{0};
  std::uint32_t own_count = 0;
  std::uint64_t own_mass = 0;
  for (std::uint32_t i = 0; i < each; ++i) {
    const std::uint32_t bucket = top - (i + lane) % each; // each lane another bank
    own_count += shared.counts[bucket];
    if (weighs) own_mass += shared.masses[bucket];
  }
  // What lies before this lane's buckets.
  std::uint32_t before = 0, all = 0;
  std::uint64_t mass_before = 0;
  for (std::uint32_t i = 0; i < simt::warp_size; ++i) {
    const std::uint32_t n = simt::shuffle(own_count, i);
    const std::uint64_t m = simt::shuffle(own_mass, i);
    all += n;
    before += i < lane ? n : 0;
    mass_before += i < lane ? m : 0;
  }
  const auto reached = [&](std::uint32_t n, std::uint64_t m) { return n >= goal.count || (weighs && m >= goal.mass); };
  const bool crosses = reached(count + before + own_count, mass + mass_before + own_mass);
  const std::uint32_t crossing = simt::ballot(crosses);
  if (lane == 0) {
    shared.total = all;
    if (crossing == 0) shared.bucket = buckets;
  }
  if (crossing == 0 || lane != static_cast<std::uint32_t>(simt::lowest_bit(crossing))) return;
  std::uint32_t n = count + before;
  std::uint64_t m = mass + mass_before;
  for (std::uint32_t i = 0; i < each; ++i) {
    const std::uint32_t bucket = top - i, inside = shared.counts[bucket];
    const std::uint64_t weight = weighs ? shared.masses[bucket] : 0;
    if (reached(n + inside, m + weight)) {
      shared.bucket = bucket;
      shared.inside = inside;
      shared.count = n;
      shared.mass = m;
      return;
    }
    n += inside;
    m += weight;
  }
}

/// `entry(value)`: false where a value is no entry; may change it. Counts are whole numbers, so their order does not
/// matter.
template <class Entry>
GODWIT_DEVICE list_bounds find_bounds(board& shared, std::uint32_t size, const float* values, const list_goal& goal,
                                      const Entry& entry) {
  list_bounds bounds;
  std::uint32_t count = 0;
  std::uint64_t mass = 0;
  const bool weighs = goal.mass != ~std::uint64_t{0};
  for (std::uint32_t level = 0; level < 3; ++level) {
    for (std::uint32_t i = simt::thread_index(); i < buckets; i += threads) {
      shared.counts[i] = 0;
      if (weighs) shared.masses[i] = 0;
    }
    simt::sync_block();
    const std::uint32_t shift = level == 0 ? 21 : level == 1 ? 10 : 0, width = level == 2 ? 10 : 11;
    over(values, size, [&](std::uint32_t, float value) {
      if (!entry(value)) return;
      const std::uint32_t key = key_of(value);
      if (level != 0 && key >> (shift + width) != bounds.key) return;
      const std::uint32_t bucket = key >> shift & ((1U << width) - 1);
      simt::add_shared(&shared.counts[bucket], 1U);
      if (weighs) simt::add_shared(&shared.masses[bucket], mass_of(value));
    });
    simt::sync_block();
    if (simt::warp() == 0) choose_bucket(shared, goal, count, mass);
    simt::sync_block();
    if (level == 0) bounds.total = shared.total;
    if (shared.bucket == buckets) { // at the first level only: all entries together do not reach the goal
      bounds.count = bounds.total;
      simt::sync_block();
      return bounds;
    }
    count = shared.count;
    mass = shared.mass;
    bounds.key = bounds.key << width | shared.bucket;
    bounds.count = count + shared.inside;
    simt::sync_block();
  }
  return bounds;
}

GODWIT_DEVICE std::uint32_t next_power(std::uint32_t n) {
  std::uint32_t power = 1;
  while (power < n) power *= 2;
  return power;
}

/// The entries within `bounds`, highest first, ties by id: `key` complemented in the upper half, the id in the lower.
/// In shared memory when short, else in `memory`, which has room for the next power of two.
template <class Entry>
GODWIT_DEVICE const std::uint64_t* sorted_list(board& shared, std::uint32_t size, const float* values,
                                               const list_bounds& bounds, std::uint64_t* memory, const Entry& entry) {
  std::uint64_t* list = bounds.count <= short_list ? shared.masses : memory;
  const std::uint32_t length = next_power(bounds.count);
  if (simt::thread_index() == 0) shared.listed = 0;
  simt::sync_block();
  over(values, size, [&](std::uint32_t i, float value) {
    if (!entry(value)) return;
    const std::uint32_t key = key_of(value);
    if (key >= bounds.key) list[simt::add_shared(&shared.listed, 1U)] = std::uint64_t{~key} << 32U | i;
  });
  for (std::uint32_t i = bounds.count + simt::thread_index(); i < length; i += threads) list[i] = ~std::uint64_t{0};
  simt::sync_block();
  const auto pass = [&](std::uint32_t k, std::uint32_t j, std::uint32_t first, std::uint32_t step) {
    for (std::uint32_t i = first; i < length / 2; i += step) {
      const std::uint32_t low = i / j * 2 * j + i % j, high = low + j;
      const std::uint64_t a = list[low], b = list[high];
      if ((a > b) == ((low & k) == 0)) {
        list[low] = b;
        list[high] = a;
      }
    }
  };
  if (length <= short_sort) { // one warp is quicker than all of them with barriers
    if (simt::warp() == 0)
      for (std::uint32_t k = 2; k <= length; k *= 2)
        for (std::uint32_t j = k / 2; j > 0; j /= 2) {
          pass(k, j, simt::lane(), simt::warp_size);
          simt::sync_warp();
        }
    simt::sync_block();
    return list;
  }
  for (std::uint32_t k = 2; k <= length; k *= 2)
    for (std::uint32_t j = k / 2; j > 0; j /= 2) {
      pass(k, j, simt::thread_index(), threads);
      simt::sync_block();
    }
  return list;
}

GODWIT_DEVICE std::uint32_t id_of(std::uint64_t listed) { return static_cast<std::uint32_t>(listed); }
/// Of a value that is not negative.
GODWIT_DEVICE float value_of(std::uint64_t listed) {
  return simt::float_of(~static_cast<std::uint32_t>(listed >> 32U) & 0x7FFFFFFFU);
}

/// `use(value)` for the first `count` values of a list, one after the other, until it says false. By a warp, whose
/// lanes all do the same: one that waits for each load by itself takes many times as long.
template <class Use> GODWIT_DEVICE void in_turn(const std::uint64_t* list, std::uint32_t count, const Use& use) {
  for (std::uint32_t first = 0; first < count; first += simt::warp_size) {
    const std::uint32_t mine = first + simt::lane();
    const float value = mine < count ? value_of(list[mine]) : 0.0F;
    const std::uint32_t there = count - first < simt::warp_size ? count - first : simt::warp_size;
    for (std::uint32_t i = 0; i < there; ++i)
      if (!use(static_cast<double>(simt::shuffle(value, i)))) return;
  }
}

} // namespace godwit::gpu::cuda::sampling
