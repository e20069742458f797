#include "collective/host_group.hpp"

#include "device/waiting.hpp"

#include <godwit/gpu/collective.hpp>

#include <algorithm>
#include <stdexcept>
#include <thread>
#include <utility>

namespace godwit::gpu::collective {

namespace {

std::string in_words(const host_group::operation& what) {
  const std::string name = what.what == host_group::kind::all_reduce ? "a sum" : "a gathering";
  return name + " of " + std::to_string(what.count) + " values";
}

void add(float* to, const float* from, std::size_t count) noexcept {
  constexpr std::size_t wide = 16;
  std::size_t i = 0;
  for (; i + wide <= count; i += wide)
    for (std::size_t lane = 0; lane < wide; ++lane) to[i + lane] += from[i + lane];
  for (; i < count; ++i) to[i] += from[i];
}

class host_communicator final : public communicator {
public:
  host_communicator(std::shared_ptr<host_group> group, std::uint32_t rank) : group_(std::move(group)), rank_(rank) {}
  ~host_communicator() override { group_->fail("rank " + std::to_string(rank_) + " is gone"); }

  [[nodiscard]] std::uint32_t rank() const noexcept override { return rank_; }
  [[nodiscard]] std::uint32_t ranks() const noexcept override { return group_->ranks(); }

  [[nodiscard]] std::string all_reduce(std::span<float> values) override {
    const auto turn = turns_++;
    if (auto wrong = bring(turn, values); !wrong.empty()) return wrong;
    if (auto wrong = group_->meet(rank_, {host_group::kind::all_reduce, values.size()}); !wrong.empty()) return wrong;
    // Piece by piece, so that the sums stay in the cache.
    constexpr std::size_t piece = 4096;
    for (std::size_t at = 0; at < values.size(); at += piece) {
      const auto count = std::min(piece, values.size() - at);
      std::copy_n(group_->place(0, turn).data() + at, count, values.data() + at);
      for (std::uint32_t other = 1; other < ranks(); ++other)
        add(values.data() + at, group_->place(other, turn).data() + at, count);
    }
    return {};
  }

  [[nodiscard]] std::string all_gather(std::span<const float> own, std::span<float> all) override {
    if (all.size() != own.size() * ranks()) return refuse("a gathering of another size than its place");
    const auto turn = turns_++;
    if (auto wrong = bring(turn, own); !wrong.empty()) return wrong;
    if (auto wrong = group_->meet(rank_, {host_group::kind::all_gather, own.size()}); !wrong.empty()) return wrong;
    for (std::uint32_t other = 0; other < ranks(); ++other)
      std::copy_n(group_->place(other, turn).data(), own.size(), all.data() + other * own.size());
    return {};
  }

  void abort(const std::string& why) override { group_->fail(why.empty() ? "aborted" : why); }

private:
  /// A broken group's places are left alone: somebody may still be reading what a whole one agreed on.
  [[nodiscard]] std::string bring(std::uint64_t turn, std::span<const float> values) {
    if (auto wrong = group_->error(); !wrong.empty()) return wrong;
    group_->place(rank_, turn).assign(values.begin(), values.end());
    return {};
  }
  [[nodiscard]] std::string refuse(const std::string& what) {
    group_->fail("rank " + std::to_string(rank_) + " asks for " + what);
    return group_->error();
  }

  std::shared_ptr<host_group> group_;
  std::uint32_t rank_;
  std::uint64_t turns_ = 0;
};

} // namespace

host_group::host_group(std::uint32_t ranks, std::chrono::nanoseconds wait_max)
    : wait_max_(wait_max), places_(ranks), here_(ranks, false) {}

std::string host_group::error() const {
  if (!broken_.load(std::memory_order_acquire)) return {};
  const std::lock_guard lock(mutex_);
  return error_;
}

std::string host_group::fail_locked(std::string why) {
  if (error_.empty()) error_ = std::move(why);
  broken_.store(true, std::memory_order_release);
  changed_.notify_all();
  return error_;
}

void host_group::fail(const std::string& why) {
  const std::lock_guard lock(mutex_);
  (void)fail_locked(why);
}

std::string host_group::absent() const {
  std::string list;
  std::uint32_t count = 0;
  for (std::size_t i = 0; i < here_.size(); ++i)
    if (!here_[i]) {
      list += (list.empty() ? "" : ", ") + std::to_string(i);
      ++count;
    }
  return (count == 1 ? "rank " : "ranks ") + list;
}

std::string host_group::meet(std::uint32_t rank, const operation& what) {
  std::unique_lock lock(mutex_);
  if (!error_.empty()) return error_;
  if (arrived_ == 0) current_ = what;
  if (current_ != what)
    return fail_locked("rank " + std::to_string(rank) + " comes to " + in_words(what) + ", others to " +
                       in_words(current_));
  const auto before = meetings_.load(std::memory_order_relaxed);
  here_[rank] = true;
  if (++arrived_ == ranks()) {
    arrived_ = 0;
    here_.assign(here_.size(), false);
    meetings_.store(before + 1, std::memory_order_release);
    changed_.notify_all();
    return {};
  }
  lock.unlock();
  for (int look = 0; look < looks_max; ++look) {
    if (meetings_.load(std::memory_order_acquire) != before) return {};
    if (broken_.load(std::memory_order_relaxed)) break;
    relax();
  }
  lock.lock();
  const auto over = [&] { return meetings_.load(std::memory_order_relaxed) != before || !error_.empty(); };
  const bool in_time = changed_.wait_for(lock, wait_max_, over);
  // All came: that holds whatever went wrong since, and for every one of them.
  if (meetings_.load(std::memory_order_relaxed) != before) return {};
  if (in_time) return error_;
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(wait_max_).count();
  return fail_locked(absent() + " did not come to " + in_words(what) + " within " + std::to_string(ms) + " ms");
}

std::vector<std::shared_ptr<communicator>> make_host_group(std::uint32_t ranks, std::chrono::nanoseconds wait_max) {
  if (ranks == 0) throw std::invalid_argument("a group of no ranks");
  const auto group = std::make_shared<host_group>(ranks, wait_max);
  std::vector<std::shared_ptr<communicator>> ends;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) ends.push_back(std::make_shared<host_communicator>(group, rank));
  return ends;
}

} // namespace godwit::gpu::collective
