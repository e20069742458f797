#include "cuda/emulated/emulated_driver.hpp"

#include "cuda/emulated/emulated_stream.hpp"
#include "cuda/memory_words.hpp"

#include <utility>

namespace godwit::gpu::cuda::emulated {

namespace {

class emulated_driver final : public driver {
public:
  explicit emulated_driver(const emulated_settings& settings) : state_(std::make_shared<device_state>(settings)) {
    properties_.name = "emulated GPU";
    properties_.major = 8;
    properties_.minor = 6;
    properties_.multiprocessors = 4;
    properties_.memory_bytes = settings.memory_bytes;
    properties_.shared_bytes_max = settings.shared_bytes_max;
  }

  [[nodiscard]] const device_properties& properties() const noexcept override { return properties_; }
  [[nodiscard]] memory_state memory() override { return {state_->memory.free_bytes(), state_->memory.total_bytes()}; }

  [[nodiscard]] allocation allocate(std::uint64_t bytes, const std::string& purpose) override {
    state_->check();
    std::byte* address = state_->memory.allocate(bytes);
    if (address == nullptr) throw out_of_memory(does_not_fit(properties_.name, purpose, bytes, memory()));
    return allocation({address, bytes, protocols::memory_kind::device},
                      [state = state_](protocols::memory_region region) { state->memory.release(region.address); });
  }

  [[nodiscard]] allocation allocate_pinned(std::uint64_t bytes, const std::string& purpose) override {
    std::byte* address = state_->memory.allocate_pinned(bytes);
    if (address == nullptr) throw out_of_memory(purpose + ": no " + std::to_string(bytes) + " bytes of pinned memory");
    return allocation({address, bytes, protocols::memory_kind::pinned},
                      [state = state_](auto region) { state->memory.release_pinned(region.address); });
  }

  [[nodiscard]] std::unique_ptr<driver_stream> make_stream(stream_priority) override {
    return std::make_unique<emulated_stream>(state_);
  }
  [[nodiscard]] std::unique_ptr<driver_event> make_event(bool) override {
    return std::make_unique<emulated_event>(state_);
  }

private:
  std::shared_ptr<device_state> state_;
  device_properties properties_;
};

} // namespace

std::shared_ptr<driver> make_emulated_driver(const emulated_settings& settings) {
  return std::make_shared<emulated_driver>(settings);
}

} // namespace godwit::gpu::cuda::emulated
