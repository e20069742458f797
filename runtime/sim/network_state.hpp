#pragma once

#include "sim/node.hpp"
#include "sim/packet.hpp"

#include <godwit/runtime/async/counter_random.hpp>
#include <godwit/runtime/async/expected.hpp>
#include <godwit/runtime/sim/network.hpp>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace godwit::runtime::sim::detail {

class world_state;

/// One direction between two machines. Connections come and go; its faults stay.
struct wire {
  bool cut = false;
  std::chrono::nanoseconds extra{0};
  std::optional<link_settings> settings;
  std::chrono::nanoseconds free_at{0}; ///< where bandwidth is limited
};

/// A connection as TCP makes it: two streams of packets and two sides, which notice its end separately.
class connection {
public:
  struct side {
    node* owner = nullptr;
    bool open = true;
    std::deque<std::pair<std::chrono::nanoseconds, packet>> outgoing; ///< under way, by the time of arrival
    std::chrono::nanoseconds last{0};
    timer_source::timer_id timer = 0; ///< for the first of them
    wire* out = nullptr;
    // what this side hears
    bool silence = false;
    bool overdue = false; ///< it would have given up, had it run
    std::uint64_t silences = 0;
    std::chrono::nanoseconds quiet_until{0}; ///< a longer way has opened a gap
  };
  side sides[2];
  [[nodiscard]] int side_of(const node& n) const noexcept { return sides[0].owner == &n ? 0 : 1; }
};
using connection_ptr = std::shared_ptr<connection>;

/// What lies between the nodes of a world.
class network_state {
public:
  explicit network_state(world_state& world);
  network_state(const network_state&) = delete;
  network_state& operator=(const network_state&) = delete;

  // nodes
  std::uint32_t machine(const std::string& name);
  void add(node& n);
  [[nodiscard]] node* find(const caf::node_id& id) const noexcept;
  [[nodiscard]] node* at(std::uint32_t number) const noexcept;
  /// The peer by which packets for that node leave; null: no way.
  [[nodiscard]] node* hop(node& from, std::uint32_t to) const;

  // what an endpoint does
  /// Sends a packet on its way; false where there is none.
  bool transmit(node& from, packet p);
  /// Connects to whatever is published there. `done` gets the peer and the actor's id, or why not, once; on the node's
  /// own time. The peer may be the node itself.
  using connected_function = std::function<void(async::expected<std::pair<node*, std::uint64_t>>)>;
  void connect(node& from, const std::string& host, std::uint16_t port, std::chrono::nanoseconds timeout,
               connected_function done);

  // faults
  void set_links(link_settings settings);
  void set_link(const std::string& a, const std::string& b, link_settings settings);
  void set_detection(detection_settings settings) noexcept { detection_ = settings; }
  void cut(const std::string& from, const std::string& to);
  void heal(const std::string& from, const std::string& to);
  void delay(const std::string& from, const std::string& to, std::chrono::nanoseconds extra);
  [[nodiscard]] bool is_cut(const std::string& from, const std::string& to) const;
  /// The node has just begun, or ceased, to take what arrives.
  void stopped(node& n);
  void resumed(node& n);
  /// The node is dead: its connections close, or fall silent.
  void ended(node& n);

  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
  [[nodiscard]] std::size_t connections() const noexcept { return connections_.size(); }

private:
  struct attempt;
  using key = std::pair<std::uint32_t, std::uint32_t>;
  wire& wire_between(std::uint32_t from, std::uint32_t to) { return wires_[{from, to}]; }
  /// When a packet that leaves now arrives.
  std::chrono::nanoseconds arrival(wire& w, std::size_t size);
  void put(const connection_ptr& c, int from, packet p);
  void schedule(const connection_ptr& c, int from);
  void unschedule(connection::side& s);
  void arrive(const connection_ptr& c, int from);
  void deliver(const connection_ptr& c, int from, packet p);
  connection_ptr establish(node& a, node& b);
  /// This side knows of the end: what lies beyond is down.
  void close(const connection_ptr& c, int side, bool tell);
  void forget(const connection_ptr& c);
  /// Looks whether this side still hears its peer, and gives it up in time where not.
  void listen(const connection_ptr& c, int side);
  /// The wire has changed: what waits on it goes on, or stops.
  void rewire(const wire& w);
  template <class Function> void each_connection(const node& n, Function f);
  void knock(const std::shared_ptr<attempt>& a);
  void come_in(const std::shared_ptr<attempt>& a);
  void settle(attempt& a, async::expected<std::pair<node*, std::uint64_t>> result);

  world_state& world_;
  async::counter_random random_;
  link_settings links_;
  detection_settings detection_;
  struct machine_state {
    node* current = nullptr; ///< the last node of that name
  };
  std::unordered_map<std::string, std::uint32_t> machine_numbers_;
  std::vector<machine_state> machines_;
  std::map<key, wire> wires_;
  std::unordered_map<caf::node_id, node*> by_id_;
  std::map<key, connection_ptr> connections_; ///< by number, the smaller first
  std::unordered_map<std::uint64_t, std::shared_ptr<attempt>> attempts_;
  std::uint64_t last_attempt_ = 0;
};

} // namespace godwit::runtime::sim::detail
