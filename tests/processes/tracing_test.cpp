// Recordings of real processes: complete, merged over processes, readable after a kill, dumped when something is wrong.
#include "processes/support/answers.hpp"
#include "processes/support/godwit_processes.hpp"

#include <godwit/runtime/trace/analysis/check.hpp>
#include <godwit/runtime/trace/analysis/requests.hpp>
#include <godwit/runtime/trace/file.hpp>
#include <godwit/transport/http/client.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>

#include <unistd.h>

namespace godwit::test {

namespace analysis = runtime::trace::analysis;
namespace trace = runtime::trace;
using namespace std::chrono_literals;
using ::testing::HasSubstr;

namespace {

class Tracing : public ::testing::Test {
protected:
  struct outcome {
    int code = -1;
    std::string out, err;
  };
  void SetUp() override {
    if (!has_default_model()) GTEST_SKIP() << "built without the embedded model";
    const auto* const test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder = std::filesystem::path(::testing::TempDir()) /
             ("godwit_trace_" + std::to_string(::getpid()) + "_" + test->name());
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  [[nodiscard]] std::string path(const std::string& name) const { return (folder / name).string(); }
  /// One small instance, whose dumps come into the test's folder.
  [[nodiscard]] std::vector<std::string> small(std::vector<std::string> more = {}) const {
    std::vector<std::string> out{"--instances", "1", "--threads", "1", "--trace-dump-dir", path("dumps")};
    out.insert(out.end(), more.begin(), more.end());
    return patient(out);
  }
  static outcome run(std::vector<std::string> arguments, std::chrono::milliseconds timeout = 60s) {
    child_process command(godwit_program(), std::move(arguments));
    const auto code = command.wait_exit(timeout);
    return {code.value_or(-1), command.out(), command.err()};
  }
  static trace::recording read(const std::string& file) {
    auto read = trace::read_file(file);
    EXPECT_TRUE(read) << (read ? "" : read.error().message);
    return read ? std::move(*read) : trace::recording{};
  }
  static void ask(const served& head, std::size_t questions, std::uint32_t tokens) {
    for (const auto& answer : ask_all(head.url(), mixed_questions(questions, tokens))) EXPECT_EQ(answer.error, "");
  }
  static std::size_t count(const trace::recording& all, std::string_view part) {
    return static_cast<std::size_t>(std::ranges::count_if(
        all.events, [&](const auto& e) { return all.name_of(e).find(part) != std::string::npos; }));
  }
  static void expect_sound(const trace::recording& all, std::int64_t slack_ns = 0) {
    const analysis::index index(all);
    const auto found = check_causality(index, slack_ns);
    EXPECT_TRUE(found.sound()) << found.fault_count << " faults, " << found.missing << " missing; "
                               << (found.faults.empty() ? "" : found.faults.front());
    for (const auto& e : all.events) EXPECT_NE(e.kind, trace::event_kind::gap) << e.count << " were lost";
  }
  /// Every request has its HTTP request, and from there what is about it can be reached, but for what others ordered.
  static void expect_requests_reachable(const trace::recording& all, std::size_t at_least) {
    const analysis::index index(all);
    std::size_t seen = 0;
    for (const auto& request : analysis::model_requests(index)) {
      ++seen;
      ASSERT_NE(request.http, analysis::nowhere) << "request " << request.id;
      EXPECT_EQ(request.outcome, "200");
      const auto reached = analysis::reachable(index, request.http);
      const std::set<analysis::position> there(reached.begin(), reached.end());
      for (analysis::position p = 0; p < index.size(); ++p) {
        if (index.about(p) != request.id || there.contains(p)) continue;
        // An operator's or a policy's order to move it, or a step that several requests share, began elsewhere.
        auto root = p;
        while (index.cause(root) != analysis::nowhere) root = index.cause(root);
        const auto shared = index[root].kind == trace::event_kind::span && all.name_of(index[root]) == "http.request";
        const auto ordered = index[root].outside || index[root].message == trace::message_kind::timer ||
                             index[root].kind == trace::event_kind::spawned;
        EXPECT_TRUE(shared || ordered) << to_string(index[p].kind) << ' ' << all.name_of(index[p]) << " from "
                                       << to_string(index[root].kind) << ' ' << all.name_of(index[root]);
      }
    }
    EXPECT_GE(seen, at_least);
  }
  [[nodiscard]] std::vector<std::string> dumps() const {
    std::vector<std::string> out;
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(folder / "dumps", none))
      out.push_back(entry.path().string());
    std::sort(out.begin(), out.end());
    return out;
  }
  /// A dump is there, and whole.
  [[nodiscard]] bool wait_dump(const std::string& reason) const {
    return wait_until(10s, [&] {
      const auto all = dumps();
      return std::ranges::any_of(all, [&](const auto& file) {
        if (file.find(reason) == std::string::npos) return false;
        const auto dump = trace::read_file(file);
        return dump && dump->remarks.empty() && !dump->events.empty();
      });
    });
  }

  std::filesystem::path folder;
};

} // namespace

TEST_F(Tracing, TheDemosRecordingHasEveryMessageOfEveryRequest) {
  const auto demo = run({"demo", "--requests", "8", "--tokens", "400", "--trace", path("t.gwt")}, 120s);
  ASSERT_EQ(demo.code, 0) << demo.out << demo.err;
  EXPECT_THAT(demo.out, HasSubstr(" in " + path("t.gwt")));
  const auto all = read(path("t.gwt"));
  EXPECT_TRUE(all.remarks.empty()) << all.remarks.front();
  expect_sound(all);
  expect_requests_reachable(all, 4 * 8);
  ASSERT_EQ(all.processes.size(), 1U);
  EXPECT_EQ(all.fact(0, "command"), "demo");
  EXPECT_EQ(all.fact(0, "level"), "content");
  EXPECT_EQ(all.fact(0, "setting:instances.count"), "2");
  EXPECT_EQ(all.fact(0, "argument:1"), "demo");
  for (const char* name : {"http.request", "device.step", "fabric.transfer", "decision.dispatch", "migration.source",
                           "migration.destination", "ownership"})
    EXPECT_GT(count(all, name), 0U) << name;
}

TEST_F(Tracing, AFileThatCannotBeWrittenIsSaidAtOnce) {
  for (const auto& command : std::vector<std::vector<std::string>>{
           {"demo"}, {"serve", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0"}}) {
    auto arguments = command;
    arguments.insert(arguments.end(), {"--trace", path("no/such/folder/t.gwt")});
    const auto result = run(arguments);
    EXPECT_EQ(result.code, 2) << result.out;
    EXPECT_THAT(result.err, HasSubstr("cannot record: " + path("no/such/folder/t.gwt") + ": No such file"));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }
}

TEST_F(Tracing, TwoProcessesFilesAreOneStory) {
  {
    served head(patient({"--instances", "0", "--trace", path("head.gwt"), "--trace-dump-dir", path("dumps")}));
    ASSERT_TRUE(head.wait_ready()) << head.process.err();
    joined member(head.control(), small({"--name", "beside", "--trace", path("member.gwt")}));
    ASSERT_TRUE(member.wait_ready()) << member.process.err();
    ASSERT_TRUE(head.wait_instances(1, 10s));
    ask(head, 6, 60);
    member.process.signal(SIGTERM);
    EXPECT_EQ(member.process.wait_exit(20s), 0) << member.process.err();
    EXPECT_THAT(member.process.out(), HasSubstr(" in " + path("member.gwt")));
    head.process.signal(SIGTERM);
    EXPECT_EQ(head.process.wait_exit(20s), 0) << head.process.err();
  }
  std::vector<trace::recording> parts;
  parts.push_back(read(path("head.gwt")));
  parts.push_back(read(path("member.gwt")));
  const auto all = trace::merge(std::move(parts));
  std::set<std::string> names;
  for (const auto& process : all.processes) names.insert(process.name);
  EXPECT_TRUE(names.contains("beside"));
  expect_sound(all);
  expect_requests_reachable(all, 6);
  // A request's way through the member and back.
  const analysis::index index(all);
  std::size_t crossed = 0;
  for (analysis::position p = 0; p < index.size(); ++p)
    if (const auto cause = index.cause(p); cause != analysis::nowhere && index[cause].kind == trace::event_kind::sent &&
                                           index[cause].id.process != index[p].id.process)
      ++crossed;
  EXPECT_GT(crossed, 2 * 6U);
}

TEST_F(Tracing, AProcessThatAutoscalingStartsRecordsBesideItsHead) {
  {
    served head(small({"--trace", path("t.gwt"), "--scaling", "on", "--scaling-hold", "300ms",
                       "--scaling-instances-max", "2", "--scaling-freeness-min", "100000", "--scaling-freeness-max",
                       "200000", "--scaling-provisioner", "process"}));
    ASSERT_TRUE(head.wait_ready()) << head.process.err();
    ASSERT_TRUE(head.wait_instances(2, 30s));
    ask(head, 6, 40);
    head.process.signal(SIGTERM);
    EXPECT_EQ(head.process.wait_exit(30s), 0) << head.process.err();
  }
  std::vector<trace::recording> parts;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().filename().string().starts_with("t.gwt")) parts.push_back(read(entry.path().string()));
  ASSERT_EQ(parts.size(), 2U);
  const auto all = trace::merge(std::move(parts));
  expect_requests_reachable(all, 6);
  EXPECT_GT(count(all, "decision.scaling"), 0U);
}

TEST_F(Tracing, AKilledProcessLeavesAReadableFile) {
  served head(small({"--trace", path("t.gwt")}));
  ASSERT_TRUE(head.wait_ready()) << head.process.err();
  ask(head, 4, 40);
  round_of_answers round(head.url(), mixed_questions(4, 1500));
  ASSERT_TRUE(round.wait_tokens(200, 30s));
  const auto flushed = [&] {
    const auto so_far = trace::read_file(path("t.gwt"));
    return so_far && analysis::model_requests(analysis::index(*so_far)).size() >= 8;
  };
  ASSERT_TRUE(wait_until(20s, flushed));
  head.process.signal(SIGKILL);
  ASSERT_TRUE(head.process.wait_exit(10s));
  const auto all = read(path("t.gwt"));
  EXPECT_FALSE(all.remarks.empty()) << "its end is missing, and that is said";
  const analysis::index index(all);
  EXPECT_GE(analysis::model_requests(index).size(), 8U);
  EXPECT_EQ(check_causality(index).fault_count, 0U);
}

TEST_F(Tracing, TheClientsTraceGoesInAndOut) {
  served head(small({"--trace", path("t.gwt")}));
  ASSERT_TRUE(head.wait_ready()) << head.process.err();
  transport::http::client client;
  transport::http::client_request request;
  request.method = "POST";
  request.url = head.url() + "/v1/completions";
  request.fields = {{"Content-Type", "application/json"},
                    {"traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}};
  request.body = R"({"prompt":"A hacker is","max_tokens":5})";
  const auto fetched = client.fetch(std::move(request));
  const auto* answer = std::get_if<transport::http::client_answer>(&fetched);
  ASSERT_NE(answer, nullptr);
  EXPECT_EQ(answer->status, 200);
  const auto told = answer->fields.find("traceparent");
  ASSERT_TRUE(told);
  EXPECT_THAT(std::string(*told), ::testing::StartsWith("00-0af7651916cd43dd8448eb211c80319c-"));
  head.process.signal(SIGTERM);
  ASSERT_EQ(head.process.wait_exit(20s), 0);
  const auto all = read(path("t.gwt"));
  const auto span = std::ranges::find_if(all.events, [&](const auto& e) { return all.name_of(e) == "http.request"; });
  ASSERT_NE(span, all.events.end());
  const trace::attribute clients{"traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"};
  EXPECT_THAT(span->attributes, ::testing::Contains(clients));
  EXPECT_THAT(span->attributes, ::testing::Contains(trace::attribute{"answered", std::string(*told)}));
}

TEST_F(Tracing, AnOperatorDumpsTheLastSecondsOfAllProcesses) {
  served head(small({"--name", "head"}));
  ASSERT_TRUE(head.wait_ready()) << head.process.err();
  joined member(head.control(), small({"--name", "beside"}));
  ASSERT_TRUE(member.wait_ready()) << member.process.err();
  ASSERT_TRUE(head.wait_instances(2, 10s));
  ask(head, 8, 40);
  const auto result = run({"trace", "dump", "--control", head.control(), "--last", "60s", "--output", path("all.gwt")});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("head: "));
  EXPECT_THAT(result.out, HasSubstr("beside: "));
  EXPECT_EQ(dumps().size(), 2U) << "each process wrote its own";
  const auto all = read(path("all.gwt"));
  const analysis::index index(all);
  EXPECT_GE(analysis::model_requests(index).size(), 8U);
  EXPECT_EQ(check_causality(index).fault_count, 0U);
  std::set<std::uint32_t> processes;
  for (const auto& e : all.events) processes.insert(e.id.process);
  EXPECT_EQ(processes.size(), 2U);
  const auto wrong = run({"trace", "dump", "--control", head.control(), "--last", "soon"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("'soon' is no time"));
}

TEST_F(Tracing, WhatIsRecordedIsSwitchedWhileTheServerRuns) {
  served head(small({"--trace", path("t.gwt"), "--name", "head"}));
  ASSERT_TRUE(head.wait_ready()) << head.process.err();
  joined member(head.control(), small({"--name", "beside", "--trace", path("member.gwt")}));
  ASSERT_TRUE(member.wait_ready()) << member.process.err();
  const auto level = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"trace", "level", "--control", head.control()});
    return run(std::move(arguments));
  };
  EXPECT_EQ(level({}).out, "head: headers\nbeside: headers\n");
  EXPECT_EQ(level({"off"}).out, "head: off\nbeside: off\n");
  ask(head, 4, 20);
  EXPECT_EQ(level({"content"}).out, "head: content\nbeside: content\n");
  ask(head, 2, 20);
  EXPECT_EQ(level({"headers", "--type", "token_updates"}).code, 0);
  ask(head, 3, 20);
  EXPECT_EQ(level({"loud"}).code, 2);
  head.process.signal(SIGTERM);
  ASSERT_EQ(head.process.wait_exit(20s), 0);
  const auto all = read(path("t.gwt"));
  EXPECT_EQ(count(all, "http.request"), 5U) << "of four nothing was recorded";
  std::size_t whole = 0;
  for (const auto& e : all.events) whole += !e.text.empty() ? 1U : 0U;
  EXPECT_GT(whole, 0U) << "for a while with content";
  EXPECT_EQ(count(all, "recording"), 3U) << "the switches themselves are on record";
  const auto switched = std::ranges::find_if(all.events, [&](const auto& e) {
    return std::ranges::any_of(e.attributes, [](const auto& a) { return a.name == "keeps"; });
  });
  ASSERT_NE(switched, all.events.end());
  for (const auto& e : all.events)
    if (e.kind == trace::event_kind::delivery && all.at(e) > all.at(*switched) + 100'000'000) {
      EXPECT_THAT(all.name_of(e), HasSubstr("token_updates"));
    }
}

TEST_F(Tracing, ASignalMakesADumpAndTheServerGoesOn) {
  served head(small());
  ASSERT_TRUE(head.wait_ready()) << head.process.err();
  ask(head, 2, 20);
  head.process.signal(SIGUSR2);
  EXPECT_TRUE(wait_dump("-sigusr2.gwt"));
  ask(head, 2, 20);
  EXPECT_TRUE(head.process.running());
}

TEST_F(Tracing, ACrashLeavesADumpAndIsACrashAllTheSame) {
  for (const int number : {SIGABRT, SIGSEGV}) {
    served head(small());
    ASSERT_TRUE(head.wait_ready()) << head.process.err();
    ask(head, 2, 20);
    head.process.signal(number);
    EXPECT_EQ(head.process.wait_exit(20s), 128 + number);
    EXPECT_TRUE(wait_dump(number == SIGABRT ? "-sigabrt.gwt" : "-sigsegv.gwt"));
  }
}

TEST_F(Tracing, ASlowRequestMakesOneDumpAMinuteAtMost) {
  served head(small({"--trace-slow-request", "1ms"}));
  ASSERT_TRUE(head.wait_ready()) << head.process.err();
  auto questions = mixed_questions(1, 30);
  questions[0].request_id = "slowcoach";
  EXPECT_EQ(ask_all(head.url(), questions)[0].error, "");
  EXPECT_TRUE(wait_dump("-slow-cmpl-slowcoach.gwt"));
  ask(head, 3, 30);
  std::this_thread::sleep_for(300ms);
  EXPECT_EQ(dumps().size(), 1U);
}

TEST_F(Tracing, WithoutARecorderNothingCanBeAskedOfIt) {
  served head(small({"--trace-flight=false", "--name", "head"}));
  ASSERT_TRUE(head.wait_ready()) << head.process.err();
  const auto result = run({"trace", "level", "off", "--control", head.control()});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("head: it records nothing"));
  ask(head, 1, 20);
}

} // namespace godwit::test
