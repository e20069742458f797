#include "main/bench_workload.hpp"
#include "main/head_options.hpp"
#include "main/migration_parts.hpp"
#include "main/output_file.hpp"
#include "main/parts.hpp"
#include "main/policy_plugins.hpp"
#include "main/request_flags.hpp"
#include "main/scheduling_settings.hpp"
#include "main/sim_policy.hpp"
#include "main/sim_recording.hpp"
#include "main/simulate.hpp"
#include "main/swap_options.hpp"
#include "main/units.hpp"

#include <godwit/actors/policy_plugin.hpp>
#include <godwit/gpu/pipeline.hpp>
#include <godwit/protocols/kv/chunk_name.hpp>
#include <godwit/protocols/workload/workload.hpp>

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <system_error>
#include <utility>
#include <vector>

#include <sys/resource.h>

namespace godwit::main {

namespace workload = protocols::workload;
using protocols::expected;
using protocols::unexpected;

namespace {

struct planned_sim {
  actors::sim::simulation_options run;
  sim_setup setup;
};

constexpr double day_ns = 86'400e9;
/// An idle cluster is not free: some hundred events for each virtual second.
constexpr double days_max = 366;

std::vector<std::string> names_of(const std::vector<protocols::execution_level>& levels) {
  std::vector<std::string> out;
  for (const auto& level : levels) out.push_back(level.name);
  return out;
}

actors::sim::process_settings processes_of(const serve_settings& settings) {
  actors::sim::process_settings out;
  out.detection.least = settings.cluster.connection_timeout;
  out.detection.most = settings.cluster.connection_timeout + settings.cluster.heartbeat_interval;
  out.rejoin_max = settings.cluster.rejoin_pause_max;
  return out;
}

expected<std::uint8_t, bench_error> level_called(const std::string& name,
                                                 const std::vector<protocols::execution_level>& levels) {
  for (std::size_t i = 1; i < levels.size(); ++i)
    if (levels[i].name == name) return static_cast<std::uint8_t>(i);
  if (!levels.empty() && levels.front().name == name)
    return unexpected(bench_error{2, "--priority-share: " + name + " is what requests have anyway; name a higher one"});
  return unexpected(bench_error{2, "--priority-share: priorities.execution has no level called '" + name + "'"});
}

/// KV blocks of an instance on so many devices like this one, where a draft model, if there is one, is on the first.
/// Each has the memory of one less its layers' weights; the one with most layers, of which the first one is one, has
/// room for the fewest.
double blocks_of(const gpu::sim::profile& device, std::uint32_t stages, const gpu::sim::profile* draft) {
  constexpr double blocks_max = 1U << 22U; // of several devices; each has its place in a simulated pool
  const double share = std::ceil(static_cast<double>(device.layers) / stages) / device.layers;
  const double room = device.kv_blocks * device.block_bytes() + static_cast<double>(device.weight_bytes) * (1 - share);
  const double block = device.block_bytes() * share;
  const double blocks = draft == nullptr
                            ? room / block
                            : (room - static_cast<double>(draft->weight_bytes)) / (block + draft->block_bytes());
  return stages == 1 ? blocks : std::min(blocks, std::max(blocks_max, static_cast<double>(device.kv_blocks)));
}

/// A draft model's weights and its KV are where the device has KV blocks otherwise.
std::string make_room(gpu::sim::profile& device, std::uint32_t stages, const gpu::sim::profile& draft,
                      std::uint32_t context_max) {
  const auto served = context_max == 0 ? device.positions_max : std::min(device.positions_max, context_max);
  if (draft.positions_max < served)
    return fmt::format("the context of {} has {} tokens, and {} are served; set --model-context-max {}", draft.name,
                       draft.positions_max, served, draft.positions_max);
  const auto blocks = blocks_of(device, stages, &draft);
  if (blocks < 1) return "there is no room for its weights and a block of KV beside " + device.name;
  device.kv_blocks = static_cast<std::uint32_t>(blocks);
  return {};
}

double block_bytes_of(const actors::sim::simulated_cluster_options& cluster) {
  return cluster.device.block_bytes() + (cluster.draft ? cluster.draft->block_bytes() : 0.0);
}

std::string wrong_with_swap(const actors::sim::simulated_cluster_options& cluster) {
  if (cluster.swap_bytes == 0) return {};
  if (cluster.device.link.host_bytes_per_second == 0)
    return "llumlet.swap_bytes: the profile " + cluster.device.name +
           " does not say how fast KV gets to the host's memory; give it a link.host_bytes_per_second";
  if (const auto block = block_bytes_of(cluster); static_cast<double>(cluster.swap_bytes) < block)
    return fmt::format("llumlet.swap_bytes: {} is less than a block of KV, which has {:.0f} bytes with this profile",
                       cluster.swap_bytes, block);
  return {};
}

/// A shard has whole chunks, in memory and on its disk.
std::string wrong_with_store(const serve_settings& settings, const actors::sim::simulated_cluster_options& cluster) {
  const auto chunk = block_bytes_of(cluster) * protocols::blocks_per_chunk;
  const auto& store = settings.kv_store;
  for (const auto& [name, bytes] :
       {std::pair{"kv_store.bytes", store.bytes}, std::pair{"kv_store.disk_bytes", store.disk_bytes}})
    if (bytes > 0 && static_cast<double>(bytes) < chunk)
      return fmt::format("{}: {} is less than a chunk of {} tokens, which has {:.0f} bytes with this profile", name,
                         bytes, protocols::tokens_per_chunk, chunk);
  return {};
}

/// "1-350": the least and the most, in ns.
std::optional<std::pair<std::int64_t, std::int64_t>> parse_deadlines(const std::string& text) {
  double least = 0, most = 0;
  const auto* const end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, least, std::chars_format::fixed);
  if (first.ec != std::errc{} || first.ptr == end || *first.ptr != '-') return std::nullopt;
  const auto second = std::from_chars(first.ptr + 1, end, most, std::chars_format::fixed);
  constexpr double longest_s = 1e8; // three years
  const bool in_order = least >= 1e-6 && least <= most && most <= longest_s;
  if (second.ec != std::errc{} || second.ptr != end || !in_order) return std::nullopt;
  return std::pair{static_cast<std::int64_t>(least * 1e9), static_cast<std::int64_t>(most * 1e9)};
}

/// "1,0.5": one above 0 for each stage.
std::optional<std::vector<double>> parse_speeds(const std::string& text, std::uint32_t stages) {
  std::vector<double> out;
  const auto* at = text.data();
  for (const auto* const end = at + text.size(); at != end; at += at != end ? 1 : 0) {
    const auto read = std::from_chars(at, end, out.emplace_back(), std::chars_format::fixed);
    if (read.ec != std::errc{} || (read.ptr != end && (*read.ptr != ',' || read.ptr + 1 == end))) return std::nullopt;
    at = read.ptr;
  }
  const auto possible = [](double speed) { return speed >= 1e-3 && speed <= 1e3; };
  if (out.size() != stages || !std::ranges::all_of(out, possible)) return std::nullopt;
  return out;
}

/// "30", "30,2": of each step and of each of its requests, in us.
std::optional<gpu::sim::central_scheduler> parse_central(const std::string& text) {
  double step = 0, request = 0;
  const auto* const end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, step, std::chars_format::fixed);
  if (first.ec != std::errc{} || (first.ptr != end && *first.ptr != ',')) return std::nullopt;
  if (first.ptr != end) {
    const auto second = std::from_chars(first.ptr + 1, end, request, std::chars_format::fixed);
    if (second.ec != std::errc{} || second.ptr != end) return std::nullopt;
  }
  constexpr double most_us = 1e7;
  if (!(step >= 0 && step <= most_us && request >= 0 && request <= most_us)) return std::nullopt;
  const auto ns = [](double us) { return std::chrono::nanoseconds(std::llround(us * 1e3)); };
  return gpu::sim::central_scheduler(ns(step), ns(request));
}

/// "60-600", "60-": from when until when, in ns; `last`: the last arrival.
std::optional<std::pair<std::int64_t, std::int64_t>> parse_window(const std::string& text, std::int64_t last) {
  double from = 0;
  const auto* const end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, from, std::chars_format::fixed);
  if (first.ec != std::errc{} || first.ptr == end || *first.ptr != '-') return std::nullopt;
  double to = static_cast<double>(last) * 1e-9;
  if (first.ptr + 1 != end) {
    const auto second = std::from_chars(first.ptr + 1, end, to, std::chars_format::fixed);
    if (second.ec != std::errc{} || second.ptr != end) return std::nullopt;
  }
  constexpr double longest_s = 1e8;
  if (!(from >= 0 && from < to && to <= longest_s && from * 1e9 <= static_cast<double>(last))) return std::nullopt;
  return std::pair{static_cast<std::int64_t>(from * 1e9), static_cast<std::int64_t>(to * 1e9)};
}

expected<planned_sim, bench_error> plan(const sim_options& options) {
  const auto wrong = [](std::string what) { return unexpected(bench_error{2, std::move(what)}); };
  if (auto what = wrong_objective(options.load)) return wrong(std::move(*what));
  if (const auto share = options.draft_acceptance; !(share >= 0 && share <= 1)) // not a number, too
    return wrong("--draft-acceptance is a share from 0 to 1");
  if (const auto rate = options.disk_rate; rate && !(*rate >= 1 && *rate <= 1e15))
    return wrong("--kv-store-disk-rate is 1 to 1e15 bytes per second");
  if (options.draft_acceptance > 0 && options.draft_profile.empty() && options.settings.speculation.tokens_max == 0)
    return wrong("--draft-acceptance is of drafts, of which there are none; give --speculation-tokens or "
                 "--draft-profile, too");
  if (options.disk_rate && options.settings.kv_store.disk_bytes == 0)
    return wrong("--kv-store-disk-rate is of a disk, of which there is none; give --kv-store-disk-bytes, too");
  std::optional<std::pair<std::int64_t, std::int64_t>> deadlines;
  if (options.deadlines) {
    deadlines = parse_deadlines(*options.deadlines);
    if (!deadlines) return wrong("--deadlines: '" + *options.deadlines + "' is no LEAST-MOST in seconds, as in 1-350");
  }
  if (const auto share = options.length_accuracy; share && !(*share >= 0 && *share <= 1))
    return wrong("--length-accuracy is a share from 0 to 1");
  const auto own = load_own_policies(options.settings);
  if (!own) return wrong(own.error());
  if (own->lengths && options.length_accuracy)
    return wrong(
        "--length-accuracy says how well lengths are known, and so does --policy-plugin; leave one of them out");
  const auto bundle = find_bundle(options.policy, *own);
  if (!bundle) return wrong("--policy: " + bundle.error());
  auto device = gpu::sim::open_profile(options.profile);
  if (!device) return wrong("--profile: " + device.error().line);
  const auto stages = options.settings.instances.pipeline_parallel;
  if (auto why = gpu::pipeline::refuse_stages(device->layers, stages, {}); !why.empty())
    return wrong("--pipeline-parallel: " + why);
  std::vector<double> speeds;
  if (options.pipeline_speeds) {
    if (stages == 1) return wrong("--pipeline-speeds is of several stages; it needs --pipeline-parallel N");
    auto given = parse_speeds(*options.pipeline_speeds, stages);
    if (!given)
      return wrong(fmt::format("--pipeline-speeds: '{}' is no list of {} numbers, one for each stage, from 0.001 to "
                               "1000, as in 1,0.5",
                               *options.pipeline_speeds, stages));
    speeds = std::move(*given);
  }
  std::optional<gpu::sim::profile> draft;
  if (!options.draft_profile.empty()) {
    auto opened = gpu::sim::open_profile(options.draft_profile);
    if (!opened) return wrong("--draft-profile: " + opened.error().line);
    draft = std::move(*opened);
    if (auto why = make_room(*device, stages, *draft, options.settings.model.context_max); !why.empty())
      return wrong("--draft-profile: " + why);
  } else if (stages > 1) {
    device->kv_blocks = static_cast<std::uint32_t>(blocks_of(*device, stages, nullptr));
  }
  std::optional<gpu::sim::central_scheduler> central;
  if (options.central) {
    central = parse_central(*options.central);
    if (!central)
      return wrong("--central-scheduler: '" + *options.central +
                   "' is no STEP[,REQUEST] in microseconds up to 10 s, as in 30 or 30,2.5");
    const auto most = central->of_a_step() + central->of_a_request() * options.settings.llumlet.sequences_max;
    const auto round_us = options.instances * std::chrono::duration<double, std::micro>(most).count();
    if (round_us * 1e-3 > static_cast<double>(options.settings.instances.step_timeout.count()) / 2)
      return wrong("--central-scheduler: the plans of all instances take longer than half of instances.step_timeout, "
                   "after which they would be taken for hung");
    if (options.faults) return wrong("--central-scheduler is of a cluster without faults; leave out --faults");
    if (stages > 1 || draft)
      return wrong("--central-scheduler plans steps of one stage without a draft model; leave out "
                   "--pipeline-parallel and --draft-profile");
  }
  auto load = plan_workload(options.load);
  if (!load) return unexpected(load.error());
  if (const auto days = static_cast<double>(load->requests.back().arrival_ns) / day_ns; days > days_max)
    return wrong(fmt::format("the last request arrives {:.0f} days after the first one, and at most {:.0f} are "
                             "simulated; raise --rate, or play a trace faster with --rate-scale",
                             days, days_max));
  std::optional<std::pair<std::int64_t, std::int64_t>> window;
  if (options.window) {
    const auto last = load->requests.back().arrival_ns;
    window = parse_window(*options.window, last);
    if (!window)
      return wrong(fmt::format("--window: '{}' is no FROM-TO in seconds with FROM before TO, as in 60-600, or FROM- "
                               "until the last request arrives; FROM is before that, which is after {:.1f} s",
                               *options.window, static_cast<double>(last) * 1e-9));
  }
  actors::sim::fault_plan faults;
  if (options.faults) {
    auto parsed = actors::sim::parse_faults(*options.faults, options.instances);
    if (!parsed) return wrong("--faults: " + parsed.error());
    faults = std::move(*parsed);
  }

  auto settings = options.settings;
  settings.debug.failpoints.clear(); // of real processes: they would stop or kill this one
  // A file may say another dispatcher than that of the policy that nobody has named.
  const bool dispatch_told = !options.policy_told && settings.scheduler.policy != serve_settings{}.scheduler.policy;
  if (!dispatch_told) settings.scheduler.policy = bundle->dispatch;
  if (!options.migration_told) settings.scheduler.migration = bundle->migration;
  if (auto why = wrong_with_roles(settings, options.instances); !why.empty()) {
    if (!options.migration_told && settings.scheduler.migration == protocols::migration_policy::never)
      why += "; it is that of --policy " + options.policy;
    return wrong(std::move(why));
  }
  planned_sim out;
  auto& run = out.run;
  run.cluster.node = sim_node(settings);
  if (!load->priority.empty()) {
    auto level = level_called(load->priority, run.cluster.node.scheduler.levels);
    if (!level) return unexpected(level.error());
    if (bundle->priorities) run.high_level = *level;
  }
  run.cluster.seed = options.load.seed;
  run.cluster.instances = options.instances;
  run.cluster.stages = stages;
  run.cluster.stage_speeds = std::move(speeds);
  run.cluster.draft_acceptance = options.draft_acceptance;
  run.cluster.device = std::move(*device);
  if (draft) run.cluster.node.llumlet.planner.speculation.model_max = settings.speculation.model_max;
  run.cluster.draft = std::move(draft);
  run.cluster.central = central;
  run.cluster.swap_bytes = swap_bytes_of(settings);
  if (auto why = wrong_with_swap(run.cluster); !why.empty()) return wrong(std::move(why));
  if (auto why = wrong_with_store(settings, run.cluster); !why.empty()) return wrong(std::move(why));
  run.cluster.disk_bytes = settings.kv_store.bytes == 0 ? 0 : settings.kv_store.disk_bytes;
  if (options.disk_rate) run.cluster.disk_bytes_per_second = *options.disk_rate;
  run.cluster.processes = processes_of(settings);
  run.length_accuracy = options.length_accuracy;
  run.requests = std::move(load->requests);
  if (deadlines) workload::draw_deadlines(run.requests, deadlines->first, deadlines->second, options.load.seed);
  run.faults = std::move(faults);
  // Requests that no instance takes end by their own time, not by the run's.
  if (!run.faults.empty()) run.patience += settings.frontend.placement_timeout;

  auto& setup = out.setup;
  setup.policy = dispatch_told ? "custom" : options.policy;
  setup.dispatch = settings.scheduler.policy;
  setup.migration = to_string(settings.scheduler.migration);
  setup.scaling = to_string(settings.scaling.mode);
  setup.profile = run.cluster.device.name;
  setup.copies_slow_steps = run.cluster.device.link.device_bytes_per_second > 0;
  setup.workload = load->name;
  setup.arrivals = load->arrivals;
  setup.instances = options.instances;
  setup.stages = stages;
  setup.context = actors::sim::context_length_of(run.cluster);
  setup.shortened = workload::clamp_to_context(run.requests, setup.context);
  setup.skipped = load->skipped;
  setup.missing = load->missing;
  setup.seed = options.load.seed;
  setup.faults = options.faults.value_or("");
  if (const auto& levels = run.cluster.node.scheduler.levels; !levels.empty()) setup.first_level = levels.front().name;
  setup.priority = load->priority;
  setup.ttft_ms = options.load.ttft_ms;
  setup.tpot_ms = options.load.tpot_ms;
  setup.deadlines = deadlines.has_value();
  setup.window = run.gaps_of = window;
  const auto order = settings.llumlet.queue_order;
  setup.expects_lengths = options.length_accuracy || order == protocols::queue_order::sjf ||
                          order == protocols::queue_order::ljf || settings.llumlet.batch_length_weight > 0;
  setup.settings = options.changed;
  return out;
}

std::optional<bench_error> write(const std::filesystem::path& path, const std::string& text) {
  errno = 0;
  std::ofstream file(path, std::ios::binary);
  file << text;
  if (file.flush()) return std::nullopt;
  return bench_error{1, "cannot write " + path.string() + ": " + std::generic_category().message(errno)};
}

std::optional<bench_error> write_files(const sim_options& options, const sim_setup& setup,
                                       const actors::sim::simulation_result& result) {
  if (!options.csv.empty())
    if (auto error = write(options.csv, requests_csv(result, !setup.faults.empty()))) return error;
  if (!options.samples.empty())
    if (auto error = write(options.samples, samples_csv(result))) return error;
  if (options.svg.empty()) return std::nullopt;
  for (const auto& [name, text] : plots(setup, result))
    if (auto error = write(std::filesystem::path(options.svg) / name, text)) return error;
  return std::nullopt;
}

struct named_file {
  std::string flag;
  std::string path; ///< empty: none
};

std::vector<named_file> files_read(const sim_options& options) {
  const auto shipped = [](const std::string& name) { return std::ranges::count(gpu::sim::profile_names(), name) > 0; };
  return {{"--trace", options.load.trace},
          {"--config", options.config_file},
          {"--profile", shipped(options.profile) ? std::string() : options.profile},
          {"--draft-profile", shipped(options.draft_profile) ? std::string() : options.draft_profile}};
}

std::vector<named_file> files_written(const sim_options& options) {
  std::vector<named_file> out{{"--csv", options.csv}, {"--samples", options.samples}, {"--record", options.record}};
  if (!options.svg.empty())
    for (const auto* name : plot_names) out.push_back({"--svg", (std::filesystem::path(options.svg) / name).string()});
  return out;
}

/// No file is written over what is read, nor over another one, nor over the report.
std::optional<bench_error> check_names(const sim_options& options) {
  auto others = files_read(options);
  for (auto& file : files_written(options)) {
    if (file.path == "-") return bench_error{2, file.flag + ": - is no file"};
    if (is_standard_output(file.path))
      return bench_error{2, fmt::format("{} names the file that the report goes to, {}", file.flag, file.path)};
    for (const auto& other : others)
      if (same_file(other.path, file.path))
        return bench_error{2, fmt::format("{} and {} name the same file, {}", other.flag, file.flag, file.path)};
    others.push_back(std::move(file));
  }
  return std::nullopt;
}

/// Whatever keeps the files from being written: better now than after an hour.
std::optional<bench_error> check_files(const sim_options& options) {
  if (auto error = check_names(options)) return error;
  if (!options.svg.empty()) { // first: the other files may lie in there
    std::error_code failure;
    std::filesystem::create_directories(options.svg, failure);
    if (!failure && !std::filesystem::is_directory(options.svg, failure) && !failure)
      failure = std::make_error_code(std::errc::not_a_directory);
    if (failure) return bench_error{1, "cannot write plots into " + options.svg + ": " + failure.message()};
  }
  for (const auto* path : {&options.csv, &options.samples})
    if (const auto why = path->empty() ? std::nullopt : why_not_writable(*path))
      return bench_error{1, "cannot write " + *path + ": " + *why};
  if (options.svg.empty()) return std::nullopt;
  for (const auto* name : plot_names)
    if (const auto why = why_not_writable((std::filesystem::path(options.svg) / name).string()))
      return bench_error{1, "cannot write plots into " + options.svg + ": " + name + ": " + *why};
  return std::nullopt;
}

double resident_mib() {
  rusage usage{};
  return getrusage(RUSAGE_SELF, &usage) == 0 ? static_cast<double>(usage.ru_maxrss) / 1024 : 0.0;
}

} // namespace

serve_settings sim_defaults() {
  serve_settings s;
  s.llumlet.queue_max = 1'000'000;
  s.frontend.placement_timeout = std::chrono::hours(1);
  s.frontend.request_timeout = std::chrono::milliseconds(0);
  s.migration.portion_bytes = std::uint64_t{1} << 30U;
  s.migration.copy_share = 1.0;
  s.instances.pipeline_balance = 0; // most profiles are GPUs', where layers stay
  return s;
}

actors::node_options sim_node(const serve_settings& settings) {
  actors::node_options n;
  n.llumlet = make_llumlet_options(settings, settings.model.context_max, {}, make_migration(settings, nullptr, {}), {});
  n.instance.pipeline_rows = settings.instances.pipeline_rows;
  n.instance.pipeline_steps = settings.instances.pipeline_steps;
  n.instance.pipeline_balance = {settings.instances.pipeline_balance,
                                 std::chrono::nanoseconds(settings.instances.pipeline_balance_window).count()};
  n.scheduler = make_scheduler_options(settings, {});
  n.roles = roles_of(settings);
  n.frontend.attempts_max = settings.frontend.attempts_max;
  n.frontend.placement_timeout = settings.frontend.placement_timeout;
  n.frontend.request_timeout = settings.frontend.request_timeout;
  n.frontend.objectives = make_objectives(settings);
  n.frontend.objectives_margin = settings.admission.margin;
  n.frontend.execution_levels = names_of(n.scheduler.levels);
  actors::use_policies(own_policies_of(settings), n.frontend);
  n.frontend.random_seed = 0; // every request brings its own
  n.backoff_min = settings.instances.restart_backoff_min;
  n.backoff_max = settings.instances.restart_backoff_max;
  return n;
}

expected<sim_report, bench_error>
simulate_once(const sim_options& options,
              const std::function<bool(const sim_setup&, const actors::sim::run_progress&)>& goes_on) {
  auto planned = plan(options);
  if (!planned) return unexpected(std::move(planned.error()));
  if (goes_on) planned->run.goes_on = [&](const actors::sim::run_progress& at) { return goes_on(planned->setup, at); };
  const auto result = actors::sim::simulate(std::move(planned->run));
  if (!result.trouble.empty()) return unexpected(bench_error{1, result.trouble});
  if (!result.complaints.empty()) return unexpected(bench_error{1, result.complaints.front()});
  return make_report(planned->setup, result);
}

int run_sim(const sim_options& options, std::ostream& out, std::ostream& err,
            std::function<bool(const actors::sim::run_progress&)> goes_on) {
  const auto fail = [&err](const bench_error& error) {
    err << "godwit: " << error.message << '\n';
    return error.exit_code;
  };
  auto planned = plan(options);
  if (!planned) return fail(planned.error());
  if (const auto error = check_files(options)) return fail(*error);
  std::shared_ptr<sim_recording> recording;
  if (!options.record.empty()) {
    auto made = sim_recording::create(options.record, options.settings, options.profile);
    if (!made) return fail({1, made.error().line});
    planned->run.cluster.recorder = recording = std::move(*made);
  }
  planned->run.goes_on = std::move(goes_on);
  const auto began = std::chrono::steady_clock::now();
  const auto result = actors::sim::simulate(std::move(planned->run));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  if (!result.trouble.empty()) return fail({1, result.trouble}); // what was recorded is in the file all the same
  const auto report = make_report(planned->setup, result);
  out << (options.json ? to_json(planned->setup, report) + "\n" : to_table(planned->setup, report)) << std::flush;
  for (const auto& line : result.complaints) err << "godwit: " << line << '\n';
  err << fmt::format("simulated {:.1f} s in {:.2f} s: {} events, {:.2f} million/s, {:.0f} MiB\n",
                     seconds(result.duration_ns), took.count(), report.events,
                     static_cast<double>(report.events) / took.count() * 1e-6, resident_mib());
  bool recorded = true;
  if (recording) {
    const auto file = recording->end(result.interrupted_at_ns);
    err << describe(file) << '\n';
    recorded = file.error.empty();
  }
  if (const auto error = write_files(options, planned->setup, result)) return fail(*error);
  if (!recorded) return 1;
  // Of the whole run, whatever the report is of.
  const bool all = std::ranges::all_of(result.requests, &actors::sim::request_record::answered);
  return all && result.complaints.empty() ? 0 : 1;
}

} // namespace godwit::main
