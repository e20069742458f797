#pragma once

#include <godwit/transport/http/server.hpp>

#include "http/address_counts.hpp"
#include "http/tls.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace godwit::transport::http {

/// What all sessions of a server share. Outlives the server in the hands of those who still hold an exchange.
struct server_core {
  server_core(server_settings s, handler h) : settings(std::move(s)), on_request(std::move(h)) {}

  const server_settings settings;
  const handler on_request;
  std::atomic<bool> draining{false};
  std::atomic<bool> stopping{false};

  address_counts addresses;
  std::mutex tls_mutex;
  std::shared_ptr<ssl::context> tls; ///< null: in the clear

  std::atomic<std::uint64_t> connections{0};
  std::atomic<std::uint64_t> refusing{0};
  std::atomic<std::uint64_t> exchanges{0};
  std::atomic<std::uint64_t> requests_total{0};
  std::atomic<std::uint64_t> rejected_total{0};
  std::atomic<std::uint64_t> refused_total{0};
  std::atomic<std::uint64_t> handshakes_failed_total{0};
  std::atomic<std::uint64_t> body_bytes{0};   ///< of bodies that are being received
  std::atomic<std::uint64_t> answer_bytes{0}; ///< that wait for their readers
  std::atomic<std::uint64_t> writing{0};      ///< connections whose clients have not taken all of an answer
  std::atomic<std::uint64_t> disconnects_total{0};
  std::atomic<std::uint64_t> slow_readers_total{0};
  std::atomic<std::uint64_t> bytes_written_total{0};

  [[nodiscard]] bool too_much_waits() const noexcept {
    return answer_bytes.load(std::memory_order_relaxed) > settings.answers_bytes_max;
  }
  [[nodiscard]] response error(int status, const std::string& message, const request* head = nullptr) const;

  /// Calls the waiting `done`s if no connection is left, or if `now` is true.
  void drained(bool now = false);
  std::mutex drain_mutex;
  std::vector<std::function<void()>> on_drained;
  bool accepting_ended = false;
};

} // namespace godwit::transport::http
