#pragma once

#include "transport/fabric/rig.hpp"
#include "ucx/address.hpp"
#include "ucx/wire.hpp"
#include "ucx/worker.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <unistd.h>

namespace godwit::transport::testing {

/// Of one region, which is all of the posting (id, 1).
inline ucx::wire::blocks message(std::uint64_t id, std::uint64_t bytes) {
  ucx::wire::blocks m;
  m.number = id;
  m.key = {id, 1};
  m.what.bytes = bytes;
  m.what.sizes = {{bytes, 1}};
  return m;
}

/// A client of our own making, which says what it likes.
class liar final : public ucx::worker::events {
public:
  explicit liar(const std::string& address) : where(ucx::parse_address(address).value()) {
    to = worker.connect(where.host, where.port);
  }
  void connected(ucx::connection) override {}
  void received(ucx::connection, std::string_view header, std::string_view) override {
    if (const auto m = ucx::wire::decode(header)) heard.push_back(*m);
  }
  void lost(ucx::connection, const std::string&, bool) override { closed = true; }
  void say(const std::string& header, const std::string& payload = {}) { worker.send(to, header, payload, {}, {}); }
  /// `readable`: names this process as one whose memory can be read.
  void greet(bool readable = true, bool urgent = false) {
    ucx::wire::hello hello;
    hello.from = identity;
    hello.to = where.identity;
    hello.pid = readable ? static_cast<std::uint64_t>(::getpid()) : 0;
    hello.probe = reinterpret_cast<std::uint64_t>(identity.data());
    hello.urgent = urgent;
    say(ucx::wire::encode(hello));
  }
  /// How often a message of this kind was heard.
  template <class M> [[nodiscard]] std::size_t count_of() const {
    return static_cast<std::size_t>(
        std::count_if(heard.begin(), heard.end(), [](const auto& m) { return std::holds_alternative<M>(m); }));
  }
  /// Whether the fabric has taken what was said so far.
  [[nodiscard]] bool taken() {
    const auto before = count_of<ucx::wire::ping>();
    say(ucx::wire::encode(ucx::wire::ping{}));
    return until([&] { return count_of<ucx::wire::ping>() != before; });
  }
  bool until(const std::function<bool()>& condition) {
    return eventually([&] {
      while (worker.progress()) {
      }
      return condition();
    });
  }
  /// The first message of this kind that was heard, or nothing.
  template <class M> std::optional<M> heard_of() {
    std::optional<M> found;
    (void)until([&] {
      for (const auto& m : heard)
        if (!found && std::holds_alternative<M>(m)) found = std::get<M>(m);
      return found.has_value();
    });
    return found;
  }
  ucx::address where;
  std::string identity = "feedfacefeedface";
  std::vector<ucx::wire::message> heard;
  bool closed = false;
  ucx::worker worker{ucx::settings{}, *this};
  ucx::connection to = 0;
};

/// A receiver of our own making. It does what it is told within `until`, and stands still otherwise.
class listening_liar final : public ucx::worker::events {
public:
  [[nodiscard]] std::string address() const {
    return ucx::to_string(ucx::address{"127.0.0.1", worker.port(), "feedfacefeedface"});
  }
  void connected(ucx::connection) override {}
  void received(ucx::connection from, std::string_view header, std::string_view) override {
    const auto m = ucx::wire::decode(header);
    if (!m) return;
    to = from;
    if (const auto* hello = std::get_if<ucx::wire::hello>(&*m)) {
      greeting = *hello;
      ucx::wire::welcome answer;
      answer.pull = pull ? 1 : 0;
      answer.reads = reads ? 2 : 0;
      answer.stream_port = stream_port;
      say(answer);
    } else if (std::holds_alternative<ucx::wire::ping>(*m) && lives) {
      say(ucx::wire::ping{true});
    } else {
      heard.push_back(*m);
    }
  }
  void lost(ucx::connection, const std::string&, bool) override { closed = true; }
  void say(const ucx::wire::message& m) { worker.send(to, ucx::wire::encode(m), {}, {}, {}); }
  bool until(const std::function<bool()>& condition) {
    return eventually([&] {
      while (worker.progress()) {
      }
      return condition();
    });
  }
  bool pull = true;              ///< says that it reads the sender's memory
  bool reads = false;            ///< or has UCX read it
  bool lives = false;            ///< gives signs of life
  std::uint16_t stream_port = 0; ///< where it says that it takes streams
  std::optional<ucx::wire::hello> greeting;
  std::vector<ucx::wire::message> heard; ///< but for hellos
  bool closed = false;
  ucx::worker worker{ucx::settings{}, *this};
  ucx::connection to = 0; ///< the last one that said something
};

} // namespace godwit::transport::testing
