#include "main/fake_server.hpp"
#include "main/load_generator.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace godwit::main {
namespace {

using namespace std::chrono_literals;
using protocols::workload::workload_request;
using test::fake_server;
using test::script;

std::vector<workload_request> requests(std::size_t count, std::int64_t gap_ms = 0, std::uint32_t answer = 3) {
  auto out = std::vector<workload_request>(count);
  for (std::size_t i = 0; i < count; ++i) {
    out[i].arrival_ns = static_cast<std::int64_t>(i) * gap_ms * 1'000'000;
    out[i].prompt_tokens = 8;
    out[i].answer_tokens = answer;
  }
  return out;
}

load_generator::settings settings(const fake_server& server) {
  auto s = load_generator::settings{};
  s.url = server.url() + "/v1/completions";
  s.tick = 10ms;
  return s;
}

std::vector<request_record> run(
    load_generator::settings chosen, const std::vector<workload_request>& workload,
    const std::function<bool(const load_progress&)>& on_tick = [](auto&) { return true; }) {
  const auto clock = runtime::steady_clock{};
  auto generator = load_generator(std::move(chosen), prompt_writer({"fake"}), clock);
  return generator.run(workload, on_tick);
}

double since_s(std::int64_t from_ns, std::int64_t to_ns) { return static_cast<double>(to_ns - from_ns) * 1e-9; }

// Upper bounds are generous: a busy machine may be late, but nothing may be early.
TEST(LoadGenerator, SeesTheServersDelays) {
  auto server = fake_server([](const auto&, auto) {
    auto s = script{};
    s.first_delay = 100ms;
    s.gap = 50ms;
    return s;
  });
  const auto records = run(settings(server), requests(4));
  ASSERT_EQ(records.size(), 4U);
  for (const auto& r : records) {
    ASSERT_EQ(r.outcome, bench_outcome::answered) << r.error_kind << r.error_message;
    EXPECT_GE(since_s(r.started_ns, r.first_text_ns), 0.099);
    EXPECT_LT(since_s(r.started_ns, r.first_text_ns), 20.0);
    EXPECT_GE(since_s(r.first_text_ns, r.last_text_ns), 0.090);
    EXPECT_EQ(r.gaps_ms.size(), 2U);
    EXPECT_EQ(r.usage_prompt, 7U);
    EXPECT_EQ(r.tokens(), 3U);
  }
}

TEST(LoadGenerator, SendsWhenTheWorkloadSaysHoweverSlowTheServerIs) {
  auto server = fake_server([](const auto&, auto) {
    auto s = script{};
    s.first_delay = 3s;
    return s;
  });
  const auto records = run(settings(server), requests(5, 20));
  for (const auto& r : records) {
    EXPECT_GE(r.started_ns, r.scheduled_ns);
    // The fifth is due at 80 ms; a generator that waited for answers would send it after 12 s.
    EXPECT_LT(since_s(0, r.started_ns), 9.0);
  }
  EXPECT_EQ(server.running_max(), 5U);
}

TEST(LoadGenerator, NeverHasMoreInFlightThanTheBound) {
  auto server = fake_server([](const auto&, auto) {
    auto s = script{};
    s.first_delay = 30ms;
    return s;
  });
  auto s = settings(server);
  s.concurrency = 2;
  const auto records = run(s, requests(8));
  EXPECT_EQ(server.running_max(), 2U);
  EXPECT_TRUE(
      std::all_of(records.begin(), records.end(), [](const auto& r) { return r.outcome == bench_outcome::answered; }));
  // Three rounds of 30 ms before the last two.
  EXPECT_GE(since_s(records.back().scheduled_ns, records.back().started_ns), 0.089);
}

TEST(LoadGenerator, TellsFailuresApart) {
  auto server = fake_server([](const boost::json::object&, std::size_t number) {
    auto s = script{};
    switch (number % 6) {
    case 0:
      s.status = 429, s.message = "full";
      break;
    case 1:
      s.status = 500, s.message = "broken";
      break;
    case 2:
      s.end = script::ending::without_done;
      break;
    case 3:
      s.end = script::ending::broken;
      break;
    case 4:
      s.end = script::ending::error_event;
      break;
    default:
      break;
    }
    return s;
  });
  auto s = settings(server);
  s.concurrency = 1; // so that the numbers are the indices
  const auto records = run(s, requests(12));
  const auto kinds = std::vector<std::string>{"http_429", "http_500", "truncated", "disconnect", "error_event", ""};
  for (std::size_t i = 0; i < records.size(); ++i) {
    EXPECT_EQ(records[i].error_kind, kinds[i % 6]) << i;
    EXPECT_EQ(records[i].outcome == bench_outcome::answered, i % 6 == 5) << i;
  }
  EXPECT_EQ(records[0].error_message, "full");
}

TEST(LoadGenerator, GivesUpOnASilentServerAfterTheTimeout) {
  auto server = fake_server([](const auto&, auto) {
    auto s = script{};
    s.end = script::ending::silence;
    return s;
  });
  auto s = settings(server);
  s.client.total_timeout = 3s; // in which three pieces come on a busy machine, too
  const auto records = run(s, requests(2));
  for (const auto& r : records) {
    EXPECT_EQ(r.error_kind, "timeout");
    EXPECT_EQ(r.pieces, 3U);
  }
}

TEST(LoadGenerator, SaysThatNobodyListens) {
  auto s = load_generator::settings{};
  s.url = "http://127.0.0.1:1/v1/completions";
  const auto records = run(s, requests(3));
  for (const auto& r : records) EXPECT_EQ(r.error_kind, "connect") << r.error_message;
}

TEST(LoadGenerator, StopsWithWhatItHas) {
  auto server = fake_server([](const auto&, std::size_t number) {
    auto s = script{};
    if (number > 0) s.end = script::ending::silence;
    return s;
  });
  auto s = settings(server);
  s.concurrency = 2;
  const auto begin = std::chrono::steady_clock::now();
  auto last = load_progress{};
  const auto records = run(s, requests(5), [&](const load_progress& now) {
    last = now;
    return now.done == 0 || now.elapsed_s < 0.1;
  });
  EXPECT_EQ(last.done, 1U) << "what is broken off is not done";
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
  // The two that are sent first go over two connections: either may be the one that the server answers.
  const bool in_order = records[0].outcome == bench_outcome::answered;
  EXPECT_EQ(records[in_order ? 0 : 1].outcome, bench_outcome::answered);
  EXPECT_EQ(records[in_order ? 1 : 0].outcome, bench_outcome::unfinished);
  EXPECT_EQ(records[2].outcome, bench_outcome::unfinished);
  EXPECT_EQ(records[3].outcome, bench_outcome::waiting);
  EXPECT_EQ(records[4].outcome, bench_outcome::waiting);
}

TEST(LoadGenerator, ReportsItsProgressToTheEnd) {
  auto server = fake_server([](const auto&, auto) { return script{}; });
  auto last = load_progress{};
  const auto records = run(settings(server), requests(20), [&](const load_progress& now) { return last = now, true; });
  EXPECT_EQ(last.total, 20U);
  EXPECT_EQ(last.done, 20U);
  EXPECT_EQ(last.running(), 0U);
  EXPECT_EQ(last.pieces, 60U);
}

TEST(LoadGenerator, SendsEveryRequestOnceWithItsOwnPrompt) {
  auto server = fake_server([](const auto&, auto) { return script{}; });
  const auto records = run(settings(server), requests(50));
  auto prompts = std::set<std::string>{};
  for (const auto& body : server.bodies()) prompts.insert(boost::json::serialize(body.at("prompt")));
  EXPECT_EQ(server.bodies().size(), 50U);
  EXPECT_EQ(prompts.size(), 50U);
}

} // namespace
} // namespace godwit::main
