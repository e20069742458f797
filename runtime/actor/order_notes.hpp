#pragma once

// What orders the threads that handle messages happens inside CAF, which is not built with the thread sanitizer: it is
// told here. Nothing in other builds.
#if defined(__SANITIZE_THREAD__)
#define GODWIT_TELLS_ORDER
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define GODWIT_TELLS_ORDER
#endif
#endif

#if defined(GODWIT_TELLS_ORDER)
extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);
#endif

namespace godwit::runtime::detail {

/// All that this thread did comes before what `comes_after` of the same address lets another one do.
inline void comes_before([[maybe_unused]] void* address) noexcept {
#if defined(GODWIT_TELLS_ORDER)
  __tsan_release(address);
#endif
}

inline void comes_after([[maybe_unused]] void* address) noexcept {
#if defined(GODWIT_TELLS_ORDER)
  __tsan_acquire(address);
#endif
}

} // namespace godwit::runtime::detail
