#pragma once

#include "ucx/context.hpp"
#include "ucx/cross_memory.hpp"
#include "ucx/stream_reader.hpp"
#include "ucx/wire.hpp"

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace godwit::transport::ucx {

/// The receiving half: what comes over connections that others made.
///
/// Every write into a posting is made here, on the fabric's thread, within one call: a payload is copied out of UCX's
/// buffer, offered memory is read, so is what a stream has brought. So a withdrawal is over as soon as this thread has
/// come to it, whatever the peer does.
///
/// What UCX reads for us (`remote_reads`) is written by others meanwhile. It ends when the peer goes on or its
/// connection has been closed by force, which a withdrawal has it be where it takes too long.
///
/// Into a device's memory it goes by way of a page-locked piece: what this thread has written there, a copy brings to
/// its place, which ends by itself and soon, whatever the peer does. Only then it counts, and a withdrawal waits for
/// it.
class receiver final : private stream_reader::events {
public:
  explicit receiver(context& shared) : shared_(shared) {}

  void connected(connection from, time now);
  [[nodiscard]] bool knows(connection which) const { return peers_.contains(which); }
  /// What is wrong with the message: the connection cannot go on. Empty otherwise.
  [[nodiscard]] std::string received(connection from, const wire::message& m, std::string_view payload, time now);
  /// The stream of a connection.
  void arrived(connection of, std::shared_ptr<stream_socket> stream);
  /// True: something was under way over it.
  bool lost(connection which, const std::string& reason);
  /// Of a write whose posting is withdrawn. True: a copy to a device, or what UCX reads, is under way and will end it.
  [[nodiscard]] bool withdrawn(std::uint64_t write);
  /// A pull, or some short ones, and the receipts that are due. True: there is more.
  bool work();
  /// More bytes of what is being read out of a stream are on their way; some came later than `since`.
  [[nodiscard]] bool midway(time since) const;
  void tick(time now);
  [[nodiscard]] bool busy() const { return !urgent_.empty() || !bulk_.empty(); } ///< with pulls
  [[nodiscard]] bool reading() const { return !reads_.empty(); }                 ///< by UCX

private:
  struct pull {
    connection from = 0;
    wire::blocks what;
    std::vector<wire::remote_span> spans;
    wire::keyed_list keyed;                   ///< of an offer for UCX to read
    std::optional<postings::admission> place; ///< admitted, and waits for memory
  };
  struct peer {
    bool greeted = false;
    bool rejected = false;
    bool urgent = false;
    std::optional<cross_memory> memory; ///< nothing: it cannot be read
    time heard;
    std::size_t queued = 0;  ///< pulls
    std::deque<pull> keyed;  ///< for UCX to read, in their order
    std::size_t reading = 0; ///< of these, being read
    bool reads = false;      ///< the connection is such that they can be
    /// Held by each page-locked piece that is read into.
    std::shared_ptr<void> loan = std::make_shared<char>();
    std::map<std::uint64_t, std::uint64_t> unsettled; ///< number -> write: read, and not confirmed
    std::vector<std::uint64_t> landed, pulled;        ///< receipts to send
    std::uint64_t unreported = 0;                     ///< bytes of those
    bool news = false;                                ///< one was added since they were last looked at
    std::unique_ptr<stream_reader> stream;
    pinned_piece staged;               ///< what the stream brings for a device is read into this
    std::shared_ptr<void> staged_keep; ///< of the memory where it belongs
    time staged_since;                 ///< it has the piece
    std::uint64_t parked = 0;          ///< bytes
  };
  /// What UCX reads.
  struct remote_read {
    connection from = 0;
    bool urgent = false;
    bool staged = false; ///< into page-locked memory, not where it belongs
    time since;
    postings::admission place = {}; ///< where it belongs
    std::optional<time> withdrawn = {};
    bool dead = false; ///< nobody waits for it: withdrawn, and of page-locked memory alone
  };
  /// A message for a device that waits for page-locked memory. A connection may have four windows of ours of them: it
  /// ends with more, and they with it or with their posting.
  struct parked_message {
    connection from = 0;
    wire::blocks what;
    postings::admission place;
    std::string payload;
  };
  /// Whoever has our own address.
  [[nodiscard]] bool is_of_this_host(const std::string& address) const;
  void greet(connection from, peer& who, const wire::hello& m);
  void reject(connection from, peer& who, const std::string& reason);
  [[nodiscard]] std::string place(connection from, peer& who, const wire::blocks& m, std::string_view payload);
  [[nodiscard]] std::string queue(connection from, peer& who, const wire::blocks& m, std::string_view payload);
  // What streams bring, of the connection `streaming_`.
  std::optional<arrival> begin(const wire::blocks& m) override;
  bool wanted(std::uint64_t write) override { return shared_.table.writing(write); }
  void end(const wire::blocks& m, const postings::admission& place) override;
  void unwanted(const wire::blocks& m) override;
  /// Reads some of what streams have; true: there is more.
  [[nodiscard]] bool read_streams();
  void written(connection from, peer& who, const wire::blocks& m, const postings::admission& place);
  void give_up(connection which, const std::string& reason, bool gone = false);

  void settle(peer& who, const wire::receipts& m);
  /// False: it waits for memory.
  [[nodiscard]] bool run(pull& next);
  /// False: it was refused. `copied`: it is written by others than this thread.
  [[nodiscard]] bool place_pull(pull& next, bool copied);
  [[nodiscard]] bool may_read_more(const peer& who) const;
  /// By UCX. False: it waits, for memory or for others to end.
  [[nodiscard]] bool run_remote(peer& who, pull& next);
  /// Has UCX read what can be read now. True: some of it.
  [[nodiscard]] bool start_reads(time until);
  void read_ended(connection from, const wire::blocks& m, std::uint64_t write, const pinned_piece& staged,
                  const std::string& error);
  [[nodiscard]] bool run_first(std::deque<pull>& queue);
  /// Pulls, until it is so late or what is left waits for memory. True: there is more.
  [[nodiscard]] bool run_pulls(time until);
  [[nodiscard]] std::string place_on_device(connection from, peer& who, const wire::blocks& m, std::string_view payload,
                                            postings::admission place);
  void unpark();
  /// Its bytes are in `staged`; now they go where they belong.
  void scatter(connection from, const wire::blocks& m, const postings::admission& place, const pinned_piece& staged,
               bool urgent, bool pulled);
  /// `wrong`: empty, or why what was written is not right.
  void copied(connection from, const wire::blocks& m, std::uint64_t write, bool pulled, const std::string& wrong,
              bool unreadable = false);
  /// Admitted; or it cannot be, or has no room in a piece of page-locked memory, which it needs: then it is refused.
  /// What counts is where it goes: between a question and the admission somebody may post that key.
  [[nodiscard]] bool admit(connection from, const wire::blocks& m, postings::admission& place, bool copied = false);
  /// The posting is dead, and the sender hears of it.
  void fail(connection from, const wire::blocks& m, std::uint64_t write, const std::string& reason);
  void refuse(connection to, std::uint64_t number, const std::string& reason, bool unreadable = false);
  static void note(peer& who, std::vector<std::uint64_t>& receipts, const wire::blocks& m);
  void send_receipts(connection to, peer& who);
  [[nodiscard]] bool arrived_well(const wire::blocks& m, const std::vector<protocols::memory_region>& bytes);

  context& shared_;
  std::unordered_map<connection, peer> peers_;
  std::deque<pull> urgent_, bulk_;
  std::deque<parked_message> parked_urgent_, parked_bulk_;
  std::map<std::uint64_t, remote_read> reads_; ///< by the write
  std::set<connection> streams_;               ///< connections that have one
  connection streaming_ = 0;                   ///< whose is being read
  connection last_bulk_ = 0;
  connection last_read_ = 0;   ///< of those of which UCX reads
  bool streams_first_ = false; ///< in this turn
  bool pulls_first_ = false;   ///< parked messages were the last to get a piece
};

} // namespace godwit::transport::ucx
