#pragma once

#include "ucx/context.hpp"
#include "ucx/stream_writer.hpp"
#include "ucx/wire.hpp"

#include <deque>
#include <map>
#include <optional>
#include <string_view>
#include <unordered_map>

namespace godwit::transport::ucx {

/// A send, as its caller asked for it.
struct order {
  std::string peer;
  transfer_key key;
  piece_cutter cutter;
  transfer_priority priority = transfer_priority::bulk;
  time deadline;
  std::shared_ptr<void> keep;
  std::function<void(std::string)> done;
  std::uint32_t pieces_open = 0;
  bool device = false; ///< its memory
  /// What UCX can read all of it by; empty: it cannot. Nothing: not looked at yet.
  std::optional<std::vector<std::shared_ptr<const exposed>>> readable = {};
};

/// The sending half. Urgent sends have a connection of their own to each peer, so that they do not stand in a queue
/// behind bulk anywhere: not here, not in a socket, not at the receiver.
class sender {
public:
  explicit sender(context& shared) : shared_(shared) {}

  void submit(order what, time now);
  [[nodiscard]] bool knows(connection which) const { return by_connection_.contains(which); }
  [[nodiscard]] std::string received(connection from, const wire::message& m, time now);
  /// True: something was under way over it. `gone`: UCX says that the other side is.
  bool lost(connection which, const std::string& reason, bool gone_there = false);
  /// Fills the windows; copies one piece of what goes to this fabric itself. True: there is more of that.
  bool work(time now);
  void tick(time now);
  void stop();
  void forget() { links_.clear(); } ///< after that: what it has on loan
  [[nodiscard]] bool busy() const { return !orders_.empty(); }

private:
  struct open_piece {
    std::uint64_t order = 0;
    std::uint64_t bytes = 0;
    bool staged = false;           ///< of a device
    bool offered = false;          ///< for the receiver to read
    std::optional<time> sent = {}; ///< before that nobody can have an answer to it
    pinned_piece memory = {};      ///< which the receiver reads
    /// What UCX may read for the receiver until it has answered, or the connection is closed: it is not to be given
    /// back before, whatever has become of the order.
    std::shared_ptr<void> held = {};
  };
  /// Of a device, on its way into page-locked memory. They leave in their order.
  struct staged_piece {
    std::uint64_t stage = 0; ///< names it
    std::uint64_t order = 0;
    wire::blocks what;
    bool streamed = false;
    bool ready = false;
    pinned_piece memory;
    std::vector<protocols::memory_region> parts; ///< of that, one for each region
  };
  struct link {
    std::string peer;
    connection channel = 0;
    bool urgent = false;
    bool ready = false;
    bool pull = false;
    std::uint8_t reads = 0; ///< UCX over there would (wire::welcome)
    bool read = false;      ///< and can
    time read_asked;        ///< when that was looked at
    std::shared_ptr<stream_socket::protocol::socket> connecting;
    std::unique_ptr<stream_writer> stream;
    bool local = false; ///< to ourselves
    time made, heard, pinged, used;
    time answered;                   ///< a piece
    std::deque<std::uint64_t> queue; ///< orders of which there is something to cut
    std::map<std::uint64_t, open_piece> open;
    std::uint64_t window_used = 0;
    std::uint64_t last_number = 0;
    std::deque<staged_piece> staged;
    bool starved = false; ///< waits for page-locked memory
    /// Held by each page-locked piece that this link has on loan.
    std::shared_ptr<void> loan = std::make_shared<char>();
  };
  using link_key = std::pair<std::string, bool>;
  /// What is not larger goes as a message in any case: that is less work than to have it read.
  static constexpr std::uint64_t message_at_most = 4096;
  /// A peer whose UCX could not read is not asked to for so long, the next time for twice as long, up to a day: what is
  /// wrong is seldom mended, and each try costs a send. Once it has read again, for so long again.
  static constexpr std::chrono::minutes unreadable_for{10};

  [[nodiscard]] std::string open_link(const link_key& name, time now);
  /// Ready once it is there, or cannot be had.
  void open_stream(const link_key& name, link& to, const wire::welcome& m);
  [[nodiscard]] bool fill(const link_key& where, link& to, time now);
  /// How a piece goes: what it has, over a stream or as a message, or where it lies, for the receiver to read or to
  /// have UCX read.
  enum class way : std::uint8_t { message, stream, offer, keyed_offer };
  [[nodiscard]] way way_of(link& to, order& from, time now);
  /// Whether UCX over there reads what has keys: it says so, the connection is such, and it was not found that it
  /// fails.
  [[nodiscard]] bool read_there(link& to, time now);
  /// Looks whether UCX can read all of it.
  [[nodiscard]] bool readable(order& from) const;
  void send_piece(const link_key& where, link& to, std::uint64_t name, order& from, way how, time now);
  void offer_keyed(link& to, wire::blocks m, const std::vector<protocols::memory_region>& memory, const order& from);
  void transmit(link& to, const wire::blocks& m, std::vector<protocols::memory_region> memory, bool streamed,
                std::shared_ptr<void> keep);
  [[nodiscard]] bool may_stage(const link& to) const;
  void stage(const link_key& where, link& to, staged_piece made, std::vector<protocols::memory_region> from);
  void staged(const link_key& where, std::uint64_t stage, const std::string& error);
  /// True: there is more that could leave.
  [[nodiscard]] bool send_staged(link& to, time now);
  /// Whether there may be more to copy at once.
  [[nodiscard]] bool copy_piece(link& to);
  [[nodiscard]] bool copy_on_device(link& to, std::uint64_t name, order& from, bool into_device);
  void copied(std::uint64_t name, std::uint64_t write, std::uint64_t bytes, const std::string& error);
  void piece_done(link& of, std::uint64_t number, const std::string& error);
  void not_readable(const std::string& peer, const std::string& reason, time now);
  /// Answered by the peer: the error where it cannot have been.
  [[nodiscard]] static std::string answerable(const link& of, std::uint64_t number);
  [[nodiscard]] std::string settle(link& of, const wire::receipts& m, time now);
  void finish(std::uint64_t name, const std::string& error);
  /// Pieces of this order may still go out of its memory and count where they arrive.
  [[nodiscard]] bool may_be_read(const link_key& where, std::uint64_t name) const;
  /// The peer keeps pieces for which nobody waits any more, and answers none.
  [[nodiscard]] bool answers_nothing(const link& to, time now) const;
  /// True: it takes more.
  [[nodiscard]] bool write_stream(link& to, time now);
  void give_up(const link_key& name, const std::string& reason, bool peer_gone = false); ///< tells, closes and drops
  void drop(link_key name, const std::string& reason, bool gone_there = false);

  context& shared_;
  std::map<std::uint64_t, order> orders_;
  std::map<link_key, link> links_;
  std::unordered_map<connection, link_key> by_connection_;
  struct trouble {
    time until;
    std::chrono::minutes next{0}; ///< for how long the next time
  };
  std::map<std::string, trouble> unreadable_; ///< peers that could not read
  std::uint64_t last_order_ = 0;
  std::uint64_t last_stage_ = 0;
  std::uint64_t urgent_open_ = 0; ///< urgent orders
  time urgent_last_;              ///< when one was submitted
};

} // namespace godwit::transport::ucx
