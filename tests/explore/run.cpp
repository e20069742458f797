#include "explore/run.hpp"

#include "explore/books.hpp"
#include "explore/client.hpp"
#include "explore/deployment.hpp"

#include <godwit/runtime/trace/file_recorder.hpp>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

namespace godwit::explore {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

namespace {

/// More than all bounds of a cluster together: loading, leases, placement, claims.
constexpr nanoseconds patience = 5min;
constexpr nanoseconds slice = 100ms;
/// Autoscaling goes on for so long when all requests have ended, so that it has instances to spare.
constexpr nanoseconds quiet = 1s;
/// Longer than the head is given to answer the operator's hand.
constexpr nanoseconds status_time = 31s;
/// Of one slice: a cluster that does nothing but talk.
constexpr std::uint64_t steps_of_slice_max = 2'000'000;

class play {
public:
  play(const scenario& s, const run_options& options)
      : scenario_(s), shape_(s.cluster()), record_to_(options.record), log_(onlooker(options)),
        cluster_(s.seed, shape_, &log_, options.log, [this](const auto& clock) { return record(clock); }) {}
  play(const play&) = delete;
  play& operator=(const play&) = delete;

  outcome run() {
    if (come_up() && happen() && everybody_ends() && nothing_stays()) {
      check_work();
      if (whole() && serve_again()) (void)nothing_stays();
    }
    check_clients();
    for (const auto& one : cluster_.complaints()) broken("complaint of the runtime", one);
    out_.hash = log_.hash();
    out_.events = log_.count();
    out_.took = cluster_.world().now();
    out_.migrations = cluster_.journal().committed;
    out_.seen.add(cluster_.seen());
    out_.seen.add("dispatched again", out_.redispatches);
    if (feed_) feed_->pump();
    return out_;
  }

private:
  static constexpr std::uint64_t events_per_pump = 1024;

  std::function<void(const runtime::sim::event&)> onlooker(const run_options& options) {
    if (!options.record) return options.on_event;
    return [this, see = options.on_event](const runtime::sim::event& e) {
      if (see) see(e);
      if (feed_ && log_.count() % events_per_pump == 0) feed_->pump();
    };
  }
  std::shared_ptr<runtime::trace::recorder> record(const runtime::clock& clock) {
    if (!record_to_) return nullptr;
    runtime::trace::process who;
    who.facts = {{"command", "explore"}, {"scenario", scenario_.name}, {"seed", std::to_string(scenario_.seed)}};
    runtime::trace::recorder_settings settings;
    settings.level = runtime::trace::level::content;
    settings.prompts = true;
    recorder_ = std::make_shared<runtime::trace::recorder>(std::move(who), settings, clock);
    feed_ = std::make_unique<runtime::trace::file_feed>(*recorder_, *record_to_);
    return recorder_;
  }

  struct asked {
    const asked_request* what = nullptr;
    std::shared_ptr<client> who;
    bool turned_away = false;  ///< there was no front end
    std::uint64_t at_step = 0; ///< of the world, when it was submitted
  };

  void broken(const std::string& promise, const std::string& details) {
    if (!out_.broken.empty()) return;
    out_.broken = promise;
    out_.details = details;
  }
  bool whole() const { return out_.broken.empty(); }

  /// One step of the world. False where nothing is left to happen, or the cluster talks without end: all that waits for
  /// something goes by these.
  bool step() {
    if (!whole()) return false;
    auto& world = cluster_.world();
    if (world.now() >= slice_end_) {
      slice_end_ = world.now() + slice;
      steps_of_slice_ = 0;
    }
    if (++steps_of_slice_ > steps_of_slice_max) {
      broken("the cluster talks without end", std::to_string(steps_of_slice_max) + " messages within 100 ms");
      return false;
    }
    return world.step();
  }

  /// Until the condition holds; false after so long, or where the cluster talks without end.
  template <class Condition> bool wait_until(Condition condition, nanoseconds at_most = patience) {
    for (const auto end = cluster_.world().now() + at_most; cluster_.world().now() < end;) {
      if (condition()) return true;
      if (!step()) return whole() && condition();
    }
    return condition();
  }

  void run_for(nanoseconds duration) {
    const auto over = std::make_shared<bool>(false); // the timer may outlive the wait
    cluster_.world().timers().call_after(duration, [over] { *over = true; });
    while (!*over && step()) {
    }
  }

  /// What the head says of itself and its instances.
  runtime::async::expected<protocols::cluster_status> status() {
    cluster_.ask_status();
    const auto& answer = cluster_.journal().status;
    if (wait_until([&] { return answer.has_value(); }, status_time)) return *answer;
    return runtime::async::error{runtime::async::error_code::timeout, "no answer in time"};
  }

  bool come_up() {
    const auto expected = cluster_.instances_expected();
    if (!wait_until([&] { return cluster_.all_ready(expected); }))
      broken("the cluster comes up", "not all instances are ready after 5 minutes");
    cluster_.world().spend(scenario_.work);
    start_ = cluster_.world().now();
    return whole();
  }

  // What happens, in order. Ends of faults come in while it goes on.
  bool happen() {
    asked_.resize(scenario_.requests.size());
    for (std::size_t i = 0; i < scenario_.requests.size(); ++i)
      plan(scenario_.requests[i].second.at, 0, [this, i] { submit(i); });
    for (const auto& [number, f] : scenario_.faults) plan(f.at, f.steps, [this, &what = f] { strike(what); });
    for (const auto at : scenario_.looks) plan(at, 0, [this] { look(); });
    while (!plans_.empty() && whole()) {
      auto next = std::move(plans_.extract(plans_.begin()).mapped());
      run_to(start_ + next.at);
      for (std::uint32_t i = 0; i < next.steps && step(); ++i) {
      }
      if (whole()) next.act();
    }
    return whole();
  }

  struct planned {
    nanoseconds at{0};
    std::uint32_t steps = 0;
    std::function<void()> act;
  };
  void plan(nanoseconds at, std::uint32_t steps, std::function<void()> act) {
    plans_.emplace(std::pair{at, plans_total_++}, planned{at, steps, std::move(act)});
  }
  void run_to(nanoseconds when) {
    if (when > cluster_.world().now()) run_for(when - cluster_.world().now());
  }
  void after(nanoseconds lasts, std::function<void()> mend) {
    plan(cluster_.world().now() - start_ + lasts, 0, std::move(mend));
  }

  void submit(std::size_t index) {
    const auto& [number, what] = scenario_.requests[index];
    auto& mine = asked_[index];
    mine.what = &what;
    mine.who = std::make_shared<client>(&calm_answers()[what.kind]);
    if (what.enough) mine.who->enough = *what.enough;
    if (what.goes_after) mine.who->goes_after = *what.goes_after;
    if (!cluster_.head_is_up()) { // the connection is refused
      mine.turned_away = true;
      return;
    }
    auto one = std::make_shared<actors::submission>();
    one->request = request_of(what.kind);
    one->request.execution_level = what.execution_level;
    one->request.priority = what.priority;
    one->seeded = true;
    one->sink = mine.who;
    one->client_id = name_of(number);
    one->first_sample = sample_of(index);
    // The front end hears of both before anybody can have answered it.
    mine.at_step = cluster_.world().steps();
    for (const auto& other : asked_)
      if (one->first_sample && other.who == one->first_sample && other.at_step == mine.at_step)
        out_.seen.add("sample waited");
    // A weak one: the client must not keep itself.
    mine.who->go = [this, who = std::weak_ptr(mine.who)] {
      if (cluster_.head_is_up()) cluster_.actors().gate()->withdraw(who.lock());
    };
    mine.turned_away = !cluster_.actors().gate()->submit({std::move(one)});
    if (what.goes_after && *what.goes_after == 0) mine.who->leave();
  }
  /// False where that one is not there, or over.
  bool leave(std::uint32_t number) {
    for (std::size_t i = 0; i < asked_.size(); ++i) {
      if (scenario_.requests[i].first != number) continue;
      const auto& one = asked_[i];
      if (!one.who || one.turned_away || one.who->over()) return false;
      one.who->leave();
      return true;
    }
    return false;
  }
  /// An earlier request with the same prompt that still runs: the new one is another sample of it.
  std::shared_ptr<client> sample_of(std::size_t index) const {
    for (std::size_t i = 0; i < asked_.size(); ++i)
      if (i != index && asked_[i].who && !asked_[i].turned_away && !asked_[i].who->over() &&
          asked_[i].what->kind % prompts == asked_[index].what->kind % prompts)
        return asked_[i].who;
    return nullptr;
  }
  static std::string name_of(std::size_t number) { return "r" + std::to_string(number); }
  static std::string_view name_of(actors::failure_kind kind) {
    using enum actors::failure_kind;
    switch (kind) {
    case overloaded:
      return "overloaded";
    case unavailable:
      return "unavailable";
    case timed_out:
      return "timed out";
    case internal:
      return "internal";
    case too_long:
    case invalid:
      break;
    }
    return "of the client's";
  }

  std::optional<protocols::instance_id> instance_number(std::uint64_t number) {
    if (!cluster_.head_is_up()) return std::nullopt;
    const auto view = cluster_.actors().gate()->view();
    if (view.instances.empty()) return std::nullopt;
    return view.instances[number % view.instances.size()].instance;
  }

  void strike(const fault& f) {
    if (inflict(f)) out_.seen.add(to_string(f.kind));
  }

  /// False where there was nothing to strike, or nothing was struck yet. Begins what ends it, too.
  bool inflict(const fault& f) {
    using enum fault_kind;
    const auto a = cluster_.machine_of(f.machine), b = f.other;
    switch (f.kind) {
    case cut:
      return cut_for(a, f, {true, true, true});
    case cut_one_way:
      return cut_for(a, f, {true, false, false});
    case cut_blocks:
      return cut_for(a, f, {false, false, true});
    case delay:
      if (a == b) return false;
      cluster_.delay(a, b, nanoseconds(f.amount));
      after(f.lasts, [this, a, b, extra = nanoseconds(f.amount)] { cluster_.end_delay(a, b, extra); });
      return true;
    case lost_acknowledgements:
      return cluster_.lose_acknowledgements(a, static_cast<std::uint32_t>(f.amount));
    case freeze:
      if (!cluster_.freeze(a)) return false;
      after(f.lasts, [this, a, process = cluster_.process(a)] { cluster_.thaw(a, process); });
      return true;
    case crash:
    case vanish:
      if (!cluster_.crash(a, f.kind == crash ? runtime::sim::crash_kind::reset : runtime::sim::crash_kind::silent))
        return false;
      after(f.lasts, [this, a] { cluster_.restart(a); });
      return true;
    case stop_member:
      if (!cluster_.stop_member(a)) return false;
      after(f.lasts, [this, a, process = cluster_.process(a)] { cluster_.restart_member(a, process); });
      return true;
    case clock_jump:
      return cluster_.jump_clock(a, nanoseconds(f.amount));
    case slow_device:
      cluster_.slow_down(a, f.amount);
      after(f.lasts, [this, a, times = f.amount] { cluster_.end_slow(a, times); });
      return true;
    case stuck_device:
      return cluster_.stick(a, f.lasts);
    case coordinator: // strikes when somebody comes by, and is counted then; so are orders
      cluster_.fail_coordinator(f.amount);
      return false;
    case orders_fail:
      cluster_.fail_orders(f.amount);
      return false;
    case stop_scheduler:
    case stop_frontend:
      return cluster_.stop_child_of_head(f.kind == stop_scheduler);
    case client_leaves:
      return leave(f.subject);
    case policies:
      cluster_.order(switched(f.amount));
      return cluster_.head_is_up();
    case kill_instance:
    case migrate:
    case drain:
      break;
    }
    const auto id = instance_number(f.amount);
    if (!id) return false;
    if (f.kind == kill_instance) cluster_.actors().kill(*id);
    if (f.kind == migrate) cluster_.order(actors::migrate_request{{}, name_of(f.subject), *id});
    if (f.kind == drain) {
      ++drains_[*id];
      cluster_.order(actors::drain_instance{*id, true});
      after(f.lasts, [this, id = *id] {
        if (--drains_[id] == 0) cluster_.order(actors::drain_instance{id, false});
      });
    }
    return true;
  }

  bool cut_for(std::uint32_t a, const fault& f, link_parts what) {
    if (a == f.other) return false;
    cluster_.cut(a, f.other, what);
    after(f.lasts, [this, a, b = f.other, what] { cluster_.heal(a, b, what); });
    return true;
  }

  actors::policy_order switched(std::uint64_t bits) const {
    actors::policy_order out;
    const auto dispatchers = protocols::dispatcher_names();
    const auto migrations = protocols::migration_policy_names();
    out.dispatch = dispatchers[bits % dispatchers.size()];
    if ((bits & 16) != 0) out.migration = migrations[(bits >> 5) % migrations.size()];
    if ((bits & 8) != 0) out.paused = (bits & 4) != 0 ? "yes" : "no";
    if (const auto modes = protocols::scaling_mode_names(); scenario_.scales && (bits & 256) != 0)
      out.scaling = modes[(bits >> 9) % modes.size()];
    return out;
  }

  void look() {
    if (!whole() || !cluster_.can_answer()) return;
    const auto known = status();
    if (!known) return; // it was busy with its faults
    if (auto wrong = compare_books(*known, shape_.node.llumlet.planner); !wrong.empty())
      broken("the books agree with a recount", wrong);
  }

  bool everybody_ends() {
    cluster_.mend();
    for (const auto& [id, times] : drains_) cluster_.order(actors::drain_instance{id, false});
    actors::policy_order calm;
    calm.scaling = scenario_.scales ? "on" : "off";
    calm.paused = "no";
    cluster_.order(calm);
    const auto over = [this] {
      return std::all_of(asked_.begin(), asked_.end(),
                         [](const auto& one) { return one.turned_away || one.who->over(); });
    };
    if (wait_until(over)) {
      if (scenario_.scales) idle();
      return whole();
    }
    std::string open;
    for (std::size_t i = 0; i < asked_.size(); ++i)
      if (!asked_[i].turned_away && !asked_[i].who->over())
        open += (open.empty() ? "" : ", ") + std::to_string(scenario_.requests[i].first) + " after " +
                std::to_string(asked_[i].who->tokens.size()) + " tokens";
    broken("every request ends", "open 5 minutes after everything was mended: requests " + open);
    return false;
  }

  void idle() {
    run_for(quiet);
    actors::policy_order enough;
    enough.scaling = "off";
    cluster_.order(enough);
  }

  bool nothing_stays() {
    const auto expected = scenario_.scales ? 1 : cluster_.instances_expected();
    std::string left = "not looked";
    const auto end = cluster_.world().now() + patience;
    for (auto pause = 20ms; cluster_.world().now() < end; pause = std::min<decltype(pause)>(pause * 2, 5s)) {
      run_for(pause);
      if (!whole()) return false;
      if (!cluster_.can_answer()) {
        left = "the head does not answer";
        continue;
      }
      if (!cluster_.all_ready(expected)) {
        left = "not all instances are ready: " + std::to_string(cluster_.actors().gate()->view().instances.size()) +
               " there, " + std::to_string(expected) + " expected";
        continue;
      }
      auto known = status();
      if (!known) {
        left = "no status: " + known.error().message;
        continue;
      }
      left = cluster_.left_behind(*known);
      if (left.empty()) left = cluster_.scheduler_errs(*known);
      if (!left.empty()) continue;
      status_ = std::move(*known);
      out_.redispatches = status_.redispatches_total;
      out_.moves = status_.moves_total;
      return whole();
    }
    const auto says = [&left](const char* word) { return left.find(word) != std::string::npos; };
    broken(says("ready")       ? "the cluster becomes whole again"
           : says("scheduler") ? "the scheduler knows the instances"
                               : "nothing is left behind",
           left);
    return false;
  }

  // A cluster that was mended is one that answers.
  bool serve_again() {
    constexpr std::uint32_t count = 3;
    const auto first = asked_.size();
    for (std::uint32_t i = 0; i < count; ++i) {
      auto& mine = asked_.emplace_back();
      mine.what = &afterwards;
      mine.who = std::make_shared<client>(&calm_answers()[afterwards.kind]);
      auto one = std::make_shared<actors::submission>();
      one->request = request_of(afterwards.kind);
      one->seeded = true;
      one->sink = mine.who;
      one->client_id = "afterwards-" + std::to_string(i);
      if (!cluster_.actors().gate()->submit({std::move(one)})) broken("the cluster serves again", "no front end");
    }
    const auto over = [&] {
      return std::all_of(asked_.begin() + static_cast<std::ptrdiff_t>(first), asked_.end(),
                         [](const auto& one) { return one.who->over(); });
    };
    if (!wait_until(over)) broken("the cluster serves again", "a request that came after the mending does not end");
    for (auto i = first; i < asked_.size(); ++i) {
      const auto& who = *asked_[i].who;
      if (!who.wrong.empty()) broken("the cluster serves again", who.wrong);
      // Small queues are small in a cluster that is whole, too.
      if (who.failed && !shape_.may_overload && !shape_.may_time_out && !shape_.may_give_up)
        broken("the cluster serves again", who.failed->message);
    }
    asked_.resize(first);
    return whole();
  }

  // Where nobody loses an owner each token is computed for somebody, once.
  void check_work() {
    if (shape_.may_run_twice || scenario_.loses_owners() || scenario_.scales || scenario_.has(fault_kind::drain))
      return;
    std::uint64_t drawn = 0, wanted = 0;
    for (const auto& instance : status_.instances) drawn += instance.load.generated_tokens_total;
    for (const auto& one : asked_) {
      const bool too_late = one.who->failed && one.who->failed->kind == actors::failure_kind::timed_out;
      if (one.who->gone || one.what->enough || too_late) return; // a token may be under way
      wanted += one.who->tokens.size();
    }
    if (status_.redispatches_total > 0 && scenario_.settings.empty())
      broken("nobody loses a request without need",
             std::to_string(status_.redispatches_total) + " were dispatched again");
    if (drawn != wanted && status_.redispatches_total == 0)
      broken("no request runs twice",
             std::to_string(drawn) + " tokens were drawn, " + std::to_string(wanted) + " were wanted");
  }

  void check_clients() {
    for (std::size_t i = 0; i < asked_.size(); ++i) {
      const auto& one = asked_[i];
      if (!one.who) continue;
      const auto& who = *one.who;
      const auto about = "request " + std::to_string(scenario_.requests[i].first) + ": ";
      if (!who.wrong.empty()) broken("each answer is the calm one", about + who.wrong);
      if (who.gone)
        ++out_.gone;
      else if (who.failed || one.turned_away)
        ++out_.failed;
      else
        ++out_.answered;
      if (who.failed) out_.seen.add("error " + std::string(name_of(who.failed->kind)));
      if (who.failed && !may_fail(*who.failed, who))
        broken("no request fails without need",
               about + who.failed->message + ", after " + std::to_string(who.tokens.size()) + " tokens");
      if (one.turned_away && !scenario_.loses_home()) broken("no request fails without need", about + "no front end");
    }
  }

  bool may_fail(const actors::answer_failure& failure, const client& who) const {
    using enum actors::failure_kind;
    const auto says = [&](std::string_view text) { return failure.message.find(text) != std::string::npos; };
    switch (failure.kind) {
    case overloaded:
      return shape_.may_overload && who.tokens.empty() && (says("every queue is full") || says("as many requests"));
    case unavailable:
      return (shape_.may_time_out && says("no instance took the request in time")) ||
             (scenario_.loses_home() && says("shutting down"));
    case timed_out:
      return shape_.may_time_out && says("is over");
    case internal:
      return shape_.may_give_up && says("failed too often");
    case too_long:
    case invalid:
      return false;
    }
    return false;
  }

  static constexpr asked_request afterwards{10, std::chrono::nanoseconds{0}, std::nullopt, std::nullopt, 0, 0};

  const scenario& scenario_;
  const shape shape_;
  outcome out_;
  runtime::trace::file_writer* record_to_;
  std::shared_ptr<runtime::trace::recorder> recorder_; ///< null: nobody records
  std::unique_ptr<runtime::trace::file_feed> feed_;
  runtime::sim::event_log log_;
  std::vector<asked> asked_; // outlives the cluster's sinks only by their shared pointers
  deployment cluster_;
  nanoseconds start_{0};
  std::map<std::pair<nanoseconds, std::uint64_t>, planned> plans_;
  std::uint64_t plans_total_ = 0;
  nanoseconds slice_end_{0};
  std::uint64_t steps_of_slice_ = 0;
  std::map<protocols::instance_id, std::uint32_t> drains_; ///< that hold
  protocols::cluster_status status_;
};

} // namespace

outcome run(const scenario& s, const run_options& options) { return play(s, options).run(); }

} // namespace godwit::explore
