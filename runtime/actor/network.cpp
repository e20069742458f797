#include "actor/network.hpp"

#include "actor/connection.hpp"
#include "actor/node_identity.hpp"

#include <godwit/runtime/machine.hpp>

#include <caf/actor_ostream.hpp>
#include <caf/io/basp_broker.hpp>
#include <caf/scoped_actor.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <set>
#include <thread>

#include <unistd.h>

namespace godwit::runtime::detail {

namespace {

constexpr auto farewell_max = std::chrono::seconds(1);

} // namespace

caf::node_id unique_node() {
  caf::node_id::default_data::host_id_type drawn{};
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    if (i % sizeof bits == 0) bits = entropy();
    drawn.at(i) = static_cast<std::uint8_t>(bits >> (i % sizeof bits * 8));
  }
  return caf::make_node_id(static_cast<std::uint32_t>(::getpid()), drawn);
}

// Before the system makes its first actor, which takes the id.
void network::init(caf::actor_system_config& config) {
  middleman::init(config);
  caf::net::middleman::set_node(system(), unique_node());
}

// CAF prints what its own actors do not expect, which strangers may send them; standard output is not theirs.
void network::start() {
  middleman::start();
  caf::actor_ostream::redirect_all(system(), "/dev/null");
  watch_broker();
}

void network::watch_broker() {
  const auto broker = named_broker<caf::io::basp_broker>(caf::atom("BASP"));
  caf::actor_cast<caf::abstract_actor*>(broker)->attach_functor([this](const caf::error& why) {
    if (stops_) return;
    const auto text = "the network between processes has failed (" + system().render(why) + "), and the process ends";
    if (report_)
      report_("network", text);
    else
      std::fprintf(stderr, "network: %s\n", text.c_str());
    std::abort();
  });
}

network::~network() {
  if (gate_) gate_->shut(); // before the loop that it hands connections to
}

void network::stop() {
  stops_ = true;
  if (gate_) gate_->shut();
  // CAF's loop goes on until all is written, which a peer that takes nothing may keep from ever being.
  std::promise<void> stopped;
  std::jthread limits([this, over = stopped.get_future()] {
    if (over.wait_for(farewell_max) != std::future_status::ready) multiplexer_.cut();
  });
  middleman::stop();
  stopped.set_value();
  if (gate_) gate_->finish(farewell_max);
}

async::expected<async::descriptor> network::open(const std::string& host, std::uint16_t port,
                                                 std::chrono::steady_clock::time_point deadline) {
  auto socket = open_connection(host, port, deadline, names_);
  if (!socket) return socket;
  return gate_ ? gate_->connect(std::move(*socket), host, deadline) : await_words(std::move(*socket), deadline);
}

async::expected<caf::strong_actor_ptr> network::connect(const std::string& host, std::uint16_t port,
                                                        std::chrono::steady_clock::time_point deadline) {
  const auto broker = named_broker<caf::io::basp_broker>(caf::atom("BASP"));
  caf::scoped_actor self{system()};
  caf::expected<caf::strong_actor_ptr> out{caf::sec::request_timeout};
  const auto is = [&out](caf::sec what) { return !out && out.error() == what; };
  bool given_up = false;
  // A connection without a word from beyond is given up at the first heartbeat, which comes too early for a peer that
  // is merely busy.
  do {
    auto socket = open(host, port, deadline);
    if (!socket && given_up && std::chrono::steady_clock::now() >= deadline) break; // the first one tells more
    if (!socket) return std::move(socket).error();
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    self->request(broker, std::max(left, std::chrono::milliseconds{1}), caf::connect_atom::value,
                  multiplexer_.new_scribe(socket->release()), port)
        .receive(
            [&](const caf::node_id&, caf::strong_actor_ptr& whom, const std::set<std::string>&) {
              if (whom)
                out = std::move(whom);
              else
                out = caf::make_error(caf::sec::no_actor_published_at_port, port);
            },
            [&](caf::error& why) { out = std::move(why); });
    given_up = given_up || is(caf::sec::connection_timeout);
  } while (is(caf::sec::connection_timeout) && std::chrono::steady_clock::now() < deadline);
  if (out) return std::move(*out);
  // Behind a gate nobody has waited for a word.
  if (is(caf::sec::connection_timeout) || (given_up && is(caf::sec::request_timeout)))
    return async::error{async::error_code::down, gate_ ? "it accepts connections and says nothing"
                                                       : "it does not greet as a process of godwit would"};
  if (is(caf::sec::disconnect_during_handshake))
    return async::error{async::error_code::down,
                        "the connection ended before it had greeted as a process of godwit would"};
  if (is(caf::sec::malformed_basp_message) || is(caf::sec::incompatible_versions))
    return async::error{async::error_code::down, "what listens there is no process of godwit"};
  return async::error{async::error_code::down, system().render(out.error())};
}

} // namespace godwit::runtime::detail
