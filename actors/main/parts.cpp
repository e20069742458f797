#include "main/parts.hpp"

#include "main/instance_devices.hpp"
#include "main/kv_store_options.hpp"
#include "main/loader.hpp"
#include "main/policy_plugins.hpp"
#include "main/scheduling_settings.hpp"
#include "main/speculation_options.hpp"

#include <godwit/actors/policy_plugin.hpp>
#include <godwit/gpu/cpu/cpu_device.hpp>
#include <godwit/gpu/cpu/kv_geometry.hpp>
#include <godwit/gpu/cuda/kv_geometry.hpp>
#include <godwit/gpu/model/fingerprint.hpp>
#include <godwit/gpu/model/quantize.hpp>
#include <godwit/transport/tls/gate.hpp>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include <sys/resource.h>

namespace godwit::main {

namespace {

protocols::expected<gpu::model::model_directory, start_error> open_as_it_is(const std::string& directory) {
  if (directory.empty() || directory == "default") {
    auto files = gpu::model::embedded_model();
    if (!files) return protocols::unexpected(start_error{"this build has no embedded model; name a model directory"});
    auto model = gpu::model::open_model(std::move(files));
    if (!model) return protocols::unexpected(start_error{model.error().what()});
    return std::move(*model);
  }
  auto model = gpu::model::open_model(std::filesystem::path(directory));
  if (!model) return protocols::unexpected(start_error{model.error().what(), 2});
  return std::move(*model);
}

} // namespace

protocols::expected<gpu::model::model_directory, start_error> open_served_model(const std::string& directory,
                                                                                gpu::model::rounding to) {
  auto model = open_as_it_is(directory);
  if (!model) return model;
  try {
    return gpu::model::quantize(std::move(*model), to);
  } catch (const gpu::model::model_error& error) {
    return protocols::unexpected(start_error{std::string("--quantization: ") + error.what() + "; leave it out", 2});
  }
}

void warn_of_kv_scales(const serve_settings& settings, const gpu::model::model_directory& model,
                       const runtime::log::logger& log) {
  if (settings.instances.kv_type == kv_choice::fp8 && gpu::model::has_kv_scales(model))
    log.warning(
        "instances.kv_type fp8: the model's files have scales of K and V, which are not used; numbers beyond 448 "
        "are kept as that");
}

void tell_of_images(const gpu::model::model_directory& model, const runtime::log::logger& log) {
  if (gpu::model::leaves_images_aside(model.configuration))
    log.info("the model's files have a part that sees images, which is left aside: texts alone are answered");
}

protocols::expected<std::shared_ptr<const protocols::openai::chat_template>, start_error>
open_chat_template(const serve_settings& settings, const gpu::model::model_directory& model) {
  using protocols::openai::chat_template;
  const auto& path = settings.model.chat_template;
  chat_template::source from;
  from.tokens = model.special_tokens;
  if (!path.empty()) {
    const auto wrong = [&](const std::string& why) {
      return protocols::unexpected(start_error{"cannot read the chat template '" + path + "': " + why, 2});
    };
    std::error_code failure;
    if (std::filesystem::is_directory(path, failure)) return wrong("it is a folder");
    errno = 0;
    std::ifstream in(path, std::ios::binary);
    if (!in) return wrong(std::generic_category().message(errno));
    from.text.assign(std::istreambuf_iterator<char>(in), {});
    if (in.bad()) return wrong(std::generic_category().message(errno));
    if (from.text.empty()) return wrong("there is nothing in it");
  } else if (model.chat_template) {
    from.text = *model.chat_template;
    from.for_tools = model.tool_template;
  } else {
    return std::make_shared<const chat_template>();
  }
  auto compiled = chat_template::compile(std::move(from));
  if (!compiled)
    return protocols::unexpected(
        start_error{(path.empty() ? "model '" + model.name + "'" : "'" + path + "'") + ": " + compiled.error(), 2});
  return std::make_shared<const chat_template>(*std::move(compiled));
}

std::uint32_t served_context(const serve_settings& settings, const gpu::model::model_directory& model) {
  const auto longest = model.configuration.positions_max;
  return settings.model.context_max == 0 ? longest : std::min(longest, settings.model.context_max);
}

namespace {

std::optional<start_error> too_small_a_cache(std::uint64_t tokens, std::uint32_t context_length) {
  if (tokens >= context_length) return std::nullopt;
  return start_error{"the KV cache of an instance holds " + std::to_string(tokens) +
                         " tokens, less than one request of the model's context of " + std::to_string(context_length) +
                         "; raise --kv-bytes" +
                         (tokens < 2 ? "" : " or set --model-context-max " + std::to_string(tokens)),
                     2};
}

} // namespace

protocols::expected<actors::model_identity, start_error> identity_of(const serve_settings& settings,
                                                                     const gpu::model::model_directory& model) {
  if (const auto length = model.configuration.positions_max; length < 2)
    return protocols::unexpected(
        start_error{"the model's context length of " + std::to_string(length) + " is too small", 2});
  if (auto wrong = refuse_division(settings, model.configuration); !wrong.empty())
    return protocols::unexpected(start_error{std::move(wrong), 2});
  const auto longest = model.configuration.positions_max;
  if (const auto wanted = settings.model.context_max; wanted > longest)
    return protocols::unexpected(start_error{"--model-context-max " + std::to_string(wanted) +
                                                 ": the model was made for " + std::to_string(longest) + " tokens",
                                             2});
  const bool cuda = settings.instances.device == device_choice::cuda;
  const auto kv_type = settings.instances.kv_type;
  if (cuda && (kv_type == kv_choice::f32 || kv_type == kv_choice::fp8))
    return protocols::unexpected(start_error{std::string("instances.kv_type ") +
                                                 (kv_type == kv_choice::f32 ? "f32" : "fp8") +
                                                 " is for --device cpu; a GPU keeps KV as the weights",
                                             2});
  const auto kv_of = [&](const gpu::model::model_directory& which) {
    return cuda ? gpu::cuda::kv_geometry_of(which.configuration, *which.tensors)
                : gpu::cpu::kv_geometry_of(which.configuration, *which.tensors,
                                           precision_of(settings.instances.kv_type));
  };
  try {
    auto kv = kv_of(model);
    auto fingerprint = gpu::model::fingerprint(model.configuration, *model.tensors);
    if (const auto& draft = model.draft) { // its KV is in the same blocks
      kv.block_bytes += kv_of(*draft).block_bytes;
      fingerprint += "+" + gpu::model::fingerprint(draft->configuration, *draft->tensors);
    }
    const auto context = served_context(settings, model);
    if (const auto bytes = settings.instances.kv_bytes; bytes != 0) // or it is seen when the instance is ready
      if (auto wrong = too_small_a_cache(bytes / kv.block_bytes * protocols::tokens_per_block, context))
        return protocols::unexpected(std::move(*wrong));
    return actors::model_identity{std::move(fingerprint), std::move(kv.type), kv.block_bytes, context};
  } catch (const std::exception& failure) {
    return protocols::unexpected(start_error{failure.what(), 2});
  }
}

actors::llumlet_options make_llumlet_options(const serve_settings& settings, std::uint32_t context,
                                             std::vector<protocols::token_id> eos,
                                             actors::migration_environment migration, const runtime::log::logger& log) {
  actors::llumlet_options o;
  auto& planner = o.planner;
  planner.mode = settings.llumlet.batching;
  planner.context_length = context;
  planner.step_tokens_max = settings.llumlet.step_tokens_max;
  planner.running_max = std::min(settings.llumlet.sequences_max, settings.llumlet.step_tokens_max);
  planner.waiting_max = settings.llumlet.queue_max;
  planner.queue = {settings.llumlet.queue_order, std::chrono::nanoseconds(settings.llumlet.queue_aging).count()};
  planner.batch = {settings.llumlet.batch_slo_weight, settings.llumlet.batch_length_weight};
  planner.prefix_caching = settings.llumlet.prefix_caching;
  planner.preemption = settings.llumlet.preemption;
  planner.speculation = make_speculation(settings);
  planner.eos = std::move(eos);
  planner.execution_levels = execution_levels(settings);
  o.step_timeout = settings.instances.step_timeout;
  o.report_interval = settings.scheduler.report_interval;
  o.migration = std::move(migration);
  o.selection.cooldown_ns = std::chrono::nanoseconds(settings.scheduler.move_cooldown).count();
  o.selection.gain_min = settings.scheduler.move_gain;
  o.selection.handoff_least = settings.scheduler.migrate_below;
  actors::use_policies(own_policies_of(settings), o);
  o.store = make_kv_store(settings);
  o.profile.enabled = settings.priorities.profile;
  o.profile.time_max = settings.priorities.profile_time_max;
  o.log = log.component("llumlet");
  return o;
}

pair_options make_pair_options(const serve_settings& settings, const gpu::model::model_directory& model,
                               actors::executor_factory factory, actors::migration_environment migration,
                               const runtime::log::logger& log) {
  pair_options o;
  if (const auto devices = devices_of(settings);
      settings.instances.device != device_choice::cuda && devices.count > threads_per_instance(settings))
    log.component("instance")
        .warning("{} {} with --threads {}: each device has a thread of its own, and they take turns", devices.flag(),
                 devices.count, threads_per_instance(settings));
  o.instance.make_executor = std::move(factory);
  o.instance.layers_per_advance = settings.instances.layers_per_advance;
  o.instance.pipeline_rows = settings.instances.pipeline_rows;
  o.instance.pipeline_steps = settings.instances.pipeline_steps;
  o.instance.pipeline_balance = {settings.instances.pipeline_balance,
                                 std::chrono::nanoseconds(settings.instances.pipeline_balance_window).count()};
  o.instance.log = log.component("instance");
  o.llumlet = make_llumlet_options(settings, served_context(settings, model), model.configuration.eos,
                                   std::move(migration), log);
  return o;
}

actors::scheduler_options make_scheduler_options(const serve_settings& settings, const runtime::log::logger& log) {
  const auto ns = [](std::chrono::milliseconds t) { return std::chrono::nanoseconds(t).count(); };
  actors::scheduler_options o;
  o.policies.dispatch = settings.scheduler.policy;
  o.policies.migration = settings.scheduler.migration;
  o.policies.scaling = settings.scaling.mode;
  o.pairing.source_below = settings.scheduler.migrate_below;
  o.pairing.destination_above = settings.scheduler.migrate_above;
  o.scaling.rule = settings.scaling.rule;
  o.scaling.freeness_min = settings.scaling.freeness_min;
  o.scaling.freeness_max = settings.scaling.freeness_max;
  o.scaling.hold_ns = ns(settings.scaling.hold);
  o.scaling.instances_min = settings.scaling.instances_min;
  o.scaling.instances_max = settings.scaling.instances_max;
  o.scaling.provision_timeout_ns = ns(settings.scaling.provision_timeout);
  o.policies.roles = settings.scheduler.roles;
  if (o.policies.roles == protocols::role_policy::balance && roles_of(settings).empty())
    log.component("scheduler")
        .warning("scheduler.roles is balance, and no instance here has a role (--roles): mixed ones keep theirs");
  o.roles.hold_ns = ns(settings.scheduler.role_hold);
  o.roles.load_min = settings.scheduler.role_load_min;
  o.roles.blocks_kept = std::max(settings.scheduler.migrate_above, 0.0);
  o.roles.objectives.ttft_ns = ns(settings.admission.ttft);
  o.roles.objectives.tpot_ns = ns(settings.admission.tpot);
  o.levels = execution_levels(settings);
  o.migration_interval = settings.scheduler.migration_interval;
  o.stale_after = settings.scheduler.stale_after;
  actors::use_policies(own_policies_of(settings), o);
  o.log = log.component("scheduler");
  return o;
}

protocols::expected<std::shared_ptr<runtime::async::connection_gate>, start_error>
make_gate(const serve_settings& settings, const runtime::log::logger& log) {
  const auto& files = settings.cluster;
  if (files.tls_cert.empty()) return std::shared_ptr<runtime::async::connection_gate>();
  auto gate =
      transport::tls::make_gate({files.tls_cert, files.tls_key, files.tls_ca},
                                [to = log.component("node")](std::string_view text) { to.warning("{}", text); });
  if (!gate) return protocols::unexpected(start_error{"cluster.tls_*: " + gate.error().message, 2});
  return std::move(*gate);
}

std::uint32_t actor_threads(const serve_settings& settings) {
  const auto asked = settings.runtime.worker_threads;
  return asked != 0 ? asked : std::clamp(gpu::cpu::usable_threads(), 2U, 8U);
}

runtime::actor_system_settings make_system_settings(const serve_settings& settings, bool network,
                                                    std::shared_ptr<runtime::async::connection_gate> gate,
                                                    const runtime::log::logger& log, tracing* records) {
  runtime::actor_system_settings runs;
  runs.worker_threads = actor_threads(settings);
  runs.network = network;
  if (records != nullptr) runs.recorder = records->recorder();
  runs.heartbeat_interval = settings.cluster.heartbeat_interval;
  runs.connection_timeout = settings.cluster.connection_timeout;
  runs.gate = std::move(gate);
  runs.warn = [to = log.component("node")](std::string_view text) { to.warning("{}", text); };
  runs.report = [to = log.component("runtime"), records](std::string_view actor, std::string_view text) {
    to.error("{}: {}", actor, text);
    if (records != nullptr) records->failed(actor);
  };
  return runs;
}

std::optional<start_error> check_memory(const protocols::instance_status& instance, std::uint32_t context_length) {
  if (instance.state != protocols::instance_state::ready) return std::nullopt;
  return too_small_a_cache(std::uint64_t{instance.load.blocks_total} * protocols::tokens_per_block, context_length);
}

std::uint32_t allow_connections(std::uint32_t connections, std::string_view whose, const runtime::log::logger& log) {
  // Files of the model and of the log, members, commands, and connections that are just being told 503.
  constexpr rlim_t others = 512, least = 40; // a small process at rest has some 32
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return connections;
  if (limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
    ::getrlimit(RLIMIT_NOFILE, &limit);
  }
  if (limit.rlim_cur == RLIM_INFINITY) return connections;
  const auto possible = limit.rlim_cur > 2 * others  ? limit.rlim_cur - others
                        : limit.rlim_cur > least + 1 ? (limit.rlim_cur - least) / 2
                                                     : 1;
  if (possible >= connections) return connections;
  log.warning(
      "this process may have {} files open: {} is {}, and it can be {}; raise the limit (ulimit -n, LimitNOFILE)",
      limit.rlim_cur, whose, connections, possible);
  return static_cast<std::uint32_t>(possible);
}

} // namespace godwit::main
