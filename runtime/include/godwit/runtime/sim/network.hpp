#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace godwit::runtime::sim {

class world;

namespace detail {
class network_state;
}

/// How long messages take from one node to another.
struct link_settings {
  /// Drawn for every message, by the world's seed; messages of one direction do not overtake each other.
  std::chrono::nanoseconds latency_min{50'000};
  std::chrono::nanoseconds latency_max{250'000};
  std::uint64_t bytes_per_second = 0; ///< each way; 0: without limit
};

/// How long a node that hears nothing takes to give its peer up; drawn between the two. The defaults are what
/// actor_system_settings gives: `connection_timeout`, looked at every `heartbeat_interval`.
struct detection_settings {
  std::chrono::nanoseconds least = std::chrono::milliseconds{2000};
  std::chrono::nanoseconds most = std::chrono::milliseconds{2100};
};

/// The network between the systems of a world, and its faults.
///
/// Systems are processes; each has a name, which stands for its machine: a system made later with the same name is the
/// process started anew, and finds the faults of its links as they are. A name that no system has yet may be given.
///
/// Connections are TCP's, as CAF uses them in production. `remote` makes one; it carries messages in order, and loses
/// none while it lasts. What is under way when a link is cut waits and arrives after it is healed. A node that hears
/// nothing for the time of detection closes its side: whoever monitors or asks an actor beyond hears `unreachable` or
/// error_code::down, and handles of actors beyond are dead for ever. Only a new `remote` connects again. A handle that
/// came by way of a second node is reached through that one; of its actor's end no word comes by itself, nor of its
/// node's.
///
/// All of it may be called at any moment between two steps, or from within one.
class network {
public:
  explicit network(detail::network_state& state) noexcept : state_(state) {}
  network(const network&) = delete;
  network& operator=(const network&) = delete;

  /// For all links without settings of their own.
  void set_links(link_settings settings);
  /// Both ways between two nodes.
  void set_link(const std::string& a, const std::string& b, link_settings settings);
  void set_detection(detection_settings settings);

  /// Nothing passes between the two, either way.
  void cut(const std::string& a, const std::string& b);
  void cut_one_way(const std::string& from, const std::string& to);
  /// Both ways.
  void heal(const std::string& a, const std::string& b);
  [[nodiscard]] bool is_cut(const std::string& from, const std::string& to) const;
  /// From now on every message between the two takes so much longer; 0: as before.
  void delay(const std::string& a, const std::string& b, std::chrono::nanoseconds extra);

  /// Messages between nodes so far, and their bytes.
  [[nodiscard]] std::uint64_t messages() const noexcept;
  [[nodiscard]] std::uint64_t bytes() const noexcept;
  /// Of one of which at least one side is open.
  [[nodiscard]] std::size_t connections() const noexcept;

private:
  detail::network_state& state_;
};

} // namespace godwit::runtime::sim
