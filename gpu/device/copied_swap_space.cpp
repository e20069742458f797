#include "device/copied_swap_space.hpp"

#include <godwit/gpu/memory_pool.hpp>

#include <algorithm>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <string>
#include <utility>

namespace godwit::gpu {

namespace {

using protocols::memory_region;

/// Shared with the copies under way, so that the last of them may end after whoever waits has seen it.
struct copies_open {
  std::mutex mutex;
  std::condition_variable none;
  std::size_t count = 0;

  void begin() {
    const std::lock_guard lock(mutex);
    ++count;
  }
  void end() {
    const std::lock_guard lock(mutex);
    if (--count == 0) none.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex);
    none.wait(lock, [this] { return count == 0; });
  }
};

/// The moves of one call.
class copy_round {
public:
  copy_round(std::size_t moves, swap_space::completion done, std::shared_ptr<copies_open> open)
      : left_(moves), done_(std::move(done)), open_(std::move(open)) {
    open_->begin();
  }
  void end(std::string error) {
    {
      const std::lock_guard lock(mutex_);
      if (error_.empty()) error_ = std::move(error);
      if (--left_ > 0) return;
    }
    if (done_) done_(std::move(error_));
    open_->end();
  }

private:
  std::mutex mutex_;
  std::size_t left_;
  std::string error_;
  swap_space::completion done_;
  std::shared_ptr<copies_open> open_;
};

class copied_swap_space final : public swap_space {
public:
  copied_swap_space(std::shared_ptr<protocols::memory_copier> copier, block_regions pool, std::uint64_t block_bytes,
                    std::uint32_t slots)
      : copier_(std::move(copier)), pool_(std::move(pool)), block_bytes_(block_bytes), slots_(slots),
        memory_(copier_->allocate_pinned(block_bytes * slots)), open_(std::make_shared<copies_open>()) {
    if (!memory_)
      throw out_of_memory("there is no memory for a swap space of " + std::to_string(block_bytes * slots) + " bytes");
  }
  ~copied_swap_space() override { open_->wait(); }
  copied_swap_space(const copied_swap_space&) = delete;
  copied_swap_space& operator=(const copied_swap_space&) = delete;

  [[nodiscard]] std::uint32_t slots() const noexcept override { return slots_; }
  void copy_out(std::vector<swap_move> moves, completion done) override { copy(moves, std::move(done), true); }
  void copy_in(std::vector<swap_move> moves, completion done) override { copy(moves, std::move(done), false); }

private:
  void copy(const std::vector<swap_move>& moves, completion done, bool out) {
    using protocols::copy_urgency;
    if (moves.empty()) return done({});
    const auto round = std::make_shared<copy_round>(moves.size(), std::move(done), open_);
    for (const auto& [block, slot] : moves) {
      if (slot.value() >= slots_) {
        round->end("there is no slot " + std::to_string(slot.value()));
        continue;
      }
      const memory_region host{memory_.get() + slot.value() * block_bytes_, block_bytes_,
                               protocols::memory_kind::pinned};
      const auto told = [round](std::string error) { round->end(std::move(error)); };
      if (out)
        copier_->gather(pool_(block), host, copy_urgency::bulk, told);
      else
        copier_->scatter(host, pool_(block), copy_urgency::bulk, told);
    }
  }

  std::shared_ptr<protocols::memory_copier> copier_;
  block_regions pool_;
  std::uint64_t block_bytes_;
  std::uint32_t slots_;
  std::shared_ptr<std::byte> memory_;
  std::shared_ptr<copies_open> open_;
};

} // namespace

std::shared_ptr<swap_space> make_copied_swap_space(std::shared_ptr<protocols::memory_copier> copier, block_regions pool,
                                                   std::uint64_t block_bytes, std::uint64_t bytes) {
  const auto slots =
      std::min<std::uint64_t>(block_bytes == 0 ? 0 : bytes / block_bytes, std::numeric_limits<std::uint32_t>::max());
  if (slots == 0) return nullptr;
  return std::make_shared<copied_swap_space>(std::move(copier), std::move(pool), block_bytes,
                                             static_cast<std::uint32_t>(slots));
}

} // namespace godwit::gpu
