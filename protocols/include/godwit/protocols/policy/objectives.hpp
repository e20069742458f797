#pragma once

#include <godwit/protocols/messages/scheduling.hpp>

#include <cstdint>
#include <string>

/// What a home asks of the scheduler for a request that has objectives, and what its client hears where that is not to
/// be had (docs/design/scheduling.md, "Objectives and early rejection").
namespace godwit::protocols {

/// Of requests that nobody has taken yet.
struct objectives_policy {
  double margin = 0;            ///< share of an objective that is left for what nobody can foresee; below 1
  bool early_rejection = false; ///< those that are expected to be late are turned away
};

/// A request with objectives, as it is when an instance is looked for.
struct hurried_request {
  std::int64_t ttft_ns = 0; ///< from its arrival; 0: none, here and below
  std::int64_t tpot_ns = 0;
  std::int64_t waited_ns = 0; ///< since then
  std::int32_t priority = 0;
  std::uint8_t execution_level = 0;
};

/// What is left of them. One that there is stays one, be its time over. Who goes before others is not turned away:
/// those that run may have to give way to it, of which what is expected knows nothing.
[[nodiscard]] latency_objectives objectives_left(const hurried_request& r, const objectives_policy& policy) noexcept;

/// For the client of a request that was turned away, whose closest instance was expected to take so long; 0: unknown.
[[nodiscard]] std::string describe_lateness(const hurried_request& r, const objectives_policy& policy,
                                            std::int64_t expected_ttft_ns, std::int64_t expected_tpot_ns);

} // namespace godwit::protocols
