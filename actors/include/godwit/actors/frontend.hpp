#pragma once

#include <godwit/actors/interfaces.hpp>
#include <godwit/actors/migration_environment.hpp>
#include <godwit/protocols/requests/ownership.hpp>
#include <godwit/runtime/actor.hpp>
#include <godwit/runtime/async/counter_random.hpp>
#include <godwit/runtime/log/logger.hpp>
#include <godwit/runtime/metrics/registry.hpp>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

namespace godwit::actors {

/// What the front end counts. Made once per process; restarts of the actor go on counting.
struct frontend_metrics {
  explicit frontend_metrics(runtime::metrics::registry& registry);
  runtime::metrics::family<runtime::metrics::counter>& requests; ///< by outcome
  runtime::metrics::counter& redispatches;
  runtime::metrics::counter& moves;
  runtime::metrics::counter& prompt_tokens;
  runtime::metrics::counter& answer_tokens;
  runtime::metrics::gauge& open;
  runtime::metrics::histogram& first_token_seconds;
  runtime::metrics::histogram& inter_token_seconds;
  runtime::metrics::histogram& total_seconds;
};

struct frontend_options {
  std::uint16_t home = 0;        ///< number of this front end in the cluster; upper bits of its request ids
  std::uint32_t incarnation = 0; ///< filled in by the node: restarts of this front end
  std::uint32_t requests_max = 4096;
  std::chrono::nanoseconds placement_timeout{std::chrono::seconds(30)};
  std::chrono::nanoseconds ask_timeout{std::chrono::seconds(5)};
  /// Between two attempts to place a request; doubles up to the maximum.
  std::chrono::nanoseconds retry_pause{std::chrono::milliseconds(10)};
  std::chrono::nanoseconds retry_pause_max{std::chrono::milliseconds(200)};
  /// Owners in a row that bring no token, before the client gets an error.
  std::uint32_t attempts_max = 16;
  /// For a migration that was asked for here, to its end.
  std::chrono::nanoseconds migration_timeout{std::chrono::minutes(5)};
  /// For seeds that clients do not give.
  std::uint64_t random_seed = 0;
  std::shared_ptr<frontend_metrics> metrics;     ///< may be null
  std::shared_ptr<migration_metrics> migrations; ///< may be null
  runtime::log::logger log;
};

/// The home of requests: gives them their ids, has them dispatched, and arbitrates who owns them (docs/ARCHITECTURE.md,
/// section 4).
///
/// Invariants: a request's sink gets each token of the answer once and in order, whichever instances produced it; a
/// request whose owner is lost is dispatched again with its prompt and the tokens so far; each submitted request ends
/// with exactly one on_finished or on_failed, or is withdrawn. Ends in bounded time: placing has a deadline, dispatches
/// are bounded in number.
class frontend final : public runtime::actor<frontend_interface> {
public:
  frontend(runtime::actor_context context, frontend_options options);
  [[nodiscard]] std::string_view name() const noexcept override { return "frontend"; }
  [[nodiscard]] runtime::behavior_of<frontend_interface> make_behavior() override;
  void on_stop() override;

private:
  using nanoseconds = std::chrono::nanoseconds;
  struct open_request {
    protocols::generate_request request; ///< as submitted; the answer so far is in `ownership`
    std::string client_id;
    std::shared_ptr<answer_sink> sink;
    protocols::request_ownership ownership;
    bool placing = false;
    std::uint64_t owner_generation = 0;
    runtime::handle<llumlet_interface> owner;
    nanoseconds arrived{0};
    nanoseconds last_token{0};
    std::uint32_t prompt_tokens = 0;
    std::uint32_t cached_tokens = 0;
    bool cached_known = false;
    open_request(protocols::generate_request what, std::shared_ptr<answer_sink> to,
                 protocols::request_ownership::limits bounds)
        : request(std::move(what)), sink(std::move(to)), ownership(bounds) {}
  };

  void submit(submission& what);
  void withdraw(const answer_sink* sink);
  void take(protocols::token_updates& news);
  void take_one(protocols::token_update& update);
  [[nodiscard]] protocols::move_prepared prepare_move(const protocols::prepare_move& wish);
  [[nodiscard]] protocols::claim_answer claim(protocols::claim_request& wish);
  [[nodiscard]] protocols::reclaim_answer reclaim(const protocols::reclaim_request& wish);
  void disown(const protocols::disown_request& news);
  runtime::async::task<protocols::migration_report> migrate(migrate_request order);
  /// The source may not know how it ended; the home does.
  void correct(protocols::migration_report& report);
  void note(protocols::migration_report report);
  void orphan(protocols::request_id id);
  void adopt(topology news);

  /// Finds an owner for a request, however often it takes, until its deadline.
  runtime::async::task<void> place(protocols::request_id id);
  runtime::async::task<std::optional<instance_entry>> choose(dispatch_query query, bool* overloaded);
  /// The simple rule: ready instances in turn.
  [[nodiscard]] std::optional<instance_entry> choose_in_turn(const std::vector<protocols::instance_id>& avoided);
  /// True where the request is placed, or at its end.
  [[nodiscard]] bool settle(protocols::request_id id, const instance_entry& entry, protocols::epoch epoch,
                            const runtime::async::expected<protocols::admission>& answer);

  [[nodiscard]] open_request* find(protocols::request_id id);
  void observe_tokens(open_request& r, std::size_t count);
  void finish(protocols::request_id id, protocols::finish_reason reason);
  void fail(protocols::request_id id, failure_kind kind, std::string message);
  void forget(protocols::request_id id);
  void count(const char* outcome);

  frontend_options options_;
  runtime::async::counter_random random_;
  std::uint64_t last_id_ = 0;
  std::map<protocols::request_id, open_request> open_; // ordered: simulated runs must not depend on hashing
  std::unordered_map<const answer_sink*, protocols::request_id> by_sink_;
  std::unordered_map<std::string, std::vector<protocols::request_id>> by_client_; ///< several for several prompts
  topology topology_;
  std::uint64_t turn_ = 0; // of the simple rule
  frontend_counts counts_;
};

} // namespace godwit::actors
