#pragma once

#include "migration/kv_memory.hpp"

#include <godwit/actors/interfaces.hpp>
#include <godwit/actors/migration_environment.hpp>
#include <godwit/protocols/migration/destination.hpp>
#include <godwit/runtime/actor.hpp>
#include <godwit/runtime/trace/recorder.hpp>

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

namespace godwit::actors {

struct destination_task {
  open_migration opened;
  std::uint64_t transfer = 0; ///< of the landing places
  std::uint32_t blocks_max = 0;
  std::vector<protocols::block_id> known;     ///< hold the request's beginning already
  runtime::handle<llumlet_interface> llumlet; ///< our own
  std::shared_ptr<const kv_memory> memory;
  migration_environment environment;
};

/// Runs one migration on the receiving side: performs what protocols::migration_destination decides. The reservation is
/// the llumlet's, which takes it back when this actor dies.
class destination_coordinator final : public runtime::actor<destination_coordinator_interface> {
public:
  destination_coordinator(runtime::actor_context context, destination_task what);
  [[nodiscard]] std::string_view name() const noexcept override { return "migration_destination"; }
  [[nodiscard]] runtime::behavior_of<destination_coordinator_interface> make_behavior() override;
  void on_fault(const std::exception_ptr& failure, std::string_view where) override;
  void on_stop() override;

private:
  using machine = protocols::migration_destination;
  using nanoseconds = std::chrono::nanoseconds;

  void feed(const machine::event& what);
  void perform(const machine::set_lease& e);
  void perform(const machine::reserve& e);
  void perform(const machine::post& e);
  void perform(const machine::answer_room& e);
  void perform(const machine::close& e);
  void perform(const machine::adopt& e);
  void perform(const machine::free_blocks& e);
  void perform(const machine::answer_commit& e);
  void perform(const machine::finish& e);

  runtime::async::task<void> guard_lease();
  runtime::async::task<void> reserve(std::uint32_t stage, std::uint32_t blocks);
  runtime::async::task<void> adopt();
  /// Withdraws a stage's landing place.
  runtime::async::task<void> close(std::uint32_t stage);
  void landed(const landed_news& news);

  destination_task task_;
  machine machine_;
  std::deque<machine::event> events_;
  bool feeding_ = false;
  std::uint32_t lease_ = 0;
  nanoseconds lease_until_{0};
  std::vector<protocols::block_id> blocks_; ///< reserved, in the order of the request's
  std::uint32_t posted_ = 0;                ///< stages with a landing place, from 0 on
  struct landing_place {
    std::uint64_t regions = 0;
    runtime::trace::span span; ///< from the offer to the landing of all of it
  };
  std::vector<landing_place> landings_; ///< by stage
  std::uint32_t closing_ = 0;           ///< of these, still to be withdrawn
  std::optional<commit_move> commit_;
};

} // namespace godwit::actors
