#include "cuda/emulated/emulated_stream.hpp"

#include "cuda/memory_words.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <optional>
#include <utility>

namespace godwit::gpu::cuda::emulated {

void machine::add(const std::shared_ptr<device_state>& device) {
  const std::lock_guard lock(mutex_);
  devices_.emplace_back(device);
}

std::vector<std::shared_ptr<device_state>> machine::devices() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<device_state>> there;
  for (const auto& one : devices_)
    if (auto device = one.lock()) there.push_back(std::move(device));
  return there;
}

std::shared_ptr<device_state> machine::owner_of(const void* address, std::size_t bytes) const {
  for (auto& device : devices())
    if (device->memory.is_device(address, bytes)) return device;
  return nullptr;
}

bool machine::is_pinned(const void* address, std::size_t bytes) const {
  return std::ranges::any_of(devices(), [&](const auto& device) { return device->memory.is_pinned(address, bytes); });
}

void device_state::fail(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (error_.empty()) error_ = why;
}

std::string device_state::error() const {
  const std::lock_guard lock(mutex_);
  return error_;
}

void device_state::check() const {
  if (const auto why = error(); !why.empty()) throw driver_error(why);
}

bool device_state::next_kernel_fails() { return ++kernels_ == settings.kernel_that_fails; }

memory_state memory_of(const device_state& device) { return {device.memory.free_bytes(), device.memory.total_bytes()}; }

allocation take_memory(const std::shared_ptr<device_state>& device, std::uint64_t bytes, const std::string& purpose) {
  device->check();
  std::byte* address = device->memory.allocate(bytes);
  if (address == nullptr) throw out_of_memory(does_not_fit(device_name, purpose, bytes, memory_of(*device)));
  device->count_taken();
  return {{address, bytes, protocols::memory_kind::device}, [device](protocols::memory_region region) {
            device->wait_to_free();
            device->memory.release(region.address);
            device->count_given_back();
          }};
}

bool emulated_event::ready() {
  device_->check();
  const std::lock_guard lock(marks_->mutex);
  return marks_->reached >= marks_->recorded;
}

void emulated_event::synchronize() {
  {
    std::unique_lock lock(marks_->mutex);
    marks_->changed.wait(lock, [&, until = marks_->recorded] { return marks_->reached >= until; });
  }
  device_->check();
}

double emulated_event::milliseconds_since(const driver_event& earlier) const {
  const auto& other = dynamic_cast<const emulated_event&>(earlier).marks_;
  const std::scoped_lock lock(marks_->mutex, other->mutex);
  return std::chrono::duration<double, std::milli>(marks_->when - other->when).count();
}

emulated_stream::emulated_stream(std::shared_ptr<device_state> device)
    : device_(std::move(device)), random_(device_->next_seed()), thread_([this] { work(); }) {}

emulated_stream::~emulated_stream() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void emulated_stream::work() {
  const auto delay_max = device_->settings.delay_us_max;
  for (;;) {
    operation next;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
      if (queue_.empty()) return;
      next = std::move(queue_.front());
      queue_.pop_front();
    }
    if (delay_max > 0) std::this_thread::sleep_for(std::chrono::microseconds(random_() % (delay_max + 1)));
    next();
  }
}

void emulated_stream::push(operation work) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
  }
  changed_.notify_one();
}

void emulated_stream::add(operation work) {
  device_->check();
  if (capturing_) {
    captured_.push_back(std::move(work));
    return;
  }
  push([device = device_, work = std::move(work)] {
    device->stand();
    if (device->error().empty()) work();
  });
}

void emulated_stream::refuse_while_capturing(const char* what) const {
  if (capturing_) throw driver_error(std::string(what) + " while a stream captures");
}

void emulated_stream::check_device(const void* address, std::size_t bytes, const char* what) const {
  if (!device_->memory.is_device(address, bytes))
    throw driver_error(std::string(what) + " outside of the device's memory (" + std::to_string(bytes) + " bytes)");
}

std::shared_ptr<device_state> emulated_stream::copied_owner(const void* address, std::size_t bytes,
                                                            const char* what) const {
  auto owner = device_->all->owner_of(address, bytes);
  if (!owner && !device_->all->is_pinned(address, bytes))
    throw driver_error(std::string(what) + " neither within the device's memory nor within pinned memory (" +
                       std::to_string(bytes) + " bytes)");
  return owner;
}

void emulated_stream::run(std::string kernel, std::function<void()> body) {
  add([device = device_, kernel = std::move(kernel), body = std::move(body)] {
    device->count_use(kernel);
    if (device->next_kernel_fails()) return device->fail("kernel " + kernel + ": made to fail");
    device->memory.enter();
    try {
      body();
    } catch (const std::exception& failure) {
      device->fail("kernel " + kernel + ": " + failure.what());
    }
    device->memory.leave();
  });
}

void emulated_stream::copy(void* to, const void* from, std::size_t bytes) {
  add([copy_us = device_->settings.copy_us, into = copied_owner(to, bytes, "a copy to memory that is"),
       out_of = copied_owner(from, bytes, "a copy from memory that is"), to, from, bytes] {
    if (copy_us > 0) std::this_thread::sleep_for(std::chrono::microseconds(copy_us));
    for (const auto& device : {into, out_of})
      if (device) device->memory.enter();
    std::memmove(to, from, bytes);
    for (const auto& device : {into, out_of})
      if (device) device->memory.leave();
  });
}

void emulated_stream::copy(std::span<const copy_piece> pieces) {
  for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) copy(piece->to, piece->from, piece->bytes);
}

void emulated_stream::fill(void* to, std::uint8_t value, std::size_t bytes) {
  check_device(to, bytes, "a fill");
  add([device = device_, to, value, bytes] {
    device->memory.enter();
    std::memset(to, value, bytes);
    device->memory.leave();
  });
}

void emulated_stream::prepare_products() {
  const auto bytes = device_->settings.product_bytes;
  if (products_.bytes() == 0 && bytes > 0) products_ = take_memory(device_, bytes, "working memory of products");
}

std::uint32_t emulated_stream::gemm_proposals(const gemm_job&) {
  return static_cast<std::uint32_t>(std::max<std::size_t>(1, device_->settings.proposals_us.size()));
}

void emulated_stream::gemm(const gemm_job& job, std::uint32_t proposal) {
  prepare_products();
  const auto& delays = device_->settings.proposals_us;
  if (proposal >= gemm_proposals(job)) throw driver_error("there is no such way to form a product");
  const auto delay = delays.empty() ? std::optional<std::uint32_t>(0) : delays[proposal];
  if (!delay) throw driver_error("a product cannot be formed in the way that was proposed");
  const std::size_t size = 2, y_size = model::bytes_of(job.y_type);
  if (job.type == model::data_type::f32) throw driver_error("a product of f32 matrices is not offered");
  if (job.y_type != job.type && job.y_type != model::data_type::f32)
    throw driver_error("a product's result is f32 or of its factors' type");
  if (job.accumulate && job.y_type != model::data_type::f32) throw driver_error("a product is added up in f32");
  check_device(job.x, std::size_t{job.rows} * job.depth * size, "a product's left side");
  check_device(job.w, std::size_t{job.columns} * job.depth * size, "a product's right side");
  check_device(job.y, std::size_t{job.rows} * job.columns * y_size, "a product's result");
  add([device = device_, job, delay = std::chrono::microseconds(*delay)] {
    if (delay.count() > 0) std::this_thread::sleep_for(delay);
    device->count_use("product of " + std::to_string(job.rows) + " x " + std::to_string(job.columns) + " x " +
                      std::to_string(job.depth));
    device->memory.enter();
    multiply(job);
    device->memory.leave();
  });
}

void emulated_stream::record(driver_event& event) {
  refuse_while_capturing("an event is recorded");
  device_->check();
  const auto marks = dynamic_cast<emulated_event&>(event).state();
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(marks->mutex);
    number = ++marks->recorded;
  }
  push([marks, number] {
    const std::lock_guard lock(marks->mutex);
    marks->reached = number;
    marks->when = std::chrono::steady_clock::now();
    marks->changed.notify_all();
  });
}

void emulated_stream::wait(driver_event& event) {
  refuse_while_capturing("an event is waited for");
  device_->check();
  const auto marks = dynamic_cast<emulated_event&>(event).state();
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(marks->mutex);
    number = marks->recorded;
  }
  push([marks, number] {
    std::unique_lock lock(marks->mutex);
    marks->changed.wait(lock, [&] { return marks->reached >= number; });
  });
}

void emulated_stream::notify(reaction then) {
  refuse_while_capturing("a notification is asked for");
  push([device = device_, then = std::move(then)] { then(device->error()); });
}

void emulated_stream::synchronize() {
  refuse_while_capturing("a stream is waited for");
  std::mutex mutex;
  std::condition_variable changed;
  bool reached = false;
  push([&] {
    const std::lock_guard lock(mutex);
    reached = true;
    changed.notify_one();
  });
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return reached; });
  }
  device_->check();
}

void emulated_stream::begin_capture() {
  refuse_while_capturing("a capture begins");
  device_->check();
  capturing_ = true;
}

std::unique_ptr<driver_graph> emulated_stream::end_capture() {
  if (!capturing_) throw driver_error("no capture has begun");
  capturing_ = false;
  auto work = std::exchange(captured_, {});
  if (device_->next_capture_fails()) throw driver_error("the emulated GPU makes no graphs");
  return std::make_unique<emulated_graph>(std::move(work));
}

void emulated_stream::launch(driver_graph& graph) {
  refuse_while_capturing("a graph is launched");
  add([device = device_, work = dynamic_cast<emulated_graph&>(graph).work()] {
    for (const auto& one : *work)
      if (device->error().empty()) one();
  });
}

} // namespace godwit::gpu::cuda::emulated
