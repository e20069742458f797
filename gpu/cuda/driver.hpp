#pragma once

#include "cuda/group_end.hpp"
#include "device/going.hpp"

#include <godwit/gpu/memory_pool.hpp>
#include <godwit/gpu/model/config.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

/// The seam over the CUDA runtime and cuBLASLt.
///
/// Problem: what runs on a GPU is to be tested where there is none. So everything in gpu/cuda asks this interface,
/// which has two implementations: the CUDA runtime's (in the plug-in), and an emulated one of this process's threads,
/// whose streams run behind the caller's back like a GPU's and whose memory the host cannot touch.
namespace godwit::gpu::cuda {

/// What the driver refused or found broken, in one line.
class driver_error : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

struct device_properties {
  std::string name; ///< "NVIDIA H100 80GB HBM3", "emulated GPU"
  std::uint32_t index = 0;
  std::uint32_t major = 0, minor = 0; ///< compute capability
  std::uint32_t multiprocessors = 0;
  std::uint64_t memory_bytes = 0;
  std::uint64_t l2_bytes = 0;
  std::uint32_t shared_bytes_max = 0; ///< of one block, when asked for
  bool remote_writes_ordered = false; ///< what an adapter has written is seen by kernels that begin afterwards
  bool loads_late = false;            ///< code is loaded when it is first used, while all streams may stand still
};

/// A point in a stream's work. Belongs to one device; may be recorded again and again. Its last recording counts.
class driver_event {
public:
  virtual ~driver_event() = default;
  /// True as well when it was never recorded. Throws driver_error when the work before it failed.
  [[nodiscard]] virtual bool ready() = 0;
  /// Blocks the calling thread. Throws driver_error when the work before it failed.
  virtual void synchronize() = 0;
  /// Time on the device since `earlier`; both were made with `timed` and are ready.
  [[nodiscard]] virtual double milliseconds_since(const driver_event& earlier) const = 0;
};

/// Work that was captured once and is launched again and again, with the same addresses and arguments.
class driver_graph {
public:
  virtual ~driver_graph() = default;
};

/// y = x * w^T, or y += x * w^T: x [rows][depth], w [columns][depth], y [rows][columns], all row-major without gaps.
/// Sums in f32. `type` is bf16 or f16; y is f32 or of the same type; `accumulate` needs f32.
struct gemm_job {
  model::data_type type = model::data_type::bf16;
  model::data_type y_type = model::data_type::f32;
  const void* x = nullptr;
  const void* w = nullptr;
  void* y = nullptr;
  std::uint32_t rows = 0;
  std::uint32_t columns = 0;
  std::uint32_t depth = 0;
  bool accumulate = false;
};

struct copy_piece {
  void* to = nullptr;
  const void* from = nullptr;
  std::size_t bytes = 0;
};

/// Called once with an empty text, or with one line when the stream's work failed. On a thread of the driver's, which
/// it must not hold up and from which it must not call the driver: it posts a message.
using reaction = std::function<void(std::string error)>;

/// Told one line.
using warning = std::function<void(const std::string&)>;

/// Work for the device, in order. Every call returns at once and throws driver_error when the driver refuses it; what
/// fails later is told by events, notify and synchronize, and then by every call. One thread at a time.
///
/// Memory that is named here is the device's or pinned. Destroying a stream waits for what runs on it.
class driver_stream {
public:
  virtual ~driver_stream() = default;
  /// The real driver's cudaStream_t, for a kernel's launch by the calling thread, whose current device becomes the
  /// stream's. Null where the driver is emulated.
  [[nodiscard]] virtual void* native() const noexcept = 0;
  /// device_properties::shared_bytes_max of its device.
  [[nodiscard]] virtual std::uint32_t shared_bytes_max() const noexcept = 0;
  /// The emulated driver's way to launch a kernel: runs `body` on the stream's thread, which sees the device's memory.
  /// It may throw: the stream has failed then, as after an illegal address. The real driver throws std::logic_error.
  virtual void run(std::string kernel, std::function<void()> body) = 0;

  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;
  /// In any order, or all at once: none reads or writes what another one writes.
  virtual void copy(std::span<const copy_piece> pieces) = 0;
  virtual void fill(void* to, std::uint8_t value, std::size_t bytes) = 0;
  /// By the library's proposal of that number, which is the same algorithm for each product of a shape. The first is
  /// what it thinks fastest. Throws driver_error where there is none.
  virtual void gemm(const gemm_job& job, std::uint32_t proposal = 0) = 0;
  /// How many algorithms the library proposes for such a product; at least one. Throws driver_error.
  [[nodiscard]] virtual std::uint32_t gemm_proposals(const gemm_job& job) = 0;
  /// Takes what memory products need now, rather than with the first one. Throws out_of_memory.
  virtual void prepare_products() = 0;
  virtual void record(driver_event& event) = 0;
  virtual void wait(driver_event& event) = 0;
  /// `then` is called when all before has run. Not while capturing.
  virtual void notify(reaction then) = 0;
  virtual void synchronize() = 0;

  /// Until `end_capture`, calls are written down instead of run. At most one stream of a device captures at a time.
  virtual void begin_capture() = 0;
  [[nodiscard]] virtual std::unique_ptr<driver_graph> end_capture() = 0;
  virtual void launch(driver_graph& graph) = 0;
};

enum class stream_priority : std::uint8_t {
  high, ///< steps
  low   ///< copies that must not hold up steps
};

struct memory_state {
  std::uint64_t free_bytes = 0;
  std::uint64_t total_bytes = 0;
};

/// One device. Thread-safe; outlives what it made.
class driver {
public:
  virtual ~driver() = default;
  /// Makes the device the calling thread's, for libraries that ask for that.
  virtual void enter() {}
  [[nodiscard]] virtual const device_properties& properties() const noexcept = 0;
  [[nodiscard]] virtual memory_state memory() = 0;
  /// Device memory, 256-byte aligned, not zeroed. Throws out_of_memory, with `purpose` in the line, before the driver
  /// is asked for more than it has.
  [[nodiscard]] virtual allocation allocate(std::uint64_t bytes, const std::string& purpose) = 0;
  /// Page-locked host memory that the device copies from and to, and kernels may read.
  [[nodiscard]] virtual allocation allocate_pinned(std::uint64_t bytes, const std::string& purpose) = 0;
  [[nodiscard]] virtual std::unique_ptr<driver_stream> make_stream(stream_priority priority) = 0;
  [[nodiscard]] virtual std::unique_ptr<driver_event> make_event(bool timed = false) = 0;
  /// The ends of a group of several devices, all different and of this kind of driver, in their order. `wait_max`: a
  /// rank that waits longer for another one breaks the group. `warn` gets what an operator should read, on any thread;
  /// may be empty. Throws driver_error where devices cannot be joined.
  [[nodiscard]] virtual std::vector<std::shared_ptr<group_end>>
  make_group(std::span<const std::shared_ptr<driver>> devices, std::chrono::nanoseconds wait_max,
             const warning& warn) = 0;

  /// Parts of executors, more of them or fewer, that were left to a thread: whatever is asked of the device now may
  /// wait as long.
  void count_left(left_part what, int more) noexcept { (what == left_part::work ? work_ : memory_) += more; }
  [[nodiscard]] bool any_left(left_part what) const noexcept {
    return (what == left_part::work ? work_ : memory_) != 0;
  }

private:
  std::atomic<int> work_{0}, memory_{0};
};

} // namespace godwit::gpu::cuda
