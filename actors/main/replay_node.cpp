#include "main/replay_node.hpp"

#include "main/head_options.hpp"
#include "main/kv_store_options.hpp"
#include "main/parts.hpp"
#include "main/policy_plugins.hpp"
#include "main/speculation_options.hpp"
#include "replay/doubles.hpp"

#include <godwit/actors/global_scheduler.hpp>
#include <godwit/actors/member.hpp>
#include <godwit/actors/node.hpp>
#include <godwit/runtime/config/registry.hpp>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace godwit::main {

namespace {

constexpr std::string_view setting_prefix = "setting:";

/// The settings that the recorded process had.
protocols::expected<serve_settings, start_error> settings_of(const runtime::trace::process& who) {
  serve_settings out;
  runtime::config::registry registry;
  declare(registry, out);
  for (const auto& fact : who.facts) {
    if (!fact.name.starts_with(setting_prefix)) continue;
    const auto name = fact.name.substr(setting_prefix.size());
    if (registry.find(name) == nullptr)
      return protocols::unexpected(start_error{"cannot replay: this godwit has no setting " + name});
    if (auto wrong = registry.set(name, fact.value, {runtime::config::source::flag, fact.name}))
      return protocols::unexpected(start_error{"cannot replay: " + *wrong});
  }
  out.debug.failpoints.clear(); // they would stop or kill this process
  if (const auto own = load_own_policies(out); !own)
    return protocols::unexpected(start_error{"cannot replay: " + own.error()});
  return out;
}

} // namespace

protocols::expected<runtime::sim::replay_result, start_error> replay_node(runtime::trace::recording recorded,
                                                                          const runtime::sim::replay_limits& limits) {
  using runtime::local;
  using runtime::message_type_of;
  if (recorded.fact(0, "command").empty())
    return protocols::unexpected(
        start_error{"cannot replay: no command of godwit recorded it; run the program that did once more, and see with "
                    "'godwit trace diff' where the two recordings part"});
  auto settings = settings_of(recorded.processes.front());
  if (!settings) return protocols::unexpected(settings.error());
  const std::string recorded_command{recorded.fact(0, "command")};
  if (recorded_command == "frontend") settings->instances.count = 0; // which the command does itself
  const auto version = recorded.fact(0, "version");
  if (version != GODWIT_VERSION)
    return protocols::unexpected(start_error{"cannot replay: it was recorded by godwit " + std::string(version) +
                                             ", and this is " GODWIT_VERSION});
  auto model = open_served_model(std::string(recorded.fact(0, "model")), settings->model.quantization);
  if (!model) return protocols::unexpected(model.error());
  if (auto wrong = open_draft(*settings, *model)) return protocols::unexpected(std::move(*wrong));
  auto identity = identity_of(*settings, *model);
  if (!identity) return protocols::unexpected(identity.error());

  auto again = runtime::sim::replay::make(std::move(recorded));
  if (!again) return protocols::unexpected(start_error{again.error().message});
  (*again)->know({&message_type_of<local<actors::executor_outcome>>, &message_type_of<local<std::string>>,
                  &message_type_of<local<bool>>, &message_type_of<local<actors::found_head>>,
                  &message_type_of<local<gpu::adapter_outcome>>, &message_type_of<local<actors::dumped_file>>,
                  &message_type_of<local<actors::dump_part>>});
  const runtime::log::logger quiet;
  auto factory = [](protocols::instance_id, std::function<void(actors::executor_outcome)> done) {
    actors::keep_for_replay(std::move(done));
  };
  std::shared_ptr<transport::fabric> fabric;
  if (settings->fabric.backend != fabric_choice::none) fabric = std::make_shared<actors::replayed_fabric>();
  std::shared_ptr<transport::disk> disk;
  if (const auto shape = kv_store_disk_shape(*settings, *identity); shape.slots > 0)
    disk = std::make_shared<actors::replayed_disk>(shape.slots, shape.slot_bytes);
  runtime::metrics::registry metrics;
  if (recorded_command == "node") {
    auto options = make_member_options(*settings, *model, std::move(*identity), factory, std::move(fabric), quiet);
    if (settings->trace.flight) options.trace = std::make_shared<actors::replayed_trace_control>();
    options.llumlet.store.disk = std::move(disk);
    options.find_head = [](std::function<void(actors::found_head)> done) { actors::keep_for_replay(std::move(done)); };
    (*again)->host().spawn<actors::member>(std::move(options));
  } else if (recorded_command == "frontend") {
    auto options = make_frontend_member_options(*settings, std::move(*identity), quiet);
    if (settings->trace.flight) options.trace = std::make_shared<actors::replayed_trace_control>();
    options.find_head = [](std::function<void(actors::found_head)> done) { actors::keep_for_replay(std::move(done)); };
    options.frontend->metrics = std::make_shared<actors::frontend_metrics>(metrics);
    options.frontend->migrations = std::make_shared<actors::migration_metrics>(metrics);
    (*again)->host().spawn<actors::member>(std::move(options));
  } else {
    auto options = make_head_options(*settings, *model, *identity, factory, std::move(fabric), quiet);
    if (settings->scaling.provisioner != provisioner_choice::in_process)
      options.provisioner = std::make_shared<actors::replayed_provisioner>();
    if (settings->trace.flight) options.trace = std::make_shared<actors::replayed_trace_control>();
    options.llumlet.store.disk = std::move(disk);
    options.scheduler.metrics = std::make_shared<actors::scheduler_metrics>(metrics);
    options.frontend.metrics = std::make_shared<actors::frontend_metrics>(metrics);
    options.frontend.migrations = std::make_shared<actors::migration_metrics>(metrics);
    (*again)->host().spawn<actors::node>(std::move(options));
  }
  auto result = (*again)->run(limits);
  again->reset(); // before what its actors refer to
  return result;
}

} // namespace godwit::main
