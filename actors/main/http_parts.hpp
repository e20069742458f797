#pragma once

#include "main/settings.hpp"

#include <godwit/runtime/log/logger.hpp>
#include <godwit/runtime/metrics/registry.hpp>
#include <godwit/transport/http/server.hpp>

#include <vector>

/// What the HTTP server is made of besides its routes.
namespace godwit::main {

[[nodiscard]] transport::http::server_settings make_http_settings(const serve_settings& settings,
                                                                  const runtime::log::logger& log);

/// What the server counts, as metrics; `server` must outlive what is returned.
[[nodiscard]] std::vector<runtime::metrics::registry::registration>
add_http_metrics(runtime::metrics::registry& metrics, const transport::http::server& server);

} // namespace godwit::main
