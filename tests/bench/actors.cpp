// What the coroutine layer costs over bare CAF: the same messages, the same timeouts, the same number of workers, in
// turns in one process.

#include "support/allocations.hpp"
#include "support/bench.hpp"

#include <godwit/runtime/actor.hpp>
#include <godwit/runtime/actor_system.hpp>

#include <caf/all.hpp>

#include <chrono>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

constexpr int batch = 1000; // messages between two acknowledgements
constexpr int asks_per_run = 30'000;
constexpr int sends_per_run = 100'000;

struct question {
  std::uint64_t id = 0;
  std::vector<std::int32_t> tokens;
  question() = default;
  question(std::uint64_t i, std::vector<std::int32_t> t) : id(i), tokens(std::move(t)) {}
  auto fields() { return std::tie(id, tokens); }
};
struct reply {
  std::uint64_t id = 0;
  reply() = default;
  explicit reply(std::uint64_t i) : id(i) {}
  auto fields() { return std::tie(id); }
};
struct go {
  int count = 0;
  go() = default;
  explicit go(int n) : count(n) {}
  auto fields() { return std::tie(count); }
};
struct finished {
  std::uint64_t count = 0;
  finished() = default;
  explicit finished(std::uint64_t n) : count(n) {}
  auto fields() { return std::tie(count); }
};
struct acknowledge {
  acknowledge() noexcept {}
  auto fields() { return std::tie(); }
};

template <class I> typename I::result_type inspect(I& f, question& x) { return f(x.id, x.tokens); }
template <class I> typename I::result_type inspect(I& f, reply& x) { return f(x.id); }
template <class I> typename I::result_type inspect(I& f, go& x) { return f(x.count); }
template <class I> typename I::result_type inspect(I& f, finished& x) { return f(x.count); }
template <class I> typename I::result_type inspect(I& f, acknowledge&) { return f(); }

question make_question(std::uint64_t id) { return {id, {1, 2, 3, 4}}; }

// -- ours

namespace ours {
using namespace godwit::runtime;

using server_interface = interface<reply(question)>;
class server final : public actor<server_interface> {
public:
  using actor::actor;
  behavior_of<server_interface> make_behavior() override {
    return {[](question& q) { return reply{q.id + q.tokens.size()}; }};
  }
};

using driver_interface = interface<finished(go)>;
class asker final : public actor<driver_interface> {
public:
  asker(actor_context context, handle<server_interface> to) : actor(context), to_(std::move(to)) {}
  behavior_of<driver_interface> make_behavior() override {
    return {[this](go g) { return respond(run(g.count)); }};
  }

private:
  async::task<finished> run(int count) {
    std::uint64_t sum = 0;
    for (int i = 0; i < count; ++i) {
      auto x = co_await ask(to_, 5s, make_question(static_cast<std::uint64_t>(i)));
      if (x) sum += x->id;
    }
    co_return finished{sum};
  }
  handle<server_interface> to_;
};

using source_interface = interface<finished(go), void(acknowledge)>;
using sink_interface = interface<void(question)>;
class sink final : public actor<sink_interface> {
public:
  sink(actor_context context, handle<interface<void(acknowledge)>>& source) : actor(context), source_(source) {}
  behavior_of<sink_interface> make_behavior() override {
    return {[this](const question& q) {
      sum_ += q.id;
      if (++seen_ % batch == 0) tell(source_, acknowledge{});
    }};
  }

private:
  handle<interface<void(acknowledge)>>& source_;
  std::uint64_t seen_ = 0;
  std::uint64_t sum_ = 0;
};
class source final : public actor<source_interface> {
public:
  source(actor_context context, handle<sink_interface> to) : actor(context), to_(std::move(to)) {}
  behavior_of<source_interface> make_behavior() override {
    return {[this](go g) { return respond(run(g.count)); },
            [this](acknowledge) {
              if (done_) (*done_)(1);
            }};
  }

private:
  async::task<finished> run(int count) {
    for (int sent = 0; sent < count; sent += batch) {
      (void)co_await callback<int>([this](completer<int> c) {
        done_.emplace(std::move(c));
        for (int i = 0; i < batch; ++i) tell(to_, make_question(static_cast<std::uint64_t>(i)));
      });
    }
    co_return finished{static_cast<std::uint64_t>(count)};
  }
  handle<sink_interface> to_;
  std::optional<completer<int>> done_;
};
} // namespace ours

// -- bare CAF

namespace bare {
using server_type = caf::typed_actor<caf::replies_to<question>::with<reply>>;
class server final : public server_type::base {
public:
  explicit server(caf::actor_config& c) : server_type::base(c) {}
  behavior_type make_behavior() override {
    return {[](question& q) { return reply{q.id + q.tokens.size()}; }};
  }
};

using driver_type = caf::typed_actor<caf::replies_to<go>::with<finished>>;
class asker final : public driver_type::base {
public:
  asker(caf::actor_config& c, server_type to, caf::duration timeout)
      : driver_type::base(c), to_(std::move(to)), timeout_(timeout) {}
  behavior_type make_behavior() override {
    return {[this](go g) -> caf::result<finished> {
      left_ = g.count;
      sum_ = 0;
      promise_ = make_response_promise<finished>();
      next();
      return promise_;
    }};
  }

private:
  void next() {
    if (left_-- == 0) {
      promise_.deliver(finished{sum_});
      return;
    }
    request(to_, timeout_, make_question(static_cast<std::uint64_t>(left_)))
        .then(
            [this](reply& r) {
              sum_ += r.id;
              next();
            },
            [this](caf::error&) { next(); });
  }
  server_type to_;
  caf::duration timeout_;
  int left_ = 0;
  std::uint64_t sum_ = 0;
  caf::typed_response_promise<finished> promise_;
};

using source_type = caf::typed_actor<caf::replies_to<go>::with<finished>, caf::reacts_to<acknowledge>>;
using sink_type = caf::typed_actor<caf::reacts_to<question>>;
class sink final : public sink_type::base {
public:
  sink(caf::actor_config& c, source_type& source) : sink_type::base(c), source_(source) {}
  behavior_type make_behavior() override {
    return {[this](const question& q) {
      sum_ += q.id;
      if (++seen_ % batch == 0) send(source_, acknowledge{});
    }};
  }

private:
  source_type& source_;
  std::uint64_t seen_ = 0;
  std::uint64_t sum_ = 0;
};
class source final : public source_type::base {
public:
  source(caf::actor_config& c, sink_type to) : source_type::base(c), to_(std::move(to)) {}
  behavior_type make_behavior() override {
    return {[this](go g) -> caf::result<finished> {
              left_ = total_ = g.count;
              promise_ = make_response_promise<finished>();
              next();
              return promise_;
            },
            [this](acknowledge) { next(); }};
  }

private:
  void next() {
    if (left_ <= 0) {
      promise_.deliver(finished{static_cast<std::uint64_t>(total_)});
      return;
    }
    left_ -= batch;
    for (int i = 0; i < batch; ++i) send(to_, make_question(static_cast<std::uint64_t>(i)));
  }
  sink_type to_;
  int left_ = 0;
  int total_ = 0;
  caf::typed_response_promise<finished> promise_;
};

struct config : caf::actor_system_config {
  explicit config(std::size_t workers, bool stealing) {
    add_message_type<question>("question");
    add_message_type<reply>("reply");
    add_message_type<go>("go");
    add_message_type<finished>("finished");
    add_message_type<acknowledge>("acknowledge");
    set("scheduler.max-threads", workers);
    set("scheduler.policy", stealing ? caf::atom("stealing") : caf::atom("sharing"));
  }
};

template <class Handle> void run(caf::actor_system& system, const Handle& driver, int count) {
  caf::scoped_actor self{system};
  self->request(driver, caf::infinite, go{count}).receive([](finished&) {}, [](caf::error&) { std::abort(); });
}
} // namespace bare

/// Nanoseconds for each of `count`, and how often memory was allocated for each.
struct cost {
  double ns = 0;
  double allocations = 0;
};
template <class F> cost measure(int count, F&& run) {
  const auto before = godwit::bench::allocations();
  const auto begin = steady_clock::now();
  run();
  const std::chrono::duration<double, std::nano> elapsed = steady_clock::now() - begin;
  return {elapsed.count() / count, static_cast<double>(godwit::bench::allocations() - before) / count};
}

godwit::runtime::actor_system_settings settings(std::uint32_t workers, bool stealing) {
  godwit::runtime::actor_system_settings s;
  s.worker_threads = workers;
  s.policy = stealing ? godwit::runtime::actor_system_settings::policy_kind::stealing
                      : godwit::runtime::actor_system_settings::policy_kind::sharing;
  return s;
}

void bench_asks(godwit::bench::session& session) {
  godwit::runtime::actor_system a{settings(1, false)};
  bare::config config{1, false};
  caf::actor_system b{config};
  auto driver = a.spawn<ours::asker>(a.spawn<ours::server>());
  auto bare_driver = b.spawn<bare::asker>(b.spawn<bare::server>(), caf::duration{5s});
  std::vector<double> ours_allocations;
  std::vector<double> bare_allocations;
  const auto c = godwit::bench::interleave(
      session.repetitions(),
      [&] {
        const auto x = measure(asks_per_run, [&] { (void)a.ask(driver, 60s, go{asks_per_run}); });
        ours_allocations.push_back(x.allocations);
        return x.ns;
      },
      [&] {
        const auto x = measure(asks_per_run, [&] { bare::run(b, bare_driver, asks_per_run); });
        bare_allocations.push_back(x.allocations);
        return x.ns;
      });
  session.add(godwit::bench::compare("actors/ask", c, "ns", godwit::bench::figure::direction::at_most, 1.10));
  const auto mine = godwit::bench::median(ours_allocations);
  const auto theirs = godwit::bench::median(bare_allocations);
  godwit::bench::figure f;
  f.name = "actors/ask_allocations";
  f.value = mine;
  f.unit = "per ask";
  f.reference = theirs + 1; // the goal: at most one beyond CAF's own
  f.ratio = mine / (theirs + 1);
  f.goal = godwit::bench::figure::goal_type{godwit::bench::figure::direction::at_most, 1, mine / (theirs + 1)};
  session.add(f);
}

/// Against CAF without a timeout, which nobody should use: what is left when its clock is out of the picture.
void bench_asks_untimed(godwit::bench::session& session) {
  godwit::runtime::actor_system a{settings(1, false)};
  bare::config config{1, false};
  caf::actor_system b{config};
  auto driver = a.spawn<ours::asker>(a.spawn<ours::server>());
  auto bare_driver = b.spawn<bare::asker>(b.spawn<bare::server>(), caf::infinite);
  const auto c = godwit::bench::interleave(
      session.repetitions(),
      [&] { return measure(asks_per_run, [&] { (void)a.ask(driver, 60s, go{asks_per_run}); }).ns; },
      [&] { return measure(asks_per_run, [&] { bare::run(b, bare_driver, asks_per_run); }).ns; });
  session.add(
      godwit::bench::compare("actors/ask_against_untimed", c, "ns", godwit::bench::figure::direction::at_most, 1.10));
}

void bench_tells(godwit::bench::session& session) {
  godwit::runtime::actor_system a{settings(1, false)};
  bare::config config{1, false};
  caf::actor_system b{config};
  godwit::runtime::handle<godwit::runtime::interface<void(acknowledge)>> back;
  auto source = a.spawn<ours::source>(a.spawn<ours::sink>(back));
  back = source;
  bare::source_type bare_back;
  auto bare_source = b.spawn<bare::source>(b.spawn<bare::sink>(bare_back));
  bare_back = bare_source;
  const auto c = godwit::bench::interleave(
      session.repetitions(),
      [&] { return measure(sends_per_run, [&] { (void)a.ask(source, 60s, go{sends_per_run}); }).ns; },
      [&] { return measure(sends_per_run, [&] { bare::run(b, bare_source, sends_per_run); }).ns; });
  session.add(
      godwit::bench::compare("actors/fire_and_forget", c, "ns", godwit::bench::figure::direction::at_most, 1.05));
  bare_back = nullptr;
  back = nullptr;
}

/// From an idle system's outside: a thread asks and sleeps in between, as I/O threads and devices do.
double wake_up_us(bool stealing) {
  godwit::runtime::actor_system a{settings(2, stealing)};
  auto server = a.spawn<ours::server>();
  std::vector<double> times;
  for (int i = 0; i < 200; ++i) {
    std::this_thread::sleep_for(1ms);
    const auto begin = steady_clock::now();
    (void)a.ask(server, 5s, make_question(1));
    const std::chrono::duration<double, std::micro> elapsed = steady_clock::now() - begin;
    times.push_back(elapsed.count());
  }
  return godwit::bench::median(times);
}

void bench_wake_up(godwit::bench::session& session) {
  const auto c = godwit::bench::interleave(
      std::min(session.repetitions(), 5), [] { return wake_up_us(false); }, [] { return wake_up_us(true); });
  godwit::bench::figure f; // sharing against stealing: the reason for the default, no goal
  f.name = "actors/wake_up_from_outside";
  f.value = c.ours;
  f.unit = "us";
  f.reference = c.reference;
  f.ratio = c.ratio;
  session.add(f);
}

} // namespace

int main(int argc, char** argv) {
  godwit::bench::session session{argc, argv, 21};
  if (session.wants("actors/ask") || session.wants("actors/ask_allocations")) bench_asks(session);
  if (session.wants("actors/ask_against_untimed")) bench_asks_untimed(session);
  if (session.wants("actors/fire_and_forget")) bench_tells(session);
  if (session.wants("actors/wake_up_from_outside")) bench_wake_up(session);
  return session.result();
}
