#pragma once

#include "main/settings.hpp"
#include "main/start_error.hpp"

#include <godwit/actors/migration_environment.hpp>
#include <godwit/gpu/cuda/cuda_backend.hpp>
#include <godwit/protocols/expected.hpp>
#include <godwit/runtime/log/logger.hpp>

#include <memory>
#include <optional>
#include <string>

/// What a process's instances need for live migrations, made of the settings.
namespace godwit::main {

/// The fabric that the settings ask for. `met_at`: the host of the control port by which instances of other processes
/// take part; empty: there are none. `cuda`: their KV lies on its devices; null: in the host's memory. An error where
/// it cannot be opened.
[[nodiscard]] protocols::expected<std::shared_ptr<transport::fabric>, start_error>
make_fabric(const serve_settings& settings, const std::string& met_at, const runtime::log::logger& log,
            const std::shared_ptr<gpu::cuda::cuda_backend>& cuda = {});

[[nodiscard]] actors::migration_environment make_migration(const serve_settings& settings,
                                                           std::shared_ptr<transport::fabric> fabric,
                                                           const runtime::log::logger& log);

/// "NAME=ACTION[@N],...": at the Nth passing of the place (1 where it is not said) the process kills or stops itself.
/// An error line where the text is wrong; an empty function for an empty text.
[[nodiscard]] protocols::expected<actors::failpoints, std::string> parse_failpoints(const std::string& text);

} // namespace godwit::main
