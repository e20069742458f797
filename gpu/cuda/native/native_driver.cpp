#include "cuda/native/native_driver.hpp"

#include "cuda/native/errors.hpp"
#include "cuda/native/native_group.hpp"
#include "cuda/native/native_stream.hpp"

#include <cstdlib>
#include <string>
#include <utility>

namespace godwit::gpu::cuda::native {

namespace {

constexpr std::uint32_t major_min = 8; // mma of bf16, copies into shared memory in the background

std::uint32_t attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, device), "a device's attributes");
  return static_cast<std::uint32_t>(value);
}

class native_driver final : public driver {
public:
  native_driver(int index, const cuda_options& options) {
    // A thread that waits for the device sleeps: cores are for the front end.
    check(cudaInitDevice(index, cudaDeviceScheduleBlockingSync, cudaInitDeviceFlagsAreValid), "a device's start");
    check(cudaSetDevice(index), "the choice of a device"); // cuBLASLt looks at it
    parts_ = device_parts::make(index);
    if (options.notify == notify_by::polling) parts_->polling.emplace(index);
    cudaDeviceProp found{};
    check(cudaGetDeviceProperties(&found, index), "a device's properties");
    properties_.name = parts_->name = found.name;
    properties_.index = static_cast<std::uint32_t>(index);
    properties_.major = static_cast<std::uint32_t>(found.major);
    properties_.minor = static_cast<std::uint32_t>(found.minor);
    properties_.multiprocessors = static_cast<std::uint32_t>(found.multiProcessorCount);
    properties_.memory_bytes = found.totalGlobalMem;
    properties_.l2_bytes = static_cast<std::uint64_t>(found.l2CacheSize);
    properties_.shared_bytes_max = static_cast<std::uint32_t>(found.sharedMemPerBlockOptin);
    parts_->shared_bytes_max = properties_.shared_bytes_max;
    properties_.loads_late = true; // the default; not to do so loads all of cuBLASLt
    properties_.remote_writes_ordered =
        attribute(cudaDevAttrGPUDirectRDMAWritesOrdering, index) >= cudaGPUDirectRDMAWritesOrderingOwner;
  }

  [[nodiscard]] const device_properties& properties() const noexcept override { return properties_; }

  void enter() override { parts_->use(); }

  [[nodiscard]] memory_state memory() override { return memory_of(*parts_); }

  [[nodiscard]] allocation allocate(std::uint64_t bytes, const std::string& purpose) override {
    return take_memory(parts_, bytes, purpose);
  }

  [[nodiscard]] allocation allocate_pinned(std::uint64_t bytes, const std::string& purpose) override {
    parts_->use();
    parts_->free_late();
    void* address = nullptr;
    const auto code = cudaHostAlloc(&address, bytes, cudaHostAllocPortable);
    if (code == cudaErrorMemoryAllocation) {
      (void)cudaGetLastError();
      throw out_of_memory(purpose + ": no " + std::to_string(bytes) + " bytes of page-locked memory");
    }
    check(code, "page-locked memory");
    return allocation({static_cast<std::byte*>(address), bytes, protocols::memory_kind::pinned},
                      [device = parts_](protocols::memory_region region) { device->give_back(region); });
  }

  [[nodiscard]] std::unique_ptr<driver_stream> make_stream(stream_priority priority) override {
    return std::make_unique<native_stream>(parts_, priority);
  }

  [[nodiscard]] std::unique_ptr<driver_event> make_event(bool timed) override {
    return std::make_unique<native_event>(parts_, timed);
  }

  [[nodiscard]] std::vector<std::shared_ptr<group_end>> make_group(std::span<const std::shared_ptr<driver>> devices,
                                                                   std::chrono::nanoseconds wait_max,
                                                                   const warning& warn) override {
    std::vector<int> indices;
    for (const auto& device : devices) indices.push_back(static_cast<int>(device->properties().index));
    return make_native_group(indices, wait_max, warn);
  }

private:
  std::shared_ptr<device_parts> parts_;
  device_properties properties_;
};

/// Copies from one device to another go straight there, where the hardware can; else the driver takes them through the
/// host's memory.
void connect(const std::vector<int>& devices) {
  for (const int from : devices)
    for (const int to : devices) {
      int can = 0;
      if (from == to || cudaDeviceCanAccessPeer(&can, from, to) != cudaSuccess || can == 0) continue;
      if (cudaSetDevice(from) == cudaSuccess) (void)cudaDeviceEnablePeerAccess(to, 0);
    }
  (void)cudaGetLastError(); // without it all works as well, more slowly
}

} // namespace

found_devices find_devices(const cuda_options& options) {
  // A process has a stream for steps, and some for copies, for each executor: with the default of 8 queues some share
  // one, and a step would wait for a copy that it has nothing to do with. Read by the driver when it starts.
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  int count = 0;
  const auto code = cudaGetDeviceCount(&count);
  if (code != cudaSuccess) {
    (void)cudaGetLastError();
    throw driver_error("no GPU: " + in_words(code));
  }
  found_devices found;
  std::vector<int> indices;
  bool enough = false;
  for (int index = 0; index < count; ++index) {
    try {
      const auto major = attribute(cudaDevAttrComputeCapabilityMajor, index);
      if (major < major_min)
        throw driver_error("it has compute capability " + std::to_string(major) + "." +
                           std::to_string(attribute(cudaDevAttrComputeCapabilityMinor, index)) +
                           "; 8.0 and newer are served");
      if (enough = found.drivers.size() == options.devices_max; enough) break;
      found.drivers.push_back(std::make_shared<native_driver>(index, options));
      indices.push_back(index);
    } catch (const driver_error& failure) { // another process may have it for itself
      found.skipped.push_back("GPU " + std::to_string(index) + " is not used: " + failure.what());
    }
  }
  if (found.drivers.empty() && !enough) throw driver_error(found.skipped.empty() ? "no GPU" : found.skipped.front());
  connect(indices);
  return found;
}

} // namespace godwit::gpu::cuda::native
