#include "cpu/team.hpp"

#include "cpu/kernels.hpp"
#include "device/waiting.hpp"

#include <stdexcept>
#include <string>
#include <system_error>

namespace godwit::gpu::cpu {

void team::wait_while(const std::atomic<std::int32_t>& value, std::int32_t old) noexcept {
  for (int look = 0; look < looks_max; ++look) {
    if (value.load(std::memory_order_acquire) != old) return;
    relax();
  }
  while (value.load(std::memory_order_acquire) == old) value.wait(old, std::memory_order_acquire);
}

void team::publish(std::atomic<std::int32_t>& value) noexcept {
  value.fetch_add(1, std::memory_order_release);
  value.notify_all();
}

void team::member::barrier() {
  team& t = team_;
  const std::int32_t phase = t.phase_.load(std::memory_order_relaxed);
  if (t.arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 < t.size()) return wait_while(t.phase_, phase);
  t.arrived_.store(0, std::memory_order_relaxed);
  t.dispensed_.store(0, std::memory_order_relaxed);
  if (t.size() == 1)
    t.phase_.store(phase + 1, std::memory_order_relaxed);
  else
    publish(t.phase_);
}

team::team(std::uint32_t size) {
  try {
    for (std::uint32_t index = 1; index < size; ++index) helpers_.emplace_back([this, index] { help(index); });
  } catch (const std::system_error& failure) {
    const auto started = helpers_.size();
    stop();
    throw std::runtime_error("the system starts no more than " + std::to_string(started + 1) + " of " +
                             std::to_string(size) + " threads: " + failure.code().message());
  }
}

team::~team() { stop(); }

void team::stop() noexcept {
  stopping_ = true;
  publish(round_);
  for (auto& helper : helpers_) helper.join();
}

void team::run(const function& body) {
  body_ = &body;
  dispensed_.store(0, std::memory_order_relaxed);
  if (!helpers_.empty()) publish(round_);
  const flush_denormals flushing;
  member self(*this, 0);
  body(self);
  self.barrier(); // all have returned
}

void team::help(std::uint32_t index) {
  const flush_denormals flushing;
  for (std::int32_t round = 0;; ++round) {
    wait_while(round_, round);
    if (stopping_) return;
    member self(*this, index);
    (*body_)(self);
    self.barrier();
  }
}

} // namespace godwit::gpu::cpu
