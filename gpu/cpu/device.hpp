#pragma once

#include "cpu/host_memory.hpp"
#include "cpu/kernels.hpp"
#include "cpu/team.hpp"

#include <godwit/gpu/cpu/cpu_device.hpp>

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <variant>

namespace godwit::gpu::cpu {

/// Runs the streams' work on one leader thread, in the order in which it became ready.
class work_queue : public std::enable_shared_from_this<work_queue> {
public:
  struct item {
    std::variant<std::function<void()>, event> what; ///< work, or an event to wait for
    std::optional<event> marks;                      ///< set when the work has run or is dropped
  };
  struct lane {
    std::deque<item> items;
    bool queued = false;  ///< in `ready_`
    bool blocked = false; ///< waits for an event
    bool running = false;
    bool closed = false;
  };

  void push(const std::shared_ptr<lane>& to, item next);
  /// Drops what has not begun and waits for what runs, unless called by it.
  void close(const std::shared_ptr<lane>& which);
  /// The leader's loop; returns after `stop`.
  void run();
  void stop();

private:
  void schedule(const std::shared_ptr<lane>& which);
  void unblock(const std::shared_ptr<lane>& which);

  std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable idle_;
  std::deque<std::shared_ptr<lane>> ready_;
  std::thread::id leader_;
  bool stopping_ = false;
};

class cpu_device final : public device {
public:
  explicit cpu_device(const cpu_device_settings& settings);
  ~cpu_device() override;
  [[nodiscard]] backend kind() const noexcept override { return backend::cpu; }
  [[nodiscard]] std::string name() const override;
  [[nodiscard]] std::unique_ptr<stream> make_stream() override;
  [[nodiscard]] memory_pool& memory() noexcept override { return memory_; }

  [[nodiscard]] const kernel_table& kernels() const noexcept { return kernels_; }
  /// For work on a stream only.
  [[nodiscard]] cpu::team& team() noexcept { return team_; }

private:
  const kernel_table& kernels_;
  host_memory_pool memory_;
  cpu::team team_;
  std::shared_ptr<work_queue> queue_;
  std::thread leader_;
};

} // namespace godwit::gpu::cpu
