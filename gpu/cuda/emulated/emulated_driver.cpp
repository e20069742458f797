#include "cuda/emulated/emulated_driver.hpp"

#include "cuda/emulated/emulated_group.hpp"
#include "cuda/emulated/emulated_stream.hpp"

#include <utility>

namespace godwit::gpu::cuda::emulated {

namespace {

class emulated_driver final : public driver {
public:
  emulated_driver(const emulated_settings& settings, std::uint32_t index, const std::shared_ptr<machine>& all)
      : state_(std::make_shared<device_state>(settings, all)) {
    all->add(state_);
    properties_.name = device_name;
    properties_.index = index;
    properties_.major = 8;
    properties_.minor = 6;
    properties_.multiprocessors = settings.multiprocessors;
    properties_.memory_bytes = settings.memory_bytes;
    properties_.shared_bytes_max = settings.shared_bytes_max;
    properties_.loads_late = settings.loads_late;
  }

  [[nodiscard]] const device_properties& properties() const noexcept override { return properties_; }
  [[nodiscard]] memory_state memory() override { return memory_of(*state_); }

  [[nodiscard]] allocation allocate(std::uint64_t bytes, const std::string& purpose) override {
    return take_memory(state_, bytes, purpose);
  }

  [[nodiscard]] allocation allocate_pinned(std::uint64_t bytes, const std::string& purpose) override {
    std::byte* address = state_->memory.allocate_pinned(bytes);
    if (address == nullptr) throw out_of_memory(purpose + ": no " + std::to_string(bytes) + " bytes of pinned memory");
    state_->count_taken();
    return allocation({address, bytes, protocols::memory_kind::pinned}, [state = state_](auto region) {
      state->wait_to_free();
      state->memory.release_pinned(region.address);
      state->count_given_back();
    });
  }

  [[nodiscard]] std::unique_ptr<driver_stream> make_stream(stream_priority) override {
    return std::make_unique<emulated_stream>(state_);
  }
  [[nodiscard]] std::unique_ptr<driver_event> make_event(bool) override {
    return std::make_unique<emulated_event>(state_);
  }
  [[nodiscard]] std::vector<std::shared_ptr<group_end>> make_group(std::span<const std::shared_ptr<driver>> devices,
                                                                   std::chrono::nanoseconds wait_max,
                                                                   const warning&) override {
    return make_emulated_group(static_cast<std::uint32_t>(devices.size()), wait_max);
  }

private:
  std::shared_ptr<device_state> state_;
  device_properties properties_;
};

} // namespace

std::shared_ptr<driver> make_emulated_driver(const emulated_settings& settings) {
  return make_emulated_drivers({settings}).front();
}

std::vector<std::shared_ptr<driver>> make_emulated_drivers(const std::vector<emulated_settings>& each) {
  const auto all = std::make_shared<machine>();
  std::vector<std::shared_ptr<driver>> made;
  for (const auto& settings : each)
    made.push_back(std::make_shared<emulated_driver>(settings, static_cast<std::uint32_t>(made.size()), all));
  return made;
}

} // namespace godwit::gpu::cuda::emulated
