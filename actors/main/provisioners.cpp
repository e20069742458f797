#include "main/provisioners.hpp"

#include "main/child_runner.hpp"
#include "main/loader.hpp"
#include "main/scheduling_settings.hpp"

#include <algorithm>
#include <mutex>
#include <string_view>

#include <unistd.h>

namespace godwit::main {

namespace {

/// The shard of the KV store, which this machine has already; with its disk.
bool is_of_store_here(std::string_view variable) {
  return variable == "GODWIT_KV_STORE_BYTES" || variable.starts_with("GODWIT_KV_STORE_DISK_");
}

/// Ours, without settings where the child gets its own.
std::vector<std::string> inherited_environment(bool with_settings) {
  std::vector<std::string> out;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view variable(*entry);
    // Our own files and ports, and how many instances we began with: what is started is one more.
    if (variable.starts_with("GODWIT_TRACE_FILE=") || variable.starts_with("GODWIT_RUNTIME_READY_FILE=") ||
        variable.starts_with("GODWIT_INSTANCES_COUNT=") || variable.starts_with("GODWIT_FABRIC_PORT=") ||
        is_of_store_here(variable.substr(0, variable.find('='))))
      continue;
    if (with_settings || !variable.starts_with("GODWIT_")) out.emplace_back(variable);
  }
  return out;
}

/// A file of the child's own: two processes must not write one recording.
std::string beside(const std::string& file, std::string node) {
  std::replace(node.begin(), node.end(), '/', '-');
  return file + "." + node;
}

class known_head : public process_source {
public:
  void set_head(std::string control) override {
    const std::lock_guard lock(mutex_);
    head_ = std::move(control);
  }
  void shut_down() override { children_.stop_all(); }
  [[nodiscard]] std::size_t running() const override { return children_.running(); }

protected:
  explicit known_head(runtime::log::logger log) : log_(std::move(log)) {}
  [[nodiscard]] std::string head() const {
    const std::lock_guard lock(mutex_);
    return head_;
  }
  runtime::log::logger log_;
  child_runner children_;

private:
  mutable std::mutex mutex_;
  std::string head_;
};

/// `godwit node` of the same executable. The child ends with this process, however that ends (--parent).
class child_processes final : public known_head {
public:
  child_processes(const serve_settings& settings, launch_parts parts, runtime::log::logger log)
      : known_head(std::move(log)), parts_(std::move(parts)), threads_(threads_per_instance(settings)) {
    const auto roles = roles_of(settings);
    role_ = to_string(protocols::role_at(roles, roles.size()));
  }

  void order(const std::string& node, std::function<void(std::string)> failed) override {
    const auto where = head();
    if (where.empty()) return failed("this process has no control port that another one could join");
    child_order child;
    child.name = node;
    // This very program, also where another version has taken its place on the disk: until it becomes another one, a
    // child that begins still is what its parent is. The other version would not be let in.
    child.program = "/proc/self/exe";
    child.arguments = {"godwit", "node"};
    if (!parts_.model.empty()) child.arguments.push_back(parts_.model);
    child.arguments.insert(child.arguments.end(),
                           {"--join", where, "--name", node, "--instances", "1", "--roles", role_, "--threads",
                            std::to_string(threads_), "--parent", std::to_string(::getpid())});
    child.drops_output = true; // its log has the same lines, and in the form that was asked for
    child.environment = inherited_environment(false);
    for (const auto& [name, value] : parts_.settings)
      if (name != "GODWIT_FABRIC_PORT" && name != "GODWIT_RUNTIME_READY_FILE" && !is_of_store_here(name))
        child.environment.push_back(name + "=" + (name == "GODWIT_TRACE_FILE" ? beside(value, node) : value));
    child.ended = [node, failed = std::move(failed), log = log_](std::string how) {
      log.write(how.empty() ? runtime::log::level::info : runtime::log::level::warning, "the process {} ended{}", node,
                how.empty() ? "" : ": " + how);
      failed("its process ended" + (how.empty() ? std::string() : ": " + how));
    };
    children_.start(std::move(child));
  }
  void release(const std::string& node, std::optional<protocols::instance_id>) override { children_.stop(node); }
  [[nodiscard]] bool releases_others() const noexcept override { return false; }

private:
  launch_parts parts_;
  std::uint32_t threads_;
  std::string role_; ///< the last one of this process
};

/// Whatever a cluster manager offers, as shell commands.
class commands final : public known_head {
public:
  commands(const serve_settings& settings, runtime::log::logger log)
      : known_head(std::move(log)), out_(settings.scaling.command_out), in_(settings.scaling.command_in),
        time_max_(settings.scaling.provision_timeout) {}

  void order(const std::string& node, std::function<void(std::string)> failed) override {
    run("out " + node, out_, node, "", [failed = std::move(failed)](std::string how) {
      if (!how.empty()) failed("scaling.command_out: " + how);
    });
  }
  void release(const std::string& node, std::optional<protocols::instance_id> instance) override {
    children_.stop("out " + node); // perhaps it still runs
    if (in_.empty()) return;
    run("in " + node, in_, node, instance ? std::to_string(instance->value()) : std::string(),
        [node, log = log_](std::string how) {
          if (!how.empty()) log.warning("scaling.command_in for {}: {}", node, how);
        });
  }

private:
  void run(std::string name, const std::string& command, const std::string& node, const std::string& instance,
           std::function<void(std::string)> ended) {
    child_order child;
    child.name = std::move(name);
    child.arguments = {"/bin/sh", "-c", command};
    child.environment = inherited_environment(true);
    child.environment.push_back("GODWIT_NODE=" + node);
    child.environment.push_back("GODWIT_INSTANCE=" + instance);
    child.environment.push_back("GODWIT_HEAD=" + head());
    child.time_max = time_max_;
    child.ended = std::move(ended);
    children_.start(std::move(child));
  }
  std::string out_, in_;
  std::chrono::milliseconds time_max_;
};

} // namespace

std::shared_ptr<process_source> make_process_source(const serve_settings& settings, launch_parts parts,
                                                    runtime::log::logger log) {
  switch (settings.scaling.provisioner) {
  case provisioner_choice::in_process:
    break;
  case provisioner_choice::process:
    return std::make_shared<child_processes>(settings, std::move(parts), std::move(log));
  case provisioner_choice::command:
    return std::make_shared<commands>(settings, std::move(log));
  }
  return nullptr;
}

} // namespace godwit::main
