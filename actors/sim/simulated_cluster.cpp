#include <godwit/actors/sim/simulated_cluster.hpp>

#include "sim/simulated_process.hpp"

#include <godwit/actors/member.hpp>
#include <godwit/gpu/drafted_executor.hpp>
#include <godwit/gpu/sim/sim_executor.hpp>
#include <godwit/gpu/sim/sim_stages.hpp>
#include <godwit/transport/sim/disk.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <utility>

namespace godwit::actors::sim {

using std::chrono::nanoseconds;

namespace {

constexpr std::size_t complaints_max = 100;
constexpr std::uint64_t phase_stream = 1, step_stream = 2;
/// Attempts of a member to join, one after the other, before the head is taken at its word.
constexpr std::uint64_t refusals_max = 5;
/// Few enough that a large cluster comes up in few bursts, since everybody is told of each.
constexpr nanoseconds::rep phases = 8;

nanoseconds microseconds(double us) { return nanoseconds(static_cast<std::int64_t>(us * 1000)); }

/// A simulated block shows the fabric few bytes, whatever the device's has.
double shown_share(const gpu::sim::profile& device) {
  return static_cast<double>(gpu::sim::sim_block_bytes) / device.block_bytes();
}

/// Bytes of a block, with those of a draft model.
double block_bytes_of(const simulated_cluster_options& options) {
  return options.device.block_bytes() + (options.draft ? options.draft->block_bytes() : 0.0);
}

/// That it shows: each of the two models has its own.
std::uint64_t shown_bytes_of(const simulated_cluster_options& options) {
  return gpu::sim::sim_block_bytes * (options.draft ? 2 : 1);
}

double shown_share(const simulated_cluster_options& options) {
  return static_cast<double>(shown_bytes_of(options)) / block_bytes_of(options);
}

/// By what a fabric has sent and what has landed.
class fabric_load final : public gpu::sim::copy_load {
public:
  fabric_load(const std::shared_ptr<transport::fabric>& fabric, double bytes_per_second,
              std::shared_ptr<slowed_steps> books)
      : fabric_(fabric), bytes_per_second_(bytes_per_second), books_(std::move(books)) {}
  nanoseconds taken() override {
    if (const auto here = fabric_.lock()) {
      const auto moved = here->figures();
      const auto seconds = static_cast<double>(moved.bytes_sent + moved.bytes_landed) / bytes_per_second_;
      last_ = nanoseconds(static_cast<std::int64_t>(seconds * 1e9));
    }
    return last_;
  }
  void slowed(nanoseconds alone, nanoseconds more, bool decodes) override {
    if (!decodes) return;
    ++books_->count;
    books_->alone += alone;
    books_->more += more;
    if (alone.count() > 0)
      books_->most = std::max(books_->most, static_cast<double>(more.count()) / static_cast<double>(alone.count()));
  }

private:
  const std::weak_ptr<transport::fabric> fabric_; ///< of the llumlet, which may end first
  const double bytes_per_second_;
  const std::shared_ptr<slowed_steps> books_;
  nanoseconds last_{0};
};

gpu::sim::sim_swap swap_of(const simulated_cluster_options& options) {
  gpu::sim::sim_swap out;
  const auto rate = options.device.link.host_bytes_per_second;
  if (rate <= 0) return out;
  const auto block = block_bytes_of(options);
  out.slots = static_cast<std::uint32_t>(std::min(static_cast<double>(options.swap_bytes) / block, 1e9));
  out.blocks_per_second = rate / block;
  return out;
}

} // namespace

// A request that moves stands still until its last blocks have landed, and profile_link::transfer_time is that time: so
// all of the software's overhead is on the way there, none on that of the acknowledgement.
transport::sim::settings network_of(const gpu::sim::profile& device, double share) {
  transport::sim::settings out;
  out.bytes_per_second = device.link.bytes_per_second * share;
  // Urgent blocks wait for a message of others, of as many real bytes as on a real link, but no part of a block.
  out.bytes_per_message = std::max<std::size_t>(
      gpu::sim::sim_block_bytes, static_cast<std::size_t>(static_cast<double>(out.bytes_per_message) * share));
  out.latency = microseconds(device.link.latency_us);
  out.overhead = microseconds(device.link.overhead_us);
  return out;
}

transport::sim::settings network_of(const gpu::sim::profile& device) { return network_of(device, shown_share(device)); }

std::uint32_t context_length_of(const simulated_cluster_options& options) {
  const auto pool = std::uint64_t{options.device.kv_blocks} * protocols::tokens_per_block;
  const auto most = static_cast<std::uint32_t>(std::min<std::uint64_t>(options.device.positions_max, pool));
  const auto wanted = options.node.llumlet.planner.context_length;
  return wanted == 0 ? most : std::min(most, wanted);
}

/// Where autoscaling gets its processes from.
class simulated_cluster::processes final : public provisioner {
public:
  explicit processes(simulated_cluster& owner) : owner_(owner) {}
  void order(const std::string& node, std::function<void(std::string)>) override { owner_.start_process(node); }
  void release(const std::string& node, std::optional<protocols::instance_id>) override { owner_.stop_process(node); }

private:
  simulated_cluster& owner_;
};

simulated_cluster::simulated_cluster(simulated_cluster_options options)
    : options_(std::move(options)), latency_(std::make_shared<const gpu::sim::latency_model>(options_.device)),
      draft_latency_(options_.draft ? std::make_shared<const gpu::sim::latency_model>(*options_.draft) : nullptr),
      world_(options_.seed), network_(world_.timers(), network_of(options_.device, shown_share(options_))),
      random_(world_.random(phase_stream)) {
  if (options_.central) {
    if (options_.stages > 1 || options_.draft)
      throw std::invalid_argument("one scheduler for all plans steps of one stage without a draft model");
    central_ = std::make_shared<gpu::sim::central_scheduler>(*options_.central);
    central_->stand_by(); // what instances measure as they start they measure without it
  }
  if (options_.step_time && options_.stages > 1)
    throw std::invalid_argument(
        "step_time is of instances of one stage; of several, stage_speeds says how fast they are");
  if (options_.node.instance.make_executor)
    throw std::invalid_argument(
        "a simulated cluster makes its executors by itself, so node.instance.make_executor is to "
        "be empty; step_time says how long a step takes");
  if (options_.recorder) world_.record_to(options_.recorder->begin(world_.clock()));
  system_ = make_system(options_.separate ? head_name : std::string());
  const auto context = context_length_of(options_);
  made_of_ = filled_in(std::move(options_.node), context);
  cluster_ = std::make_unique<cluster>(*system_, made_of_);
  if (options_.separate) open_links();
}

simulated_cluster::~simulated_cluster() {
  *alive_ = false;
  if (options_.separate) end_processes();
  cluster_.reset();
  system_->shutdown();
  if (options_.recorder) options_.recorder->pump();
}

std::unique_ptr<runtime::sim::system> simulated_cluster::make_system(const std::string& name) {
  runtime::sim::system_settings settings;
  settings.name = name;
  settings.report = [this](std::string_view actor, std::string_view text) { complain(actor, text); };
  return std::make_unique<runtime::sim::system>(world_, std::move(settings));
}

void simulated_cluster::complain(std::string_view actor, std::string_view text) {
  if (complaints_.size() < complaints_max) complaints_.push_back(std::string(actor) + ": " + std::string(text));
}

bool simulated_cluster::run_until(const std::function<bool()>& condition, std::uint64_t steps_max) {
  if (!options_.recorder) return world_.run_until(condition, steps_max);
  auto next = world_.steps() + run_recorder::steps_per_pump;
  const auto look = [&] {
    if (world_.steps() >= next) {
      options_.recorder->pump();
      next = world_.steps() + run_recorder::steps_per_pump;
    }
    return condition();
  };
  return world_.run_until(look, steps_max);
}

node_options simulated_cluster::filled_in(node_options node, std::uint32_t context) {
  const auto& device = options_.device;
  node.version = "simulation";
  node.model = device.model;
  node.address = "head";
  node.instances = 0; // processes bring them all
  node.capacity = 0;
  // A process that is started anew may join before anybody has missed the one before.
  node.members_max = std::max(node.members_max, 2 * options_.instances + node.scheduler.scaling.instances_max);
  node.instances_max = std::max(node.instances_max, node.members_max); // each has one
  // However long the device's model takes, it gets there.
  node.load_timeout = std::max(node.load_timeout, 2 * microseconds(device.start_ms * 1000));
  node.llumlet.planner.context_length = context;
  node.identity = {device.name, "simulated", shown_bytes_of(options_), context};
  node.provisioner = std::make_shared<processes>(*this);
  node.scheduler.on_failure = [this, also = std::move(node.scheduler.on_failure)](std::string_view line) {
    complain("global_scheduler", line);
    if (also) also(line);
  };
  node.frontend.on_failure = [this, also = std::move(node.frontend.on_failure)](std::string_view line) {
    complain("frontend", line);
    if (also) also(line);
  };
  node.llumlet.on_failure = [this, also = std::move(node.llumlet.on_failure)](std::string_view line) {
    complain("llumlet", line);
    if (also) also(line);
  };
  node.instance.on_layers = [this, also = std::move(node.instance.on_layers)](
                                protocols::instance_id id, const std::vector<std::uint32_t>& layers, bool moved) {
    layers_.moves += moved ? 1 : 0;
    layers_.by_stage[id] = layers;
    if (also) also(id, layers, moved);
  };
  node.on_topology = [this, also = std::move(node.on_topology)](const topology& news) {
    adopt(news);
    if (also) also(news);
  };
  auto& portion = node.llumlet.migration.settings.portion_bytes;
  portion = static_cast<std::uint64_t>(static_cast<double>(portion) * shown_share(options_));
  auto& stored = node.llumlet.store.bytes;
  stored = static_cast<std::uint64_t>(std::llround(static_cast<double>(stored) * shown_share(options_)));
  // Its memory is the host's, and stands for a device's.
  if (auto& share = node.llumlet.migration.settings.copy_share; share == 0)
    share = migration_settings::copy_share_of_engines;
  report_interval_ = node.llumlet.report_interval;
  return node;
}

std::shared_ptr<transport::disk> simulated_cluster::make_disk(runtime::timer_source& timers) const {
  const auto chunk = block_bytes_of(options_) * protocols::blocks_per_chunk;
  transport::sim::disk_settings out;
  out.slots = static_cast<std::uint32_t>(
      std::min(static_cast<double>(options_.disk_bytes) / chunk, static_cast<double>(kv_store_settings::chunks_max)));
  out.slot_bytes = shown_bytes_of(options_) * protocols::blocks_per_chunk;
  out.bytes_per_second = options_.disk_bytes_per_second * shown_share(options_);
  return out.slots == 0 ? nullptr : transport::sim::make_disk(std::move(out), timers);
}

executor_factory simulated_cluster::factory_on(runtime::timer_source& steps, runtime::timer_source& loads,
                                               std::shared_ptr<bool> weights,
                                               const std::shared_ptr<transport::fabric>& fabric) {
  const auto rate = options_.device.link.device_bytes_per_second * shown_share(options_);
  auto copies = rate > 0 ? std::make_shared<fabric_load>(fabric, rate, slowed_) : nullptr;
  return [this, &steps, &loads, weights = std::move(weights), copies = std::move(copies),
          start = microseconds(options_.device.start_ms * 1000)](protocols::instance_id which,
                                                                 std::function<void(executor_outcome)> done) {
    gpu::sim::sim_model model;
    model.memory = gpu::sim::sim_memory::none;
    model.seed = protocols::workload::counter_random(options_.seed, step_stream).at(which.value());
    model.copies = copies;
    model.central = central_;
    model.books = steps_;
    model.swap = swap_of(options_);
    // So often is the draft of the text that comes again, and so often what is drawn.
    model.refrain = std::sqrt(std::clamp(options_.draft_acceptance, 0.0, 1.0));
    executor_outcome out;
    auto info = gpu::sim::executor_info_of(options_.device);
    auto beside = model; // of the draft model, which has all else as the model has it
    if (options_.stages > 1) {
      out.made = gpu::sim::make_sim_stages(info, *latency_, steps, model,
                                           gpu::pipeline::cut_layers(info.layers, options_.stages),
                                           {.speeds = options_.stage_speeds});
    } else {
      if (options_.step_time)
        model.step_time = [this, which](const protocols::step_input& step, nanoseconds usual) {
          return options_.step_time(which, step, usual);
        };
      out.made = gpu::sim::make_sim_replica(info, latency_, steps, std::move(model));
    }
    if (options_.draft) {
      beside.counts_steps = false;
      beside.right = std::clamp(options_.draft_acceptance, 0.0, 1.0);
      info.layers = options_.draft->layers;
      info.block_bytes = static_cast<std::uint64_t>(options_.draft->block_bytes());
      info.weight_bytes = options_.draft->weight_bytes;
      out.made = gpu::make_drafted_executor(std::move(out.made),
                                            gpu::sim::make_sim_replica(info, draft_latency_, steps, std::move(beside)));
    }
    // Those of the start have long been there, and their reports do not all come in step.
    const auto phase = report_interval_ / phases * static_cast<nanoseconds::rep>(random_.below(phases));
    const auto delay = !started_ ? phase : weights && *weights ? nanoseconds{0} : start;
    loads.call_after(delay, [done = std::move(done), out = std::move(out), weights] {
      if (weights) *weights = true;
      done(out);
    });
  };
}

bool simulated_cluster::start() {
  for (std::uint32_t i = 0; i < options_.instances; ++i) {
    auto name = "instance-" + std::to_string(i);
    roles_[name] = protocols::role_at(made_of_.roles, i);
    start_process(name);
  }
  constexpr std::uint64_t steps_max = 1'000'000'000;
  const auto up = [this] { return books_.ready == options_.instances; };
  (void)run_until([&] { return up() || !refusal_.empty(); }, steps_max);
  started_ = true;
  if (central_) central_->begin();
  reset_costs();
  return up();
}

void simulated_cluster::start_process(const std::string& name) {
  count_times();
  ++wanted_;
  if (options_.separate) return start_separate(name);
  auto o = member_of(name);
  o.find_head = [this](const std::function<void(found_head)>& done) { done(cluster_->node()); };
  o.instance = made_of_.instance;
  o.llumlet.migration.fabric = network_.make_fabric(name);
  o.llumlet.store.disk = make_disk(world_.timers());
  o.instance.make_executor = factory_on(world_.timers(), world_.timers(), nullptr, o.llumlet.migration.fabric);
  members_[name] = system_->spawn<member>(std::move(o));
}

member_options simulated_cluster::member_of(const std::string& name) {
  member_options o;
  o.version = made_of_.version;
  o.address = name;
  o.key = ++keys_;
  o.model = made_of_.identity;
  o.backoff_min = made_of_.backoff_min;
  o.backoff_max = made_of_.backoff_max;
  o.settled_after = made_of_.settled_after;
  o.load_timeout = made_of_.load_timeout;
  o.log = made_of_.log;
  const auto role = roles_.find(name);
  o.roles = {role != roles_.end() ? role->second : protocols::role_at(made_of_.roles, made_of_.roles.size())};
  o.llumlet = made_of_.llumlet;
  o.llumlet.node_address = name;
  o.llumlet.migration.transfers = std::make_shared<std::atomic<std::uint64_t>>(0);
  o.on_state = [this, name](const member_state& state) {
    if (started_) return;
    if (state.failures >= refusals_max) refusal_ = name + " cannot join: " + state.error;
    // What went wrong once goes wrong again: nothing of it is left to chance.
    for (const auto& pair : state.pairs)
      if (!pair.error.empty()) refusal_ = name + " cannot start: " + pair.error;
  };
  return o;
}

void simulated_cluster::stop_process(const std::string& name) {
  if (options_.separate) return stop_separate(name);
  const auto found = members_.find(name);
  if (found == members_.end()) return;
  count_times();
  --wanted_;
  system_->tell(found->second, retire{});
  members_.erase(found);
}

void simulated_cluster::adopt(const topology& news) {
  std::erase_if(gone_, [&](auto instance) { return news.find(instance) == nullptr; }); // it does not come back
  announced_.clear();
  for (const auto& entry : news.instances) announced_.emplace_back(entry.instance, entry.takes_requests());
  settle();
  books_.ordered = news.ordered;
  count_present();
}

layer_books simulated_cluster::layers() const {
  auto out = layers_;
  std::erase_if(out.by_stage, [this](const auto& one) { return std::ranges::count(present_, one.first) == 0; });
  return out;
}

void simulated_cluster::settle() {
  count_times();
  books_.paid_s = books().paid_s;
  counted_ = world_.now();
}

void simulated_cluster::count_present() {
  present_.clear();
  books_.ready = 0;
  for (const auto& [instance, ready] : announced_) {
    if (gone_.contains(instance)) continue;
    present_.push_back(instance);
    if (ready) ++books_.ready;
  }
  books_.present = static_cast<std::uint32_t>(present_.size());
  books_.most = std::max(books_.most, books_.present + books_.ordered);
}

instance_books simulated_cluster::books() const {
  auto out = books_;
  out.ready = taking();
  const auto since = std::chrono::duration<double>(world_.now() - counted_).count();
  out.paid_s += since * (out.present + out.ordered);
  add_times(out);
  return out;
}

void simulated_cluster::add_times(instance_books& books) const {
  const auto since = world_.now() - times_counted_;
  books.wanted_time += since * wanted_;
  books.ready_time += since * taking();
  if (taking() == 0) books.none_time += since;
}

void simulated_cluster::count_times() {
  add_times(books_);
  times_counted_ = world_.now();
}

void simulated_cluster::reset_costs() {
  count_times();
  books_.paid_s = 0;
  books_.most = books_.present + books_.ordered;
  books_.wanted_time = books_.ready_time = books_.none_time = nanoseconds{0};
  counted_ = world_.now();
  *steps_ = {};
  if (central_) central_->reset_counts();
}

} // namespace godwit::actors::sim
