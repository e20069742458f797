#include "cuda/native/native_stream.hpp"

#include "cuda/memory_words.hpp"
#include "cuda/native/errors.hpp"

#include <stdexcept>
#include <thread>
#include <utility>

namespace godwit::gpu::cuda::native {

namespace {

/// Of this thread: it is the driver's, which waits for it.
thread_local bool called_back = false;

} // namespace

std::shared_ptr<device_parts> device_parts::make(int device) {
  return {new device_parts(device), [](device_parts* gone) {
            if (called_back || (gone->polling && gone->polling->is_telling()))
              std::thread([gone] { delete gone; }).detach();
            else
              delete gone;
          }};
}

void device_parts::call_back(reaction then, const std::string& error) {
  called_back = true;
  then(error);
  then = {}; // what it holds goes now
  called_back = false;
}

void device_parts::free(protocols::memory_region region) const {
  (void)cudaSetDevice(index);
  if (region.kind == protocols::memory_kind::pinned)
    (void)cudaFreeHost(region.address);
  else
    (void)cudaFree(region.address);
}

void device_parts::give_back(protocols::memory_region region) {
  if (!called_back) return free(region);
  const std::lock_guard lock(mutex_);
  late_.push_back(region);
}

void device_parts::free_late() {
  std::vector<protocols::memory_region> regions;
  {
    const std::lock_guard lock(mutex_);
    regions.swap(late_);
  }
  for (const auto& region : regions) free(region);
}

void device_parts::use() const { check(cudaSetDevice(index), "the choice of a device"); }

memory_state memory_of(const device_parts& device) {
  device.use();
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "the device's memory");
  return {free, total};
}

allocation take_memory(const std::shared_ptr<device_parts>& device, std::uint64_t bytes, const std::string& purpose) {
  device->free_late();
  const auto state = memory_of(*device);
  void* address = nullptr;
  const auto code = bytes > state.free_bytes ? cudaErrorMemoryAllocation : cudaMalloc(&address, bytes);
  if (code == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    throw out_of_memory(does_not_fit(device->name, purpose, bytes, state));
  }
  check(code, "device memory");
  return {{static_cast<std::byte*>(address), bytes, protocols::memory_kind::device},
          [device](protocols::memory_region region) { device->give_back(region); }};
}

native_event::native_event(std::shared_ptr<device_parts> device, bool timed) : device_(std::move(device)) {
  device_->use();
  // A thread that waits for it sleeps; by itself it would spin, whatever the device was told when it started.
  check(cudaEventCreateWithFlags(&event_, timed ? cudaEventDefault : cudaEventDisableTiming | cudaEventBlockingSync),
        "an event");
}

native_event::~native_event() {
  (void)cudaSetDevice(device_->index);
  (void)cudaEventDestroy(event_);
}

bool native_event::ready() {
  device_->use();
  const auto code = cudaEventQuery(event_);
  if (code == cudaErrorNotReady) {
    (void)cudaGetLastError(); // or a launch on this thread would be taken for it
    return false;
  }
  check(code, "an event");
  return true;
}

void native_event::synchronize() {
  device_->use();
  check(cudaEventSynchronize(event_), "waiting for an event");
}

double native_event::milliseconds_since(const driver_event& earlier) const {
  device_->use();
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, dynamic_cast<const native_event&>(earlier).get(), event_),
        "the time between events");
  return static_cast<double>(milliseconds);
}

native_stream::native_stream(std::shared_ptr<device_parts> device, stream_priority priority)
    : device_(std::move(device)) {
  device_->use();
  int lowest = 0, highest = 0;
  check(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "a stream");
  check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking,
                                     priority == stream_priority::high ? highest : lowest),
        "a stream");
}

native_stream::~native_stream() {
  // Errors here were told before, or concern nobody any more.
  (void)cudaSetDevice(device_->index);
  (void)cudaStreamSynchronize(stream_);
  if (device_->polling) device_->polling->wait_told(stream_);
  (void)cudaStreamDestroy(stream_);
}

void native_stream::run(std::string kernel, std::function<void()>) {
  throw std::logic_error("kernel " + kernel + " is to be launched, not run by the host");
}

void native_stream::copy(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  device_->use();
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_), "a copy");
}

void native_stream::copy(std::span<const copy_piece> pieces) {
  if (pieces.size() > 1 && copy_in_one_call(pieces)) return;
  for (const auto& piece : pieces) copy(piece.to, piece.from, piece.bytes);
}

// A call for each piece takes the driver microseconds, in which the steps' calls wait.
bool native_stream::copy_in_one_call([[maybe_unused]] std::span<const copy_piece> pieces) {
#if CUDART_VERSION >= 13000
  if (!device_->takes_batches) return false;
  std::vector<void*> to;
  std::vector<const void*> from;
  std::vector<std::size_t> bytes;
  for (const auto& piece : pieces) {
    if (piece.bytes == 0) continue;
    to.push_back(piece.to);
    from.push_back(piece.from);
    bytes.push_back(piece.bytes);
  }
  if (bytes.empty()) return true;
  cudaMemcpyAttributes way{};
  way.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  way.flags = cudaMemcpyFlagPreferOverlapWithCompute;
  std::size_t from_the_first = 0;
  device_->use();
  const auto code =
      cudaMemcpyBatchAsync(to.data(), from.data(), bytes.data(), bytes.size(), &way, &from_the_first, 1, stream_);
  if (code == cudaSuccess) return true;
  (void)cudaGetLastError(); // a device that has failed says so again
  if (code == cudaErrorNotSupported || code == cudaErrorCallRequiresNewerDriver) device_->takes_batches = false;
#endif
  return false;
}

void native_stream::fill(void* to, std::uint8_t value, std::size_t bytes) {
  device_->use();
  check(cudaMemsetAsync(to, value, bytes, stream_), "a fill");
}

void native_stream::prepare_products() {
  device_->use();
  if (workspace_.bytes() == 0) workspace_ = take_memory(device_, gemm_workspace_bytes, "working memory of products");
}

void native_stream::gemm(const gemm_job& job, std::uint32_t proposal) {
  prepare_products();
  device_->plans.run(job, proposal, workspace_.data(), stream_);
}

std::uint32_t native_stream::gemm_proposals(const gemm_job& job) {
  device_->use();
  return device_->plans.proposals(job);
}

void native_stream::record(driver_event& event) {
  device_->use();
  check(cudaEventRecord(dynamic_cast<native_event&>(event).get(), stream_), "an event");
}

void native_stream::wait(driver_event& event) {
  device_->use();
  check(cudaStreamWaitEvent(stream_, dynamic_cast<native_event&>(event).get(), 0), "waiting for an event");
}

void native_stream::notify(reaction then) {
  device_->use();
  if (device_->polling) return device_->polling->watch(stream_, std::move(then));
  // A host function would not be called once the device has failed; a callback is, with the error.
  auto owned = std::make_unique<reaction>(std::move(then));
  check(cudaStreamAddCallback(
            stream_,
            [](cudaStream_t, cudaError_t code, void* argument) {
              const std::unique_ptr<reaction> told(static_cast<reaction*>(argument));
              device_parts::call_back(std::move(*told),
                                      code == cudaSuccess ? std::string() : "CUDA: " + in_words(code));
            },
            owned.get(), 0),
        "a notification");
  (void)owned.release();
}

void native_stream::synchronize() {
  device_->use();
  check(cudaStreamSynchronize(stream_), "waiting for a stream");
}

void native_stream::begin_capture() {
  device_->use();
  // Of this thread's calls alone: copies of a migration go on meanwhile.
  check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "the capture of a graph");
}

std::unique_ptr<driver_graph> native_stream::end_capture() {
  device_->use();
  cudaGraph_t captured = nullptr;
  check(cudaStreamEndCapture(stream_, &captured), "the capture of a graph");
  cudaGraphExec_t made = nullptr;
  const auto code = cudaGraphInstantiate(&made, captured, 0);
  (void)cudaGraphDestroy(captured);
  check(code, "a graph");
  return std::make_unique<native_graph>(device_, made);
}

void native_stream::launch(driver_graph& graph) {
  device_->use();
  check(cudaGraphLaunch(dynamic_cast<native_graph&>(graph).get(), stream_), "the launch of a graph");
}

} // namespace godwit::gpu::cuda::native
