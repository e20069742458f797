#include "processes/support/console.hpp"

#include "processes/support/child_process.hpp"

#include <godwit/actors/interfaces.hpp>
#include <godwit/runtime/actor_system.hpp>

#include <algorithm>
#include <utility>

namespace godwit::test {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct console::connection {
  runtime::actor_system system;
  runtime::handle<actors::node_interface> node;
  explicit connection(runtime::actor_system_settings settings) : system(std::move(settings)) {}
};

console::console(std::string control) : control_(std::move(control)) {}
console::~console() = default;

bool console::connected() {
  if (connection_) return true;
  runtime::actor_system_settings settings;
  settings.worker_threads = 2;
  settings.network = true;
  settings.connection_timeout = seconds(5); // a head that stops for a while is what we are here for
  settings.report = [](std::string_view, std::string_view) {};
  auto made = std::make_unique<connection>(std::move(settings));
  const auto colon = control_.rfind(':');
  const auto port = static_cast<std::uint16_t>(std::stoi(control_.substr(colon + 1)));
  auto node = made->system.remote<actors::node_interface>(control_.substr(0, colon), port, seconds(2));
  if (!node) return false;
  made->node = std::move(*node);
  connection_ = std::move(made);
  return true;
}

template <class Reply, class Message> std::optional<Reply> console::ask(Message message, milliseconds timeout) {
  if (!connected()) return std::nullopt;
  auto answer = connection_->system.ask(connection_->node, timeout, std::move(message));
  if (answer) return std::move(*answer);
  connection_.reset();
  return std::nullopt;
}

std::optional<protocols::cluster_status> console::status(bool with_requests) {
  return ask<protocols::cluster_status>(actors::status_query{with_requests}, seconds(5));
}

std::optional<protocols::migration_report> console::migrate(protocols::request_id request, protocols::instance_id to) {
  return ask<protocols::migration_report>(actors::migrate_request{request, {}, to}, seconds(8));
}

bool console::wait_instances(std::size_t count, milliseconds timeout) {
  return wait_until(timeout, [&] {
    const auto now = status();
    return now && now->instances.size() == count &&
           std::all_of(now->instances.begin(), now->instances.end(),
                       [](const auto& i) { return i.state == protocols::instance_state::ready; });
  });
}

std::string console::left_over(milliseconds timeout) {
  std::string left;
  (void)wait_until(timeout, [&] {
    const auto now = status(true);
    left = now ? "" : "the head does not answer; ";
    if (!now) return false;
    if (now->requests_open > 0) left += std::to_string(now->requests_open) + " requests at the front end; ";
    for (const auto& i : now->instances) {
      const auto name = "instance " + std::to_string(i.instance.value()) + " has ";
      if (!i.requests.empty()) left += name + std::to_string(i.requests.size()) + " requests; ";
      if (!i.migrations.empty()) left += name + std::to_string(i.migrations.size()) + " migrations; ";
      if (i.load.blocks_used > 0) left += name + std::to_string(i.load.blocks_used) + " blocks in use; ";
    }
    return left.empty();
  });
  return left;
}

} // namespace godwit::test
