#include <godwit/runtime/actor_system.hpp>

#include "actor/actor_core.hpp"
#include "actor/engine.hpp"
#include "actor/interface_check.hpp"
#include "actor/network.hpp"
#include "actor/outside_asker.hpp"
#include "actor/protocol.hpp"
#include "actor/references.hpp"

#include <caf/actor_cast.hpp>
#include <caf/io/middleman.hpp>

#include <algorithm>
#include <thread>

namespace godwit::runtime {

namespace {

std::unique_ptr<detail::engine> make_engine(const actor_system_settings& settings) {
  auto configure = [&](caf::actor_system_config& config) {
    const auto threads =
        settings.worker_threads != 0 ? settings.worker_threads : std::max(2U, std::thread::hardware_concurrency());
    config.set("scheduler.max-threads", static_cast<std::size_t>(threads));
    config.set("scheduler.policy", settings.policy == actor_system_settings::policy_kind::sharing
                                       ? caf::atom("sharing")
                                       : caf::atom("stealing"));
    if (!settings.network) return;
    config.module_factories.emplace_back([&](caf::actor_system& system) -> caf::actor_system::module* {
      return new detail::network(system, settings.gate, settings.warn, settings.report); // the system's
    });
    config.set("middleman.heartbeat-interval", caf::timespan{settings.heartbeat_interval});
    config.set("middleman.connection-timeout", caf::timespan{settings.connection_timeout});
  };
  auto out = std::make_unique<detail::engine>(configure, std::make_unique<steady_clock>(), nullptr, settings.report);
  if (settings.recorder) out->record(settings.recorder->core(), {});
  return out;
}

} // namespace

actor_system::actor_system(actor_system_settings settings)
    : actor_host(make_engine(settings)), grace_(settings.shutdown_grace) {}

actor_system::~actor_system() { shutdown(grace_); }

bool actor_system::shutdown(std::chrono::milliseconds grace) {
  engine_->stop_all(stop_reason::shutdown);
  if (engine_->wait_until_empty(grace)) return true;
  // also those that others started meanwhile
  engine_->stop_all(stop_reason::killed);
  return engine_->wait_until_empty(std::min(grace, std::chrono::milliseconds{500}));
}

bool actor_system::wait_until_empty(std::chrono::milliseconds timeout) { return engine_->wait_until_empty(timeout); }

void actor_system::ask_and_wait(const actor_ref& to, std::chrono::nanoseconds timeout, detail::draft message,
                                const std::function<void(detail::answer&)>& take) {
  const auto deadline = std::chrono::steady_clock::now() + async::bounded_wait(timeout);
  detail::ask_from_outside(
      *engine_, to, std::move(message), [&](detail::outside_asker& asker) { asker.wait_until(deadline); }, take);
}

async::expected<std::uint16_t> actor_system::publish_actor(const actor_ref& whom, const std::string& host,
                                                           std::uint16_t port) {
  using async::error_code;
  if (!whom) return async::error{error_code::down, "no such actor"};
  if (!engine_->system().has_middleman()) return async::error{error_code::unsupported, "this system has no network"};
  auto bound = engine_->system().middleman().publish(caf::actor_cast<caf::actor>(detail::strong(whom)), port,
                                                     host.c_str(), true);
  if (!bound) {
    // It does not say why; mostly it is that.
    const bool taken = bound.error() == caf::sec::cannot_open_port;
    return async::error{error_code::refused,
                        "cannot listen on " + host + ":" + std::to_string(port) + ": " +
                            (taken ? "the port is in use, or the address is not this machine's, or not for this user"
                                   : engine_->system().render(bound.error()))};
  }
  return *bound;
}

async::expected<actor_ref> actor_system::remote_actor(const std::string& host, std::uint16_t port,
                                                      const std::vector<const message_type*>& types,
                                                      std::size_t messages, std::chrono::milliseconds timeout) {
  using async::error_code;
  const auto deadline = std::chrono::steady_clock::now() + async::bounded_wait(timeout);
  if (!engine_->system().has_middleman()) return async::error{error_code::unsupported, "this system has no network"};
  engine_->register_types(types);
  const auto place = host + ":" + std::to_string(port);
  auto found = static_cast<detail::network&>(engine_->system().middleman()).connect(host, port, deadline);
  if (!found) return async::error{found.error().code, "no actor at " + place + ": " + found.error().message};
  auto ref = detail::reference(std::move(*found));
  async::expected<detail::interface_description> known{async::error{}};
  ask_and_wait(
      ref,
      std::max<std::chrono::nanoseconds>(deadline - std::chrono::steady_clock::now(), std::chrono::milliseconds{1}),
      detail::draft::of(detail::interface_query{}),
      [&](detail::answer& a) { known = detail::unpack<detail::interface_description>(a); });
  if (auto why = detail::check_interface(known, types, messages, place)) return std::move(*why);
  return ref;
}

} // namespace godwit::runtime
