#include "main/bench_command.hpp"
#include "main/fake_server.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

namespace godwit::main {
namespace {

using namespace std::chrono_literals;
using test::fake_server;
using test::script;

struct outcome {
  int code = 0;
  std::string out;
  std::string progress;
};

outcome bench(const bench_options& options, const std::function<bool()>& stopped = {}) {
  auto out = std::ostringstream{};
  auto progress = std::ostringstream{};
  const auto code = run_bench(options, out, progress, stopped);
  return {code, out.str(), progress.str()};
}

bench_options options_for(const fake_server& server) {
  auto o = bench_options{};
  o.url = server.url();
  o.lengths = "fixed:16:4";
  o.requests = 10;
  o.json = true;
  return o;
}

boost::json::object parse(const outcome& result) {
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 1) << result.out;
  return boost::json::parse(result.out.substr(0, result.out.size() - 1)).as_object();
}

TEST(BenchCommand, PrintsOneJsonObjectAndExitsWithZero) {
  auto server = fake_server([](const auto&, auto) { return script{}; });
  const auto result = bench(options_for(server));
  EXPECT_EQ(result.code, 0) << result.progress;
  const auto report = parse(result);
  EXPECT_EQ(report.at("answered").as_int64(), 10);
  EXPECT_EQ(report.at("model").as_string(), "fake");
  EXPECT_EQ(report.at("answer_tokens").as_int64(), 40);
  EXPECT_EQ(report.at("prompt_tokens").as_int64(), 70); // the server's count
  EXPECT_TRUE(result.progress.empty()) << result.progress;
}

TEST(BenchCommand, ComputesThroughputAndGoodputOfAKnownServer) {
  auto server = fake_server([](const auto&, std::size_t number) {
    auto s = script{};
    s.first_delay = number % 2 == 0 ? 0ms : 3000ms;
    return s;
  });
  auto options = options_for(server);
  options.ttft_ms = 2900.0;
  const auto report = parse(bench(options));
  const auto duration = report.at("duration_s").as_double();
  EXPECT_GE(duration, 3.0);
  EXPECT_NEAR(report.at("requests_per_s").as_double(), 10 / duration, 1e-9);
  EXPECT_NEAR(report.at("answer_tokens_per_s").as_double(), 40 / duration, 1e-9);
  EXPECT_NEAR(report.at("goodput_requests_per_s").as_double() * duration, 5.0, 1.01);
  EXPECT_GE(report.at("ttft_ms").at("max").as_double(), 2999.0);
}

TEST(BenchCommand, ExitsWithOneWhereSomeFailedAndSaysWhy) {
  auto server = fake_server([](const auto&, std::size_t number) {
    auto s = script{};
    if (number < 3) s.status = 429, s.message = "the queue is full";
    return s;
  });
  auto options = options_for(server);
  options.json = false;
  const auto result = bench(options);
  EXPECT_EQ(result.code, 1);
  EXPECT_NE(result.out.find("7 of 10 requests answered, 3 failed"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("3 x  the queue is full"), std::string::npos) << result.out;
}

TEST(BenchCommand, NotesUsageThatIsMissingOrWrong) {
  auto server = fake_server([](const auto&, std::size_t number) {
    auto s = script{};
    s.usage = number != 0;
    s.usage_offset = number == 1 ? -1 : 0;
    return s;
  });
  const auto report = parse(bench(options_for(server)));
  EXPECT_EQ(report.at("usage_missing").as_int64(), 1);
  EXPECT_EQ(report.at("usage_mismatches").as_int64(), 1);
  EXPECT_EQ(report.at("other_lengths").as_int64(), 1);
}

TEST(BenchCommand, NamesTheServerItCannotReachAndTheMend) {
  auto options = bench_options{};
  options.url = "http://127.0.0.1:1";
  const auto result = bench(options);
  EXPECT_EQ(result.code, 1);
  EXPECT_TRUE(result.out.empty());
  EXPECT_NE(result.progress.find("http://127.0.0.1:1"), std::string::npos);
  EXPECT_NE(result.progress.find("godwit serve"), std::string::npos);
  EXPECT_EQ(std::count(result.progress.begin(), result.progress.end(), '\n'), 1);
}

TEST(BenchCommand, ExitsWithTwoForOptionsThatAreWrong) {
  auto server = fake_server([](const auto&, auto) { return script{}; });
  const auto code = [&](auto change) {
    auto options = options_for(server);
    change(options);
    return bench(options).code;
  };
  EXPECT_EQ(code([](auto& o) { o.url = "ftp://x"; }), 2);
  EXPECT_EQ(code([](auto& o) { o.lengths = "fixed:0:0"; }), 2);
  EXPECT_EQ(code([](auto& o) { o.ttft_ms = -1.0; }), 2);
  EXPECT_EQ(code([](auto& o) { o.timeout_s = -1.0; }), 2);
  EXPECT_EQ(code([](auto& o) { o.temperature = 3.0; }), 2);
  EXPECT_EQ(code([](auto& o) { o.context = 1; }), 2);
}

TEST(BenchCommand, ShortensRequestsToTheServersContext) {
  auto server =
      fake_server([](const auto&, auto) { return script{}; }, R"({"data":[{"id":"small","max_model_len":64}]})");
  auto options = options_for(server);
  options.lengths = "fixed:100:10";
  const auto report = parse(bench(options));
  EXPECT_EQ(report.at("shortened").as_int64(), 10);
  for (const auto& body : server.bodies()) {
    EXPECT_EQ(body.at("prompt").as_array().size(), 54U);
    EXPECT_EQ(body.at("max_tokens").as_int64(), 10);
  }
}

TEST(BenchCommand, WorksWithAServerThatListsNoModelsWhereOneIsNamed) {
  auto server = fake_server([](const auto&, auto) { return script{}; }, "nothing");
  auto options = options_for(server);
  EXPECT_EQ(bench(options).code, 1);
  options.model = "mine";
  options.url += "/v1/";
  EXPECT_EQ(bench(options).code, 0);
  EXPECT_EQ(server.bodies().front().at("model").as_string(), "mine");
}

const auto answers_all = [](const boost::json::object&, std::size_t) { return script{}; };
constexpr auto one_model = R"({"data":[{"id":"fake","max_model_len":4096}]})";

TEST(BenchCommand, SendsItsKeyWithEveryRequestToAServerThatWantsOne) {
  auto server = fake_server(answers_all, one_model, "sk-ours");
  auto options = options_for(server);
  options.api_key = "sk-ours";
  options.warmup = 2;
  const auto result = bench(options);
  EXPECT_EQ(result.code, 0) << result.progress;
  EXPECT_EQ(parse(result).at("answered").as_int64(), 10);
  auto expected =
      std::vector<std::string>(1 + 2 + 10, "Bearer sk-ours"); // the models, again; warm-up; the counted ones
  expected.insert(expected.begin(), "");                      // whether it wants one
  EXPECT_EQ(server.authorizations(), expected);
}

TEST(BenchCommand, KeepsItsKeyFromAServerThatWantsNone) {
  auto server = fake_server(answers_all);
  auto options = options_for(server);
  options.api_key = "sk-ours";
  EXPECT_EQ(bench(options).code, 0);
  EXPECT_EQ(server.authorizations(), std::vector<std::string>(1 + 10));
}

TEST(BenchCommand, SaysInOneLineThatAServerWantsAKeyOrTakesAnotherOne) {
  for (const auto& [key, said] :
       {std::pair("", " wants a key (HTTP 401)"), std::pair("sk-other", " does not take this key (HTTP 401)")}) {
    auto server = fake_server(answers_all, one_model, "sk-theirs");
    auto options = options_for(server);
    options.api_key = key;
    const auto result = bench(options);
    EXPECT_EQ(result.code, 1);
    EXPECT_TRUE(result.out.empty()) << result.out;
    EXPECT_NE(result.progress.find(server.url() + said), std::string::npos) << result.progress;
    EXPECT_NE(result.progress.find("OPENAI_API_KEY"), std::string::npos) << result.progress;
    EXPECT_EQ(result.progress.find("sk-"), std::string::npos) << "keys are nothing for logs: " << result.progress;
    EXPECT_EQ(std::count(result.progress.begin(), result.progress.end(), '\n'), 1) << result.progress;
    EXPECT_TRUE(server.bodies().empty());
  }
}

TEST(BenchCommand, WhereAModelIsNamedARefusedKeyIsTheErrorOfEveryRequest) {
  auto server = fake_server(answers_all, one_model, "sk-theirs");
  auto options = options_for(server);
  options.api_key = "sk-other";
  options.model = "fake";
  const auto result = bench(options);
  EXPECT_EQ(result.code, 1);
  const auto errors = parse(result).at("errors").as_object();
  EXPECT_EQ(errors.at("http_401").at("count").as_int64(), 10);
  EXPECT_EQ(errors.at("http_401").at("example").as_string(), "it is not the key");
}

TEST(BenchCommand, SpeaksToTheChatEndpoint) {
  auto server = fake_server([](const auto&, auto) { return script{}; });
  auto options = options_for(server);
  options.endpoint = bench_endpoint::chat;
  const auto report = parse(bench(options));
  EXPECT_EQ(report.at("answered").as_int64(), 10);
  EXPECT_EQ(report.at("answer_tokens").as_int64(), 40);
  EXPECT_TRUE(server.bodies().front().contains("messages"));
}

TEST(BenchCommand, WarmsUpWithOtherPromptsAndDoesNotCountThem) {
  auto server = fake_server([](const auto&, auto) { return script{}; });
  auto options = options_for(server);
  options.warmup = 3;
  const auto report = parse(bench(options));
  EXPECT_EQ(report.at("requests").as_int64(), 10);
  const auto bodies = server.bodies();
  ASSERT_EQ(bodies.size(), 13U);
  for (std::size_t i = 3; i < 13; ++i) EXPECT_NE(bodies[0].at("prompt"), bodies[i].at("prompt"));
}

TEST(BenchCommand, ReportsWhatItHasWhenItIsStopped) {
  auto server = fake_server([](const auto&, std::size_t number) {
    auto s = script{};
    if (number >= 4) s.end = script::ending::silence;
    return s;
  });
  const auto begin = std::chrono::steady_clock::now();
  auto once = false; // a signal is heard once
  const auto result = bench(options_for(server),
                            [&] { return !once && std::chrono::steady_clock::now() - begin > 2s && (once = true); });
  EXPECT_EQ(result.code, 1);
  const auto report = parse(result);
  EXPECT_EQ(report.at("answered").as_int64(), 4);
  EXPECT_EQ(report.at("unfinished").as_int64(), 6);
}

TEST(BenchCommand, SavesALineForEachRequest) {
  auto server = fake_server([](const auto&, auto) { return script{}; });
  auto options = options_for(server);
  options.save = ::testing::TempDir() + "/godwit_bench_save_" + std::to_string(::getpid()) + ".jsonl";
  EXPECT_EQ(bench(options).code, 0);
  auto in = std::ifstream(options.save);
  auto line = std::string{};
  auto lines = 0;
  for (; std::getline(in, line); ++lines) {
    const auto record = boost::json::parse(line).as_object();
    EXPECT_EQ(record.at("index").as_int64(), lines);
    EXPECT_EQ(record.at("outcome").as_string(), "answered");
    EXPECT_EQ(record.at("gaps_ms").as_array().size(), 3U);
  }
  EXPECT_EQ(lines, 10);
  std::filesystem::remove(options.save);
  options.save = "/no/such/folder/x";
  EXPECT_EQ(bench(options).code, 1);
}

TEST(BenchCommand, ShowsItsProgressAsALineThatIsWrittenOver) {
  auto server = fake_server([](const auto&, auto) { return script{}; });
  auto options = options_for(server);
  options.progress = progress_style::bar;
  const auto result = bench(options);
  EXPECT_NE(result.progress.find("10/10 done"), std::string::npos) << result.progress;
  EXPECT_EQ(result.progress.find('\n'), std::string::npos);
  EXPECT_TRUE(result.progress.ends_with("\r\x1b[K"));
}

TEST(BenchCommand, IsChosenOnTheCommandLine) {
  CLI::App app;
  auto result = command_result{};
  add_bench_command(app, result);
  app.parse("bench --url http://127.0.0.1:1 --requests 5 --rate inf --lengths 128-512 --endpoint chat --slo-ttft 5 "
            "--no-ignore-eos --json --no-progress");
  EXPECT_TRUE(result.run);
  CLI::App wrong;
  add_bench_command(wrong, result);
  EXPECT_THROW(wrong.parse("bench --trace x --arrivals uniform"), CLI::ParseError);
  EXPECT_THROW(wrong.parse("bench --endpoint embeddings"), CLI::ParseError);
  EXPECT_THROW(wrong.parse("bench --requests 0"), CLI::ParseError);
  EXPECT_THROW(wrong.parse("bench --seed 18446744073709551616"), CLI::ParseError);
  EXPECT_THROW(wrong.parse("bench --slo-ttft 500h"), CLI::ParseError);
}

} // namespace
} // namespace godwit::main
