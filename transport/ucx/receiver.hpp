#pragma once

#include "ucx/context.hpp"
#include "ucx/stream_reader.hpp"
#include "ucx/wire.hpp"

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>

namespace godwit::transport::ucx {

/// The receiving half: what comes over connections that others made.
///
/// Every write into a posting is made here, on the fabric's thread, within one call: a payload is copied out of UCX's
/// buffer, offered memory is read, so is what a stream has brought. So a withdrawal is over as soon as this thread has
/// come to it, whatever the peer does.
class receiver final : private stream_reader::events {
public:
  explicit receiver(context& shared) : shared_(shared) {}

  void connected(connection from, time now);
  [[nodiscard]] bool knows(connection which) const { return peers_.contains(which); }
  /// What is wrong with the message: the connection cannot go on. Empty otherwise.
  [[nodiscard]] std::string received(connection from, const wire::message& m, std::string_view payload, time now);
  /// The stream of a connection.
  void arrived(connection of, std::shared_ptr<stream_socket> stream);
  void lost(connection which, const std::string& reason);
  /// A pull, or some short ones, and the receipts that are due. True: there is more.
  bool work();
  void tick(time now);
  [[nodiscard]] bool busy() const { return !urgent_.empty() || !bulk_.empty(); } ///< with pulls

private:
  struct peer {
    bool greeted = false;
    bool rejected = false;
    bool urgent = false;
    std::uint64_t pid = 0; ///< 0: its memory cannot be read
    time heard;
    std::size_t queued = 0;                           ///< pulls
    std::map<std::uint64_t, std::uint64_t> unsettled; ///< number -> write: read, and not confirmed
    std::vector<std::uint64_t> landed, pulled;        ///< receipts to send
    std::uint64_t unreported = 0;                     ///< bytes of those
    bool news = false;                                ///< one was added since they were last looked at
    std::unique_ptr<stream_reader> stream;
  };
  struct pull {
    connection from = 0;
    wire::blocks what;
    std::vector<wire::remote_span> spans;
  };
  void greet(connection from, peer& who, const wire::hello& m);
  void reject(connection from, peer& who, const std::string& reason);
  [[nodiscard]] std::string place(connection from, peer& who, const wire::blocks& m, std::string_view payload);
  [[nodiscard]] std::string queue(connection from, peer& who, const wire::blocks& m, std::string_view payload);
  // What streams bring, of the connection `streaming_`.
  postings::admission begin(const wire::blocks& m) override;
  bool wanted(std::uint64_t write) override { return shared_.table.writing(write); }
  void end(const wire::blocks& m, const postings::admission& place) override;
  /// Reads some of what streams have; true: there is more.
  [[nodiscard]] bool read_streams();
  void written(connection from, peer& who, const wire::blocks& m, const postings::admission& place);
  void give_up(connection which, const std::string& reason);

  void settle(peer& who, const wire::receipts& m);
  void run(const pull& next);
  void refuse(connection to, std::uint64_t number, const std::string& reason);
  static void note(peer& who, std::vector<std::uint64_t>& receipts, const wire::blocks& m);
  void send_receipts(connection to, peer& who);
  [[nodiscard]] bool arrived_well(const wire::blocks& m, const postings::admission& place);

  context& shared_;
  std::unordered_map<connection, peer> peers_;
  std::deque<pull> urgent_, bulk_;
  std::set<connection> streams_; ///< connections that have one
  connection streaming_ = 0;     ///< whose is being read
  connection last_bulk_ = 0;
};

} // namespace godwit::transport::ucx
