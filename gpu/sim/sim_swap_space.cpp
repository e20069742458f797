#include "sim/sim_swap_space.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

namespace godwit::gpu::sim {

namespace {

using std::chrono::nanoseconds;

class sim_swap_space final : public swap_space {
public:
  sim_swap_space(sim_swap settings, std::shared_ptr<token_source> pool, runtime::async::timer_source& timers)
      : settings_(std::move(settings)), pool_(std::move(pool)), timers_(timers),
        memory_(pool_->remembers() ? settings_.slots * sim_block_bytes : 0) {}
  ~sim_swap_space() override {
    for (const auto& [number, timer] : open_) timers_.cancel(timer);
  }
  sim_swap_space(const sim_swap_space&) = delete;
  sim_swap_space& operator=(const sim_swap_space&) = delete;

  [[nodiscard]] std::uint32_t slots() const noexcept override { return settings_.slots; }
  void copy_out(std::vector<swap_move> moves, completion done) override {
    later(std::move(moves), std::move(done), out_free_at_, true);
  }
  void copy_in(std::vector<swap_move> moves, completion done) override {
    later(std::move(moves), std::move(done), in_free_at_, false);
  }

private:
  void later(std::vector<swap_move> moves, completion done, nanoseconds& free_at, bool out) {
    const auto takes =
        settings_.overhead +
        nanoseconds(static_cast<std::int64_t>(1e9 * static_cast<double>(moves.size()) / settings_.blocks_per_second));
    free_at = std::max(free_at, timers_.now()) + takes;
    const auto number = ++copies_;
    open_[number] = timers_.call_after(free_at - timers_.now(),
                                       [this, number, moves = std::move(moves), done = std::move(done), out]() mutable {
                                         open_.erase(number);
                                         auto error = settings_.fails ? settings_.fails() : std::string();
                                         if (error.empty())
                                           for (const auto& one : moves) copy(one, out);
                                         done(std::move(error));
                                       });
  }
  void copy(const swap_move& one, bool out) {
    if (memory_.empty()) return;
    auto* const host = memory_.data() + one.slot.value() * sim_block_bytes;
    auto* const block = pool_->region(one.block).address;
    std::memcpy(out ? host : block, out ? block : host, sim_block_bytes);
  }

  sim_swap settings_;
  std::shared_ptr<token_source> pool_;
  runtime::async::timer_source& timers_;
  std::vector<std::byte> memory_;
  nanoseconds out_free_at_{0}, in_free_at_{0};
  std::uint64_t copies_ = 0;
  std::map<std::uint64_t, runtime::async::timer_source::timer_id> open_;
};

} // namespace

std::shared_ptr<swap_space> make_sim_swap_space(sim_swap settings, std::shared_ptr<token_source> pool,
                                                runtime::async::timer_source& timers) {
  if (settings.slots == 0) return nullptr;
  return std::make_shared<sim_swap_space>(std::move(settings), std::move(pool), timers);
}

} // namespace godwit::gpu::sim
