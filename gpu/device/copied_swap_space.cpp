#include "device/copied_swap_space.hpp"

#include <godwit/gpu/memory_pool.hpp>

#include <algorithm>
#include <condition_variable>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace godwit::gpu {

namespace {

using protocols::memory_region;

/// The calls whose copies are under way. Shared with these, which may outlive the space.
class calls_open {
public:
  std::uint64_t begin(swap_space::completion done) {
    const std::lock_guard lock(mutex_);
    done_.emplace(++last_, std::move(done));
    ++count_;
    return last_;
  }
  void end(std::uint64_t which, std::string error) {
    const std::lock_guard lock(mutex_);
    if (const auto found = done_.extract(which); !found.empty() && found.mapped()) found.mapped()(std::move(error));
    if (--count_ == 0) none_.notify_all();
  }
  /// Nobody is told anything any more.
  void close() {
    std::map<std::uint64_t, swap_space::completion> untold; // go without the lock
    const std::lock_guard lock(mutex_);
    untold.swap(done_);
  }
  void wait() {
    std::unique_lock lock(mutex_);
    none_.wait(lock, [this] { return count_ == 0; });
  }

private:
  std::mutex mutex_; ///< held while a completion runs, so that none runs after `close`
  std::condition_variable none_;
  std::map<std::uint64_t, swap_space::completion> done_;
  std::uint64_t last_ = 0;
  std::size_t count_ = 0;
};

/// The moves of one call.
class copy_round {
public:
  copy_round(std::size_t moves, swap_space::completion done, std::shared_ptr<calls_open> open)
      : left_(moves), open_(std::move(open)), call_(open_->begin(std::move(done))) {}
  void end(std::string error) {
    {
      const std::lock_guard lock(mutex_);
      if (error_.empty()) error_ = std::move(error);
      if (--left_ > 0) return;
    }
    open_->end(call_, std::move(error_));
  }

private:
  std::mutex mutex_;
  std::size_t left_;
  std::string error_;
  std::shared_ptr<calls_open> open_;
  std::uint64_t call_;
};

class copied_swap_space final : public swap_space {
public:
  copied_swap_space(std::shared_ptr<protocols::memory_copier> copier, block_regions pool, std::uint64_t block_bytes,
                    std::uint32_t slots, std::shared_ptr<const going> how)
      : copier_(std::move(copier)), pool_(std::move(pool)), block_bytes_(block_bytes), slots_(slots),
        how_(std::move(how)), memory_(copier_->allocate_pinned(block_bytes * slots)),
        open_(std::make_shared<calls_open>()) {
    if (!memory_)
      throw out_of_memory("there is no memory for a swap space of " + std::to_string(block_bytes * slots) + " bytes");
  }
  ~copied_swap_space() override {
    open_->close();
    const auto name = copier_->name();
    // To let go waits for the device, too.
    let_go(
        how_, name, "a copy between the KV cache and the swap space does not end; both are left to it",
        [open = open_] { open->wait(); },
        [copier = std::move(copier_), pool = std::move(pool_), memory = std::move(memory_)] {});
  }
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
  std::shared_ptr<const going> how_;
  std::shared_ptr<std::byte> memory_;
  std::shared_ptr<calls_open> open_;
};

} // namespace

std::shared_ptr<swap_space> make_copied_swap_space(std::shared_ptr<protocols::memory_copier> copier, block_regions pool,
                                                   std::uint64_t block_bytes, std::uint64_t bytes,
                                                   std::shared_ptr<const going> how) {
  const auto slots =
      std::min<std::uint64_t>(block_bytes == 0 ? 0 : bytes / block_bytes, std::numeric_limits<std::uint32_t>::max());
  if (slots == 0) return nullptr;
  return std::make_shared<copied_swap_space>(std::move(copier), std::move(pool), block_bytes,
                                             static_cast<std::uint32_t>(slots), std::move(how));
}

} // namespace godwit::gpu
