#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>

/// Runs a kernel's blocks on the calling thread, one after the other, each block's threads as fibers.
///
/// Problem: most bugs of a kernel (a missing barrier, a wrong fragment, an index past the end) show only on a GPU, and
/// there not always. Here a block's threads run in an order drawn from a seed, one at a time; a lane gives way at
/// barriers and at what a warp does together. Shared memory is filled with NaNs, copies in the background arrive as
/// late as they may, and threads that wait for others in vain are an error.
namespace godwit::gpu::cuda::simt::emulator {

/// What the kernel did wrong, in one line.
class kernel_error : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

struct shape {
  std::uint32_t grid[3] = {1, 1, 1};
  std::uint32_t threads = 32; ///< multiple of 32, at most 1024
  std::size_t shared_bytes = 0;
};

/// Throws kernel_error, also for a grid or a block that CUDA would refuse, or what the kernel threw.
void run(const shape& wanted, std::uint64_t seed, const std::function<void()>& body);

// What simt_emulated.hpp needs of the thread that is running.

struct place {
  std::uint32_t thread = 0;
  std::uint32_t block[3] = {0, 0, 0};
};
[[nodiscard]] const place& here();
[[nodiscard]] const shape& whole();
[[nodiscard]] std::byte* shared_memory();
void barrier();

/// What the lanes of a warp do together; meeting in different things is an error.
enum class meeting : std::uint8_t { sync, shuffle, ballot, multiply, load_matrix };
/// Lays down `bytes` (at most 64) of this lane's and waits for the warp's other lanes. The answer is valid until the
/// lane's next meeting: what lane i laid down lies at 64 * i.
[[nodiscard]] const std::byte* meet(meeting kind, const void* mine, std::size_t bytes);

/// `from` null: zeros.
void copy_later(void* to, const void* from);
void commit_later();
void wait_later(std::size_t pending);

/// Throws kernel_error where `p` is no multiple of `bytes`.
void check_aligned(const void* p, std::size_t bytes);
/// Throws kernel_error where [p, p + bytes) is not within the block's shared memory.
void check_shared(const void* p, std::size_t bytes);

} // namespace godwit::gpu::cuda::simt::emulator
