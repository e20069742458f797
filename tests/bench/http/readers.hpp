#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

/// Clients that read many streams on one thread and do as little as they can: what they cost is in both figures.
namespace godwit::bench {

using bench_clock = std::chrono::steady_clock;

struct read_stream {
  std::size_t bytes = 0;
  std::size_t events = 0;
  bool whole = false;                            ///< its end came
  std::vector<bench_clock::time_point> arrivals; ///< of the events, where they were asked for
  std::string text;                              ///< where it was asked for
};
struct read_options {
  bool arrivals = false;
  bool text = false;
};
/// Opens a connection for each request, sends them all, and reads until every stream has ended or a minute has passed.
/// `seconds`: from the first byte sent to the last received.
struct read_result {
  std::vector<read_stream> streams;
  double seconds = 0;
  bool whole = false;
};
[[nodiscard]] read_result read_streams(std::uint16_t port, const std::vector<std::string>& requests,
                                       read_options options = {});

/// So many connections that say nothing; closed when this ends.
class idle_connections {
public:
  idle_connections(std::uint16_t port, std::size_t count);
  ~idle_connections();
  idle_connections(const idle_connections&) = delete;
  idle_connections& operator=(const idle_connections&) = delete;
  [[nodiscard]] std::size_t count() const noexcept { return sockets_.size(); }

private:
  std::vector<int> sockets_;
};

} // namespace godwit::bench
