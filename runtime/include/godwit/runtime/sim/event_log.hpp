#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace godwit::runtime::sim {

/// One delivery to an actor; or a fault, or what became of a connection by it.
struct event {
  enum class kind_type : std::uint8_t {
    message,
    request,
    answer,
    failure,
    timer,
    down,
    stop,
    // between nodes: actors are 0
    connected, ///< receiver_node took sender_node in
    lost,      ///< receiver_node gave the connection to sender_node up, or was told of its end
    cut,       ///< of the link `type`
    healed,
    delayed,
    crashed, ///< receiver_node, as those that follow
    frozen,
    thawed,
    clock_jumped,
  };
  std::chrono::nanoseconds time{}; ///< the world's, whatever the node's clock shows
  kind_type kind = kind_type::message;
  std::uint32_t receiver_node = 0; ///< system::number
  std::uint32_t sender_node = 0;
  std::uint64_t receiver = 0;
  std::uint64_t sender = 0;  ///< 0: from outside
  std::string_view type;     ///< the message's type; empty where there is none
  std::uint64_t content = 0; ///< hash of the message as bytes; 0 for messages that stay on their node
};
/// `TIME NODE.SENDER>NODE.RECEIVER KIND TYPE CONTENT`
[[nodiscard]] std::string to_string(const event& e);

/// What happened in a world, for comparing runs byte by byte: a running hash, and each event's line for whoever wants
/// it.
class event_log {
public:
  event_log() = default;
  explicit event_log(std::function<void(const event&)> sink) : sink_(std::move(sink)) {}
  void add(const event& e);
  [[nodiscard]] std::uint64_t hash() const noexcept { return hash_; }
  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }

private:
  std::uint64_t hash_ = 14695981039346656037ULL;
  std::uint64_t count_ = 0;
  std::function<void(const event&)> sink_;
};

} // namespace godwit::runtime::sim
