#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace godwit::gpu {

/// Looks before a waiting thread sleeps: 8 microseconds on a Sapphire Rapids, whose pauses are long. A sleep and a
/// waking cost more.
inline constexpr int looks_max = 500;

/// Between two looks.
inline void relax() noexcept {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

} // namespace godwit::gpu
