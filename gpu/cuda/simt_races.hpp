#pragma once

/// What the thread sanitizer is told, so that it finds races between a kernel's threads. Nothing in other builds.
///
/// Problem: fibers never run at the same instant, so a race between warps or blocks changes nothing here but where an
/// order that the seed did not draw would have shown it. The sanitizer compares orders instead of instants: it is told
/// which of a kernel's words order memory (barriers of the block and of the warp, the launch and its end; no shuffle,
/// ballot, `mma` or `ldmatrix`, which promise nothing of memory), and reports any two accesses that nothing orders.
#if defined(__SANITIZE_THREAD__)
#define GODWIT_SEES_RACES
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define GODWIT_SEES_RACES
#endif
#endif

#if defined(GODWIT_SEES_RACES)
extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);
extern "C" void AnnotateIgnoreReadsBegin(const char* file, int line);
extern "C" void AnnotateIgnoreReadsEnd(const char* file, int line);
extern "C" void AnnotateIgnoreWritesBegin(const char* file, int line);
extern "C" void AnnotateIgnoreWritesEnd(const char* file, int line);
#endif

namespace godwit::gpu::cuda::simt::emulator {

#if defined(GODWIT_SEES_RACES)
inline constexpr bool sees_races = true;
#else
inline constexpr bool sees_races = false;
#endif

/// While one of these lives, what its thread reads and writes is the emulator's own and no access of the kernel. What
/// is freed or allocated meanwhile has no past.
class unwatched {
public:
  unwatched() noexcept {
#if defined(GODWIT_SEES_RACES)
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
#endif
  }
  ~unwatched() {
#if defined(GODWIT_SEES_RACES)
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
#endif
  }
  unwatched(const unwatched&) = delete;
  unwatched& operator=(const unwatched&) = delete;
};

/// All that this thread did comes before what `follows` of the same address lets another one do.
inline void precedes([[maybe_unused]] void* address) noexcept {
#if defined(GODWIT_SEES_RACES)
  __tsan_release(address);
#endif
}

inline void follows([[maybe_unused]] void* address) noexcept {
#if defined(GODWIT_SEES_RACES)
  __tsan_acquire(address);
#endif
}

} // namespace godwit::gpu::cuda::simt::emulator
