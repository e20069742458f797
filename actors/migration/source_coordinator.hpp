#pragma once

#include "migration/kv_memory.hpp"

#include <godwit/actors/interfaces.hpp>
#include <godwit/actors/migration_environment.hpp>
#include <godwit/protocols/migration/copy_pacer.hpp>
#include <godwit/protocols/migration/source.hpp>
#include <godwit/runtime/actor.hpp>

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace godwit::actors {

struct source_task {
  protocols::migration_id migration;
  migrate_order order;
  protocols::instance_id source;
  protocols::migration_source::request_progress start;
  std::uint32_t blocks_most = ~0U;            ///< that the request can ever have
  runtime::handle<llumlet_interface> llumlet; ///< our own
  runtime::handle<home_interface> home;
  std::shared_ptr<const kv_memory> memory;
  std::string kv_layout;
  protocols::adapter_ref adapter; ///< of the request
  /// Of its complete blocks, for the destination to find what it has of them. Empty where prefixes are not shared.
  std::vector<protocols::token_id> tokens;
  std::uint64_t cache_salt = 0;
  migration_environment environment;
};

/// Runs one migration on the sending side: performs what protocols::migration_source decides. Holds no blocks and no
/// request; the llumlet does, and knows what to do when this actor dies.
class source_coordinator final : public runtime::actor<source_coordinator_interface> {
public:
  source_coordinator(runtime::actor_context context, source_task what);
  [[nodiscard]] std::string_view name() const noexcept override { return "migration_source"; }
  [[nodiscard]] runtime::behavior_of<source_coordinator_interface> make_behavior() override;
  void on_fault(const std::exception_ptr& failure, std::string_view where) override;

private:
  using machine = protocols::migration_source;
  using nanoseconds = std::chrono::nanoseconds;

  void feed(const machine::event& what);
  void drain();
  void perform(const machine::set_timer& e);
  void perform(const machine::ask_home& e);
  void perform(const machine::open_destination& e);
  void perform(const machine::reserve& e);
  void perform(const machine::copy& e);
  void perform(const machine::look& e);
  void perform(const machine::park& e);
  void perform(const machine::commit& e);
  void perform(const machine::abort_destination& e);
  void perform(const machine::resume& e);
  void perform(const machine::release& e);
  void perform(const machine::settle& e);
  void perform(const machine::finish& e);

  runtime::async::task<void> watch_time();
  runtime::async::task<void> prepare();
  runtime::async::task<void> open(std::uint32_t blocks);
  runtime::async::task<void> reach(std::uint32_t stage);
  runtime::async::task<void> copy_blocks(machine::copy what);
  runtime::async::task<void> look();
  runtime::async::task<void> park();
  runtime::async::task<void> settle();
  void tell_status();
  void end_when_quiet();
  [[nodiscard]] nanoseconds stall() const;

  source_task task_;
  machine machine_;
  std::deque<machine::event> events_; ///< fed while effects are being performed
  bool feeding_ = false;

  std::uint32_t timer_ = 0;
  nanoseconds deadline_{0};

  std::uint32_t accepted_ = 0; ///< tokens of the answer that the home had at the beginning
  runtime::handle<destination_coordinator_interface> destination_;
  std::string fabric_;                              ///< the destination's address
  std::optional<std::chrono::nanoseconds> reached_; ///< over the fabric, when that was last begun
  protocols::copy_pacer pacer_;
  std::uint64_t transfer_ = 0;
  std::uint32_t known_ = 0;                ///< blocks, the first ones, that the destination had already
  std::vector<std::uint32_t> stage_first_; ///< by stage: the block that its landing place begins with
  std::vector<protocols::block_id> blocks_;
  protocols::moved_request state_;
  runtime::handle<home_interface> home_;
  nanoseconds began_{0};
  nanoseconds parked_{0}, unparked_{0};
  std::uint32_t last_copies_ = 0; ///< of the last stage, under way: they read blocks that the llumlet holds for them
  std::optional<protocols::migration_report> report_; ///< when the machine has ended
  std::uint64_t bytes_ = 0;                           ///< of bulk stages
  std::uint64_t last_bytes_ = 0;
};

} // namespace godwit::actors
