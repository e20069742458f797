#pragma once

#include <godwit/protocols/messages/ids.hpp>
#include <godwit/protocols/messages/kv_store.hpp>
#include <godwit/protocols/messages/load.hpp>
#include <godwit/protocols/messages/migration.hpp>
#include <godwit/protocols/messages/scheduling.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

/// What `godwit status` shows.
namespace godwit::protocols {

enum class instance_state : std::uint8_t {
  starting,
  ready,
  draining,
  down,
  stopped ///< by order, or not started yet; nobody restarts it by itself
};
[[nodiscard]] constexpr std::string_view to_string(instance_state state) noexcept {
  switch (state) {
  case instance_state::starting:
    return "starting";
  case instance_state::ready:
    return "ready";
  case instance_state::draining:
    return "draining";
  case instance_state::down:
    return "down";
  case instance_state::stopped:
    return "stopped";
  }
  return "unknown";
}

enum class request_state : std::uint8_t {
  waiting,
  running,
  preempted,
  migrating ///< out of queue and batch, on its way to another instance or about to go on here
};
[[nodiscard]] constexpr std::string_view to_string(request_state state) noexcept {
  switch (state) {
  case request_state::waiting:
    return "waiting";
  case request_state::running:
    return "running";
  case request_state::preempted:
    return "preempted";
  case request_state::migrating:
    return "migrating";
  }
  return "unknown";
}

/// One request as its instance sees it.
struct request_status {
  request_id request;
  protocols::epoch epoch;
  request_state state = request_state::waiting;
  std::int32_t priority = 0;
  std::uint32_t prompt_tokens = 0;
  std::uint32_t answer_tokens = 0;
  std::uint32_t blocks = 0;
  std::uint32_t preemptions = 0;
  std::uint8_t execution_level = 0; ///< index of its execution priority; 0: normal
  std::string client_id;            ///< what its client calls it; known at the home, filled in by the node
  std::string execution_priority;   ///< name of that level; filled in by the node

  request_status() = default;
  request_status(request_id id, protocols::epoch owner_epoch, request_state where, std::int32_t request_priority,
                 std::uint32_t prompt_count, std::uint32_t answer_count, std::uint32_t block_count,
                 std::uint32_t preempted_times)
      : request(id), epoch(owner_epoch), state(where), priority(request_priority), prompt_tokens(prompt_count),
        answer_tokens(answer_count), blocks(block_count), preemptions(preempted_times) {}
  friend bool operator==(const request_status&, const request_status&) = default;
  auto fields() {
    return std::tie(request, epoch, state, priority, prompt_tokens, answer_tokens, blocks, preemptions, execution_level,
                    client_id, execution_priority);
  }
};

struct instance_status {
  instance_id instance;
  instance_state state = instance_state::starting;
  std::string node;   ///< host:port of its process, as the others reach it
  std::string device; ///< "cpu (2 threads, amx)"
  std::uint32_t restarts = 0;
  std::int64_t uptime_ns = 0; ///< since its last start
  load_report load;
  std::vector<request_status> requests;     ///< empty unless asked for
  std::vector<migration_status> migrations; ///< away from here
  std::uint32_t headroom_profiled = 0;      ///< blocks that the start's profile found for `auto`; 0: not profiled
  std::string last_error;                   ///< why its last start failed; empty: it did not, or it came up since

  instance_status() = default;
  instance_status(instance_id id, instance_state where, std::string node_address, std::string device_name,
                  std::uint32_t restart_count, std::int64_t up_ns, load_report report,
                  std::vector<request_status> request_list = {})
      : instance(id), state(where), node(std::move(node_address)), device(std::move(device_name)),
        restarts(restart_count), uptime_ns(up_ns), load(report), requests(std::move(request_list)) {}
  friend bool operator==(const instance_status&, const instance_status&) = default;
  auto fields() {
    return std::tie(instance, state, node, device, restarts, uptime_ns, load, requests, migrations, headroom_profiled,
                    last_error);
  }
};

/// One shard of the KV store.
struct store_status {
  std::string node; ///< its process, as of instances
  store_report report;
  store_status() = default;
  store_status(std::string where, const store_report& figures) : node(std::move(where)), report(figures) {}
  friend bool operator==(const store_status&, const store_status&) = default;
  auto fields() { return std::tie(node, report); }
};

/// One front end: of the head's process, or of a process that has joined it.
struct frontend_status {
  std::string node; ///< its process
  std::uint16_t home = 0;
  bool answers = false; ///< otherwise it is starting, or did not say how it stands in time
  std::uint64_t requests_open = 0;
  std::uint64_t requests_finished_total = 0;
  std::uint64_t requests_failed_total = 0;

  frontend_status() = default;
  frontend_status(std::string process, std::uint16_t number) : node(std::move(process)), home(number) {}
  friend bool operator==(const frontend_status&, const frontend_status&) = default;
  auto fields() { return std::tie(node, home, answers, requests_open, requests_finished_total, requests_failed_total); }
};

struct cluster_status {
  std::string version;
  std::string model;
  scheduling_status scheduling;
  std::int64_t uptime_ns = 0;
  std::uint64_t requests_open = 0; ///< at all homes together, as those that follow
  std::uint64_t requests_finished_total = 0;
  std::uint64_t requests_failed_total = 0;
  std::uint64_t redispatches_total = 0; ///< requests that changed owner because theirs was lost
  std::uint64_t moves_total = 0;        ///< ... by live migration
  std::vector<instance_status> instances;
  std::vector<store_status> stores;       ///< shards of the KV store; of each what it last told the head
  std::vector<instance_status> stopped;   ///< those that could be started, by id; only id, node and state are known
  std::vector<frontend_status> frontends; ///< the head's first

  cluster_status() = default;
  cluster_status(std::string program_version, std::string model_name, std::int64_t up_ns, std::uint64_t open,
                 std::uint64_t finished, std::uint64_t failed, std::uint64_t redispatched,
                 std::vector<instance_status> list)
      : version(std::move(program_version)), model(std::move(model_name)), uptime_ns(up_ns), requests_open(open),
        requests_finished_total(finished), requests_failed_total(failed), redispatches_total(redispatched),
        instances(std::move(list)) {}
  friend bool operator==(const cluster_status&, const cluster_status&) = default;
  auto fields() {
    return std::tie(version, model, scheduling, uptime_ns, requests_open, requests_finished_total,
                    requests_failed_total, redispatches_total, moves_total, instances, stores, stopped, frontends);
  }
};

} // namespace godwit::protocols
