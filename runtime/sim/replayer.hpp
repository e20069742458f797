#pragma once

#include "actor/replay_hook.hpp"

#include <godwit/runtime/sim/replay.hpp>
#include <godwit/runtime/sim/world.hpp>

#include <caf/actor_control_block.hpp>
#include <caf/mailbox_element.hpp>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace godwit::runtime::sim::detail {

/// See sim::replay.
class replayer final : public runtime::detail::replay_hook, public trace::replay_source {
public:
  replayer(trace::recording recorded, report_function report);
  replayer(const replayer&) = delete;
  replayer& operator=(const replayer&) = delete;
  ~replayer();

  [[nodiscard]] actor_host& host() noexcept { return *system_; }
  void know(const std::vector<const message_type*>& types);
  replay_result run(const replay_limits& limits);

  void hold(runtime::detail::actor_core& receiver, caf::mailbox_element_ptr message) override;
  std::uint64_t actor_id_for(std::uint64_t birth, bool outside) override;
  void born(runtime::detail::actor_core& actor, std::uint64_t birth) override;
  std::optional<std::string> take(std::string_view name) override;
  std::shared_ptr<void>& object(std::uint64_t number) override { return objects_[number]; }
  void keep(std::shared_ptr<void> what) override { kept_.push_back(std::move(what)); }

private:
  using event = trace::event;
  struct held {
    actor_ref receiver;
    caf::mailbox_element_ptr message;
  };
  void handle(const event& e);
  void handle_spawned(const event& e);
  void handle_delivery(const event& e);
  [[nodiscard]] caf::mailbox_element_ptr from_outside(const event& e);
  [[nodiscard]] caf::mailbox_element_ptr of_runtime(const event& e);
  [[nodiscard]] caf::strong_actor_ptr actor_or_stranger(trace::actor_id who);
  void compare(const event& e);
  void compare_beside(const event& replayed, std::string_view name);
  void differs(std::string what, std::string recorded, std::string replayed);
  [[nodiscard]] std::string made_then(const event& e) const;
  [[nodiscard]] std::string made_now(const event& r) const;
  [[nodiscard]] std::string describe(const event& e, std::string_view name) const;
  void run_ready();

  trace::recording recorded_;
  std::vector<const event*> order_; ///< deliveries and beginnings, as they were handled
  std::unordered_map<std::uint64_t, const event*> by_id_;
  std::unordered_map<std::uint64_t, std::vector<const event*>> inputs_; ///< by what was handled, in order
  std::deque<const event*> roots_;                                      ///< actors made from outside
  world world_;
  std::shared_ptr<trace::recorder> recorder_;
  std::unique_ptr<sim::system> system_;
  std::unordered_map<std::uint64_t, held> held_;
  std::vector<held> held_beside_;                       ///< of the runtime: that somebody is gone, or has to go
  std::unordered_map<std::uint64_t, actor_ref> unborn_; ///< by their spawned event
  std::map<trace::actor_id, caf::strong_actor_ptr> strangers_;
  std::unordered_map<std::uint64_t, std::shared_ptr<void>> objects_;
  std::vector<std::shared_ptr<void>> kept_;
  std::uint64_t spare_id_ = std::uint64_t{1} << 48U; ///< for actors that the recording has not
  const event* now_ = nullptr;
  std::size_t inputs_taken_ = 0;
  replay_result result_;
};

} // namespace godwit::runtime::sim::detail
