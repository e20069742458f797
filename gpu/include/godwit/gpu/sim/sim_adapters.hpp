#pragma once

#include <godwit/gpu/adapters.hpp>
#include <godwit/runtime/async/timer_source.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace godwit::gpu::sim {

struct sim_adapters_settings {
  std::chrono::nanoseconds load_time{std::chrono::milliseconds(50)};
  std::uint64_t slots = 8; ///< that there are
  /// That an adapter takes; empty: one each.
  std::function<std::uint64_t(const protocols::adapter_ref&)> size = {};
  std::size_t askers_max = 4096;
  /// Why a load comes to nothing; empty: it does not. May be empty itself: none does.
  std::function<std::string(const protocols::adapter_ref&)> fails = {};
  /// Told what comes about, "loaded", "evicted" or "waits"; may be empty.
  std::function<void(const char* what)> hit = {};
};

/// The adapters of a simulated process: they take time and room, and are nothing. `timers` must outlive all that is
/// held, and call on the thread that uses it.
class sim_adapters final : public adapter_store {
public:
  sim_adapters(runtime::async::timer_source& timers, sim_adapters_settings settings);
  ~sim_adapters() override; ///< loads under way are never answered
  sim_adapters(const sim_adapters&) = delete;
  sim_adapters& operator=(const sim_adapters&) = delete;

  void load(const protocols::adapter_ref& which, std::weak_ptr<const void> asker,
            std::function<void(adapter_outcome)> done) override;
  [[nodiscard]] adapter_counts counts() const override;
  /// Whether a step may name it: somebody holds it.
  [[nodiscard]] bool held(std::uint64_t id) const;
  /// How many hold one, each counted.
  [[nodiscard]] std::uint64_t holders() const;

private:
  struct state;
  std::shared_ptr<state> state_;
};

} // namespace godwit::gpu::sim
