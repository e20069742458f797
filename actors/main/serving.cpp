#include "main/serving.hpp"

#include "main/head_options.hpp"
#include "main/kv_store_options.hpp"
#include "main/lora_options.hpp"
#include "main/migration_parts.hpp"
#include "main/process_metrics.hpp"
#include "main/speculation_options.hpp"
#include "main/swap_options.hpp"
#include "main/thread_room.hpp"

#include <godwit/runtime/machine.hpp>

#include <algorithm>
#include <thread>
#include <utility>

#include <unistd.h>

namespace godwit::main {

using std::chrono::milliseconds;

namespace {

constexpr milliseconds poll_interval{50};

std::string machine_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 && name[0] != '\0' ? name : "localhost";
}

std::string kv_type_name(const serve_settings& settings) {
  switch (settings.instances.kv_type) {
  case kv_choice::bf16:
    return "bfloat16";
  case kv_choice::f32:
    return "float32";
  case kv_choice::fp8:
    return "fp8_e4m3";
  case kv_choice::automatic:
    break;
  }
  return "auto";
}

actors::executor_factory watched(actors::executor_factory factory, device_watch watch) {
  if (!watch) return factory;
  return [factory = std::move(factory), watch = std::move(watch)](protocols::instance_id instance,
                                                                  std::function<void(actors::executor_outcome)> done) {
    factory(instance, [watch, done = std::move(done)](actors::executor_outcome outcome) {
      if (outcome.made) outcome.made = watch(std::move(outcome.made));
      done(std::move(outcome));
    });
  };
}

} // namespace

serving::serving(const serve_settings& settings, gpu::model::model_directory model, actors::model_identity identity,
                 std::shared_ptr<const protocols::openai::chat_template> chat,
                 std::shared_ptr<transport::fabric> fabric, std::shared_ptr<transport::disk> disk,
                 std::shared_ptr<runtime::async::connection_gate> gate, runtime::log::logger log, tracing* records,
                 launch_parts parts, chosen_device cuda, device_watch watch)
    : settings_(settings), identity_(std::move(identity)), chat_(std::move(chat)), log_(std::move(log)),
      records_(records), watch_(std::move(watch)), fabric_(std::move(fabric)), disk_(std::move(disk)) {
  model_name_ = served_name(settings_, model);
  context_length_ = identity_.context_length;

  board_ = std::make_unique<load_board>(
      metrics_, served_facts{model_name_, kv_type_name(settings_), settings_.llumlet.prefix_caching});
  loader_ = std::make_unique<loader>(model, settings_, std::move(cuda), log_);
  processes_ = make_process_source(settings_, std::move(parts), log_.component("provisioner"));
  system_ = std::make_unique<runtime::actor_system>(
      make_system_settings(settings_, !settings_.control.listen.empty(), std::move(gate), log_, records_));
  cluster_ = std::make_unique<actors::cluster>(*system_, node_options(model));
  http_ = std::make_unique<http_front>(
      settings_, http_front::parts{model_name_, context_length_, chat_, cluster_->gate(), &metrics_, records_, log_},
      model);
  process_metrics_ = add_process_metrics(metrics_);
  adapter_metrics_ = add_adapter_metrics(metrics_, loader_->adapters());
}

actors::node_options serving::node_options(const gpu::model::model_directory& model) {
  auto o = make_head_options(settings_, model, identity_, watched(loader_->factory(), watch_), fabric_, log_);
  o.llumlet.store.disk = disk_;
  o.scheduler.on_report = [board = board_.get()](const protocols::load_report& report) { board->take(report); };
  o.scheduler.metrics = std::make_shared<actors::scheduler_metrics>(metrics_);
  o.provisioner = processes_;
  while (processes_ && o.life == 0) o.life = static_cast<std::uint32_t>(runtime::entropy());
  if (records_ != nullptr) o.trace = records_->control();
  o.metrics = std::make_shared<actors::cluster_metrics>(metrics_);
  o.on_topology = [board = board_.get()](const actors::topology& news) { board->adopt(news); };

  o.frontend.random_seed = runtime::entropy();
  o.frontend.metrics = std::make_shared<actors::frontend_metrics>(metrics_, model_name_, context_length_);
  o.frontend.migrations = std::make_shared<actors::migration_metrics>(metrics_);
  return o;
}

protocols::expected<std::unique_ptr<serving>, start_error>
serving::start(const serve_settings& settings, gpu::model::model_directory model, runtime::log::logger log,
               tracing* records, launch_parts parts, chosen_device cuda, device_watch watch) {
  if (auto short_of = check_threads(threads_of(settings))) return protocols::unexpected(std::move(*short_of));
  if (auto wrong = open_draft(settings, model)) return protocols::unexpected(std::move(*wrong));
  auto identity = identity_of(settings, model);
  if (!identity) return protocols::unexpected(identity.error());
  if (auto wrong = check_kv_store(settings, *identity)) return protocols::unexpected(std::move(*wrong));
  if (auto wrong = check_swap(settings, *identity)) return protocols::unexpected(std::move(*wrong));
  if (auto wrong = check_lora(settings)) return protocols::unexpected(std::move(*wrong));
  auto chat = open_chat_template(settings, model);
  if (!chat) return protocols::unexpected(chat.error());
  auto gate = make_gate(settings, log);
  if (!gate) return protocols::unexpected(gate.error());
  const auto control = parse_endpoint(settings.control.listen);
  auto fabric = make_fabric(settings, control ? control->host : settings.control.listen, log, cuda);
  if (!fabric) return protocols::unexpected(fabric.error());
  auto disk = make_kv_store_disk(settings, *identity, log);
  if (!disk) return protocols::unexpected(disk.error());
  auto out = std::unique_ptr<serving>(new serving(
      settings, std::move(model), std::move(*identity), std::move(*chat), std::move(*fabric), std::move(*disk),
      std::move(*gate), std::move(log), records, std::move(parts), std::move(cuda), std::move(watch)));
  if (records != nullptr)
    if (auto error = records->begin()) return protocols::unexpected(std::move(*error));
  if (auto error = out->open_ports()) return protocols::unexpected(std::move(*error));
  return out;
}

std::optional<start_error> serving::open_ports() {
  if (auto error = http_->listen()) return error;
  if (settings_.control.listen.empty()) return std::nullopt;
  const auto control = parse_endpoint(settings_.control.listen);
  if (!control) return start_error{"control.listen: '" + settings_.control.listen + "' is not HOST:PORT", 2};
  const auto port = system_->publish(cluster_->node(), control->host, control->port);
  if (!port)
    return start_error{"cannot open the control port " + settings_.control.listen + ": " + port.error().message +
                       "; choose another with --control HOST:PORT"};
  control_ = host_for_url(control->host) + ":" + std::to_string(*port);
  if (processes_)
    processes_->set_head(settings_.scaling.provisioner == provisioner_choice::command ? advertised() : from_here());
  if (!settings_.cluster.tls_cert.empty())
    log_.component("node").info("the control port {} speaks TLS", control_);
  else if (!is_loopback(control->host))
    log_.component("node").warning("the control port {} is open to other machines, and authenticates nobody: whoever "
                                   "reaches it can read and stop everything",
                                   control_);
  return std::nullopt;
}

serving::~serving() {
  // The front end ends first, so that clients that still wait get an error and not a broken stream.
  http_->refuse_new();
  if (processes_) processes_->shut_down(); // while there is somebody whom they can tell that they leave
  cluster_.reset();
  http_->end();
  system_->shutdown(milliseconds(5000));
  if (records_ != nullptr) records_->settle();
  fabric_.reset(); // its callbacks post to actors of the system, dead or not
  disk_.reset();   // as do its
}

std::optional<start_error> serving::wait_ready(const std::function<bool()>& give_up) {
  const auto own_ready = [&] {
    std::uint32_t ready = 0;
    for (const auto& entry : cluster_->gate()->view().instances)
      if (entry.ready && entry.instance.value() < settings_.instances.count) ++ready;
    return ready == settings_.instances.count;
  };
  while (!own_ready()) {
    std::this_thread::sleep_for(poll_interval / 5);
    if (auto error = loader_->error()) return start_error{std::move(*error)};
    if (!alive()) return start_error{actors_ended_line};
    if (give_up()) return start_error{};
    constexpr std::uint64_t starts_max = 5;
    for (const auto& entry : cluster_->gate()->view().instances)
      if (entry.instance.value() < settings_.instances.count && !entry.ready && entry.generation > starts_max)
        return start_error{"instance " + std::to_string(entry.instance.value()) +
                           " fails again and again before it is ready; see the log"};
  }
  return check_own_memory();
}

std::optional<start_error> serving::check_own_memory() {
  const auto status = cluster_->status();
  if (!status) return start_error{"the node does not answer: " + status.error().message};
  for (const auto& instance : status->instances) {
    if (instance.instance.value() >= settings_.instances.count) continue; // a member looks after its own
    if (auto error = check_memory(instance, context_length_)) return error;
  }
  return std::nullopt;
}

void serving::end_soon() { cluster_->end_soon(); }

std::string serving::from_here() const {
  const auto listens = parse_endpoint(control_);
  if (!listens || !is_wildcard(listens->host)) return control_;
  return host_for_url(listens->host.find(':') == std::string::npos ? "127.0.0.1" : "::1") + ":" +
         std::to_string(listens->port);
}

std::string serving::advertised() const {
  const auto listens = parse_endpoint(control_);
  if (!listens) return control_;
  auto host = settings_.control.advertise;
  if (host.empty()) host = is_wildcard(listens->host) ? machine_name() : listens->host;
  return host_for_url(host) + ":" + std::to_string(listens->port);
}

} // namespace godwit::main
