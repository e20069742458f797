#pragma once

#include "main/settings.hpp"

#include <godwit/actors/instance.hpp>
#include <godwit/actors/member.hpp>
#include <godwit/actors/membership.hpp>
#include <godwit/actors/node.hpp>
#include <godwit/gpu/model/model_directory.hpp>
#include <godwit/runtime/log/logger.hpp>
#include <godwit/transport/fabric.hpp>

#include <memory>
#include <string>
#include <vector>

namespace godwit::main {

/// What the head of a cluster is made with as far as it follows from settings and model: the same where it serves and
/// where a recording of it is replayed. Metrics, provisioners and who listens are for the caller to add.
[[nodiscard]] actors::node_options
make_head_options(const serve_settings& settings, const gpu::model::model_directory& model,
                  const actors::model_identity& identity, actors::executor_factory factory,
                  std::shared_ptr<transport::fabric> fabric, const runtime::log::logger& log);

/// The same for a member of a cluster (`godwit node`), whose head is elsewhere.
[[nodiscard]] actors::member_options
make_member_options(const serve_settings& settings, const gpu::model::model_directory& model,
                    actors::model_identity identity, actors::executor_factory factory,
                    std::shared_ptr<transport::fabric> fabric, const runtime::log::logger& log);

/// The same for a process that brings a front end only (`godwit frontend`).
[[nodiscard]] actors::member_options make_frontend_member_options(const serve_settings& settings,
                                                                  actors::model_identity identity,
                                                                  const runtime::log::logger& log);

/// What requests are to be answered within that say nothing else.
[[nodiscard]] protocols::latency_objectives make_objectives(const serve_settings& settings);

/// Names of the execution priorities, by level.
[[nodiscard]] std::vector<std::string> execution_level_names(const serve_settings& settings);

/// What the served model is called.
[[nodiscard]] std::string served_name(const serve_settings& settings, const gpu::model::model_directory& model);

} // namespace godwit::main
