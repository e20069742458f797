#include "cuda/simt_emulator.hpp"

#include "cuda/simt_fiber.hpp"
#include "cuda/simt_races.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace godwit::gpu::cuda::simt::emulator {

namespace {

constexpr std::uint32_t lanes = 32;
constexpr std::size_t slot_bytes = 64;
constexpr std::size_t guard_bytes = 128;
constexpr std::byte poison{0xFF}; // NaN as f32, bf16 and f16; no sensible index
constexpr std::byte guard{0xA5};

struct background_copy {
  void* to;
  const void* from;
};

/// A thread of the block, with what it copies in the background.
struct thread_state {
  fiber stack;
  place where;
  enum class state : std::uint8_t { runs, waits_for_warp, waits_for_block, ended } now = state::runs;
  std::vector<background_copy> open;                ///< not committed
  std::vector<std::vector<background_copy>> groups; ///< the oldest first
};

struct warp_state {
  std::uint32_t arrived = 0;
  meeting kind = meeting::sync;
  std::size_t bytes = 0;
  /// Two sets in turn: a lane may still read one while the next meeting fills the other.
  std::array<std::array<std::byte, lanes * slot_bytes>, 2> slots{};
  std::uint32_t filling = 0;
};

const char* name_of(meeting kind) {
  switch (kind) {
  case meeting::sync:
    return "sync_warp";
  case meeting::shuffle:
    return "shuffle";
  case meeting::ballot:
    return "ballot";
  case meeting::multiply:
    return "multiply_add";
  default:
    return "load_transposed";
  }
}

/// A small generator of our own: the order belongs to the seed, whatever the library.
class shuffler {
public:
  explicit shuffler(std::uint64_t seed) : state_(seed) {}
  std::uint32_t below(std::uint32_t bound) {
    // a step of Knuth's generator; the upper half of it is random enough
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return static_cast<std::uint32_t>((state_ >> 32U) * bound >> 32U);
  }

private:
  std::uint64_t state_;
};

class block;
thread_local block* running = nullptr;
/// Kept from one launch to the next: a stack costs three system calls.
struct spare_stacks {
  std::vector<std::unique_ptr<thread_state>> all;
  ~spare_stacks() {
    const unwatched now;
    all.clear();
  }
};
thread_local spare_stacks spare;

/// One block at a time; its stacks serve the next one, too.
class block {
public:
  block(const shape& wanted, std::uint64_t seed, const std::function<void()>& body)
      : shape_(wanted), body_(body), order_(seed), threads_(std::exchange(spare.all, {})),
        warps_(wanted.threads / lanes) {
    while (threads_.size() < sets * wanted.threads) threads_.push_back(std::make_unique<thread_state>());
    allot_memory();
  }

  ~block() {
    follows(&ended_);
    // After a kernel's error some of its threads have not ended.
    for (std::uint32_t i = 0; i < shape_.threads; ++i)
      if (at(i).now != thread_state::state::ended) at(i).stack.give_up();
    const unwatched now;
    spare.all = std::move(threads_);
  }
  block(const block&) = delete;
  block& operator=(const block&) = delete;

  /// Nothing orders a block's threads after those of the block before: they see the launch.
  void run(const std::uint32_t (&index)[3]) {
    const unwatched now;
    precedes(&set_);
    set_ = (set_ + 1) % sets;
    if constexpr (sees_races) allot_memory();
    std::fill(memory_.begin(), memory_.end(), guard);
    std::fill(shared_, shared_ + shape_.shared_bytes, poison);
    ready_.clear();
    ended_ = at_barrier_ = 0;
    for (auto& warp : warps_) warp.arrived = 0;
    for (std::uint32_t i = 0; i < shape_.threads; ++i) {
      auto& thread = at(i);
      thread.where = {i, {index[0], index[1], index[2]}};
      thread.now = thread_state::state::runs;
      thread.open.clear();
      thread.groups.clear();
      thread.stack.start(&block::enter_thread, this);
      ready_.push_back(i);
    }
    while (!ready_.empty()) {
      choose();
      at(current_).stack.enter();
      if (failure_) std::rethrow_exception(failure_);
    }
    if (ended_ != shape_.threads) throw kernel_error(describe_stuck());
    for (std::uint32_t i = 0; i < shape_.threads; ++i)
      if (std::any_of(at(i).groups.begin(), at(i).groups.end(), [](const auto& group) { return !group.empty(); }) ||
          !at(i).open.empty())
        fail("thread " + std::to_string(i) + " ended with copies under way");
    const auto* end = shared_ + shape_.shared_bytes;
    if (std::any_of(end, static_cast<const std::byte*>(memory_.data() + memory_.size()),
                    [](std::byte b) { return b != guard; }))
      fail("something was written behind the block's shared memory");
  }

  [[nodiscard]] thread_state& running_thread() {
    const unwatched now;
    return at(current_);
  }
  [[nodiscard]] const shape& whole() const { return shape_; }
  [[nodiscard]] std::byte* memory() { return shared_; }

  void barrier() {
    void* const order = &barriers_[barrier_ % 2];
    precedes(order);
    if (!arrives_last()) wait(thread_state::state::waits_for_block);
    follows(order);
  }

  const std::byte* meet(meeting kind, const void* mine, std::size_t bytes) {
    const auto [slots, complete] = lay_down(kind, mine, bytes);
    // Only sync_warp orders memory; the others hand over what was laid down, and nothing else.
    if (kind == meeting::sync) precedes(slots);
    if (!complete) wait(thread_state::state::waits_for_warp);
    if (kind == meeting::sync) follows(slots);
    return slots;
  }

  /// The running thread's oldest group of copies, if it has more of them than `pending`.
  std::optional<std::vector<background_copy>> oldest_group(std::size_t pending) {
    const unwatched now;
    auto& groups = at(current_).groups;
    if (groups.size() <= pending) return std::nullopt;
    auto oldest = std::move(groups.front());
    groups.erase(groups.begin());
    return oldest;
  }

  [[noreturn]] void fail(const std::string& what) const {
    const unwatched now;
    const auto& where = at(current_).where;
    throw kernel_error("block (" + std::to_string(where.block[0]) + ", " + std::to_string(where.block[1]) + ", " +
                       std::to_string(where.block[2]) + "), thread " + std::to_string(where.thread) + ": " + what);
  }

private:
  [[nodiscard]] thread_state& at(std::uint32_t thread) const { return *threads_[set_ * shape_.threads + thread]; }

  void allot_memory() {
    // The memory ends where the kernel's does, so that what runs over it meets the guard.
    memory_ = std::vector<std::byte>(shape_.shared_bytes + guard_bytes + 128);
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
    shared_ = memory_.data() + (128 - address % 128) % 128;
  }

  static void enter_thread(void* self) { static_cast<block*>(self)->run_thread(); }
  void run_thread() {
    follows(&set_);
    auto& self = running_thread();
    try {
      body_();
    } catch (...) {
      const unwatched now;
      failure_ = std::current_exception();
    }
    precedes(&ended_);
    const unwatched now;
    self.now = thread_state::state::ended;
    ++ended_;
  }

  [[nodiscard]] bool arrives_last() {
    const unwatched now;
    if (++at_barrier_ < shape_.threads) return false;
    at_barrier_ = 0;
    ++barrier_;
    for (std::uint32_t i = 0; i < shape_.threads; ++i) wake(i, thread_state::state::waits_for_block);
    return true;
  }

  /// Where the warp's lanes lay down what they bring, and whether this is the last of them.
  std::pair<std::byte*, bool> lay_down(meeting kind, const void* mine, std::size_t bytes) {
    const unwatched now;
    const std::uint32_t self = current_;
    auto& warp = warps_[self / lanes];
    if (bytes > slot_bytes) fail("more than a slot");
    if (warp.arrived == 0) {
      warp.kind = kind;
      warp.bytes = bytes;
      warp.filling ^= 1U;
    } else if (warp.kind != kind || warp.bytes != bytes) {
      fail(std::string("lanes of a warp meet in ") + name_of(warp.kind) + " and in " + name_of(kind));
    }
    auto* slots = warp.slots[warp.filling].data();
    if (bytes != 0) std::memcpy(slots + self % lanes * slot_bytes, mine, bytes);
    if (++warp.arrived < lanes) return {slots, false};
    warp.arrived = 0;
    const std::uint32_t first = self / lanes * lanes;
    for (std::uint32_t i = first; i < first + lanes; ++i) wake(i, thread_state::state::waits_for_warp);
    return {slots, true};
  }

  void wait(thread_state::state what) {
    fiber *own = nullptr, *next = nullptr;
    {
      const unwatched now;
      auto& self = at(current_);
      self.now = what;
      own = &self.stack;
      if (!ready_.empty()) {
        choose();
        next = &at(current_).stack;
      }
    }
    if (next != nullptr)
      own->pass_to(*next);
    else
      own->leave();
  }
  /// One of those that may run becomes the current one.
  void choose() {
    const std::uint32_t choice = order_.below(static_cast<std::uint32_t>(ready_.size()));
    current_ = ready_[choice];
    ready_[choice] = ready_.back();
    ready_.pop_back();
  }
  void wake(std::uint32_t index, thread_state::state from) {
    auto& thread = at(index);
    if (thread.now != from) return;
    thread.now = thread_state::state::runs;
    ready_.push_back(index);
  }

  [[nodiscard]] std::string describe_stuck() const {
    std::uint32_t block_waits = 0, warp_waits = 0;
    for (std::uint32_t i = 0; i < shape_.threads; ++i) {
      block_waits += at(i).now == thread_state::state::waits_for_block;
      warp_waits += at(i).now == thread_state::state::waits_for_warp;
    }
    return "of " + std::to_string(shape_.threads) + " threads " + std::to_string(ended_) + " have ended, " +
           std::to_string(block_waits) + " wait at a barrier of the block and " + std::to_string(warp_waits) +
           " for lanes of their warp";
  }

  /// A stack is one thread to the sanitizer, block after block. So that a block's threads are others than those of the
  /// block before, two sets take turns.
  static constexpr std::uint32_t sets = sees_races ? 2 : 1;
  std::uint32_t set_ = 0;
  shape shape_;
  const std::function<void()>& body_;
  shuffler order_;
  std::vector<std::unique_ptr<thread_state>> threads_;
  std::vector<warp_state> warps_;
  std::vector<std::byte> memory_;
  std::byte* shared_ = nullptr;
  std::vector<std::uint32_t> ready_;
  std::uint32_t current_ = 0;
  std::uint32_t ended_ = 0;
  std::uint32_t at_barrier_ = 0;
  std::size_t barrier_ = 0;
  /// Where a barrier's order is known by; two in turn, or who is quick would be ordered before who is slow to leave.
  std::array<std::byte, 2> barriers_{};
  std::exception_ptr failure_;
};

block& current() {
  if (running == nullptr) throw kernel_error("a kernel's function was called outside of a kernel");
  return *running;
}

void perform(const std::vector<background_copy>& copies) {
  for (const auto& copy : copies)
    if (copy.from != nullptr)
      std::memcpy(copy.to, copy.from, 16);
    else
      std::memset(copy.to, 0, 16);
}

} // namespace

void run(const shape& wanted, std::uint64_t seed, const std::function<void()>& body) {
  if (wanted.threads == 0 || wanted.threads % lanes != 0 || wanted.threads > 1024)
    throw kernel_error("a block of " + std::to_string(wanted.threads) + " threads");
  if (wanted.shared_bytes > 227U << 10U)
    throw kernel_error("a block with " + std::to_string(wanted.shared_bytes) + " bytes of shared memory");
  // What CUDA refuses as an invalid configuration.
  constexpr std::uint32_t grid_max[3] = {0x7FFFFFFFU, 65535, 65535};
  for (int i = 0; i < 3; ++i)
    if (wanted.grid[i] == 0 || wanted.grid[i] > grid_max[i])
      throw kernel_error("a grid of " + std::to_string(wanted.grid[0]) + " x " + std::to_string(wanted.grid[1]) +
                         " x " + std::to_string(wanted.grid[2]) + " blocks");
  if (running != nullptr) throw kernel_error("a kernel within a kernel");
  block own(wanted, seed, body);
  struct guard_running {
    explicit guard_running(block* now) { running = now; }
    ~guard_running() {
      const unwatched now;
      running = nullptr;
    }
  } const guard_of_running(&own);
  for (std::uint32_t z = 0; z < wanted.grid[2]; ++z)
    for (std::uint32_t y = 0; y < wanted.grid[1]; ++y)
      for (std::uint32_t x = 0; x < wanted.grid[0]; ++x) own.run({x, y, z});
}

const place& here() { return current().running_thread().where; }
const shape& whole() { return current().whole(); }
std::byte* shared_memory() { return current().memory(); }
void barrier() { current().barrier(); }
const std::byte* meet(meeting kind, const void* mine, std::size_t bytes) { return current().meet(kind, mine, bytes); }

void copy_later(void* to, const void* from) {
  std::memset(to, static_cast<int>(poison), 16);
  const unwatched now;
  current().running_thread().open.push_back({to, from});
}

void commit_later() {
  const unwatched now;
  auto& self = current().running_thread();
  self.groups.push_back(std::exchange(self.open, {}));
}

void wait_later(std::size_t pending) {
  while (const auto group = current().oldest_group(pending)) perform(*group);
}

void check_aligned(const void* p, std::size_t bytes) {
  if (reinterpret_cast<std::uintptr_t>(p) % bytes != 0)
    current().fail("an access of " + std::to_string(bytes) + " bytes is not aligned");
}

void check_shared(const void* p, std::size_t bytes) {
  auto& own = current();
  const auto* at = static_cast<const std::byte*>(p);
  if (at < own.memory() || at + bytes > own.memory() + own.whole().shared_bytes)
    own.fail("an access to shared memory is outside of the block's");
}

} // namespace godwit::gpu::cuda::simt::emulator
