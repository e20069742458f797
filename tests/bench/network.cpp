// What TLS between two systems costs: the same messages over loopback, in turns in one process.

#include "support/bench.hpp"

#include "../support/certificates.hpp"

#include <godwit/runtime/actor.hpp>
#include <godwit/runtime/actor_system.hpp>
#include <godwit/transport/tls/gate.hpp>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>
#include <tuple>

namespace {

using namespace std::chrono_literals;
using namespace godwit::runtime;
using godwit::bench::figure;
using std::chrono::steady_clock;

struct burden {
  std::string bytes;
  burden() = default;
  explicit burden(std::size_t size) : bytes(size, 'x') {}
  auto fields() { return std::tie(bytes); }
};
struct weight {
  std::uint64_t bytes = 0;
  weight() = default;
  explicit weight(std::uint64_t b) : bytes(b) {}
  auto fields() { return std::tie(bytes); }
};

using scales_interface = interface<weight(burden)>;
class scales final : public actor<scales_interface> {
public:
  using actor::actor;
  behavior_of<scales_interface> make_behavior() override {
    return {[](const burden& b) { return weight{b.bytes.size()}; }};
  }
};

[[noreturn]] void fail(const std::string& why) {
  std::cerr << "bench_network: " << why << '\n';
  std::exit(1);
}

actor_system_settings networked(const std::optional<godwit::transport::tls::node_files>& tls) {
  actor_system_settings s;
  s.worker_threads = 2;
  s.network = true;
  s.connection_timeout = 30s;
  if (tls) {
    auto gate = godwit::transport::tls::make_gate(*tls);
    if (!gate) fail(gate.error().message);
    s.gate = std::move(*gate);
  }
  return s;
}

/// Two systems, and what one asks of the other.
class pair {
public:
  explicit pair(const std::optional<godwit::transport::tls::node_files>& tls)
      : there_(networked(tls)), here_(networked(tls)) {
    const auto port = there_.publish(there_.spawn<scales>(), "127.0.0.1", 0);
    if (!port) fail(port.error().message);
    auto found = here_.remote<scales_interface>("127.0.0.1", *port);
    if (!found) fail(found.error().message);
    scales_ = std::move(*found);
  }
  /// Microseconds an ask.
  double ask(int count, std::size_t bytes) {
    const auto begin = steady_clock::now();
    for (int i = 0; i < count; ++i)
      if (auto answer = here_.ask(scales_, 30s, burden{bytes}); !answer) fail(answer.error().message);
    return std::chrono::duration<double, std::micro>(steady_clock::now() - begin).count() / count;
  }

private:
  actor_system there_;
  actor_system here_;
  handle<scales_interface> scales_;
};

} // namespace

int main(int argc, char** argv) {
  godwit::bench::session session{argc, argv, 11};
  const godwit::test::authority own{"bench"};
  own.sign("node", "IP:127.0.0.1");
  pair in_tls{godwit::transport::tls::node_files{own.certificate_of("node"), own.key_of("node"), own.file()}};
  pair in_the_clear{std::nullopt};
  const auto compare = [&](const char* name, int count, std::size_t bytes) {
    if (!session.wants(name)) return;
    const auto c = godwit::bench::interleave(
        session.repetitions(), [&] { return in_tls.ask(count, bytes); },
        [&] { return in_the_clear.ask(count, bytes); });
    figure f; // against the clear; no goal
    f.name = name;
    f.value = c.ours;
    f.unit = "us";
    f.reference = c.reference;
    f.ratio = c.ratio;
    session.add(f);
  };
  compare("network/tls_ask", 2000, 16);
  compare("network/tls_ask_1mib", 50, std::size_t{1} << 20U);
  return session.result();
}
