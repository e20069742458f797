#include <godwit/actors/sim/simulation.hpp>

#include "sim/length_forecasts.hpp"
#include "sim/simulated_process.hpp"

#include <godwit/runtime/metrics/registry.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <tuple>
#include <utility>

namespace godwit::actors::sim {

using std::chrono::nanoseconds;

namespace {

/// Kinds of failures that are told apart; some name numbers of tokens.
constexpr std::size_t causes_max = 100;

class run {
public:
  explicit run(simulation_options options);
  [[nodiscard]] simulation_result take();

private:
  class probe;
  void submit_due();
  request_record& ended(std::size_t index);
  void preempted(const preemption& what);
  void claimed(protocols::request_id id, protocols::epoch from, protocols::instance_id to);
  void migrated(const protocols::migration_report& report);
  void lost(protocols::request_id id);
  void reported(const protocols::load_report& report);
  [[nodiscard]] cluster_sample look();
  void keep(const cluster_sample& sample);
  void sample_for_ever();
  [[nodiscard]] simulated_cluster_options watched(simulated_cluster_options from);
  [[nodiscard]] std::int64_t now() { return (cluster_.world().now() - began_).count(); }
  /// The front end numbers the requests as they are submitted.
  [[nodiscard]] request_record* find(protocols::request_id id);

  simulation_options options_;
  std::uint32_t vocabulary_;
  std::uint64_t seed_;
  simulation_result result_;
  std::vector<protocols::load_report> loads_; ///< the last of each instance, by id
  std::vector<probe*> probes_;                ///< by request; null: not submitted yet, or ended
  /// By instance: when migrations from or to it were under way.
  std::map<protocols::instance_id, std::vector<std::pair<std::int64_t, std::int64_t>>> migrating_;
  std::optional<fault_injector> faults_; ///< outlives the timers that it set
  runtime::metrics::registry registry_;
  std::shared_ptr<cluster_metrics> metrics_;
  simulated_cluster cluster_;
  nanoseconds began_{0};
  std::size_t submitted_ = 0;
  std::size_t ended_ = 0;
  std::int64_t progress_ns_ = 0;
  std::uint64_t looks_ = 0;            ///< one each sample_interval
  std::uint64_t looks_per_sample_ = 1; ///< of which one is kept
  bool hangs_ = false;
  bool over_ = false;
};

/// What a client would see. What each token changes is here, close together, and goes into the records at the end: with
/// many requests it is never in the caches.
class run::probe final : public answer_sink {
public:
  probe(run& owner, std::size_t index) : owner_(owner), index_(static_cast<std::uint32_t>(index)) {
    owner_.probes_[index_] = this;
    const auto& of = owner.options_.gaps_of;
    const auto arrived = owner.result_.requests[index].arrival_ns;
    counts_ = !of || (arrived >= of->first && arrived < of->second);
  }
  ~probe() override { note(); }
  bool on_tokens(std::span<const protocols::sampled_token> tokens, bool) override {
    if (owner_.over_) return true;
    const auto now = owner_.now();
    if (std::exchange(claimed_, false)) {
      gap_ns_ = now - last_token_ns_;
      if (reported_) count_gap();
    }
    if (std::exchange(lost_, false)) owner_.result_.requests[index_].interrupted_ns += now - last_token_ns_;
    if (first_token_ns_ < 0)
      first_token_ns_ = now;
    else
      note_gap(now - last_token_ns_);
    owner_.progress_ns_ = last_token_ns_ = now;
    answer_tokens_ += static_cast<std::uint32_t>(tokens.size());
    if (!losses_.empty()) end_losses(now);
    return true;
  }
  void on_finished(protocols::finish_reason, const answer_usage& usage) override {
    if (!owner_.over_) ended().cached_tokens = usage.cached_tokens;
  }
  void on_failed(const answer_failure& failure) override {
    if (owner_.over_) return;
    ended().failed = failure.kind;
    auto& failures = owner_.result_.failures;
    if (failures.size() < causes_max || failures.contains(failure.message)) ++failures[failure.message];
  }
  /// The tokens that it had then may come after this, and end nothing.
  void preempted(std::uint32_t answer_tokens) {
    if (losses_.empty() || losses_.back().answer_tokens < answer_tokens)
      losses_.push_back({owner_.now(), answer_tokens});
  }
  /// By another instance, between two tokens.
  void claimed(protocols::epoch from) {
    claimed_ = last_token_ns_ >= 0;
    claimed_from_ = from;
    gap_ns_ = -1;
    reported_ = false;
  }
  /// A migration of the running request out of this epoch; perhaps only after the next token has come.
  void moved(protocols::epoch from) {
    if (claimed_from_ != from) return;
    reported_ = true;
    if (gap_ns_ >= 0) count_gap();
  }
  /// By its instance, between two tokens.
  void lost() {
    lost_ = last_token_ns_ >= 0;
    // What it had there and has not come is drawn again.
    for (auto& one : losses_) one.answer_tokens = std::min(one.answer_tokens, answer_tokens_);
  }
  /// Into the record, once: the records are gone before the last probe is.
  void note() {
    if (std::exchange(owner_.probes_[index_], nullptr) == nullptr) return;
    auto& r = owner_.result_.requests[index_];
    r.first_token_ns = first_token_ns_;
    r.last_token_ns = last_token_ns_;
    r.answer_tokens = answer_tokens_;
    r.longest_gap_ns = longest_gap_ns_;
  }

private:
  struct loss {
    std::int64_t since_ns = 0;       ///< the preemption
    std::uint32_t answer_tokens = 0; ///< that it had then
  };
  request_record& ended() {
    note();
    return owner_.ended(index_);
  }
  void end_losses(std::int64_t now) {
    auto& r = owner_.result_.requests[index_];
    std::erase_if(losses_, [&](const loss& one) {
      if (one.answer_tokens >= answer_tokens_) return false;
      // Of times that overlap each moment once: an instance that nobody hears goes on, and preempts again.
      r.preemption_loss_ns += now - std::max(one.since_ns, losses_until_ns_);
      losses_until_ns_ = now;
      return true;
    });
  }
  void note_gap(std::int64_t ns) {
    longest_gap_ns_ = std::max(longest_gap_ns_, ns);
    if (counts_) owner_.result_.token_gaps.add(ns);
  }
  void count_gap() {
    owner_.result_.gaps_ns.push_back(gap_ns_);
    gap_ns_ = -1;
    reported_ = false;
    claimed_from_ = {};
  }
  run& owner_;
  std::int64_t first_token_ns_ = -1;
  std::int64_t last_token_ns_ = -1;
  std::int64_t longest_gap_ns_ = 0;
  std::vector<loss> losses_;         ///< that last; more than one only while a token is on its way
  std::int64_t losses_until_ns_ = 0; ///< counted
  std::uint32_t answer_tokens_ = 0;
  std::uint32_t index_;
  // The last change of its instance by a migration:
  std::int64_t gap_ns_ = -1; ///< between the tokens before and after; -1: not known, or counted
  protocols::epoch claimed_from_;
  bool claimed_ = false;  ///< and no token since
  bool reported_ = false; ///< as one whose gap counts
  bool lost_ = false;
  bool counts_ = true; ///< among the gaps of all
};

/// How long the plan has the head stand still, in which time nothing can go on.
nanoseconds head_stands_still(const fault_plan& faults) {
  constexpr nanoseconds each_max = std::chrono::hours(100'000);
  nanoseconds out{0};
  for (const auto& f : faults.planned)
    if (f.kind == fault_kind::freeze && f.target == head_name && f.lasts && out < each_max)
      out += std::min(*f.lasts, each_max);
  return out;
}

/// Whoever runs the simulation may watch the same.
template <class Signature, class Watch> void also(std::function<Signature>& hook, Watch watch) {
  if (!hook) {
    hook = std::move(watch);
    return;
  }
  hook = [watch = std::move(watch), theirs = std::move(hook)](const auto&... what) {
    watch(what...);
    theirs(what...);
  };
}

run::run(simulation_options options)
    : options_(std::move(options)), vocabulary_(std::max(1U, options_.cluster.device.vocabulary)),
      seed_(options_.cluster.seed), probes_(options_.requests.size()), cluster_(watched(std::move(options_.cluster))) {
  result_.requests.resize(options_.requests.size());
  for (std::size_t i = 0; i < result_.requests.size(); ++i) {
    const auto& planned = options_.requests[i];
    auto& record = result_.requests[i];
    record.arrival_ns = planned.arrival_ns;
    record.prompt_tokens = planned.prompt_tokens;
    record.priority = planned.priority;
    record.deadline_ns = planned.deadline_ns;
  }
}

simulated_cluster_options run::watched(simulated_cluster_options from) {
  auto& node = from.node;
  // Its numbers are how a request is known again, and one that it turns away at once gets none.
  const auto all = static_cast<std::uint32_t>(options_.requests.size());
  node.frontend.requests_max = std::max(node.frontend.requests_max, all);
  node.frontend.home = 0;
  node.frontend.lengths = options_.length_accuracy ? told_lengths(*options_.length_accuracy, from.seed)
                                                   : without_limits(std::move(node.frontend.lengths));
  also(node.frontend.on_forecast, [this](protocols::request_id id, protocols::length_forecast forecast) {
    if (auto* const r = over_ ? nullptr : find(id)) r->forecast = forecast;
  });
  also(node.llumlet.on_preempted, [this](const preemption& what) { preempted(what); });
  also(node.llumlet.on_report, [this](const protocols::load_report& report) { reported(report); });
  also(node.frontend.on_dispatched, [this](protocols::request_id id, protocols::instance_id to, nanoseconds expected) {
    auto* const r = over_ ? nullptr : find(id);
    if (r == nullptr) return;
    r->instance = to;
    if (r->expected_ns == 0 && r->first_token_ns < 0) {
      r->dispatched_ns = now();
      r->expected_ns = expected.count();
    }
  });
  also(node.frontend.on_claimed, [this](protocols::request_id id, protocols::epoch before, protocols::instance_id to) {
    claimed(id, before, to);
  });
  also(node.frontend.on_migration, [this](const protocols::migration_report& report) { migrated(report); });
  also(node.frontend.on_lost, [this](protocols::request_id id) { lost(id); });
  if (!node.metrics) node.metrics = std::make_shared<cluster_metrics>(registry_);
  metrics_ = node.metrics;
  from.separate = from.separate || !options_.faults.empty();
  return from;
}

simulation_result run::take() {
  auto& world = cluster_.world();
  if (!cluster_.start()) {
    result_.trouble = "the instances never get ready";
    if (!cluster_.refusal().empty()) result_.trouble += ": " + cluster_.refusal();
    return std::move(result_);
  }
  began_ = world.now();
  const auto first_event = world.steps();
  if (!options_.faults.empty()) {
    faults_.emplace(cluster_, options_.faults, seed_, options_.cluster.instances);
    faults_->begin();
    options_.patience += head_stands_still(options_.faults);
  }
  sample_for_ever();
  submit_due();
  const auto all = result_.requests.size();
  (void)cluster_.run_until([&] { return ended_ == all || hangs_ || result_.interrupted_at_ns; });
  result_.samples.push_back(look());
  result_.duration_ns = now();
  result_.instances = cluster_.books();
  result_.instance_seconds = result_.instances.paid_s;
  result_.instances_max = result_.instances.most;
  result_.slowed = cluster_.slowed();
  result_.steps = cluster_.steps();
  result_.layers = cluster_.layers();
  if (const auto* const central = cluster_.central()) result_.central = *central;
  result_.orders_given_up = metrics_->orders_given_up.value();
  result_.store = metrics_->stores();
  if (faults_) {
    faults_->stop();
    result_.faults = faults_->books();
  }
  result_.events = world.steps() - first_event;
  result_.complaints = cluster_.complaints();
  for (auto& [instance, spans] : migrating_)
    result_.migrating_seconds += static_cast<double>(covered_ns(std::move(spans))) * 1e-9;
  for (auto* const open : probes_)
    if (open != nullptr) open->note();
  for (auto i = submitted_; i < all; ++i) result_.requests[i].arrival_ns = -1;
  over_ = true; // what clients hear of the cluster's end is no part of the result
  return std::move(result_);
}

// Each arrival sets the timer of the next one.
void run::submit_due() {
  if (over_) return;
  const auto& planned = options_.requests;
  for (; submitted_ < planned.size() && planned[submitted_].arrival_ns <= now(); ++submitted_) {
    const auto& r = planned[submitted_];
    auto one = std::make_shared<submission>();
    one->request.prompt = prompt_of(r, submitted_, vocabulary_, seed_);
    one->request.stop.max_tokens = r.answer_tokens;
    one->request.stop.ignore_eos = true;
    one->request.sampling.seed = submitted_;
    one->seeded = true;
    one->ttft = nanoseconds(r.deadline_ns);
    if (options_.high_level && r.priority > 0) {
      one->request.priority = -static_cast<std::int32_t>(r.priority); // lower goes first
      one->request.execution_level = *options_.high_level;
    }
    one->sink = std::make_shared<probe>(*this, submitted_);
    std::vector<std::shared_ptr<submission>> call;
    call.push_back(std::move(one));
    (void)cluster_.actors().gate()->submit(std::move(call)); // where there is no front end, the sink hears of it
  }
  if (submitted_ == planned.size()) return;
  cluster_.world().timers().call_after(nanoseconds(planned[submitted_].arrival_ns - now()), [this] { submit_due(); });
}

request_record& run::ended(std::size_t index) {
  auto& r = result_.requests[index];
  progress_ns_ = r.ended_ns = now();
  ++ended_;
  return r;
}

request_record* run::find(protocols::request_id id) {
  const auto index = id.value() - 1;
  return index < result_.requests.size() ? &result_.requests[index] : nullptr;
}

void run::preempted(const preemption& what) {
  if (over_) return;
  auto* const r = find(what.request);
  if (r == nullptr) return;
  ++r->preemptions;
  r->swaps += what.swapped ? 1 : 0;
  if (auto* const open = probes_[what.request.value() - 1]) open->preempted(what.answer_tokens);
}

void run::claimed(protocols::request_id id, protocols::epoch from, protocols::instance_id to) {
  auto* const r = over_ ? nullptr : find(id);
  if (r == nullptr) return;
  r->instance = to;
  if (auto* const open = probes_[id.value() - 1]) open->claimed(from);
}

void run::lost(protocols::request_id id) {
  if (over_) return;
  auto* const r = find(id);
  if (r == nullptr) return;
  ++r->losses;
  if (auto* const open = probes_[id.value() - 1]) open->lost();
}

void run::migrated(const protocols::migration_report& report) {
  if (over_) return;
  for (const auto instance : {report.source, report.destination})
    migrating_[instance].emplace_back(now() - report.duration_ns, now());
  if (!report.committed()) {
    ++result_.migrations_aborted[std::string(to_string(report.reason))];
    return;
  }
  ++result_.migrations_committed[std::string(to_string(report.cause.what))];
  auto* const r = find(report.request);
  if (r != nullptr) ++r->migrations;
  if (report.stages == 0) { // it waited: nothing to copy, and no batch that it left
    ++result_.moved_waiting;
    return;
  }
  ++result_.stages[report.stages];
  result_.moved_blocks += report.blocks;
  result_.known_blocks += report.known;
  result_.stalls_ns.push_back(report.stall_ns);
  if (r == nullptr) return;
  r->stall_ns += report.stall_ns;
  if (auto* const open = probes_[report.request.value() - 1]) open->moved(report.epoch);
}

void run::reported(const protocols::load_report& report) {
  const auto index = report.instance.value();
  if (index >= loads_.size()) loads_.resize(index + 1);
  auto& last = loads_[index];
  if (last.ready && last.generation == report.generation && last.role != report.role)
    ++result_.role_changes[std::string(to_string(report.role))];
  const bool goes_on = last.generation == report.generation && last.sequence > 0;
  result_.swapped_out_tokens += report.swapped_out_tokens_total - (goes_on ? last.swapped_out_tokens_total : 0);
  result_.swapped_in_tokens += report.swapped_in_tokens_total - (goes_on ? last.swapped_in_tokens_total : 0);
  result_.store_query_tokens += report.store_query_tokens_total - (goes_on ? last.store_query_tokens_total : 0);
  result_.store_hit_tokens += report.store_hit_tokens_total - (goes_on ? last.store_hit_tokens_total : 0);
  last = report;
}

cluster_sample run::look() {
  cluster_sample s;
  s.time_ns = now();
  const auto books = cluster_.books();
  s.instances = books.present + books.ordered;
  s.ready = books.ready;
  s.open = static_cast<std::uint32_t>(submitted_ - ended_);
  std::vector<protocols::load_report> here;
  for (const auto id : cluster_.present()) {
    if (id.value() >= loads_.size() || !loads_[id.value()].ready) continue;
    const auto& load = here.emplace_back(loads_[id.value()]);
    s.running += load.running;
    s.waiting += load.waiting;
    s.blocks_total += load.blocks_total;
    s.blocks_used += load.blocks_used;
    s.blocks_headroom += load.headroom_blocks;
    s.prefill += load.role == protocols::instance_role::prefill ? 1 : 0;
    s.decode += load.role == protocols::instance_role::decode ? 1 : 0;
  }
  s.fragmented = fragmentation_of(here);
  return s;
}

// A run of any length keeps a bounded number of them, at equal distances.
void run::keep(const cluster_sample& sample) {
  auto& all = result_.samples;
  all.push_back(sample);
  if (all.size() < std::max<std::size_t>(options_.samples_max, 2)) return;
  for (std::size_t i = 0; 2 * i < all.size(); ++i) all[i] = all[2 * i];
  all.resize((all.size() + 1) / 2);
  looks_per_sample_ *= 2;
}

void run::sample_for_ever() {
  if (over_) return;
  const auto seen = look();
  if (looks_++ % looks_per_sample_ == 0) keep(seen);
  const bool waits = submitted_ == ended_; // for the next arrival
  if (waits) progress_ns_ = now();
  if (now() - progress_ns_ > options_.patience.count()) hangs_ = true;
  const auto clock_ns = cluster_.world().now().count();
  if (options_.goes_on && !options_.goes_on({now(), clock_ns, ended_, submitted_, result_.requests}))
    result_.interrupted_at_ns = clock_ns;
  cluster_.world().timers().call_after(options_.sample_interval, [this] { sample_for_ever(); });
}

} // namespace

node_options node_of_the_command() {
  node_options out;
  auto& planner = out.llumlet.planner;
  planner.running_max = 256;
  planner.waiting_max = 1'000'000;
  planner.execution_levels = {{"normal", 0}, {"high", std::nullopt}};
  out.instance.pipeline_balance.gain_min = 0; // most profiles are GPUs', where layers stay
  out.llumlet.profile.enabled = true;
  out.llumlet.migration.settings.portion_bytes = std::uint64_t{1} << 30U;
  out.llumlet.migration.settings.copy_share = 1;
  out.scheduler.levels = planner.execution_levels;
  out.frontend.execution_levels = {"normal", "high"};
  out.frontend.placement_timeout = std::chrono::hours(1);
  return out;
}

namespace {

/// Why options cannot be used; empty: they can.
std::string trouble_with(const simulation_options& options) {
  const auto is_share = [](double x) { return x >= 0 && x <= 1; }; // and a number
  if (!std::ranges::is_sorted(options.requests, {}, &protocols::workload::workload_request::arrival_ns))
    return "the requests are not in the order of their arrivals";
  if (!options.requests.empty() && options.requests.front().arrival_ns < 0) return "a request arrives before the run";
  if (options.cluster.instances == 0) return "cluster.instances must be above 0";
  const auto& [stages, speeds, device] =
      std::tie(options.cluster.stages, options.cluster.stage_speeds, options.cluster.device);
  if (stages == 0 || stages > std::max(device.layers, 1U)) return "cluster.stages are from 1 to the model's layers";
  if (!speeds.empty() && speeds.size() != stages) return "cluster.stage_speeds are of each stage, or of none";
  if (!std::ranges::all_of(speeds, [](double speed) { return speed > 0 && std::isfinite(speed); }))
    return "cluster.stage_speeds must be above 0";
  if (!is_share(options.cluster.draft_acceptance)) return "cluster.draft_acceptance is a share from 0 to 1";
  if (options.length_accuracy && !is_share(*options.length_accuracy)) return "length_accuracy is a share from 0 to 1";
  if (options.sample_interval.count() <= 0) return "sample_interval must be above 0";
  if (options.patience.count() <= 0) return "patience must be above 0";
  return {};
}

} // namespace

simulation_result simulate(simulation_options options) {
  if (auto trouble = trouble_with(options); !trouble.empty()) {
    simulation_result out;
    out.trouble = std::move(trouble);
    return out;
  }
  std::optional<run> one;
  try {
    one.emplace(std::move(options));
  } catch (const std::invalid_argument& wrong) {
    simulation_result out;
    out.trouble = wrong.what();
    return out;
  }
  return one->take();
}

} // namespace godwit::actors::sim
