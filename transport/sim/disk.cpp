#include <godwit/transport/sim/disk.hpp>

#include <godwit/protocols/ensure.hpp>

#include <algorithm>
#include <cstring>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

namespace godwit::transport::sim {

namespace {

using std::chrono::nanoseconds;

class sim_disk final : public disk {
public:
  sim_disk(disk_settings settings, runtime::async::timer_source& timers)
      : settings_(std::move(settings)), timers_(timers) {}
  ~sim_disk() override {
    for (const auto& [number, timer] : open_) timers_.cancel(timer);
  }
  sim_disk(const sim_disk&) = delete;
  sim_disk& operator=(const sim_disk&) = delete;

  [[nodiscard]] std::uint32_t slots() const noexcept override { return settings_.slots; }
  [[nodiscard]] std::size_t slot_bytes() const noexcept override { return settings_.slot_bytes; }
  void write(std::uint32_t slot, std::uint64_t tag, const std::byte* from, std::shared_ptr<void> keep,
             std::function<void(std::string)> done) override {
    later(slot, false, std::move(keep), std::move(done), [this, slot, tag, from] {
      written_[slot] = {tag, std::vector<std::byte>(from, from + settings_.slot_bytes)};
      return std::string();
    });
  }
  void read(std::uint32_t slot, std::uint64_t tag, std::byte* to, std::shared_ptr<void> keep,
            std::function<void(std::string)> done) override {
    later(slot, true, std::move(keep), std::move(done), [this, slot, tag, to]() -> std::string {
      const auto found = written_.find(slot);
      if (found == written_.end() || found->second.tag != tag) return "what was read is not what was written";
      std::memcpy(to, found->second.bytes.data(), found->second.bytes.size());
      return {};
    });
  }

private:
  template <class Copy>
  void later(std::uint32_t slot, bool reads, std::shared_ptr<void> keep, std::function<void(std::string)> done,
             Copy copy) {
    protocols::ensure(slot < settings_.slots, "sim_disk: a slot is one of its own");
    const auto takes = nanoseconds(
        static_cast<std::int64_t>(1e9 * static_cast<double>(settings_.slot_bytes) / settings_.bytes_per_second));
    free_at_ = std::max(free_at_, timers_.now()) + std::max(takes, nanoseconds{1}); // in the order of the calls
    const auto more = settings_.late ? settings_.late(reads, slot) : nanoseconds{0};
    auto& slot_until = slots_until_[slot];
    slot_until = std::max(slot_until + nanoseconds{1}, free_at_ + settings_.latency + more);
    const auto number = ++calls_;
    open_[number] = timers_.call_after(
        slot_until - timers_.now(), [this, number, slot, reads, keep = std::move(keep), done = std::move(done), copy] {
          open_.erase(number);
          auto error = settings_.fails ? settings_.fails(reads, slot) : std::string();
          done(error.empty() ? copy() : std::move(error));
        });
  }

  disk_settings settings_;
  runtime::async::timer_source& timers_;
  struct contents {
    std::uint64_t tag = 0;
    std::vector<std::byte> bytes;
  };
  std::unordered_map<std::uint32_t, contents> written_;
  nanoseconds free_at_{0};
  std::unordered_map<std::uint32_t, nanoseconds> slots_until_; ///< when the last call for each ends
  std::uint64_t calls_ = 0;
  std::map<std::uint64_t, runtime::async::timer_source::timer_id> open_;
};

} // namespace

std::shared_ptr<disk> make_disk(disk_settings settings, runtime::async::timer_source& timers) {
  return std::make_shared<sim_disk>(std::move(settings), timers);
}

} // namespace godwit::transport::sim
