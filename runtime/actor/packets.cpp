#include "actor/packets.hpp"

#include <caf/atom.hpp>
#include <caf/io/basp/header.hpp>
#include <caf/io/basp/message_type.hpp>
#include <caf/message_id.hpp>

#include <algorithm>
#include <array>
#include <utility>

namespace godwit::runtime::detail {

namespace basp = caf::io::basp;
using namespace std::string_view_literals;

namespace {

/// Of what CAF itself says: some hundreds, as a rule.
constexpr std::uint32_t system_bytes_max = std::uint32_t{64} << 10U;

/// Messages lie in errors, which lie in messages.
constexpr unsigned depth_max = 16;

/// A node's id: which kind, always this one, and what it is drawn from.
constexpr auto node_kind = static_cast<std::uint64_t>(caf::node_id::default_data::class_id);
constexpr auto no_node = static_cast<std::uint64_t>(caf::atom(""));
constexpr std::size_t node_bytes = sizeof node_kind + sizeof(std::uint32_t) + caf::node_id::default_data::host_id_size;

/// A message's types stand before their values. An empty list is in every error. The others: a system asks the other
/// one for its spawn server and answers; errors of requests, which may have words; links; ends.
constexpr auto envelope_type = "@<>+godwit.envelope"sv;
constexpr auto types_begin = "@<>"sv;
constexpr std::array types_of_systems{"@<>"sv,
                                      "@<>+@atom+@atom+@str"sv,
                                      "@<>+@atom+@str+@strong_actor_ptr+@str"sv,
                                      "@<>+@error"sv,
                                      "@<>+@str"sv,
                                      "@<>+@atom+@strong_actor_ptr"sv,
                                      "@<>+@exit"sv,
                                      "@<>+@down"sv};

std::uint64_t number_of(std::string_view bytes) {
  std::uint64_t out = 0;
  for (const auto byte : bytes) out = out << 8U | static_cast<std::uint8_t>(byte);
  return out;
}

/// Goes through a payload as CAF's deserializer would. After what is not as it should be nothing is left.
class payload_reader {
public:
  explicit payload_reader(std::string_view payload) : left_(payload) {}

  void node() {
    if (number(sizeof node_kind) != node_kind) return fail();
    const auto rest = take(node_bytes - sizeof node_kind);
    if (ok_) nodes_.emplace_back(rest.data() - sizeof node_kind, node_bytes);
  }
  void error(unsigned depth) {
    take(sizeof(std::uint8_t) + sizeof(std::uint64_t)); // code, category
    content(depth + 1, false);
  }
  void rest() { left_ = {}; }
  /// Between actors: nothing that it is to be sent on to, and what it says.
  void message() {
    if (number(1) != 0) return fail();
    content(0, true);
  }
  /// All of it has been read and was as it should be.
  [[nodiscard]] std::optional<std::vector<std::string_view>> nodes() && {
    if (!ok_ || !left_.empty()) return {};
    return std::move(nodes_);
  }

private:
  void fail() {
    ok_ = false;
    left_ = {};
  }
  std::string_view take(std::size_t count) {
    if (count > left_.size()) {
      fail();
      return {};
    }
    const auto out = left_.substr(0, count);
    left_.remove_prefix(count);
    return out;
  }
  std::uint64_t number(std::size_t bytes) { return number_of(take(bytes)); }
  /// 32 bits, 7 in a byte, the lowest first.
  std::size_t length() {
    std::uint64_t out = 0;
    std::uint64_t byte = 0x80;
    for (unsigned shift = 0; (byte & 0x80U) != 0 && ok_; shift += 7) {
      byte = number(1);
      out |= (byte & 0x7FU) << shift;
      if (shift > 28 || out > 0xFFFF'FFFF) fail();
    }
    return ok_ ? out : 0;
  }
  std::string_view text() { return take(length()); }
  /// Or nobody, of no node.
  void actor() {
    take(sizeof(caf::actor_id));
    if (number_of(left_.substr(0, sizeof node_kind)) == no_node)
      take(sizeof node_kind);
    else
      node();
  }
  void envelope() {
    take(4 * sizeof(std::uint64_t));
    text();
    const auto actors = length();
    if (actors > envelope_actors_max) return fail();
    for (std::size_t i = 0; i < actors && ok_; ++i) actor();
  }
  void content(unsigned depth, bool outermost) {
    if (number(2) != 0 || depth > depth_max) return fail();
    const auto types = text();
    if (outermost && types == envelope_type) return envelope();
    if (left_.size() > system_bytes_max) return fail();
    if (std::ranges::find(types_of_systems, types) == types_of_systems.end()) return fail();
    for (auto rest = types.substr(types_begin.size()); !rest.empty() && ok_;) {
      const auto end = std::min(rest.find('+', 1), rest.size());
      value(rest.substr(1, end - 1), depth);
      rest.remove_prefix(end);
    }
  }
  void value(std::string_view type, unsigned depth) {
    if (type == "@atom")
      take(sizeof(std::uint64_t));
    else if (type == "@str")
      text();
    else if (type != "@error")
      actor(); // itself, or whose end it is
    if (type == "@error" || type == "@exit" || type == "@down") error(depth);
  }

  std::string_view left_;
  std::vector<std::string_view> nodes_;
  bool ok_ = true;
};

bool is(const packet_header& header, basp::message_type what) {
  return header.operation == static_cast<std::uint8_t>(what);
}

bool is_message(const packet_header& header) {
  return is(header, basp::message_type::direct_message) || is(header, basp::message_type::routed_message);
}

} // namespace

packet_header::packet_header(const char* bytes)
    : operation(static_cast<std::uint8_t>(bytes[0])),
      payload_bytes(static_cast<std::uint32_t>(number_of({bytes + 4, 4}))), data(number_of({bytes + 8, 8})) {}

bool packet_header::is_harmless() const {
  if (is_message(*this)) return payload_bytes != 0 && !caf::make_message_id(data).is_stream_message();
  return payload_bytes <= system_bytes_max && (payload_bytes != 0 || is(*this, basp::message_type::heartbeat));
}

std::optional<std::vector<std::string_view>> nodes_of_harmless(const packet_header& header, std::string_view payload) {
  payload_reader in(payload);
  switch (static_cast<basp::message_type>(header.operation)) {
  case basp::message_type::server_handshake:
    in.node();
    in.rest(); // names
    break;
  case basp::message_type::client_handshake:
    in.node();
    break;
  case basp::message_type::routed_message:
    in.node();
    in.node();
    in.message();
    break;
  case basp::message_type::direct_message:
    in.message();
    break;
  case basp::message_type::monitor_message:
    in.node();
    in.node();
    break;
  case basp::message_type::down_message:
    in.node();
    in.node();
    in.error(0);
    break;
  default:
    return {};
  }
  return std::move(in).nodes();
}

bool nodes_heard_of::admit(const std::vector<std::string_view>& nodes, std::chrono::seconds open) {
  left_ = std::min(max, left_ + static_cast<std::size_t>((open - counted_).count()));
  counted_ = open;
  for (const auto node : nodes) {
    if (!known_.emplace(node).second) continue;
    if (left_ == 0) return false;
    --left_;
  }
  return true;
}

caf::node_id node_of(std::string_view bytes) {
  bytes.remove_prefix(sizeof node_kind);
  caf::node_id::default_data::host_id_type host{};
  for (std::size_t i = 0; i < host.size(); ++i)
    host.at(i) = static_cast<std::uint8_t>(bytes.at(sizeof(std::uint32_t) + i));
  return caf::make_node_id(static_cast<std::uint32_t>(number_of(bytes.substr(0, sizeof(std::uint32_t)))), host);
}

} // namespace godwit::runtime::detail
