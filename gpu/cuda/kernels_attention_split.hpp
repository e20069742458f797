#pragma once

#include "cuda/kernels_common.hpp"

#include <type_traits>

// Which positions are whose, in attention over parts.

namespace godwit::gpu::cuda::attention {

/// Calls `use` with the head's size as a type.
template <class Use> void with_size(std::uint32_t size, const Use& use) {
  switch (size) {
  case 16:
    return use(std::integral_constant<int, 16>{});
  case 32:
    return use(std::integral_constant<int, 32>{});
  case 64:
    return use(std::integral_constant<int, 64>{});
  case 80:
    return use(std::integral_constant<int, 80>{});
  case 96:
    return use(std::integral_constant<int, 96>{});
  case 128:
    return use(std::integral_constant<int, 128>{});
  default:
    require(false, "a head has 16, 32, 64, 80, 96 or 128 elements");
  }
}

/// Positions of a part begin and end at multiples of this (save the last).
inline constexpr std::uint32_t part_unit = 64;

/// The parts of what some rows see: parts first .. last - 1, each some units.
struct part_plan {
  std::uint32_t first = 0, last = 0;
  std::uint32_t begin_unit = 0; ///< of part 0
  std::uint32_t units = 1;      ///< of each
  std::uint32_t end_unit = 0;

  [[nodiscard]] GODWIT_DEVICE std::uint32_t begin(std::uint32_t part) const {
    return (begin_unit + part * units) * part_unit;
  }
  [[nodiscard]] GODWIT_DEVICE std::uint32_t end(std::uint32_t part) const {
    const std::uint32_t unit = begin_unit + (part + 1) * units;
    return (unit < end_unit ? unit : end_unit) * part_unit;
  }
};

/// `from`: the first position seen, `to`: the last.
GODWIT_DEVICE part_plan plan_parts(const attention_split& split, std::uint32_t from, std::uint32_t to) {
  part_plan plan;
  plan.end_unit = to / part_unit + 1;
  if (split.tokens != 0) {
    plan.units = split.tokens / part_unit;
    plan.first = from / split.tokens;
    plan.last = to / split.tokens + 1;
    return plan;
  }
  plan.begin_unit = from / part_unit;
  const std::uint32_t units = plan.end_unit - plan.begin_unit;
  plan.units = (units + split.parts - 1) / split.parts;
  plan.last = (units + plan.units - 1) / plan.units;
  return plan;
}

/// Where the parts' results lie in scratch: all sums [slices][heads][stride][size], then all (top, total).
struct part_places {
  float* sums;
  float* ends;
  std::uint32_t stride; ///< parts of a row at most

  [[nodiscard]] GODWIT_DEVICE std::uint64_t at(std::uint32_t slice, std::uint32_t heads, std::uint32_t head,
                                               std::uint32_t part) const {
    return (std::uint64_t{slice} * heads + head) * stride + part;
  }
};

} // namespace godwit::gpu::cuda::attention
