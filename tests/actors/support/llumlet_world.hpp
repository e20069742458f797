#pragma once

#include <godwit/actors/instance.hpp>
#include <godwit/actors/llumlet.hpp>
#include <godwit/gpu/sim/sim_executor.hpp>
#include <godwit/protocols/requests/ownership.hpp>
#include <godwit/runtime/sim/world.hpp>
#include <godwit/transport/sim/network.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace godwit::test {

/// What the home of all requests in a llumlet_world knows of them.
struct home_books {
  std::map<protocols::request_id, protocols::request_ownership> requests;
  std::vector<protocols::migration_report> reports; ///< in the order in which the migrations ended
  std::uint32_t disowned = 0;
  std::map<protocols::request_id, std::int64_t> queued_ns; ///< as told with the first token, or a claim that brings it
  std::set<protocols::request_id> claim_brought_first;     ///< a claim did
  bool grants = true;                                      ///< false: it wants no request to move

  [[nodiscard]] std::uint32_t committed() const;
  [[nodiscard]] bool all_finished() const;
};

/// Two or more llumlets with simulated devices, and fakes of all that they speak to: tests say themselves what the
/// scheduler and the keeper would.
class llumlet_world {
public:
  struct options {
    std::uint64_t seed = 1;
    std::uint32_t instances = 2;
    std::uint32_t blocks = 64;
    std::uint32_t running_max = 8;
    gpu::sim::latency_model latency = {};
    transport::sim::settings link = {};
    std::function<void(actors::llumlet_options&)> adjust = {};
  };
  explicit llumlet_world(options wish);
  llumlet_world() : llumlet_world(options{}) {}
  llumlet_world(const llumlet_world&) = delete;
  llumlet_world& operator=(const llumlet_world&) = delete;
  /// Every request has ended, nothing was lost, and no block is held.
  ~llumlet_world();

  /// Requests are numbered from 1. False when it was refused.
  bool admit(std::uint32_t instance, std::uint64_t id, std::uint32_t prompt, std::uint32_t answer,
             std::int32_t priority = 0, std::uint8_t level = 0);
  [[nodiscard]] protocols::instance_status status(std::uint32_t instance);
  /// The ids of its requests in this state.
  [[nodiscard]] std::vector<std::uint64_t> with_state(std::uint32_t instance, protocols::request_state state);
  /// What a scheduler does in one round for a pair that is marked.
  void mark(std::uint32_t from, std::uint32_t to, std::chrono::nanoseconds lease = std::chrono::milliseconds(600));
  /// ... whose last report of the destination is this one.
  void mark(std::uint32_t from, std::uint32_t to, std::chrono::nanoseconds lease, const protocols::load_report& known);
  /// With several destinations.
  void mark(std::uint32_t from, const std::vector<std::uint32_t>& to, std::chrono::nanoseconds lease);
  void unmark(std::uint32_t from);
  /// Marks the pair each 200 ms, for so many rounds.
  void mark_rounds(std::uint32_t from, std::uint32_t to, int rounds);
  void drain(std::uint32_t instance, bool drains = true);
  /// What the head says to all; with or without a scheduler, and without one of the instances.
  void announce(bool with_scheduler, std::uint32_t without = ~std::uint32_t{0});
  bool run_until(const std::function<bool()>& condition);
  /// Orders one migration; its report is in the books when it has ended.
  void move(std::uint64_t id, std::uint32_t from, std::uint32_t to);

  runtime::sim::world world;
  std::shared_ptr<home_books> books = std::make_shared<home_books>();
  std::vector<protocols::instance_id> drained; ///< as told to the keeper
  std::vector<std::string> log;                ///< at level info and above
  std::unique_ptr<transport::sim::network> network;
  std::unique_ptr<runtime::sim::system> system;
  std::vector<runtime::handle<actors::instance_interface>> instances;
  std::vector<runtime::handle<actors::llumlet_interface>> llumlets;

private:
  std::vector<std::shared_ptr<transport::fabric>> fabrics_;
  runtime::handle<actors::home_interface> home_;
  runtime::handle<actors::scheduler_interface> scheduler_;
  runtime::handle<actors::pair_keeper_interface> keeper_;
  std::uint64_t version_ = 0;
  std::uint64_t round_ = 0;
};

} // namespace godwit::test
