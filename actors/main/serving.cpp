#include "main/serving.hpp"

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>
#include <utility>

namespace godwit::main {

using std::chrono::milliseconds;

namespace {

constexpr milliseconds poll_interval{50};

transport::http::server_settings http_settings(const serve_settings& s) {
  transport::http::server_settings out;
  out.threads = s.http.threads;
  out.header_bytes_max = s.http.header_bytes_max;
  out.body_bytes_max = s.http.body_bytes_max;
  out.queued_bytes_max = s.http.queued_bytes_max;
  out.connections_max = s.http.connections_max;
  out.header_timeout = s.http.header_timeout;
  out.body_timeout = s.http.body_timeout;
  out.idle_timeout = s.http.idle_timeout;
  out.write_timeout = s.http.write_timeout;
  out.error_response = actors::openai_error_response;
  return out;
}

std::uint64_t entropy() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

std::uint32_t worker_threads(const serve_settings& s) {
  return s.runtime.worker_threads != 0 ? s.runtime.worker_threads
                                       : std::clamp(std::thread::hardware_concurrency(), 2U, 8U);
}

std::string host_for_url(const std::string& host) {
  return host.find(':') == std::string::npos ? host : "[" + host + "]";
}

} // namespace

protocols::expected<gpu::model::model_directory, start_error> open_served_model(const std::string& directory) {
  if (directory.empty() || directory == "default") {
    auto files = gpu::model::embedded_model();
    if (!files) return protocols::unexpected(start_error{"this build has no embedded model; name a model directory"});
    auto model = gpu::model::open_model(std::move(files));
    if (!model) return protocols::unexpected(start_error{model.error().what()});
    return std::move(*model);
  }
  auto model = gpu::model::open_model(std::filesystem::path(directory));
  if (!model) return protocols::unexpected(start_error{model.error().what()});
  return std::move(*model);
}

serving::serving(const serve_settings& settings, gpu::model::model_directory model, runtime::log::logger log)
    : settings_(settings), log_(std::move(log)) {
  model_name_ = settings_.model.name.empty() ? model.name : settings_.model.name;
  context_length_ = model.configuration.positions_max;
  if (settings_.model.context_max != 0) context_length_ = std::min(context_length_, settings_.model.context_max);

  board_ = std::make_unique<load_board>(metrics_);
  loader_ = std::make_unique<loader>(model, settings_);
  runtime::actor_system_settings runs;
  runs.worker_threads = worker_threads(settings_);
  runs.network = !settings_.control.listen.empty();
  runs.report = [to = log_.component("runtime")](std::string_view actor, std::string_view text) {
    to.error("{}: {}", actor, text);
  };
  system_ = std::make_unique<runtime::actor_system>(std::move(runs));
  cluster_ = std::make_unique<actors::cluster>(*system_, node_options(model));
  edge_ = std::make_unique<actors::openai_edge>(cluster_->gate(), edge_options(model));
  server_ = std::make_unique<transport::http::server>(
      http_settings(settings_),
      [edge = edge_.get()](transport::http::request request, std::shared_ptr<transport::http::exchange> exchange) {
        edge->handle(std::move(request), std::move(exchange));
      });
}

actors::node_options serving::node_options(const gpu::model::model_directory& model) {
  actors::node_options o;
  o.version = GODWIT_VERSION;
  o.model = model_name_;
  o.address = settings_.control.listen;
  o.instances = settings_.instances.count;
  o.backoff_min = settings_.instances.restart_backoff_min;
  o.backoff_max = settings_.instances.restart_backoff_max;
  o.log = log_.component("node");

  o.instance.make_executor = loader_->factory();
  o.instance.layers_per_advance = settings_.instances.layers_per_advance;
  o.instance.log = log_.component("instance");

  auto& planner = o.llumlet.planner;
  planner.mode = settings_.llumlet.batching == batching_choice::continuous ? protocols::batching_mode::continuous
                                                                           : protocols::batching_mode::static_batch;
  planner.context_length = context_length_;
  planner.step_tokens_max = settings_.llumlet.step_tokens_max;
  planner.running_max = std::min(settings_.llumlet.sequences_max, settings_.llumlet.step_tokens_max);
  planner.waiting_max = settings_.llumlet.queue_max;
  planner.prefix_caching = settings_.llumlet.prefix_caching;
  planner.eos = model.configuration.eos;
  o.llumlet.step_timeout = settings_.instances.step_timeout;
  o.llumlet.report_interval = settings_.scheduler.report_interval;
  o.llumlet.on_report = [board = board_.get()](const protocols::load_report& report) { board->take(report); };
  o.llumlet.log = log_.component("llumlet");

  o.scheduler.policy = settings_.scheduler.policy;
  o.scheduler.log = log_.component("scheduler");

  o.frontend.requests_max = settings_.frontend.requests_max;
  o.frontend.attempts_max = settings_.frontend.attempts_max;
  o.frontend.placement_timeout = settings_.frontend.placement_timeout;
  o.frontend.random_seed = entropy();
  o.frontend.metrics = std::make_shared<actors::frontend_metrics>(metrics_);
  o.frontend.log = log_.component("frontend");
  return o;
}

actors::edge_options serving::edge_options(const gpu::model::model_directory& model) {
  actors::edge_options o;
  o.model.name = model_name_;
  o.model.tokens = model.tokens;
  o.model.context_length = context_length_;
  o.model.vocabulary = model.configuration.vocabulary;
  auto& defaults = o.model.defaults;
  defaults.temperature = model.configuration.default_temperature.value_or(defaults.temperature);
  defaults.top_p = model.configuration.default_top_p.value_or(defaults.top_p);
  defaults.top_k = model.configuration.default_top_k.value_or(defaults.top_k);
  o.limits.body_bytes_max = settings_.http.body_bytes_max;
  o.limits.prompts_max = settings_.frontend.prompts_max;
  o.limits.vocabulary = model.configuration.vocabulary;
  o.version = GODWIT_VERSION;
  o.unix_time_s = [] {
    return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
        .count();
  };
  o.random_seed = entropy();
  o.metrics = &metrics_;
  o.log = log_.component("http");
  return o;
}

protocols::expected<std::unique_ptr<serving>, start_error>
serving::start(const serve_settings& settings, gpu::model::model_directory model, runtime::log::logger log) {
  if (settings.instances.device == device_choice::cuda)
    return protocols::unexpected(start_error{"this build has no CUDA device; use --device cpu"});
  if (const auto length = model.configuration.positions_max; length < 2)
    return protocols::unexpected(
        start_error{"the model's context length of " + std::to_string(length) + " is too small"});
  auto out = std::unique_ptr<serving>(new serving(settings, std::move(model), std::move(log)));
  if (auto error = out->open_ports()) return protocols::unexpected(std::move(*error));
  return out;
}

std::optional<start_error> serving::open_ports() {
  const auto http = parse_endpoint(settings_.http.listen);
  if (!http) return start_error{"http.listen: '" + settings_.http.listen + "' is not HOST:PORT"};
  host_ = http->host;
  if (const auto error = server_->listen(http->host, http->port))
    return start_error{error->message + (error->in_use ? "; choose another with --listen HOST:PORT" : "")};
  if (settings_.control.listen.empty()) return std::nullopt;
  const auto control = parse_endpoint(settings_.control.listen);
  if (!control) return start_error{"control.listen: '" + settings_.control.listen + "' is not HOST:PORT"};
  const auto port = system_->publish(cluster_->node(), control->host, control->port);
  if (!port)
    return start_error{"cannot open the control port " + settings_.control.listen + ": " + port.error().message +
                       "; choose another with --control HOST:PORT"};
  control_ = host_for_url(control->host) + ":" + std::to_string(*port);
  return std::nullopt;
}

serving::~serving() {
  // The front end ends first, so that clients that still wait get an error and not a broken stream.
  edge_->drain();
  cluster_.reset();
  for (int i = 0; i < 40 && server_->stats().exchanges > 0; ++i) std::this_thread::sleep_for(poll_interval / 5);
  server_->stop(); // nobody calls the edge any more
  system_->shutdown(milliseconds(5000));
}

std::optional<start_error> serving::wait_ready(const std::function<bool()>& give_up) {
  while (!cluster_->gate()->wait_ready(settings_.instances.count, poll_interval)) {
    if (auto error = loader_->error()) return start_error{std::move(*error)};
    if (give_up()) return start_error{};
    constexpr std::uint64_t starts_max = 5;
    for (const auto& entry : cluster_->gate()->view().instances)
      if (!entry.ready && entry.generation > starts_max)
        return start_error{"instance " + std::to_string(entry.instance.value()) +
                           " fails again and again before it is ready; see the log"};
  }
  return check_memory();
}

// As with vLLM: better to say so now than to fail a client's longest request in the middle.
std::optional<start_error> serving::check_memory() {
  const auto status = cluster_->status();
  if (!status) return start_error{"the node does not answer: " + status.error().message};
  for (const auto& instance : status->instances) {
    const auto tokens = std::uint64_t{instance.load.blocks_total} * protocols::tokens_per_block;
    if (instance.state != protocols::instance_state::ready || tokens >= context_length_) continue;
    return start_error{"the KV cache of an instance holds " + std::to_string(tokens) +
                       " tokens, less than one request of the model's context of " + std::to_string(context_length_) +
                       "; raise --kv-bytes or set --model-context-max " + std::to_string(tokens)};
  }
  return std::nullopt;
}

bool serving::drain(milliseconds timeout, const std::function<bool()>& hurry) {
  edge_->drain();
  const auto done = std::make_shared<std::atomic<bool>>(false);
  server_->drain([done] { *done = true; });
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (!*done) {
    if (std::chrono::steady_clock::now() >= deadline || hurry()) return false;
    std::this_thread::sleep_for(poll_interval / 5);
  }
  return true;
}

std::string serving::url() const {
  return "http://" + host_for_url(host_) + ":" + std::to_string(server_->local_port());
}

} // namespace godwit::main
