// `godwit serve` and `godwit node --join` as real processes on loopback: processes die, hang and come back in the
// middle of answers, and no client loses a token or gets one twice.
#include "processes/support/answers.hpp"
#include "processes/support/calm_answers.hpp"
#include "processes/support/godwit_processes.hpp"

#include <godwit/actors/interfaces.hpp>
#include <godwit/runtime/actor_system.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>

#include <sys/resource.h>
#include <unistd.h>

namespace godwit::test {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

namespace {

const std::vector<std::string> one_small{"--instances", "1", "--threads", "1"};

class Nodes : public ::testing::Test {
protected:
  void SetUp() override {
    if (!has_default_model()) GTEST_SKIP() << "built without the embedded model";
  }

  static const std::vector<question>& questions() {
    static const auto all = mixed_questions(12, 1300);
    return all;
  }
  /// By one process that nothing happens to.
  static const std::vector<streamed_answer>& calm() {
    static const auto answers = calm_answers(questions());
    return answers;
  }
  static void expect_calm_answers(const round_of_answers& round) {
    const auto answers = round.answers();
    for (std::size_t i = 0; i < answers.size(); ++i) {
      EXPECT_EQ(answers[i].error, "") << "request " << i;
      EXPECT_EQ(answers[i].finish, "length") << "request " << i;
      EXPECT_EQ(answers[i].usage_tokens, questions()[i].tokens) << "request " << i;
      EXPECT_EQ(answers[i].tokens.size(), questions()[i].tokens) << "request " << i;
      EXPECT_TRUE(answers[i] == calm()[i]) << "request " << i << " got another text";
    }
  }
  /// A member is told to end while it answers. What the head says of itself when all answers are there; none has
  /// changed.
  static status_page end_a_member(const std::vector<std::string>& member_arguments) {
    served head(patient(one_small));
    EXPECT_TRUE(head.wait_ready()) << head.process.err();
    joined member(head.control(), patient(member_arguments));
    EXPECT_TRUE(member.wait_ready()) << member.process.err();
    EXPECT_TRUE(head.wait_instances(2, 30s));
    (void)calm();
    round_of_answers round(head.url(), questions());
    EXPECT_TRUE(under_way(round));
    member.process.signal(SIGTERM);
    EXPECT_EQ(member.process.wait_exit(60s), 0) << member.process.err();
    EXPECT_TRUE(head.process.wait_log("it leaves", 30s));
    EXPECT_TRUE(round.wait_ended(120s));
    expect_calm_answers(round);
    auto page = head.status();
    EXPECT_TRUE(page);
    return page ? *std::move(page) : status_page{};
  }
  /// Where things happen: all answers are under way, and those of the faster process are not over.
  static bool under_way(round_of_answers& round) {
    return round.wait_tokens(questions().size() * questions()[0].tokens / 8, 60s);
  }
};

} // namespace

TEST_F(Nodes, AMembersInstancesServeLikeTheHeadsOwn) {
  // in turn: by what is free a slow one may get none
  served head(patient({"--instances", "1", "--threads", "1", "--policy", "round_robin"}));
  ASSERT_TRUE(head.wait_ready()) << head.process.err();
  joined member(head.control(), patient({"--instances", "2", "--threads", "1", "--name", "beside"}));
  ASSERT_TRUE(member.wait_ready()) << member.process.err();
  EXPECT_EQ(member.process.wait_line("joined " + head.control() + " as ", 20s), "instances 1 to 2");
  ASSERT_TRUE(head.wait_instances(3, 30s));
  round_of_answers round(head.url(), questions());
  ASSERT_TRUE(round.wait_ended(120s));
  expect_calm_answers(round);
  const auto page = head.status();
  ASSERT_TRUE(page);
  EXPECT_EQ(page->instances[1].node, "beside");
  for (const auto& instance : page->instances) EXPECT_GT(instance.generated_tokens, 0U) << page->json;
  EXPECT_EQ(page->redispatches, 0U);
}

TEST_F(Nodes, AHeadWithoutInstancesServesThroughItsMembers) {
  served head(patient({"--instances", "0"}));
  ASSERT_TRUE(head.wait_ready()) << head.process.err();
  joined member(head.control(), patient(one_small));
  ASSERT_TRUE(member.wait_ready()) << member.process.err();
  ASSERT_TRUE(head.wait_instances(1, 30s));
  round_of_answers round(head.url(), questions());
  ASSERT_TRUE(round.wait_ended(120s));
  expect_calm_answers(round);
}

TEST_F(Nodes, AMemberKilledInTheMiddleOfAnswersCostsNoTokenAndRepeatsNone) {
  served head(one_small);
  ASSERT_TRUE(head.wait_ready()) << head.process.err();
  auto member = std::make_unique<joined>(head.control(), one_small);
  ASSERT_TRUE(member->wait_ready()) << member->process.err();
  ASSERT_TRUE(head.wait_instances(2, 30s));
  (void)calm();
  round_of_answers round(head.url(), questions());
  ASSERT_TRUE(under_way(round));
  member->process.signal(SIGKILL);
  ASSERT_TRUE(head.wait_instances(1, 30s)) << "a dead member stays in the topology";
  ASSERT_TRUE(round.wait_ended(120s));
  expect_calm_answers(round);
  auto page = head.status();
  ASSERT_TRUE(page);
  EXPECT_GT(page->redispatches, 0U);
  EXPECT_EQ(page->requests_open, 0U);
  EXPECT_EQ(page->blocks_used(), 0U);

  // Another process is another member, with ids that nobody had.
  member = std::make_unique<joined>(head.control(), one_small);
  EXPECT_EQ(member->process.wait_line("joined " + head.control() + " as ", 20s), "instance 2");
  ASSERT_TRUE(head.wait_instances(2, 30s));
}

TEST_F(Nodes, AMemberThatHangsIsNoticedAndComesBackByItselfWhenItWakes) {
  served head(one_small);
  ASSERT_TRUE(head.wait_ready()) << head.process.err();
  joined member(head.control(), one_small);
  ASSERT_TRUE(member.wait_ready()) << member.process.err();
  ASSERT_TRUE(head.wait_instances(2, 30s));
  (void)calm();
  round_of_answers round(head.url(), questions());
  ASSERT_TRUE(under_way(round));
  const auto stopped = std::chrono::steady_clock::now();
  member.process.signal(SIGSTOP);
  ASSERT_TRUE(head.wait_instances(1, 30s)) << "a silent member stays in the topology";
  RecordProperty(
      "noticed_after_ms",
      std::to_string(
          std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - stopped).count()));
  // It wakes while its requests run elsewhere; what it still says about them is void.
  member.process.signal(SIGCONT);
  ASSERT_TRUE(head.wait_instances(2, 30s)) << member.process.err();
  ASSERT_TRUE(round.wait_ended(120s));
  expect_calm_answers(round);
  const auto page = head.status();
  ASSERT_TRUE(page);
  EXPECT_EQ(page->instances[1].id, 1U) << "the same process keeps its ids";
  EXPECT_EQ(page->instances[1].restarts, 1U) << "with the next generation";
  EXPECT_GT(page->redispatches, 0U);
  ASSERT_TRUE(wait_until(30s, [&] {
    const auto now = head.status();
    return now && now->blocks_used() == 0;
  }));
}

TEST_F(Nodes, AMemberOutlivesItsHeadAndServesTheNextOne) {
  auto head = std::make_unique<served>(one_small);
  ASSERT_TRUE(head->wait_ready()) << head->process.err();
  const auto control = head->control();
  joined member(control, one_small);
  ASSERT_TRUE(member.wait_ready()) << member.process.err();
  (void)calm();
  {
    round_of_answers round(head->url(), questions());
    ASSERT_TRUE(under_way(round));
    head->process.signal(SIGKILL);
    ASSERT_TRUE(round.wait_ended(120s)) << "clients of a dead head hear of it";
  }
  ASSERT_TRUE(member.process.wait_log("the head is gone", 30s));
  ASSERT_TRUE(member.process.wait_log("cannot join", 30s)) << "it says that it tries";
  head.reset();
  head = std::make_unique<served>(std::vector<std::string>{"--control", control, "--instances", "1", "--threads", "1"});
  ASSERT_TRUE(head->wait_ready()) << head->process.err();
  ASSERT_TRUE(head->wait_instances(2, 30s)) << member.process.err();
  const auto fresh = head->status();
  ASSERT_TRUE(fresh);
  EXPECT_EQ(fresh->blocks_used(), 0U) << "of the dead head's requests";
  round_of_answers round(head->url(), questions());
  ASSERT_TRUE(round.wait_ended(120s));
  expect_calm_answers(round);
}

TEST_F(Nodes, AStoppedHeadIsLeftAndJoinedAgainWhenItWakes) {
  served head(one_small);
  ASSERT_TRUE(head.wait_ready()) << head.process.err();
  joined member(head.control(), one_small);
  ASSERT_TRUE(member.wait_ready()) << member.process.err();
  (void)calm();
  round_of_answers round(head.url(), questions());
  ASSERT_TRUE(under_way(round));
  head.process.signal(SIGSTOP);
  EXPECT_TRUE(member.process.wait_log("the head is gone", 30s));
  head.process.signal(SIGCONT);
  ASSERT_TRUE(round.wait_ended(120s));
  expect_calm_answers(round);
  ASSERT_TRUE(head.wait_instances(2, 30s)) << member.process.err();
}

TEST_F(Nodes, AMemberToldToEndMovesItsRequestsFirst) {
  const auto page = end_a_member(one_small);
  EXPECT_EQ(page.redispatches, 0U) << "one was computed anew";
  EXPECT_NE(page.json.find("\"moves\":"), std::string::npos);
  EXPECT_EQ(page.json.find("\"moves\":0"), std::string::npos) << page.json;
}

TEST_F(Nodes, AMemberToldToEndThatMayNotWaitLeavesAtOnce) {
  const auto page = end_a_member({"--instances", "1", "--threads", "1", "--drain-timeout", "0s"});
  EXPECT_GT(page.redispatches, 0U);
}

TEST_F(Nodes, TheLastOneThatIsToldToEndDoesNotWait) {
  served head(patient({"--instances", "0"}));
  ASSERT_TRUE(head.wait_ready()) << head.process.err();
  joined member(head.control(), patient({"--instances", "2", "--threads", "1"}));
  ASSERT_TRUE(member.wait_ready()) << member.process.err();
  ASSERT_TRUE(head.wait_instances(2, 30s));
  member.process.signal(SIGTERM);
  EXPECT_EQ(member.process.wait_exit(30s), 0) << member.process.err();
  EXPECT_THAT(member.process.err(), HasSubstr("the last one that takes requests"));
}

// A process of a cluster connects with all the others; a shell's usual limit is 1,024.
TEST_F(Nodes, HeadAndMemberMayOpenWhatTheSystemAllows) {
  rlimit mine{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &mine), 0);
  auto less = mine;
  less.rlim_cur = std::min<rlim_t>(mine.rlim_cur, 256);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &less), 0); // which the processes inherit
  served head(patient(one_small));
  const bool served_well = head.wait_ready();
  joined member(head.control(), patient(one_small));
  const bool joined_well = served_well && member.wait_ready();
  ::setrlimit(RLIMIT_NOFILE, &mine);
  ASSERT_TRUE(joined_well) << head.process.err() << member.process.err();
  for (const auto pid : {head.process.pid(), member.process.pid()}) {
    rlimit now{};
    ASSERT_EQ(::prlimit(pid, RLIMIT_NOFILE, nullptr, &now), 0);
    EXPECT_EQ(now.rlim_cur, mine.rlim_max);
  }
}

TEST_F(Nodes, AReadyFileIsThereWhileAProcessTakesRequests) {
  const std::filesystem::path folder =
      std::filesystem::path(::testing::TempDir()) / ("godwit_ready_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const auto of_head = folder / "head", of_member = folder / "member";
  std::ofstream(of_head) << "of an earlier one\n";
  const auto with_file = [](const std::filesystem::path& file) {
    return std::vector<std::string>{"--instances", "1", "--threads", "1", "--ready-file", file.string()};
  };
  const auto there = [](const std::filesystem::path& file) { return std::filesystem::exists(file); };
  const auto comes = [&](const std::filesystem::path& file) { return wait_until(20s, [&] { return there(file); }); };
  const auto goes = [&](const std::filesystem::path& file) { return wait_until(20s, [&] { return !there(file); }); };
  {
    auto head = std::make_unique<served>(with_file(of_head));
    ASSERT_TRUE(head->process.wait_line("listening on ", 20s)) << head->process.err();
    ASSERT_TRUE(head->wait_ready()) << head->process.err();
    ASSERT_TRUE(comes(of_head));
    pid_t said = 0;
    std::ifstream(of_head) >> said;
    EXPECT_EQ(said, head->process.pid());
    const auto control = head->control();
    joined member(control, with_file(of_member));
    ASSERT_TRUE(member.wait_ready()) << member.process.err();
    EXPECT_TRUE(comes(of_member));

    head->process.signal(SIGKILL);
    EXPECT_TRUE(goes(of_member)) << "its head is lost";
    EXPECT_TRUE(there(of_head)) << "nobody removes that of a killed process, but the next one";
    head.reset();
    auto arguments = with_file(of_head);
    arguments.insert(arguments.end(), {"--instances", "0", "--control", control});
    arguments.erase(arguments.begin(), arguments.begin() + 2);
    head = std::make_unique<served>(std::move(arguments));
    ASSERT_TRUE(head->wait_ready()) << head->process.err();
    EXPECT_TRUE(comes(of_member)) << "it has joined again";
    EXPECT_TRUE(comes(of_head)) << "through the member";

    member.process.signal(SIGTERM);
    EXPECT_EQ(member.process.wait_exit(20s), 0) << member.process.err();
    EXPECT_FALSE(there(of_member));
    EXPECT_TRUE(goes(of_head)) << "nobody takes requests any more";
    head->process.signal(SIGTERM);
    EXPECT_EQ(head->process.wait_exit(20s), 0) << head->process.err();
    EXPECT_TRUE(std::filesystem::is_empty(folder));
  }
  std::filesystem::remove_all(folder);
  child_process wrong(godwit_program(), {"node", "--join", "127.0.0.1:1", "--ready-file", folder / "none"});
  EXPECT_EQ(wrong.wait_exit(20s), 2) << wrong.err();
  EXPECT_THAT(wrong.err(), HasSubstr("runtime.ready_file"));
}

TEST_F(Nodes, AHangupEndsNobodyAndOpensTheLogFilesAnew) {
  const std::filesystem::path folder =
      std::filesystem::path(::testing::TempDir()) / ("godwit_hangup_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const auto logs_to = [&](const char* name) {
    return patient({"--instances", "1", "--threads", "1", "--log-file", (folder / name).string()});
  };
  const auto read = [&](const std::string& name) {
    std::ostringstream text;
    text << std::ifstream(folder / name).rdbuf();
    return text.str();
  };
  {
    served head(logs_to("head"));
    ASSERT_TRUE(head.wait_ready()) << head.process.err();
    joined member(head.control(), logs_to("member"));
    ASSERT_TRUE(member.wait_ready()) << member.process.err();
    for (const int which : {SIGHUP, SIGUSR1})
      for (const auto& [name, process] : {std::pair("head", &head.process), std::pair("member", &member.process)}) {
        std::filesystem::rename(folder / name, folder / (std::string(name) + ".1"));
        process->signal(which);
        EXPECT_TRUE(wait_until(30s, [&, &name = name] { return read(name).find("opened anew") != std::string::npos; }))
            << name;
        EXPECT_TRUE(process->running());
      }
    EXPECT_TRUE(head.wait_instances(2, 30s));
    member.process.signal(SIGTERM);
    EXPECT_EQ(member.process.wait_exit(20s), 0) << member.process.err();
  }
  std::filesystem::remove_all(folder);
}

TEST_F(Nodes, AHeadOnAllAddressesNamesOneToJoin) {
  for (const auto& [advertised, said] :
       std::vector<std::pair<std::string, std::string>>{{"head.example", "--join head.example:"}, {"", "--join "}}) {
    served head(patient({"--instances", "0", "--control", "0.0.0.0:0", "--control-advertise", advertised}));
    ASSERT_TRUE(head.wait_ready()) << head.process.err();
    const auto printed = head.process.out();
    const auto line = printed.substr(printed.find("ready for members"));
    EXPECT_THAT(line, HasSubstr(said));
    EXPECT_EQ(line.find("0.0.0.0"), std::string::npos) << line;
  }
}

// Without TLS whoever reaches the control port can. What is left would say that it is well and serve nobody.
TEST_F(Nodes, AProcessWhoseActorsWereEndedFromOutsideEndsToo) {
  served head(patient(one_small));
  ASSERT_TRUE(head.wait_ready()) << head.process.err();
  {
    runtime::actor_system_settings settings;
    settings.network = true;
    runtime::actor_system stranger(settings);
    const auto colon = head.control().rfind(':');
    const auto node = stranger.remote<actors::node_interface>(
        head.control().substr(0, colon), static_cast<std::uint16_t>(std::stoi(head.control().substr(colon + 1))), 5s);
    ASSERT_TRUE(node) << node.error().message;
    stranger.stop(*node);
    EXPECT_EQ(head.process.wait_exit(30s), 1) << head.process.err();
  }
  EXPECT_THAT(head.process.err(), HasSubstr("its actors were ended by another process"));
}

TEST_F(Nodes, WhatCannotWorkEndsWithOneLineAndTheRightCode) {
  served head({"--instances", "1", "--threads", "1", "--model-context-max", "512"});
  ASSERT_TRUE(head.wait_ready()) << head.process.err();
  const auto expect_end = [](const std::vector<std::string>& arguments, int code, const std::string& line) {
    auto all = std::vector<std::string>{"node"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    child_process node(godwit_program(), all);
    EXPECT_EQ(node.wait_exit(20s), code) << node.err();
    EXPECT_THAT(node.err(), HasSubstr(line));
    EXPECT_EQ(node.out(), "");
  };
  expect_end({}, 2, "--join HOST:PORT is missing");
  expect_end({"--join", "nowhere"}, 2, "is not HOST:PORT");
  expect_end({"--join", head.control(), "--instances", "0"}, 2, "nothing to bring");
  expect_end({"--join", head.control(), "--listen", "127.0.0.1:0"}, 2, "unknown flag --listen");
  expect_end({"--join", head.control(), "--trace-dump-dir", "/dev/null/x"}, 2,
             "trace.dump_dir: cannot write into /dev/null");
  expect_end({"--join", head.control(), "--fabric-listen", "192.0.2.1"}, 2, "has the address 192.0.2.1");
  expect_end({"--join", head.control(), "--fabric-listen", "nowhere"}, 2, "'nowhere' is no address");
  expect_end({"--join", head.control(), "--fabric-transports", "pigeons"}, 2, "no transport of \"pigeons\" works here");
  expect_end({"--join", "127.0.0.1:1"}, 1, "cannot join 127.0.0.1:1: ");
  expect_end({"--join", head.url().substr(7)}, 1, "cannot join "); // an HTTP server
  expect_end({"--join", head.control()}, 1, "the head serves a context of 512 tokens, the member 2048");
  expect_end({"--join", head.control(), "--model-context-max", "512", "--instances-kv-type", "f32"}, 1, "KV cache");
  const auto page = head.status();
  ASSERT_TRUE(page);
  EXPECT_EQ(page->instances.size(), 1U);
  expect_end({"no/such/model", "--join", head.control()}, 2, "no/such/model");
}

} // namespace godwit::test
