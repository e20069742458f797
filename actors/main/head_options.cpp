#include "main/head_options.hpp"

#include "main/migration_parts.hpp"
#include "main/parts.hpp"
#include "main/policy_plugins.hpp"
#include "main/scheduling_settings.hpp"

#include <godwit/actors/policy_plugin.hpp>
#include <godwit/runtime/trace/analysis/labels.hpp>

#include <algorithm>
#include <chrono>
#include <utility>

namespace godwit::main {

namespace {

actors::frontend_options make_frontend_options(const serve_settings& settings, const runtime::log::logger& log) {
  actors::frontend_options o;
  o.requests_max = settings.frontend.requests_max;
  o.attempts_max = settings.frontend.attempts_max;
  o.placement_timeout = settings.frontend.placement_timeout;
  o.request_timeout = settings.frontend.request_timeout;
  o.objectives = make_objectives(settings);
  o.objectives_margin = settings.admission.margin;
  o.execution_levels = execution_level_names(settings);
  actors::use_policies(own_policies_of(settings), o);
  o.log = log.component("frontend");
  return o;
}

/// How a process looks for its head.
void put_joining(actors::member_options& o, const serve_settings& settings, const runtime::log::logger& log) {
  o.rejoin_max = settings.cluster.rejoin_pause_max;
  o.rejoin_min = std::min<std::chrono::nanoseconds>(o.rejoin_min, o.rejoin_max);
  o.backoff_min = settings.instances.restart_backoff_min;
  o.backoff_max = settings.instances.restart_backoff_max;
  o.log = log.component("member");
}

} // namespace

protocols::latency_objectives make_objectives(const serve_settings& settings) {
  protocols::latency_objectives out;
  out.ttft_ns = std::chrono::nanoseconds(settings.admission.ttft).count();
  out.tpot_ns = std::chrono::nanoseconds(settings.admission.tpot).count();
  out.refusable = settings.admission.early_rejection;
  return out;
}

std::vector<std::string> execution_level_names(const serve_settings& settings) {
  std::vector<std::string> out;
  for (auto& level : execution_levels(settings)) out.push_back(std::move(level.name));
  return out;
}

std::string served_name(const serve_settings& settings, const gpu::model::model_directory& model) {
  return settings.model.name.empty() ? runtime::trace::analysis::valid_utf8(model.name) : settings.model.name;
}

actors::node_options make_head_options(const serve_settings& settings, const gpu::model::model_directory& model,
                                       const actors::model_identity& identity, actors::executor_factory factory,
                                       std::shared_ptr<transport::fabric> fabric, const runtime::log::logger& log) {
  actors::node_options o;
  o.model = served_name(settings, model);
  o.address = settings.cluster.name.empty() ? settings.control.listen : settings.cluster.name;
  o.identity = identity;
  o.instances = settings.instances.count;
  o.roles = roles_of(settings);
  o.backoff_min = settings.instances.restart_backoff_min;
  o.backoff_max = settings.instances.restart_backoff_max;
  o.log = log.component("node");

  auto pair =
      make_pair_options(settings, model, std::move(factory), make_migration(settings, std::move(fabric), log), log);
  o.instance = std::move(pair.instance);
  o.llumlet = std::move(pair.llumlet);

  o.scheduler = make_scheduler_options(settings, log);
  o.provision_here = settings.scaling.provisioner == provisioner_choice::in_process;

  o.frontend = make_frontend_options(settings, log);
  return o;
}

actors::member_options make_member_options(const serve_settings& settings, const gpu::model::model_directory& model,
                                           actors::model_identity identity, actors::executor_factory factory,
                                           std::shared_ptr<transport::fabric> fabric, const runtime::log::logger& log) {
  auto pair =
      make_pair_options(settings, model, std::move(factory), make_migration(settings, std::move(fabric), log), log);
  actors::member_options o;
  o.instances = settings.instances.count;
  o.roles = roles_of(settings);
  o.model = std::move(identity);
  put_joining(o, settings, log);
  o.instance = std::move(pair.instance);
  o.llumlet = std::move(pair.llumlet);
  return o;
}

actors::member_options make_frontend_member_options(const serve_settings& settings, actors::model_identity identity,
                                                    const runtime::log::logger& log) {
  actors::member_options o;
  o.instances = 0;
  o.model = std::move(identity);
  o.frontend = make_frontend_options(settings, log);
  put_joining(o, settings, log);
  return o;
}

} // namespace godwit::main
