#pragma once

#include "actor/multiplexer.hpp"

#include <godwit/runtime/async/name_resolver.hpp>
#include <godwit/runtime/host.hpp>

#include <caf/io/middleman.hpp>
#include <caf/node_id.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace godwit::runtime::detail {

/// An id that no other process has. CAF's own is made of the machine's addresses, its disks and the process's number:
/// two containers on one machine, in each of which the program is process 1, have the same, and are one node for all
/// others; a container that is started again has that of its predecessor.
[[nodiscard]] caf::node_id unique_node();

/// CAF's network, with our loop over its connections and an id of our own, and a gate where there is one.
class network final : public caf::io::middleman {
public:
  /// A null `gate`: connections in the clear. `warn` and `report` may be null. Where CAF's own actor that is the
  /// network ends before its time, as with memory that is short, the process ends: it would go on and hear nothing, nor
  /// of that.
  network(caf::actor_system& system, std::shared_ptr<async::connection_gate> gate,
          std::function<void(std::string_view)> warn, report_function report)
      : middleman(system), gate_(std::move(gate)), report_(std::move(report)),
        multiplexer_(&system, gate_.get(), std::move(warn)) {}
  ~network() override;
  void init(caf::actor_system_config& config) override;
  void start() override;
  /// Connections say their last words first. Each of CAF and, after it, the gate has a second for that.
  void stop() override;
  caf::io::network::multiplexer& backend() override { return multiplexer_; }

  /// What caf::io::middleman::remote_actor does, within a bound. Errors: `down`, with the reason.
  [[nodiscard]] async::expected<caf::strong_actor_ptr> connect(const std::string& host, std::uint16_t port,
                                                               std::chrono::steady_clock::time_point deadline);

private:
  void watch_broker();
  /// A descriptor for CAF, over which the other side has begun to speak.
  async::expected<async::descriptor> open(const std::string& host, std::uint16_t port,
                                          std::chrono::steady_clock::time_point deadline);
  std::shared_ptr<async::connection_gate> gate_;
  report_function report_;
  std::atomic<bool> stops_{false};
  async::name_resolver names_;
  multiplexer multiplexer_;
};

} // namespace godwit::runtime::detail
