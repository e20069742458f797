#pragma once

#include "fabric/pieces.hpp"

#include <godwit/transport/fabric.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

/// The messages between two fabrics. All are headers of active messages, in the byte order of the machine (the hello
/// says which); `data` and `offer` are followed by a payload. Nothing here trusts what it reads.
namespace godwit::transport::ucx::wire {

inline constexpr std::uint64_t magic = 0x67'6f'64'77'69'74'46'42; // "godwitFB": another byte order reads otherwise
inline constexpr std::uint32_t version = 5;
inline constexpr std::size_t header_bytes_max = 4096;

/// The first message of a connection, from the side that will send blocks.
struct hello {
  std::uint32_t version = wire::version;
  std::string from;        ///< identity
  std::string to;          ///< the identity that is expected at this address
  std::uint64_t pid = 0;   ///< 0: do not try to read my memory
  std::uint64_t probe = 0; ///< the address of `from` in that process
  bool urgent = false;     ///< what it brings goes before that of others
};
struct welcome {
  std::uint8_t pull = 0; ///< the receiver can read the sender's memory
  /// It has UCX read it, where the offer has keys: 1; and one that reads by itself or not at all: 2.
  std::uint8_t reads = 0;
  /// Otherwise, where a stream for blocks may be connected to, and what to say there; 0: nowhere.
  std::uint16_t stream_port = 0;
  std::uint64_t stream_token = 0;
};
/// There will be no connection.
struct rejection {
  std::string reason;
};
/// Memory of the sender that the receiver can map: all of a file's bytes, which lie at `address` in the sender.
struct mapping {
  std::uint64_t id = 0; ///< one memory's alone, in that process; 0: there is none
  std::int32_t file = -1;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
};
/// Some bytes of a transfer: as payload, or where they lie: then the payload is a list of `remote_span`, or, of an
/// offer with keys, what `pack_keyed` makes.
struct blocks {
  bool offered = false;
  bool keyed = false;       ///< UCX is to read them; of an offer
  std::uint64_t number = 0; ///< of the message, within the connection
  transfer_key key;
  piece what;
  bool summed = false;
  std::uint64_t sum = 0;
  mapping within; ///< where they lie, of an offer
};
struct remote_span {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
};
/// Memory of the sender that UCX may read, by its key for that (`ucp_rkey_pack`), an index into those of the offer.
struct keyed_span {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::uint32_t key = 0;
};
struct keyed_list {
  std::vector<std::string> keys;
  std::vector<keyed_span> spans;
};
inline constexpr std::size_t keys_max = 4; ///< of an offer
inline constexpr std::size_t key_bytes_max = 2048;
inline constexpr std::size_t spans_max = 4096; ///< of an offer of either kind
[[nodiscard]] std::string pack_keyed(const keyed_list& list);
/// Nothing for anything that `pack_keyed` does not make within these bounds.
[[nodiscard]] std::optional<keyed_list> unpack_keyed(std::string_view payload);

/// What became of messages. `landed`: payloads are in place. `pulled`: offered memory has been read; `confirmed` is the
/// sender's answer that it had not been given up before, without which it does not count; `void_` that it had.
enum class fate : std::uint8_t { landed = 1, pulled, confirmed, void_ };
struct receipts {
  fate what = fate::landed;
  std::vector<std::uint64_t> numbers;
};
struct refusal {
  std::uint64_t number = 0;
  std::string reason;
  bool unreadable = false; ///< what the offer has keys for could not be read: offer no more of it
};
/// A sign of life is asked for, or given.
struct ping {
  bool answer = false;
};

using message = std::variant<hello, welcome, rejection, blocks, receipts, refusal, ping>;

inline constexpr std::size_t receipts_max = 64; ///< numbers in one message

[[nodiscard]] std::string encode(const message& m);
/// Nothing for anything that `encode` does not make.
[[nodiscard]] std::optional<message> decode(std::string_view bytes);

/// Over a stream headers have one size, so that bytes which follow can be read to where they belong in the same call as
/// the next header. Nothing where the message is too large.
inline constexpr std::size_t stream_header_bytes = 512;
[[nodiscard]] std::optional<std::string> pack(const message& m);
[[nodiscard]] std::optional<message> unpack(std::string_view header);

/// As of one region (fabric/checksum.hpp), of all.
[[nodiscard]] std::uint64_t checksum(const std::vector<protocols::memory_region>& regions) noexcept;

} // namespace godwit::transport::ucx::wire
