#include "actor/packets.hpp"

#include <caf/io/basp/header.hpp>
#include <caf/io/basp/message_type.hpp>
#include <caf/message_id.hpp>
#include <caf/node_id.hpp>

#include <algorithm>
#include <array>

namespace godwit::runtime::detail {

using caf::io::basp::message_type;
using namespace std::string_view_literals;

namespace {

/// Of what CAF itself says: some hundreds, as a rule.
constexpr std::uint32_t system_bytes_max = std::uint32_t{64} << 10U;

/// A node's id: which kind, always this one, and what it is drawn from.
constexpr auto node_kind = static_cast<std::uint64_t>(caf::node_id::default_data::class_id);
constexpr std::size_t node_bytes = sizeof node_kind + sizeof(std::uint32_t) + caf::node_id::default_data::host_id_size;

/// A message's types stand before their values, behind two zeros and the length of that list. An empty one is in every
/// error. The others: a system asks the other one for its spawn server and answers; errors of requests, which
/// may have words; links; ends.
constexpr auto types_begin = "@<>"sv;
constexpr std::array types_of_systems{"@<>"sv,
                                      "@<>+@atom+@atom+@str"sv,
                                      "@<>+@atom+@str+@strong_actor_ptr+@str"sv,
                                      "@<>+@error"sv,
                                      "@<>+@str"sv,
                                      "@<>+@atom+@strong_actor_ptr"sv,
                                      "@<>+@exit"sv,
                                      "@<>+@down"sv};

/// No stages, two zeros, the length of the one type's name, the name.
constexpr auto envelope_begin = "\0\0\0\x13@<>+godwit.envelope"sv;
static_assert(envelope_begin.size() == 4 + 0x13);

std::uint64_t number(const char* bytes, std::size_t count) {
  std::uint64_t out = 0;
  for (std::size_t i = 0; i < count; ++i) out = out << 8U | static_cast<std::uint8_t>(bytes[i]);
  return out;
}

bool is(const packet_header& header, message_type what) { return header.operation == static_cast<std::uint8_t>(what); }

bool is_envelope(const packet_header& header, std::string_view payload) {
  if (is(header, message_type::direct_message)) return payload.starts_with(envelope_begin);
  if (!is(header, message_type::routed_message) || payload.size() < 2 * node_bytes) return false;
  const auto* from = payload.data();
  const auto* to = from + node_bytes;
  return number(from, sizeof node_kind) == node_kind && number(to, sizeof node_kind) == node_kind &&
         payload.substr(2 * node_bytes).starts_with(envelope_begin);
}

/// Messages lie within messages, as in errors. Wherever CAF would find one, a list of types is found here.
bool has_types_of_systems_only(std::string_view payload) {
  for (auto at = payload.find(types_begin); at != payload.npos; at = payload.find(types_begin, at + 1)) {
    // A length of more bytes than one would not have a zero before its last.
    if (at < 3 || payload[at - 3] != 0 || payload[at - 2] != 0) return false;
    const auto list = payload.substr(at, static_cast<std::uint8_t>(payload[at - 1]));
    if (std::ranges::find(types_of_systems, list) == types_of_systems.end()) return false;
  }
  return true;
}

} // namespace

packet_header::packet_header(const char* bytes)
    : operation(static_cast<std::uint8_t>(bytes[0])), payload_bytes(static_cast<std::uint32_t>(number(bytes + 4, 4))),
      data(number(bytes + 8, 8)) {}

bool packet_header::is_harmless() const {
  if (is(*this, message_type::direct_message) || is(*this, message_type::routed_message))
    return payload_bytes != 0 && !caf::make_message_id(data).is_stream_message();
  return payload_bytes <= system_bytes_max && (payload_bytes != 0 || is(*this, message_type::heartbeat));
}

bool is_harmless(const packet_header& header, std::string_view payload) {
  if (is_envelope(header, payload)) return true;
  return payload.size() <= system_bytes_max && has_types_of_systems_only(payload);
}

} // namespace godwit::runtime::detail
