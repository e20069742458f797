#include <godwit/actors/cluster.hpp>
#include <godwit/runtime/actor_system.hpp>

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <utility>

namespace godwit::actors {

namespace {

// Before anything is there that would have to go again.
runtime::actor_host& checked(runtime::actor_host& host, const node_options& options) {
  if (const auto wrong = options.validate(); !wrong.empty()) throw std::invalid_argument("cluster: " + wrong);
  return host;
}

} // namespace

cluster::cluster(runtime::actor_host& host, node_options options)
    : host_(checked(host, options)), gate_(std::make_shared<frontend_gate>(host)) {
  const std::shared_ptr<const void> alive = std::make_shared<char>();
  alive_ = alive;
  options.on_topology = [gate = gate_, also = std::move(options.on_topology), alive](const topology& news) {
    gate->update(news);
    if (also) also(news);
  };
  patience_ = std::max<std::chrono::nanoseconds>(options.llumlet.migration.settings.told_within(),
                                                 options.frontend.migration_timeout) +
              std::chrono::minutes(1);
  const auto over = std::make_shared<std::promise<void>>();
  over_ = over->get_future().share();
  const std::shared_ptr<void> keep(nullptr, [over](std::nullptr_t) { over->set_value(); });
  options.scheduler.keep = options.frontend.keep = keep;
  options.instance.keep = options.llumlet.migration.keep = keep; // of members too
  node_ = host_.spawn<actors::node>(std::move(options));
}

cluster::~cluster() { shutdown(std::chrono::seconds(2)); }

bool cluster::shutdown(std::chrono::milliseconds grace) {
  gate_->close();
  host_.stop(node_);
  if (dynamic_cast<runtime::actor_system*>(&host_) == nullptr) grace = {}; // nobody else would run them
  return over_.wait_for(grace) == std::future_status::ready;
}

void cluster::end_soon() { host_.tell(node_, end_notice{}); }

runtime::async::expected<protocols::cluster_status> cluster::status(bool with_requests) {
  return host_.ask(node_, std::chrono::seconds(30), status_query{with_requests});
}

runtime::async::expected<protocols::migration_report> cluster::migrate(protocols::request_id request,
                                                                       protocols::instance_id to) {
  return host_.ask(node_, patience_, migrate_request{request, {}, to});
}

void cluster::kill(protocols::instance_id id) { host_.tell(node_, kill_instance{id}); }

} // namespace godwit::actors
