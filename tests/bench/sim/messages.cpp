#include "sim/messages.hpp"

#include "sim/processor.hpp"
#include "support/ring.hpp"

#include <godwit/runtime/sim/event_log.hpp>
#include <godwit/runtime/sim/world.hpp>

#include <caf/all.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <future>
#include <memory>
#include <string>
#include <vector>

// The two programs of support/ring.hpp, and the same written for bare CAF.
namespace godwit::bench {

template <class I> typename I::result_type inspect(I& f, hop& x) { return f(x.left, x.sum); }
template <class I> typename I::result_type inspect(I& f, reply& x) { return f(x.sum); }
template <class I> typename I::result_type inspect(I& f, go& x) { return f(x.count); }

namespace {

constexpr std::uint64_t ring_actors = 64;
constexpr std::uint64_t ring_tokens = 16;
constexpr std::uint64_t ring_hops = 40'000; ///< of each token
constexpr std::uint64_t pairs = 32;
constexpr std::uint64_t pair_asks = 4'000; ///< of each pair

/// How many have ended, and a way to wait for the last one.
struct finish_line {
  void expect(std::uint64_t all) {
    left = all;
    over = std::make_unique<std::promise<void>>(); // the last one lived until now: somebody may still leave it
  }
  void begin() const noexcept {}
  void cross() {
    if (--left == 0) over->set_value();
  }
  std::uint64_t left = 0; // the actors run one at a time
  std::unique_ptr<std::promise<void>> over;
};

/// Of processor time: of one core that it has for itself.
double million_per_second(std::uint64_t messages, double processor_seconds) {
  return static_cast<double>(messages) * 1e-6 / processor_seconds;
}

// -- bare CAF

namespace bare {

using relay_type = caf::typed_actor<caf::reacts_to<hop>>;

class relay final : public relay_type::base {
public:
  relay(caf::actor_config& c, std::vector<relay_type>& ring, std::uint64_t index, finish_line& line)
      : relay_type::base(c), ring_(ring), next_((index + 1) % ring_actors), line_(line) {}
  behavior_type make_behavior() override {
    return {[this](hop& h) {
      if (h.left == 0) return line_.cross();
      send(ring_[next_], hop{h.left - 1, h.sum + next_});
    }};
  }

private:
  std::vector<relay_type>& ring_;
  std::uint64_t next_;
  finish_line& line_;
};

using server_type = caf::typed_actor<caf::replies_to<hop>::with<reply>>;

class server final : public server_type::base {
public:
  explicit server(caf::actor_config& c) : server_type::base(c) {}
  behavior_type make_behavior() override {
    return {[](hop& h) { return reply{h.sum + h.left}; }};
  }
};

using asker_type = caf::typed_actor<caf::reacts_to<go>>;

class asker final : public asker_type::base {
public:
  asker(caf::actor_config& c, server_type to, finish_line& line)
      : asker_type::base(c), to_(std::move(to)), line_(line) {}
  behavior_type make_behavior() override {
    return {[this](go g) { next(g.count, 0); }};
  }

private:
  void next(std::uint64_t left, std::uint64_t sum) {
    if (left == 0) return line_.cross();
    request(to_, caf::infinite, hop{left, sum}) // its timeouts would take a second thread
        .then([this, left](reply& r) { next(left - 1, r.sum); }, [](caf::error&) { std::abort(); });
  }
  server_type to_;
  finish_line& line_;
};

struct config : caf::actor_system_config {
  config() {
    add_message_type<hop>("hop");
    add_message_type<reply>("reply");
    add_message_type<go>("go");
    set("scheduler.max-threads", std::size_t{1});
    set("scheduler.policy", caf::atom("stealing")); // faster here than sharing
  }
};

} // namespace bare

/// Both programs in one world.
class simulated {
public:
  simulated() {
    for (std::uint64_t i = 0; i < ring_actors; ++i)
      ring_.push_back(system_.spawn<relay<finish_line>>(ring_, i, ring_hops, line_));
    for (std::uint64_t i = 0; i < pairs; ++i)
      askers_.push_back(system_.spawn<asker<finish_line>>(system_.spawn<server>(), line_));
    world_.run();
  }
  ~simulated() { ring_.clear(); }
  void log_to(runtime::sim::event_log* log) { world_.log_to(log); }

  double ring() {
    return run(ring_tokens, ring_tokens * (ring_hops + 1), [&] {
      for (std::uint64_t i = 0; i < ring_tokens; ++i)
        system_.tell(ring_[i * ring_actors / ring_tokens], hop{ring_hops, 0});
    });
  }
  double asks() {
    return run(pairs, pairs * (2 * pair_asks + 1), [&] {
      for (const auto& asker : askers_) system_.tell(asker, go{pair_asks});
    });
  }

private:
  template <class Start> double run(std::uint64_t ends, std::uint64_t messages, Start start) {
    line_.expect(ends);
    const auto steps = world_.steps();
    const auto begin = thread_seconds(); // a world has no other thread, and CAF's look for work for a while
    start();
    world_.run();
    const auto took = thread_seconds() - begin;
    if (line_.left != 0 || world_.steps() - steps != messages) std::abort(); // it would measure something else
    return million_per_second(messages, took);
  }

  finish_line line_;
  runtime::sim::world world_{1};
  runtime::sim::system system_{world_};
  std::vector<runtime::handle<relay_interface>> ring_;
  std::vector<runtime::handle<asker_interface>> askers_;
};

/// The same in CAF's own system, with its scheduler and clock.
class plain {
public:
  plain() {
    for (std::uint64_t i = 0; i < ring_actors; ++i) ring_.push_back(system_.spawn<bare::relay>(ring_, i, line_));
    for (std::uint64_t i = 0; i < pairs; ++i)
      askers_.push_back(system_.spawn<bare::asker>(system_.spawn<bare::server>(), line_));
  }
  ~plain() {
    ring_.clear();
    askers_.clear();
  }

  double ring() {
    return run(ring_tokens, ring_tokens * (ring_hops + 1), [&] {
      for (std::uint64_t i = 0; i < ring_tokens; ++i)
        caf::anon_send(ring_[i * ring_actors / ring_tokens], hop{ring_hops, 0});
    });
  }
  double asks() {
    return run(pairs, pairs * (2 * pair_asks + 1), [&] {
      for (const auto& asker : askers_) caf::anon_send(asker, go{pair_asks});
    });
  }

private:
  template <class Start> double run(std::uint64_t ends, std::uint64_t messages, Start start) {
    line_.expect(ends);
    const auto over = line_.over->get_future();
    const auto begin = processor_seconds();
    start();
    over.wait();
    return million_per_second(messages, processor_seconds() - begin);
  }

  finish_line line_;
  bare::config config_;
  caf::actor_system system_{config_};
  std::vector<bare::relay_type> ring_;
  std::vector<bare::asker_type> askers_;
};

constexpr double least_share = 0.6; ///< of bare CAF's rate

} // namespace

double caf_million_per_second() { return plain().ring(); }

void measure_messages(session& out) {
  const auto wanted = [&](const char* name) { return out.wants(name); };
  const bool plainly = wanted("sim/messages") || wanted("sim/messages_rate");
  if (!plainly && !wanted("sim/messages_asked") && !wanted("sim/messages_logged")) return;
  simulated mine;
  plain theirs;
  using way = figure::direction;
  if (plainly) {
    const auto c = interleave(
        out.repetitions(), [&] { return mine.ring(); }, [&] { return theirs.ring(); });
    out.add(compare("sim/messages", c, "million/s", way::at_least, least_share));
    figure f;
    f.name = "sim/messages_rate";
    f.value = c.ours;
    f.unit = "million/s";
    f.goal = figure::goal_type{way::at_least, 1, c.ours};
    out.add(f);
  }
  if (wanted("sim/messages_asked")) {
    const auto c = interleave(
        out.repetitions(), [&] { return mine.asks(); }, [&] { return theirs.asks(); });
    out.add(compare("sim/messages_asked", c, "million/s", way::at_least, least_share));
  }
  if (wanted("sim/messages_logged")) { // no goal: the reference is the same without a log
    runtime::sim::event_log log;
    const auto logged = [&] {
      mine.log_to(&log);
      const auto rate = mine.ring();
      mine.log_to(nullptr);
      return rate;
    };
    const auto c = interleave(out.repetitions(), logged, [&] { return mine.ring(); });
    figure f;
    f.name = "sim/messages_logged";
    f.value = c.ours;
    f.unit = "million/s";
    f.reference = c.reference;
    f.ratio = c.ratio;
    out.add(f);
  }
}

} // namespace godwit::bench
