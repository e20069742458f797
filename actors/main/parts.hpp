#pragma once

#include "main/settings.hpp"
#include "main/start_error.hpp"
#include "main/tracing.hpp"

#include <godwit/actors/global_scheduler.hpp>
#include <godwit/actors/instance.hpp>
#include <godwit/actors/llumlet.hpp>
#include <godwit/actors/membership.hpp>
#include <godwit/gpu/model/model_directory.hpp>
#include <godwit/gpu/model/rounding.hpp>
#include <godwit/protocols/expected.hpp>
#include <godwit/protocols/messages/status.hpp>
#include <godwit/protocols/openai/chat_template.hpp>
#include <godwit/runtime/actor_system.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// What `godwit serve` and `godwit node` make of the settings alike, so that an instance is the same wherever it runs.
namespace godwit::main {

/// Opens the model at `directory`; empty or "default": the one that is compiled in. Its weights are rounded to `to`.
[[nodiscard]] protocols::expected<gpu::model::model_directory, start_error>
open_served_model(const std::string& directory, gpu::model::rounding to = gpu::model::rounding::none);

/// Says so where KV of eight bits goes without the scales that the model's files bring for it.
void warn_of_kv_scales(const serve_settings& settings, const gpu::model::model_directory& model,
                       const runtime::log::logger& log);

/// Says so where the model's files have a part that sees images, which is left aside.
void tell_of_images(const gpu::model::model_directory& model, const runtime::log::logger& log);

/// How conversations are told to the model: by the template that the settings name, else by its own, else as ChatML. A
/// template that is not understood is an error.
[[nodiscard]] protocols::expected<std::shared_ptr<const protocols::openai::chat_template>, start_error>
open_chat_template(const serve_settings& settings, const gpu::model::model_directory& model);

/// Longest prompt plus answer, in tokens.
[[nodiscard]] std::uint32_t served_context(const serve_settings& settings, const gpu::model::model_directory& model);

/// What instances of one cluster must have in common. An error where the model cannot be served at all.
[[nodiscard]] protocols::expected<actors::model_identity, start_error>
identity_of(const serve_settings& settings, const gpu::model::model_directory& model);

/// What every llumlet is made with, whatever runs its steps. `context`: longest prompt plus answer, in tokens.
[[nodiscard]] actors::llumlet_options make_llumlet_options(const serve_settings& settings, std::uint32_t context,
                                                           std::vector<protocols::token_id> eos,
                                                           actors::migration_environment migration,
                                                           const runtime::log::logger& log);

/// What every instance of this process is made with, and every llumlet.
struct pair_options {
  actors::instance_options instance;
  actors::llumlet_options llumlet;
};
[[nodiscard]] pair_options make_pair_options(const serve_settings& settings, const gpu::model::model_directory& model,
                                             actors::executor_factory factory, actors::migration_environment migration,
                                             const runtime::log::logger& log);

/// How the head's scheduler decides.
[[nodiscard]] actors::scheduler_options make_scheduler_options(const serve_settings& settings,
                                                               const runtime::log::logger& log);

/// For a system's connections, as cluster.tls_* say; null: in the clear.
[[nodiscard]] protocols::expected<std::shared_ptr<runtime::async::connection_gate>, start_error>
make_gate(const serve_settings& settings, const runtime::log::logger& log);

/// Threads that run this process's actors.
[[nodiscard]] std::uint32_t actor_threads(const serve_settings& settings);

/// `records` must outlive the system; null: nobody records.
[[nodiscard]] runtime::actor_system_settings make_system_settings(const serve_settings& settings, bool network,
                                                                  std::shared_ptr<runtime::async::connection_gate> gate,
                                                                  const runtime::log::logger& log,
                                                                  tracing* records = nullptr);

/// As with vLLM: better to say at the start that an instance cannot hold one request of full length than to fail a
/// client's longest request in the middle.
[[nodiscard]] std::optional<start_error> check_memory(const protocols::instance_status& instance,
                                                      std::uint32_t context_length);

/// Raises what the process may have open to what the system allows it. Returns how many of the connections that it is
/// to hold it can have, beside its files and its cluster's connections; warns where that is less. `whose` is for that
/// line.
std::uint32_t allow_connections(std::uint32_t connections, std::string_view whose, const runtime::log::logger& log);

} // namespace godwit::main
