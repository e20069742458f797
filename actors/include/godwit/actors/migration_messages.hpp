#pragma once

#include <godwit/protocols/messages/ids.hpp>
#include <godwit/protocols/messages/migration.hpp>
#include <godwit/protocols/messages/moved_request.hpp>
#include <godwit/protocols/migration/source.hpp>
#include <godwit/runtime/handle.hpp>
#include <godwit/runtime/interface.hpp>
#include <godwit/runtime/message.hpp>

#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

/// What the actors of a live migration say to each other. The two coordinators speak by one-way messages, whose losses
/// their timers make good; a coordinator and its own llumlet live in one process and ask.
namespace godwit::actors {

struct home_interface;
struct llumlet_interface;
struct source_coordinator_interface;
struct destination_coordinator_interface;

// From whoever wants a migration.

/// Operator or scheduler -> home: move this request. Named by what its client knows it by (`cmpl-...`) or by its
/// number.
struct migrate_request {
  protocols::request_id request; ///< read when `client_id` is empty
  std::string client_id;
  protocols::instance_id to;

  migrate_request() = default;
  migrate_request(protocols::request_id id, std::string label, protocols::instance_id destination)
      : request(id), client_id(std::move(label)), to(destination) {}
  auto fields() { return std::tie(request, client_id, to); }
};

/// Home -> the llumlet that owns the request. Answered when the migration has ended.
struct migrate_order {
  protocols::request_id request;
  protocols::epoch epoch;
  protocols::instance_id to;
  runtime::handle<llumlet_interface> destination;
  protocols::migration_cause cause;

  migrate_order() = default;
  migrate_order(protocols::request_id id, protocols::epoch owner_epoch, protocols::instance_id instance,
                runtime::handle<llumlet_interface> llumlet)
      : request(id), epoch(owner_epoch), to(instance), destination(std::move(llumlet)) {}
  auto fields() { return std::tie(request, epoch, to, destination, cause); }
};

// Between the two sides.

/// Source coordinator -> destination llumlet: I want to bring you a request.
struct open_migration {
  protocols::migration_id migration;
  protocols::request_id request;
  protocols::instance_id source;
  std::uint32_t blocks = 0; ///< that it has by now
  std::string kv_layout;    ///< of the source's pool (gpu::executor_info)
  runtime::handle<source_coordinator_interface> coordinator;
  runtime::handle<llumlet_interface> llumlet; ///< the source's
  std::uint32_t devices = 1;                  ///< of the source; both sides cut blocks as both can (kv_memory)
  protocols::adapter_ref adapter;             ///< that the destination has to have
  /// Of its complete blocks, from the first on: what the destination has of them need not be copied.
  std::vector<protocols::token_id> tokens;
  std::uint64_t cache_salt = 0; ///< of these

  open_migration() = default;
  open_migration(protocols::migration_id id, protocols::request_id what, protocols::instance_id from,
                 std::uint32_t block_count, std::string layout, runtime::handle<source_coordinator_interface> who,
                 runtime::handle<llumlet_interface> whose)
      : migration(id), request(what), source(from), blocks(block_count), kv_layout(std::move(layout)),
        coordinator(std::move(who)), llumlet(std::move(whose)) {}
  auto fields() {
    return std::tie(migration, request, source, blocks, kv_layout, coordinator, llumlet, devices, adapter, tokens,
                    cache_salt);
  }
};
struct migration_opened {
  protocols::migration_reason reason = protocols::migration_reason::destination_not_ready; ///< none: opened
  runtime::handle<destination_coordinator_interface> coordinator;
  std::string fabric;         ///< the destination's address there
  std::uint64_t transfer = 0; ///< names the landing places, with the stage as their generation
  std::uint32_t devices = 1;  ///< of the destination
  std::uint32_t known = 0;    ///< blocks, the request's first ones, that it has already and keeps for it

  migration_opened() = default;
  explicit migration_opened(protocols::migration_reason why) : reason(why) {}
  migration_opened(runtime::handle<destination_coordinator_interface> who, std::string address, std::uint64_t id,
                   std::uint32_t device_count)
      : reason(protocols::migration_reason::none), coordinator(std::move(who)), fabric(std::move(address)),
        transfer(id), devices(device_count) {}
  auto fields() { return std::tie(reason, coordinator, fabric, transfer, devices, known); }
};

/// Source -> destination: the request is out of my batch, and this is all of it. Yours when its home agrees.
struct commit_move {
  protocols::moved_request request;
  runtime::handle<home_interface> home;
  std::uint32_t blocks = 0; ///< that must have landed

  commit_move() = default;
  commit_move(protocols::moved_request what, runtime::handle<home_interface> where, std::uint32_t count)
      : request(std::move(what)), home(std::move(where)), blocks(count) {}
  auto fields() { return std::tie(request, home, blocks); }
};

// Between a coordinator and its own llumlet. Local.

struct look_order {
  protocols::request_id request;
  protocols::epoch epoch;
  look_order() = default;
  look_order(protocols::request_id id, protocols::epoch owner_epoch) : request(id), epoch(owner_epoch) {}
};
struct look_answer {
  bool here = false;
  protocols::migration_source::request_progress now;
  std::vector<protocols::block_id> blocks; ///< its table
  look_answer() = default;
};
/// Answered when the request is out of the batch.
struct park_order {
  protocols::request_id request;
  protocols::epoch epoch;
  std::uint32_t tail_from = 0; ///< tokens of the answer that the home has
  park_order() = default;
  park_order(protocols::request_id id, protocols::epoch owner_epoch, std::uint32_t tokens)
      : request(id), epoch(owner_epoch), tail_from(tokens) {}
};
struct park_answer {
  bool parked = false; ///< false: it ended first, which request_gone tells
  protocols::migration_source::request_progress now;
  std::vector<protocols::block_id> blocks;
  protocols::moved_request state;
  runtime::handle<home_interface> home;
  park_answer() = default;
};
/// Nobody else can have it: go on.
struct resume_order {
  protocols::request_id request;
  protocols::epoch epoch;
  resume_order() = default;
  resume_order(protocols::request_id id, protocols::epoch owner_epoch) : request(id), epoch(owner_epoch) {}
};
/// The destination has it.
struct release_order {
  protocols::request_id request;
  protocols::epoch epoch;
  release_order() = default;
  release_order(protocols::request_id id, protocols::epoch owner_epoch) : request(id), epoch(owner_epoch) {}
};
/// Ask the home who has it, and act accordingly.
struct settle_order {
  protocols::request_id request;
  protocols::epoch epoch;
  settle_order() = default;
  settle_order(protocols::request_id id, protocols::epoch owner_epoch) : request(id), epoch(owner_epoch) {}
};
struct settle_answer {
  protocols::migration_source::settlement how = protocols::migration_source::settlement::lost;
  settle_answer() = default;
  explicit settle_answer(protocols::migration_source::settlement settled) : how(settled) {}
};
/// Source llumlet -> source coordinator: what became of the request.
struct request_gone {
  protocols::migration_reason reason = protocols::migration_reason::none;
  bool left = true;
  request_gone() = default;
  request_gone(protocols::migration_reason why, bool it_left) : reason(why), left(it_left) {}
};
/// Source coordinator -> llumlet, for status.
struct migration_news {
  protocols::migration_status status;
  migration_news() = default;
  explicit migration_news(protocols::migration_status now) : status(std::move(now)) {}
};
struct source_ended {
  protocols::migration_report report;
  source_ended() = default;
  explicit source_ended(protocols::migration_report how) : report(std::move(how)) {}
};
struct reserve_order {
  protocols::migration_id migration;
  std::uint32_t stage = 0;
  std::uint32_t blocks = 0;
  reserve_order() = default;
  reserve_order(protocols::migration_id id, std::uint32_t number, std::uint32_t count)
      : migration(id), stage(number), blocks(count) {}
};
struct reserve_answer {
  bool granted = false;
  std::vector<protocols::block_id> blocks; ///< the new ones
  reserve_answer() = default;
  explicit reserve_answer(std::vector<protocols::block_id> list) : granted(true), blocks(std::move(list)) {}
};
/// Destination coordinator -> llumlet: no write can land any more, take the blocks back.
struct return_order {
  protocols::migration_id migration;
  protocols::migration_reason reason = protocols::migration_reason::none;
  return_order() = default;
  return_order(protocols::migration_id id, protocols::migration_reason why) : migration(id), reason(why) {}
};
/// Take the request over, with its blocks.
struct adopt_order {
  protocols::migration_id migration;
  commit_move commit;
  adopt_order() = default;
  adopt_order(protocols::migration_id id, commit_move what) : migration(id), commit(std::move(what)) {}
};
struct adopt_answer {
  bool granted = false;
  adopt_answer() = default;
  explicit adopt_answer(bool is_granted) : granted(is_granted) {}
};
/// Of the fabric, for a destination coordinator: regions that have landed in a stage, in total.
struct landed_news {
  std::uint32_t stage = 0;
  std::uint64_t regions = 0;
  std::string error;
  landed_news() = default;
  landed_news(std::uint32_t number, std::uint64_t count, std::string what)
      : stage(number), regions(count), error(std::move(what)) {}
};

/// Runs one migration at the side that gives the request away.
struct source_coordinator_interface
    : runtime::interface<void(protocols::pre_alloc_answer), void(protocols::commit_answer), void(request_gone)> {};

/// ... at the side that takes it.
struct destination_coordinator_interface : runtime::interface<void(protocols::pre_alloc), void(commit_move),
                                                              void(protocols::abort_migration), void(landed_news)> {};

} // namespace godwit::actors

// What comes from the fabric's thread: replay needs it.
template <> struct godwit::runtime::trace::recorded_form<godwit::actors::landed_news> {
  static void write(wire_writer& out, const actors::landed_news& x) {
    wire_write(out, x.stage);
    wire_write(out, x.regions);
    wire_write(out, x.error);
  }
  static actors::landed_news read(wire_reader& in) {
    actors::landed_news x;
    wire_read(in, x.stage);
    wire_read(in, x.regions);
    wire_read(in, x.error);
    return x;
  }
};

GODWIT_LOCAL_MESSAGE(godwit::actors::look_order)
GODWIT_LOCAL_MESSAGE(godwit::actors::look_answer)
GODWIT_LOCAL_MESSAGE(godwit::actors::park_order)
GODWIT_LOCAL_MESSAGE(godwit::actors::park_answer)
GODWIT_LOCAL_MESSAGE(godwit::actors::resume_order)
GODWIT_LOCAL_MESSAGE(godwit::actors::release_order)
GODWIT_LOCAL_MESSAGE(godwit::actors::settle_order)
GODWIT_LOCAL_MESSAGE(godwit::actors::settle_answer)
GODWIT_LOCAL_MESSAGE(godwit::actors::request_gone)
GODWIT_LOCAL_MESSAGE(godwit::actors::migration_news)
GODWIT_LOCAL_MESSAGE(godwit::actors::source_ended)
GODWIT_LOCAL_MESSAGE(godwit::actors::reserve_order)
GODWIT_LOCAL_MESSAGE(godwit::actors::reserve_answer)
GODWIT_LOCAL_MESSAGE(godwit::actors::return_order)
GODWIT_LOCAL_MESSAGE(godwit::actors::adopt_order)
GODWIT_LOCAL_MESSAGE(godwit::actors::adopt_answer)
GODWIT_LOCAL_MESSAGE(godwit::actors::landed_news)
