#include "explore/run.hpp"

#include "explore/books.hpp"
#include "explore/client.hpp"
#include "explore/deployment.hpp"
#include "explore/loss_watch.hpp"
#include "explore/own_policies.hpp"
#include "explore/topology_watch.hpp"

#include <godwit/runtime/trace/file_recorder.hpp>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
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
      : scenario_(s), shape_(s.cluster()), record_to_(options.record), log_(onlooker(options)), losses_(excuses_of(s)),
        instances_(bounds_of(s, shape_)),
        cluster_(s.seed, watched(shape_), &log_, options.log, [this](const auto& clock) { return record(clock); }) {
    cluster_.on_head_lost = [this](std::uint16_t home) { losses_.without_head(home); };
  }
  play(const play&) = delete;
  play& operator=(const play&) = delete;

  outcome run() {
    if (come_up() && happen() && everybody_ends() && nothing_stays()) {
      check_work();
      note_drafts();
      if (whole() && serve_again()) (void)nothing_stays();
    }
    check_clients();
    check_watches();
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

  /// Where somebody dies or stands still a decision may be much older than what the topology says.
  static std::optional<topology_watch::bounds> bounds_of(const scenario& s, const shape& what) {
    const auto& scaling = what.node.scheduler.scaling;
    if (!s.scales || s.loses_owners()) return std::nullopt;
    return topology_watch::bounds{scaling.instances_min, scaling.instances_max};
  }
  static loss_watch::excuses excuses_of(const scenario& s) {
    loss_watch::excuses out;
    if (s.loses_owners()) out.late_news_elsewhere = patience;
    out.drains_lose = s.loses_owners();
    out.moves_lose = s.loses_owners() || !s.settings.empty();
    if (s.has(fault_kind::freeze)) out.late_news = out.late_news_elsewhere = patience; // perhaps of the home
    return out;
  }
  shape watched(shape what) {
    what.node.on_topology = [this](const actors::topology& told) { see(told); };
    auto& home = what.node.frontend;
    home.on_dispatched = [this](auto request, auto to, auto) { losses_.given(request, to, cluster_.world().now()); };
    home.on_claimed = [this](auto request, auto, auto to) { losses_.moved(request, to, cluster_.world().now()); };
    home.on_migration = [this](const auto& report) {
      if (!report.committed()) losses_.move_failed(report.request, report.source);
    };
    home.on_lost = [this](auto request) { losses_.lost(request); };
    return what;
  }
  void see(const actors::topology& told) {
    const auto now = cluster_.world().now();
    const auto news = instances_.see(told, now);
    if (news.other_head) losses_.without_head(0);
    out_.seen.add("role changed", news.role_changes);
    for (const auto& entry : news.gone) losses_.gone(entry.instance, entry.draining, now);
    any_gone_ = any_gone_ || !news.gone.empty();
  }
  void check_watches() {
    if (!losses_.wrong().empty()) broken("nobody loses a request without need", losses_.wrong());
    if (!instances_.wrong().empty()) broken("autoscaling keeps within its bounds", instances_.wrong());
  }

  struct asked {
    const asked_request* what = nullptr;
    std::shared_ptr<client> who;
    bool turned_away = false;  ///< there was no front end
    std::uint64_t at_step = 0; ///< of the world, when it was submitted
    std::uint32_t home = 0;    ///< the machine whose front end it was submitted to
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
    // Each comes to another one's front end.
    const auto to = static_cast<std::uint32_t>(number % (shape_.fronts + 1));
    const auto gate = cluster_.gate(to);
    mine.home = to;
    if (!gate) { // the connection is refused
      mine.turned_away = true;
      return;
    }
    if (to != 0) out_.seen.add("another front end was asked");
    auto one = std::make_shared<actors::submission>();
    one->request = request_of(what.kind);
    one->request.prediction = prediction_of(what.kind);
    one->request.execution_level = what.execution_level;
    one->request.priority = what.priority;
    // Where queues go by them, and nobody is refused for them.
    const auto& queue = shape_.node.llumlet.planner.queue;
    if (queue.order == protocols::queue_order::edf && !shape_.node.frontend.objectives.refusable)
      one->ttft = std::chrono::milliseconds(1 + (what.kind * 97) % 3000);
    one->seeded = true;
    one->sink = mine.who;
    one->client_id = name_of(number);
    one->first_sample = sample_of(index, to);
    // The front end hears of both before anybody can have answered it.
    mine.at_step = cluster_.world().steps();
    for (const auto& other : asked_)
      if (one->first_sample && other.who == one->first_sample && other.at_step == mine.at_step)
        out_.seen.add("sample waited");
    // A weak one: the client must not keep itself.
    mine.who->go = [this, to, who = std::weak_ptr(mine.who)] {
      if (const auto there = cluster_.gate(to)) there->withdraw(who.lock());
    };
    mine.turned_away = !gate->submit({std::move(one)});
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
  std::shared_ptr<client> sample_of(std::size_t index, std::uint32_t home) const {
    for (std::size_t i = 0; i < asked_.size(); ++i)
      if (i != index && asked_[i].home == home && asked_[i].who && !asked_[i].turned_away && !asked_[i].who->over() &&
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
    case rejected:
      return "rejected";
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
    case late_blocks:
    case slow_writes: {
      const deployment::slowness by{nanoseconds(f.kind == late_blocks ? f.amount : 0),
                                    nanoseconds(f.kind == slow_writes ? f.amount : 0)};
      cluster_.slow_blocks(a, by);
      after(f.lasts, [this, a, by] { cluster_.end_slow_blocks(a, by); });
      return true;
    }
    case post_fails: // these three are counted when they strike
      (void)cluster_.fail_posts(a, f.amount);
      return false;
    case step_fails:
      cluster_.fail_step(a, f.amount);
      return false;
    case load_fails:
      cluster_.fail_loads(f.amount);
      return false;
    case freeze:
      if (!cluster_.freeze(a)) return false;
      after(f.lasts, [this, a, process = cluster_.process(a)] { cluster_.thaw(a, process); });
      return true;
    case crash:
    case vanish:
      if (!cluster_.crash(a, f.kind == crash ? runtime::sim::crash_kind::reset : runtime::sim::crash_kind::silent))
        return false;
      struck_.insert(a);
      after(f.lasts, [this, a] { cluster_.restart(a); });
      return true;
    case stop_member:
      if (!cluster_.stop_member(a)) return false;
      struck_.insert(a);
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
      cluster_.fail_coordinator(f.amount, coordinator_places[f.subject]);
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
    case role:
      break;
    }
    const auto id = instance_number(f.amount);
    if (!id) return false;
    if (f.kind == kill_instance) cluster_.actors().kill(*id);
    if (f.kind == migrate) cluster_.order(actors::migrate_request{{}, name_of(f.subject), *id});
    if (f.kind == role) cluster_.order(actors::role_order{*id, role_given(f)});
    if (f.kind == drain) {
      ++drains_[*id];
      instances_.drained_by_hand(*id);
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
    const auto dispatchers = dispatch_policies();
    const auto migrations = protocols::migration_policy_names();
    out.dispatch = dispatchers[bits % dispatchers.size()];
    if ((bits & 16) != 0) out.migration = migrations[(bits >> 5) % migrations.size()];
    if ((bits & 8) != 0) out.paused = (bits & 4) != 0 ? "yes" : "no";
    if (const auto modes = protocols::scaling_mode_names(); scenario_.scales && (bits & 256) != 0)
      out.scaling = modes[(bits >> 9) % modes.size()];
    if ((bits & 4096) != 0) out.roles = protocols::role_policy_names()[(bits >> 13) % 2];
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
    const auto enough_there = [this] {
      return cluster_.head_is_up() && takers(cluster_.actors().gate()->view()) >= instances_min();
    };
    if (orders_come() && !wait_until(enough_there))
      broken("autoscaling keeps within its bounds", "fewer than " + std::to_string(instances_min()) +
                                                        " instances take requests 5 minutes after everything ended");
    actors::policy_order enough;
    enough.scaling = "off";
    cluster_.order(enough);
  }

  /// What is ordered is there before it is given up.
  bool orders_come() const {
    constexpr nanoseconds talk = 500ms;
    const auto given = nanoseconds(shape_.node.scheduler.scaling.provision_timeout_ns);
    return shape_.order_time + shape_.load_time + talk < given;
  }
  std::uint32_t instances_min() const { return shape_.node.scheduler.scaling.instances_min; }

  bool nothing_stays() {
    const auto expected = !scenario_.scales ? cluster_.instances_expected() : orders_come() ? instances_min() : 1;
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
      // Small queues are small in a cluster that is whole, too; but its home does not end.
      if (who.failed && (!may_fail(*who.failed, who, 0) || says_of_end(*who.failed)))
        broken("the cluster serves again", who.failed->message);
    }
    asked_.resize(first);
    return whole();
  }

  void note_drafts() {
    for (const auto& instance : status_.instances) {
      const auto& load = instance.load;
      out_.seen.add("a draft was right", load.accepted_tokens_total);
      out_.seen.add("a draft was wrong", load.draft_tokens_total - load.accepted_tokens_total);
    }
  }

  // Where nobody loses an owner each token is computed for somebody, once; and little is computed for those who have
  // gone.
  void check_work() {
    if (shape_.may_run_twice || scenario_.loses_owners() || status_.redispatches_total > 0) return;
    std::uint64_t drawn = 0, wanted = 0, unwanted = 0;
    for (const auto& instance : status_.instances) drawn += instance.load.generated_tokens_total;
    for (const auto& one : asked_) {
      const auto& who = *one.who;
      const bool too_late = who.failed && who.failed->kind == actors::failure_kind::timed_out;
      if (who.gone || one.what->enough || too_late) unwanted += unwanted_max(one.what->kind);
      wanted += who.tokens.size();
    }
    // What those drew that have stopped is not known.
    if ((drawn < wanted && !any_gone_) || drawn > wanted + unwanted)
      broken(unwanted > 0 && drawn > wanted ? "nobody computes for a client that has gone" : "no request runs twice",
             std::to_string(drawn) + " tokens were drawn, " + std::to_string(wanted) + " were wanted, " +
                 std::to_string(unwanted) + " too many may be");
  }

  /// Tokens that are drawn for a request after its client has what it wants: while the last one is on its way to the
  /// home, and the home's word on its way back, in the step that runs then, and one more. A step draws one more for
  /// each draft.
  std::uint64_t unwanted_max(std::uint32_t kind) const {
    constexpr int handlers = 100; // in line at one time
    const auto way = shape_.links.latency_max + longest_delay(scenario_) + scenario_.work * handlers;
    const auto step = std::max<std::int64_t>(1, static_cast<std::int64_t>(shape_.latency.base_us * 1000));
    const auto& drafts = shape_.node.llumlet.planner.speculation;
    const auto foretold = prediction_of(kind).empty() ? 0 : drafts.prediction_max;
    const auto drafted = std::max({drafts.tokens_max, drafts.model_max, foretold});
    return (3 + static_cast<std::uint64_t>(2 * way.count() / step)) * (1 + drafted);
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
      if (who.failed && !may_fail(*who.failed, who, one.home))
        broken("no request fails without need",
               about + who.failed->message + ", after " + std::to_string(who.tokens.size()) + " tokens");
      if (one.turned_away && !lost_home(one.home)) broken("no request fails without need", about + "no front end");
    }
  }

  static bool says_of_end(const actors::answer_failure& failure) {
    return failure.message.find("shutting down") != std::string::npos;
  }
  /// Its front end may have ended, with its requests.
  bool lost_home(std::uint32_t home) const { return home == 0 ? scenario_.loses_home() : struck_.contains(home); }
  bool may_fail(const actors::answer_failure& failure, const client& who, std::uint32_t home) const {
    using enum actors::failure_kind;
    const auto says = [&](std::string_view text) { return failure.message.find(text) != std::string::npos; };
    switch (failure.kind) {
    case overloaded:
      return shape_.may_overload && who.tokens.empty() && (says("every queue is full") || says("as many requests"));
    case unavailable:
      return (shape_.may_not_be_placed && says("no instance took the request in time")) ||
             (lost_home(home) && says_of_end(failure));
    case timed_out:
      return shape_.may_time_out && says("is over");
    case rejected:
      return shape_.may_be_rejected && who.tokens.empty() && says("No instance is expected");
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
  loss_watch losses_;
  topology_watch instances_;
  bool any_gone_ = false;
  std::set<std::uint32_t> struck_; ///< machines whose processes, or members, were killed
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
