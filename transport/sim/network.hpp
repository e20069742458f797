#pragma once

#include "fabric/postings.hpp"

#include <godwit/transport/sim/network.hpp>

#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace godwit::transport::sim {

struct node {
  explicit node(runtime::async::timer_source& of_process) : timers(of_process) {}
  runtime::async::timer_source& timers;
  std::string name;
  std::string address;
  postings table;
  // under the network's mutex
  fabric::counters counted;
  std::deque<std::uint64_t> urgent, bulk;
  bool sending = false;
  std::chrono::nanoseconds receives_until{0}; ///< what is on its way here
  std::chrono::nanoseconds wakes_at{0};       ///< where bulk waits for a receiver that is busy
  /// When the last message on a slow way arrives there: by address.
  std::map<std::string, std::chrono::nanoseconds> slow_until;
};

class network::impl : public std::enable_shared_from_this<network::impl> {
public:
  using calls = std::vector<std::function<void()>>;
  impl(runtime::async::timer_source& timers, settings options);
  [[nodiscard]] std::string join(const std::shared_ptr<node>& who, const std::string& base);
  void leave(const std::shared_ptr<node>& who);
  /// The network's own.
  [[nodiscard]] runtime::async::timer_source& timers() noexcept { return timers_; }
  void send(const std::shared_ptr<node>& from, const std::string& peer, transfer_key key, std::uint32_t first_region,
            std::vector<protocols::memory_region> regions, transfer_priority priority, std::chrono::nanoseconds timeout,
            std::shared_ptr<void> keep, std::function<void(std::string)> done);
  void cut(const std::string& a, const std::string& b, bool on);
  void freeze(const std::string& name, bool on);
  void drop(const std::string& name, std::uint32_t count);
  void slow(const std::string& name, std::chrono::nanoseconds late, std::chrono::nanoseconds open);
  [[nodiscard]] fabric::counters figures(const node& who) const;

private:
  struct sending {
    std::shared_ptr<node> from;
    std::string peer;
    transfer_key key;
    piece_cutter cutter;
    std::shared_ptr<void> keep;
    std::function<void(std::string)> done;
    std::uint32_t pieces_open = 0;
    runtime::async::timer_source::timer_id timer = 0;
    std::uint64_t bytes_cut = 0; ///< of the messages so far
  };
  /// A message on a slow way: it needs its send no more.
  struct carried {
    std::uint64_t send = 0;
    std::string from, peer; ///< a name, an address
    transfer_key key;
    piece cut;
    std::vector<std::byte> bytes;
    std::chrono::nanoseconds open{0};
  };
  struct slowness {
    std::chrono::nanoseconds late{0}, open{0};
  };
  /// A step under the lock, and what it wants to have called without it.
  runtime::async::timer_source::timer_id after(runtime::async::timer_source& timers, std::chrono::nanoseconds delay,
                                               std::function<void(impl&, calls&)> step);
  void after(std::chrono::nanoseconds delay, std::function<void(impl&, calls&)> step) {
    after(timers_, delay, std::move(step));
  }
  void transmit(const std::shared_ptr<node>& from);
  void try_again(const std::shared_ptr<node>& from, const node& busy);
  /// Where a message would go; null: nowhere.
  [[nodiscard]] node* receiver_of(const std::string& peer, const node& from) const;
  void arrive(std::uint64_t name, const piece& cut, const std::vector<protocols::memory_region>& memory, calls& made);
  [[nodiscard]] bool carry(std::uint64_t name, const sending& what, const piece& cut,
                           const std::vector<protocols::memory_region>& memory, std::chrono::nanoseconds takes);
  void arrive(const std::shared_ptr<carried>& message, calls& made);
  void write(const std::shared_ptr<carried>& message, const std::shared_ptr<node>& to, const postings::admission& place,
             calls& made);
  void tell_landed(std::uint64_t name, const piece& cut, node& target, std::uint64_t write, calls& made);
  void answer(std::uint64_t name, std::uint64_t bytes, const std::string& error, const std::string& by);
  void acknowledge(std::uint64_t name, std::uint64_t bytes, const std::string& error, const std::string& by,
                   calls& made);
  void finish(std::uint64_t name, const std::string& error, calls& made);
  [[nodiscard]] bool broken(const std::string& a, const std::string& b) const;

  runtime::async::timer_source& timers_;
  const settings options_;
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<node>> nodes_;
  std::map<std::uint64_t, std::shared_ptr<sending>> sends_;
  std::set<std::pair<std::string, std::string>> cuts_;
  std::set<std::string> frozen_;
  std::map<std::string, std::uint32_t> drops_;
  std::map<std::string, slowness> slow_; ///< by the receiver's name
  std::uint64_t last_node_ = 0;
  std::uint64_t last_send_ = 0;
  std::uint64_t carried_ = 0;
};

} // namespace godwit::transport::sim
