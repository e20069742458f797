#pragma once

#include <cstddef>

namespace godwit::gpu::cuda::testing {

/// While one of these lives, races that the thread sanitizer finds are counted instead of reported.
class expected_races {
public:
  expected_races();
  ~expected_races();
  expected_races(const expected_races&) = delete;
  expected_races& operator=(const expected_races&) = delete;
  [[nodiscard]] std::size_t found() const;
};

} // namespace godwit::gpu::cuda::testing
