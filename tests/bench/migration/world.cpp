#include "migration/world.hpp"

#include <godwit/gpu/shared_memory.hpp>
#include <godwit/runtime/log/file_backend.hpp>
#include <godwit/transport/in_process/fabric.hpp>
#include <godwit/transport/ucx/fabric.hpp>

#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>

namespace godwit::bench {

using namespace std::chrono_literals;

namespace {

constexpr const char* version = "bench";
constexpr auto start_timeout = 120s;

/// What instances of one process share for their migrations. Warnings go to standard error: why one was not committed.
actors::migration_environment make_parts(std::shared_ptr<transport::fabric> fabric) {
  namespace log = runtime::log;
  actors::migration_environment out;
  out.fabric = std::move(fabric);
  if (const auto backend = log::open_file({}))
    out.log = log::logger(*backend, log::level_filter(log::level::warning)).component("migration");
  return out;
}

actors::llumlet_options llumlet(const shape& how, const actors::migration_environment& parts, bool blocking) {
  actors::llumlet_options out;
  out.planner.context_length = how.context;
  out.planner.running_max = 16;
  out.planner.prefix_caching = false; // requests go to and fro, and would find their KV there
  out.migration = parts;
  auto& settings = out.migration.settings;
  settings.copy_share = how.copy_share;
  if (blocking) {
    settings.limits.last_blocks_max = how.context; // the first stage is the last one
    settings.last_timeout = 20s;
  }
  return out;
}

actors::member_options member(const served_model& model, const shape& how, const actors::migration_environment& parts,
                              bool blocking) {
  actors::member_options out;
  out.version = version;
  out.address = blocking ? "blocking" : "live";
  out.key = blocking ? 2 : 1;
  out.instances = 1;
  out.model = model.identity(how.context);
  out.instance.make_executor = model.factory(how.context);
  out.llumlet = llumlet(how, parts, blocking);
  return out;
}

/// Threads that are made while it lives stay on the first core, where `wanted`.
class on_one_core {
public:
  explicit on_one_core(bool wanted) : wanted_(wanted) {
    if (!wanted_) return;
    if (sched_getaffinity(0, sizeof before_, &before_) != 0) throw std::runtime_error("no affinity can be read");
    int core = 0;
    while (CPU_ISSET(core, &before_) == 0) ++core;
    cpu_set_t first;
    CPU_ZERO(&first);
    CPU_SET(core, &first);
    if (sched_setaffinity(0, sizeof first, &first) != 0)
      throw std::runtime_error("the copying threads cannot be kept on one core");
  }
  ~on_one_core() {
    if (wanted_) sched_setaffinity(0, sizeof before_, &before_);
  }
  on_one_core(const on_one_core&) = delete;
  on_one_core& operator=(const on_one_core&) = delete;

private:
  bool wanted_;
  cpu_set_t before_{};
};

std::shared_ptr<transport::fabric> make_ucx(const served_model& model, const shape& how) {
  const on_one_core guard(how.copy_on_one_core);
  transport::ucx::settings settings;
  settings.device = model.memory();
  settings.shared_memory = gpu::find_shared_memory;
  return transport::ucx::make_fabric(settings);
}

/// The machine may be busy: silence of a process means nothing here.
std::unique_ptr<runtime::actor_system> make_system(bool network) {
  runtime::actor_system_settings settings;
  settings.network = network;
  settings.connection_timeout = 20s;
  return std::make_unique<runtime::actor_system>(settings);
}

} // namespace

const char* to_string(setup where) noexcept { return where == setup::in_process ? "in_process" : "two_processes"; }

world::world(const served_model& model, const shape& how, setup where) : model_(model), shape_(how), where_(where) {
  const bool alone = where == setup::in_process;
  std::shared_ptr<transport::in_process::hub> hub;
  if (alone) {
    const on_one_core guard(how.copy_on_one_core);
    hub = transport::in_process::make_hub({.device = model.memory()});
  }
  fabric_ = alone ? transport::in_process::make_fabric(hub) : make_ucx(model, how);
  system_ = make_system(!alone);

  actors::node_options o;
  o.version = version;
  o.model = "160m";
  o.identity = model.identity(how.context);
  o.instance.make_executor = model.factory(how.context);
  o.llumlet = llumlet(how, make_parts(fabric_), false);
  cluster_ = std::make_unique<actors::cluster>(*system_, std::move(o));
  wait_for(1);

  if (!alone) {
    const auto port = system_->publish(cluster_->node(), "127.0.0.1", 0);
    if (!port) throw std::runtime_error("no control port: " + port.error().message);
    start_child(*port);
    try {
      wait_for(how.third_instance ? 3 : 2);
    } catch (...) {
      ::kill(child_, SIGKILL);
      ::waitpid(child_, nullptr, 0);
      throw;
    }
    return;
  }
  for (const bool blocking : {false, true}) {
    if (blocking && !how.third_instance) continue;
    auto options = member(model, how, make_parts(transport::in_process::make_fabric(hub)), blocking);
    options.find_head = [node = cluster_->node()](std::function<void(actors::found_head)> done) { done(node); };
    members_.push_back(system_->spawn<actors::member>(std::move(options)));
    wait_for(blocking ? 3 : 2);
  }
}

world::~world() {
  cluster_.reset();
  if (child_ > 0) {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }
  members_.clear();
  system_->shutdown(5s);
  fabric_.reset();
}

void world::wait_for(std::uint32_t instances) {
  if (!cluster_->gate()->wait_ready(instances, start_timeout))
    throw std::runtime_error("an instance does not get ready (" + std::string(to_string(where_)) + ")");
}

void world::start_child(std::uint16_t port) {
  std::vector<std::string> texts{"bench_migration",
                                 "--member",
                                 std::to_string(port),
                                 std::to_string(shape_.context),
                                 std::to_string(shape_.copy_share),
                                 shape_.third_instance ? "1" : "0",
                                 shape_.copy_on_one_core ? "1" : "0",
                                 model_.on_gpu() ? "1" : "0"};
  std::vector<char*> arguments;
  for (auto& text : texts) arguments.push_back(text.data());
  arguments.push_back(nullptr);
  child_ = ::fork();
  if (child_ < 0) throw std::runtime_error("no second process");
  if (child_ != 0) return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL); // whatever ends us
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  ::execv("/proc/self/exe", arguments.data());
  ::_exit(127);
}

bool is_member(int argc, char** argv) { return argc == 8 && std::string_view(argv[1]) == "--member"; }

int run_member(char** argv) {
  const auto port = static_cast<std::uint16_t>(std::atoi(argv[2]));
  const shape how{static_cast<std::uint32_t>(std::atoi(argv[3])), std::atof(argv[4]), argv[5][0] == '1',
                  argv[6][0] == '1'};
  const served_model model(argv[7][0] == '1');
  const auto parts = make_parts(make_ucx(model, how));
  const auto system = make_system(true);
  std::vector<runtime::handle<actors::member_interface>> members;
  for (const bool blocking : {false, true}) {
    if (blocking && !how.third_instance) continue;
    const auto ready = std::make_shared<std::atomic<bool>>(false);
    auto options = member(model, how, parts, blocking);
    options.find_head = [&system, port](std::function<void(actors::found_head)> done) {
      std::thread([&system, port, done = std::move(done)] {
        done(system->remote<actors::node_interface>("127.0.0.1", port, 20s));
      }).detach();
    };
    options.on_state = [ready](const actors::member_state& state) { *ready = state.ready == 1; };
    members.push_back(system->spawn<actors::member>(std::move(options)));
    while (!*ready) std::this_thread::sleep_for(5ms); // so that ids go in this order
  }
  for (;;) ::pause(); // until the parent's end, which is ours
}

} // namespace godwit::bench
