#pragma once

#include "main/settings.hpp"

#include <godwit/actors/provisioner.hpp>
#include <godwit/runtime/log/logger.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

/// Where autoscaling gets processes from: children of this one, or the commands of whoever runs a cluster.
namespace godwit::main {

/// What another process needs to serve the same model in the same way.
struct launch_parts {
  std::string model;                                         ///< the directory, as on the command line; empty: built in
  std::vector<std::pair<std::string, std::string>> settings; ///< GODWIT_ variables of those that are not the default
};

/// A provisioner that knows, once the control port is open, where its processes are to join.
class process_source : public actors::provisioner {
public:
  virtual void set_head(std::string control) = 0;
  /// Ends what runs by its order and waits for that, in bounded time.
  virtual void shut_down() = 0;
  [[nodiscard]] virtual std::size_t running() const = 0;
};

/// Null for provisioner_choice::in_process, which is the node's own business.
[[nodiscard]] std::shared_ptr<process_source> make_process_source(const serve_settings& settings, launch_parts parts,
                                                                  runtime::log::logger log);

} // namespace godwit::main
