// A packet of the control network: whatever is let pass CAF reads from the first byte to the last.
#include "actor/envelope.hpp"
#include "actor/packets.hpp"

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/binary_deserializer.hpp>
#include <caf/error.hpp>
#include <caf/io/basp/header.hpp>
#include <caf/io/basp/message_type.hpp>
#include <caf/message.hpp>
#include <caf/node_id.hpp>
#include <caf/proxy_registry.hpp>
#include <caf/scoped_execution_unit.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

namespace {

using caf::io::basp::message_type;
using godwit::runtime::detail::envelope;
using godwit::runtime::detail::nodes_of_harmless;
using godwit::runtime::detail::packet_header;

void check(bool good) {
  if (!good) std::abort();
}

/// Other nodes' actors are nobody.
class no_proxies final : public caf::proxy_registry::backend {
public:
  caf::strong_actor_ptr make_proxy(caf::node_id, caf::actor_id) override { return {}; }
  void set_last_hop(caf::node_id*) override {}
};

class world {
public:
  world() {
    config_.add_message_type<envelope>("godwit.envelope");
    config_.set("scheduler.max-threads", std::size_t{1});
  }
  void read(const packet_header& header, std::string_view payload) {
    no_proxies nobody;
    caf::proxy_registry proxies(system_, nobody);
    caf::scoped_execution_unit unit(&system_);
    unit.proxy_registry_ptr(&proxies);
    const std::vector<char> bytes(payload.begin(), payload.end());
    caf::binary_deserializer source(&unit, bytes);
    caf::node_id from, to;
    std::vector<caf::strong_actor_ptr> stages;
    caf::message content;
    caf::error why;
    switch (static_cast<message_type>(header.operation)) {
    case message_type::server_handshake:
      check(!source(from));
      return; // names follow
    case message_type::client_handshake:
      check(!source(from));
      break;
    case message_type::direct_message:
      check(!source(stages, content) && stages.empty());
      break;
    case message_type::routed_message:
      check(!source(from, to, stages, content) && stages.empty());
      break;
    case message_type::monitor_message:
      check(!source(from, to));
      break;
    case message_type::down_message:
      check(!source(from, to, why));
      break;
    default:
      check(false);
    }
    check(source.remaining() == 0);
  }

private:
  caf::actor_system_config config_;
  caf::actor_system system_{config_};
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static auto& caf_side = *new world; // CAF's threads do not outlive its own statics
  if (size < caf::io::basp::header_size) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const packet_header header(text.data());
  const auto payload = text.substr(caf::io::basp::header_size);
  if (!header.is_harmless() || payload.empty()) return 0;
  const auto nodes = nodes_of_harmless(header, payload);
  if (!nodes) return 0;
  check(nodes->size() <= payload.size() / 32);
  for (const auto node : *nodes)
    check(node.size() == 32 && node.data() >= payload.data() &&
          node.data() + node.size() <= payload.data() + payload.size());
  caf_side.read(header, payload);
  return 0;
}
