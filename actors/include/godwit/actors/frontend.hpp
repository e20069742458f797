#pragma once

#include <godwit/actors/engine_metrics.hpp>
#include <godwit/actors/frontend_history.hpp>
#include <godwit/actors/interfaces.hpp>
#include <godwit/actors/migration_environment.hpp>
#include <godwit/protocols/lengths/length_predictor.hpp>
#include <godwit/protocols/policy/objectives.hpp>
#include <godwit/protocols/policy/own_policies.hpp>
#include <godwit/protocols/requests/ownership.hpp>
#include <godwit/runtime/actor.hpp>
#include <godwit/runtime/async/counter_random.hpp>
#include <godwit/runtime/log/logger.hpp>
#include <godwit/runtime/metrics/registry.hpp>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace godwit::actors {

/// What the front end counts. Made once per process; restarts of the actor go on counting.
struct frontend_metrics {
  /// With a model's name the requests are counted under vLLM's names too.
  explicit frontend_metrics(runtime::metrics::registry& registry, const std::string& model = {},
                            std::uint32_t context_length = 0);
  runtime::metrics::family<runtime::metrics::counter>& requests;   ///< by outcome and execution priority
  runtime::metrics::family<runtime::metrics::counter>& dispatches; ///< by policy
  runtime::metrics::histogram& ttft_over_expected; ///< of the time since the dispatch, as the scheduler expected it
  runtime::metrics::family<runtime::metrics::counter>& length_forecasts; ///< by how many classes they were off
  runtime::metrics::counter& redispatches;
  runtime::metrics::counter& moves;
  runtime::metrics::counter& prompt_tokens;
  runtime::metrics::counter& answer_tokens;
  runtime::metrics::gauge& open;
  runtime::metrics::family<runtime::metrics::histogram>& first_token_seconds; ///< by execution priority, as the next
  runtime::metrics::family<runtime::metrics::histogram>& inter_token_seconds;
  runtime::metrics::family<runtime::metrics::histogram>& total_seconds;
  std::unique_ptr<engine_metrics> engines; ///< may be null
  /// An answer's length was so many classes off.
  void count_forecast(std::size_t off);
};

struct frontend_options {
  std::uint16_t home = 0;        ///< number of this front end in the cluster; upper bits of its request ids
  std::uint32_t incarnation = 0; ///< filled in by the node: restarts of this front end
  std::uint32_t requests_max = 4096;
  std::chrono::nanoseconds placement_timeout{std::chrono::seconds(30)};
  std::chrono::nanoseconds ask_timeout{std::chrono::seconds(5)};
  /// For the scheduler's decision; a request then goes to the next instance in turn.
  std::chrono::nanoseconds decision_timeout{std::chrono::milliseconds(500)};
  /// Between two attempts to place a request; doubles up to the maximum.
  std::chrono::nanoseconds retry_pause{std::chrono::milliseconds(10)};
  std::chrono::nanoseconds retry_pause_max{std::chrono::milliseconds(200)};
  /// Owners in a row that bring no token, before the client gets an error; in all at most 16 times as many.
  std::uint32_t attempts_max = 16;
  /// An owner from which nothing has come of a request for so long is asked whether it has it still; one that has not
  /// loses it. For front ends that come back to instances which may have taken them for dead. 0: nobody is asked; a
  /// member's then has 5 s.
  std::chrono::nanoseconds silence_max{0};
  /// From a request's arrival to its end, where its client says nothing. 0: none.
  std::chrono::nanoseconds request_timeout{0};
  /// Of requests whose clients say nothing else; whether they may be refused is for all. `ttft_ns` counts from the
  /// arrival.
  protocols::latency_objectives objectives;
  /// Of objectives, this share is for what nobody can foresee: what is expected has to lie below the rest.
  double objectives_margin = 0;
  /// For whoever asked for a migration here, to its end. 0: as long as the limits of migrations let one take.
  std::chrono::nanoseconds migration_timeout{0};
  /// Names of the execution priorities, by level.
  std::vector<std::string> execution_levels{"normal"};
  /// What is kept for whoever asks what befell a request: of each one its last events, of those that ended the last.
  std::size_t events_max = 32;
  std::size_t ended_max = 256;
  /// Makes what says how long answers will be, when the front end starts; whoever orders its queue by that hears it
  /// (planner_settings::queue). Empty: a history_predictor. May give null: nothing is expected.
  protocols::length_predictor_factory lengths;
  /// For seeds that clients do not give. A server gives it runtime::entropy(), once: with the same number it draws the
  /// same answers after each restart. An actor does not draw it itself, so that a simulation stays the same.
  std::uint64_t random_seed = 0;
  std::shared_ptr<frontend_metrics> metrics;     ///< may be null
  std::shared_ptr<migration_metrics> migrations; ///< may be null
  /// Sees how each migration ended, on the front end's context. Must only store. May be empty.
  std::function<void(const protocols::migration_report&)> on_migration;
  /// Sees each request that another instance takes over by a migration, as it does so, the epoch that ends, and that
  /// instance: reports come later. As `on_migration`. May be empty.
  std::function<void(protocols::request_id, protocols::epoch from, protocols::instance_id to)> on_claimed;
  /// Sees each request that an instance takes otherwise, and how long it is expected to take there until its next
  /// token; 0: nobody knew. As `on_migration`. May be empty.
  std::function<void(protocols::request_id, protocols::instance_id, std::chrono::nanoseconds expected)> on_dispatched;
  /// Sees how long each answer is expected to be, as its request comes; as `on_migration`. May be empty.
  std::function<void(protocols::request_id, protocols::length_forecast)> on_forecast;
  /// Sees each request that has lost its instance and is to be dispatched again, as `on_migration`. May be empty.
  std::function<void(protocols::request_id)> on_lost;
  /// Hears that `lengths` failed, as the log does. As `on_migration`. Empty: the log alone, or the system's report
  /// function where the log does not have it.
  std::function<void(std::string_view)> on_failure;
  runtime::log::logger log;
  /// Held as long as the actor is there, for whoever waits for its end; filled in by the cluster. May be null.
  std::shared_ptr<void> keep;
};

/// The home of requests: gives them their ids, has them dispatched, and arbitrates who owns them (docs/ARCHITECTURE.md,
/// section 4).
///
/// Invariants: a request's sink gets each token of the answer once and in order, whichever instances produced it; a
/// request whose owner is lost is dispatched again with its prompt and the tokens so far; each submitted request ends
/// with exactly one on_finished or on_failed, or is withdrawn, or ends without where its sink throws, which is nobody
/// else's business. Ends in bounded time: placing has a deadline, dispatches are bounded in number.
class frontend final : public runtime::actor<frontend_interface> {
public:
  frontend(runtime::actor_context context, frontend_options options);
  [[nodiscard]] std::string_view name() const noexcept override { return "frontend"; }
  [[nodiscard]] runtime::behavior_of<frontend_interface> make_behavior() override;
  /// Its books may be wrong: every client hears of it, and the node starts it anew.
  void on_fault(const std::exception_ptr& failure, std::string_view where) override;
  void on_stop() override;

private:
  using nanoseconds = std::chrono::nanoseconds;
  struct open_request {
    // What each token reads or changes comes first, side by side (`fetch`):
    protocols::request_ownership ownership;
    std::shared_ptr<answer_sink> sink;
    std::uint32_t cached_tokens = 0;
    bool cached_known = false;
    bool placing = false;
    bool continues = false; ///< submission::continues

    protocols::generate_request request; ///< as submitted; the answer so far is in `ownership`
    std::string client_id;
    std::uint64_t owner_generation = 0;
    runtime::handle<llumlet_interface> owner;
    protocols::instance_id owner_instance; ///< of the owner, or the one before
    request_trail trail;
    nanoseconds arrived{0};
    nanoseconds first_step{0};
    nanoseconds first_token{0};
    nanoseconds last_token{0};
    nanoseconds last_heard{0}; ///< from its owner
    nanoseconds placed{0};     ///< when an instance took it, the last one that did
    nanoseconds dispatched{0}; ///< when it was sent there
    nanoseconds expected{0};   ///< from then to its next token; 0: nobody knew
    nanoseconds ttft{0};       ///< its objective, from its arrival; 0: none
    nanoseconds tpot{0};
    nanoseconds deadline{0};                      ///< 0: none
    std::vector<protocols::request_id> followers; ///< samples of the same prompt, placed once this one is
    std::uint32_t prompt_tokens = 0;
    protocols::length_forecast forecast;
    std::uint32_t prediction_accepted = 0; ///< in all
    std::uint32_t prediction_rejected = 0;
    std::uint32_t accepted_before = 0; ///< by instances that were lost
    std::uint32_t rejected_before = 0;
    open_request(protocols::generate_request what, std::shared_ptr<answer_sink> to,
                 protocols::request_ownership::limits bounds, std::size_t events_max)
        : ownership(bounds), sink(std::move(to)), request(std::move(what)), trail(events_max) {}
  };
  /// An execution priority; the instruments are null without metrics.
  struct served_level {
    std::string name;
    runtime::metrics::histogram* first_token_seconds = nullptr;
    runtime::metrics::histogram* inter_token_seconds = nullptr;
    runtime::metrics::histogram* total_seconds = nullptr;
  };
  /// A migration that its source began, and has not told the end of.
  struct begun_move {
    protocols::migration_report known; ///< that, its request, epoch, both sides and its cause
    std::uint64_t generation = 0;      ///< of the source
    nanoseconds began{0};
    bool claimed = false; ///< by its destination, which has the request since
  };
  /// A migration whose end was counted. Without a number: of a source that was lost before it said that it began.
  struct told_move {
    protocols::migration_id migration;
    protocols::request_id request;
    protocols::epoch epoch;
    protocols::instance_id destination;
    nanoseconds at{0};
  };
  struct chosen {
    std::optional<instance_entry> entry; ///< empty: none for the moment
    bool overloaded = false;             ///< and that is because every queue is full
    std::string late;                    ///< and that is because none is expected to meet its objectives, in words
    std::uint64_t number = 0;            ///< of the scheduler's decision; 0: it is not its
    protocols::instance_id decided;      ///< by it
    protocols::dispatch_reason why;
    chosen() = default;
  };

  void submit(submission& what);
  void withdraw(const answer_sink* sink);
  /// Places the samples that waited for this one.
  void release_followers(open_request& r);
  [[nodiscard]] const instance_entry* beside_sibling(const open_request& r);
  void watch_deadline(protocols::request_id id, open_request& r, nanoseconds timeout);
  runtime::async::task<void> expire_at(nanoseconds wake);
  void take(protocols::token_updates& news);
  void take_one(protocols::token_update& update);
  void fetch(const protocols::token_updates& news);
  [[nodiscard]] protocols::move_prepared prepare_move(const protocols::prepare_move& wish);
  [[nodiscard]] protocols::claim_answer claim(protocols::claim_request& wish);
  [[nodiscard]] protocols::reclaim_answer reclaim(const protocols::reclaim_request& wish);
  void disown(const protocols::disown_request& news);
  runtime::async::task<protocols::migration_report> migrate(migrate_request order);
  /// Of migrations whose source is lost before it told how they ended.
  void tell_of_lost_moves();
  void remember_told(const protocols::migration_report& report);
  /// True where its end was told since then, or its source will tell.
  [[nodiscard]] bool told_otherwise(const protocols::migration_report& report, nanoseconds since) const;
  /// The source may not know how it ended; the home does.
  void correct(protocols::migration_report& report);
  void note(protocols::migration_report report);
  void orphan(protocols::request_id id);
  /// Asks owners that say nothing (`silence_max`), as long as there are requests.
  runtime::async::task<void> look_for_forgotten();
  [[nodiscard]] static nanoseconds heard_last(const open_request& r) noexcept {
    return std::max(r.placed, r.last_heard);
  }
  void adopt(topology news);

  /// Finds an owner for a request, however often it takes, until its deadline.
  runtime::async::task<void> place(protocols::request_id id);
  [[nodiscard]] protocols::hurried_request hurry_of(const open_request& r) const;
  [[nodiscard]] protocols::objectives_policy policy_of_objectives() const noexcept;
  /// By the scheduler; where it is away, or its news are old, in turn. `hurry` is what its client is told of.
  runtime::async::task<chosen> choose(dispatch_query query, protocols::hurried_request hurry);
  /// The simple rule: instances that take requests, in turn.
  /// Decode instances only where no prefill instance takes requests, or, without `by_roles`, none of those is of use.
  [[nodiscard]] chosen choose_in_turn(const std::vector<protocols::instance_id>& avoided, const char* policy,
                                      bool by_roles = true);
  /// True where the request is placed, or at its end.
  [[nodiscard]] bool settle(protocols::request_id id, const instance_entry& entry, protocols::epoch epoch,
                            const runtime::async::expected<protocols::admission>& answer);

  // What befell a request (frontend_history.cpp).
  [[nodiscard]] protocols::request_history history(const history_query& query) const;
  [[nodiscard]] protocols::request_history describe(protocols::request_id id, const open_request& r) const;
  void remember(const protocols::migration_report& report);
  void remember_dispatch(open_request& r, protocols::epoch epoch, protocols::dispatch_reason why);
  void remember_loss(open_request& r, protocols::instance_id instance, protocols::epoch epoch);

  [[nodiscard]] open_request* find(protocols::request_id id);
  [[nodiscard]] const served_level& level_of(const open_request& r) const noexcept;
  void observe_tokens(open_request& r, std::size_t count, nanoseconds queued);
  [[nodiscard]] static protocols::length_question question_of(const protocols::generate_request& request) noexcept;
  /// How long its answer will be, as somebody thinks who may err, and throw.
  [[nodiscard]] protocols::length_forecast forecast(const protocols::generate_request& request);
  template <class Call> void with_predictor(const Call& call);
  void make_predictor();
  /// What is learned of an answer that is complete.
  void learn_length(const open_request& r);
  void end_first(const char* why);
  void finish(protocols::request_id id, protocols::finish_reason reason);
  /// No instance can take it: the largest pool has so many blocks, or, where `lacking` says why, none has its adapter.
  void fail_unfit(protocols::request_id id, std::uint64_t largest, const std::string& lacking);
  /// Nobody takes requests, or will: all drain, or none is there and none has come for a while.
  [[nodiscard]] bool nobody_left() const;
  /// Whether an instance is starting that is none of these.
  [[nodiscard]] bool others_come(const std::vector<protocols::instance_id>& than) const;
  void fail(protocols::request_id id, failure_kind kind, std::string message);
  /// Calls a client's sink. False where that threw: the sink is not called again, only its own request ends, and the
  /// log says so, or where there is none the system's report function.
  template <class Call> bool tell_client(protocols::request_id id, const char* what, const Call& call);
  /// Ends a request whose sink threw.
  void abandon(protocols::request_id id);
  /// The last that is done for a request.
  void forget(protocols::request_id id, const char* outcome);
  void count(const char* outcome, const std::string& level);

  frontend_options options_;
  runtime::async::counter_random random_;
  std::unique_ptr<protocols::length_predictor> lengths_; ///< may be null
  std::uint64_t last_id_ = 0;
  std::map<protocols::request_id, open_request> open_;             // ordered: simulated runs must not depend on hashing
  std::unordered_map<protocols::request_id, open_request*> by_id_; ///< the same
  std::unordered_map<const answer_sink*, protocols::request_id> by_sink_;
  bool looks_for_forgotten_ = false;
  std::unordered_map<std::string, std::vector<protocols::request_id>> by_client_; ///< several for several prompts
  std::set<std::pair<nanoseconds, protocols::request_id>> deadlines_;
  bool stopping_ = false;
  bool failed_ = false;                         ///< that is why
  nanoseconds next_expiry_{nanoseconds::max()}; ///< when the next look at them is due
  topology topology_;
  std::optional<nanoseconds> empty_since_; ///< it has had no instance since then
  std::uint64_t turn_ = 0;                 // of the simple rule
  frontend_counts counts_;
  std::vector<served_level> levels_; // at least one
  ended_requests ended_;
  std::map<std::pair<protocols::request_id, protocols::epoch>, begun_move> moving_; ///< at most requests_max
  std::deque<told_move> told_moves_;                                                ///< the last ones
};

} // namespace godwit::actors
