#include <godwit/actors/node.hpp>

#include <algorithm>
#include <utility>

namespace godwit::actors {

using runtime::async::task;

namespace {
constexpr std::chrono::seconds status_timeout{2};
}

node::node(runtime::actor_context context, node_options options) : actor(context), options_(std::move(options)) {
  pairs_.resize(options_.instances);
  for (std::uint32_t i = 0; i < options_.instances; ++i) pairs_[i].id = protocols::instance_id{i};
}

runtime::behavior_of<node_interface> node::make_behavior() {
  spawn_scheduler();
  spawn_frontend();
  for (std::size_t i = 0; i < pairs_.size(); ++i) spawn_pair(i);
  announce();
  return {[this](status_query& query) { return respond(status(query.with_requests)); },
          [this](instance_ready& news) { mark_ready(news); }, [this](kill_instance& what) { kill(what.instance); },
          [this](topology_query&) { return view(); }};
}

void node::on_stop() {
  // The front end first, so that clients hear of the end before their instances are gone.
  if (frontend_) stop(frontend_);
  if (scheduler_) stop(scheduler_);
  for (const auto& p : pairs_) {
    if (p.llumlet) stop(p.llumlet);
    if (p.instance) stop(p.instance);
  }
}

std::chrono::nanoseconds node::next_pause(std::chrono::nanoseconds started, std::chrono::nanoseconds& backoff) {
  constexpr std::chrono::nanoseconds least = std::chrono::milliseconds(1); // never a busy loop of restarts
  const bool settled = now() - started >= options_.settled_after;
  backoff = settled ? options_.backoff_min : std::max({options_.backoff_min, backoff * 2, least});
  backoff = std::min(backoff, options_.backoff_max);
  return backoff;
}

void node::spawn_scheduler() {
  scheduler_started_ = now();
  scheduler_ = spawn<global_scheduler>(options_.scheduler);
  monitor(scheduler_, [this](runtime::stop_reason reason) {
    const auto pause = next_pause(scheduler_started_, scheduler_backoff_);
    options_.log.error("the global scheduler is down ({}); dispatch by a simple rule until its restart in {} ms",
                       to_string(reason), std::chrono::duration_cast<std::chrono::milliseconds>(pause).count());
    scheduler_ = {};
    announce();
    start(respawn_scheduler(pause));
  });
}

task<void> node::respawn_scheduler(std::chrono::nanoseconds pause) {
  co_await sleep_for(pause);
  spawn_scheduler();
  announce();
}

void node::spawn_frontend() {
  frontend_started_ = now();
  auto options = options_.frontend;
  // Request ids of a dead front end must not come again: instances may still run them.
  options.incarnation = frontend_restarts_++;
  frontend_ = spawn<frontend>(std::move(options));
  monitor(frontend_, [this](runtime::stop_reason reason) {
    const auto pause = next_pause(frontend_started_, frontend_backoff_);
    options_.log.error("the front end is down ({}); restart in {} ms", to_string(reason),
                       std::chrono::duration_cast<std::chrono::milliseconds>(pause).count());
    frontend_ = {};
    announce();
    start(respawn_frontend(pause));
  });
}

task<void> node::respawn_frontend(std::chrono::nanoseconds pause) {
  co_await sleep_for(pause);
  spawn_frontend();
  announce();
}

void node::spawn_pair(std::size_t index) {
  auto& p = pairs_[index];
  ++p.generation;
  p.started = now();
  p.ready = false;

  auto instance_settings = options_.instance;
  instance_settings.id = p.id;
  p.instance = spawn<instance>(std::move(instance_settings));

  auto llumlet_settings = options_.llumlet;
  llumlet_settings.id = p.id;
  llumlet_settings.generation = p.generation;
  llumlet_settings.instance = p.instance;
  llumlet_settings.node = self();
  llumlet_settings.node_address = options_.address;
  llumlet_settings.restarts = static_cast<std::uint32_t>(p.generation - 1);
  llumlet_settings.load_timeout = options_.load_timeout;
  p.llumlet = spawn<llumlet>(std::move(llumlet_settings));

  const auto generation = p.generation;
  auto down = [this, index, generation](runtime::stop_reason reason) { pair_down(index, generation, reason); };
  monitor(p.instance, down);
  monitor(p.llumlet, down);
}

void node::pair_down(std::size_t index, std::uint64_t generation, runtime::stop_reason reason) {
  auto& p = pairs_[index];
  if (p.generation != generation || (!p.instance && !p.llumlet)) return; // its other half, which we stopped
  const auto pause = next_pause(p.started, p.backoff);
  // One that never came up is reported by whoever waits for it (`godwit serve` says why and ends).
  options_.log.write(p.generation == 1 && !p.ready ? runtime::log::level::debug : runtime::log::level::error,
                     "instance {} is down ({}); restart in {} ms", p.id.value(), to_string(reason),
                     std::chrono::duration_cast<std::chrono::milliseconds>(pause).count());
  stop(std::exchange(p.instance, {}), runtime::stop_reason::killed);
  stop(std::exchange(p.llumlet, {}), runtime::stop_reason::killed);
  p.ready = false;
  announce();
  start(respawn_pair(index, pause));
}

task<void> node::respawn_pair(std::size_t index, std::chrono::nanoseconds pause) {
  co_await sleep_for(pause);
  spawn_pair(index);
  announce();
}

void node::mark_ready(const instance_ready& news) {
  for (auto& p : pairs_) {
    if (p.id != news.instance || p.generation != news.generation || !p.llumlet) continue;
    p.ready = true;
    options_.log.info("instance {} is ready", p.id.value());
    announce();
  }
}

void node::kill(protocols::instance_id id) {
  for (auto& p : pairs_)
    if (p.id == id && p.instance) stop(p.instance, runtime::stop_reason::killed);
}

topology node::view() const {
  topology out;
  out.version = version_;
  out.scheduler = scheduler_;
  out.frontend = frontend_;
  for (const auto& p : pairs_) out.instances.emplace_back(p.id, p.generation, p.ready && p.llumlet, p.llumlet);
  return out;
}

void node::announce() {
  ++version_;
  const auto news = view();
  if (frontend_) tell(frontend_, news);
  if (scheduler_) tell(scheduler_, news);
  for (const auto& p : pairs_)
    if (p.llumlet) tell(p.llumlet, news);
  if (options_.on_topology) options_.on_topology(news);
}

task<protocols::cluster_status> node::status(bool with_requests) {
  protocols::cluster_status out;
  out.version = options_.version;
  out.model = options_.model;
  out.dispatch_policy = options_.scheduler.policy;
  out.uptime_ns = now().count();
  if (frontend_) {
    const auto counts = co_await ask(frontend_, status_timeout, status_query{});
    if (counts) {
      out.requests_open = counts->open;
      out.requests_finished_total = counts->finished_total;
      out.requests_failed_total = counts->failed_total;
      out.redispatches_total = counts->redispatches_total;
    }
  }
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    const auto llumlet = pairs_[i].llumlet; // pairs_ may change while we wait
    protocols::instance_status entry;
    entry.instance = pairs_[i].id;
    entry.node = options_.address;
    entry.state = protocols::instance_state::down;
    entry.restarts = static_cast<std::uint32_t>(pairs_[i].generation - 1);
    if (llumlet) {
      auto answer = co_await ask(llumlet, status_timeout, status_query{with_requests});
      if (answer) entry = std::move(*answer);
    }
    out.instances.push_back(std::move(entry));
  }
  co_return out;
}

} // namespace godwit::actors
