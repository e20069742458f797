#include <godwit/gpu/tensor_parallel.hpp>

#include <algorithm>

namespace godwit::gpu::tensor_parallel {

std::string refuse_degree(const model::config& config, std::uint32_t degree) {
  if (degree == 1) return {};
  const auto least = std::min(config.intermediate, config.vocabulary);
  const auto fits = [&](std::uint32_t n) { return n > 0 && config.kv_heads % n == 0 && n <= least; };
  if (fits(degree)) return {};
  std::string others;
  for (std::uint32_t n = 1; n <= config.kv_heads; ++n)
    if (fits(n)) others += (others.empty() ? "" : ", ") + std::to_string(n);
  return "the model's " + std::to_string(config.kv_heads) + " KV heads cannot be divided among " +
         std::to_string(degree) + " devices; a tensor-parallel degree that fits: " + others;
}

range part_of(std::uint32_t total, std::uint32_t unit, place where) noexcept {
  if (total / unit < where.degree) unit = 1;
  const std::uint64_t units = (std::uint64_t{total} + unit - 1) / unit;
  const auto border = [&](std::uint64_t rank) {
    const std::uint64_t each = units / where.degree, more = units % where.degree;
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(total, (rank * each + std::min(rank, more)) * unit));
  };
  const auto first = border(where.rank);
  return {first, border(std::uint64_t{where.rank} + 1) - first};
}

model_part part_of(const model::config& whole, place where) noexcept {
  const std::uint32_t heads = whole.heads / where.degree * whole.head_size;
  const std::uint32_t kv_heads = whole.kv_heads / where.degree * whole.head_size;
  return {{where.rank * heads, heads},
          {where.rank * kv_heads, kv_heads},
          part_of(whole.intermediate, inner_unit, where),
          part_of(whole.vocabulary, vocabulary_unit, where)};
}

} // namespace godwit::gpu::tensor_parallel
