// Autoscaling with real processes: children that come with the load, go with it and never outlive their head, and the
// commands of a cluster manager.
#include "processes/support/answers.hpp"
#include "processes/support/calm_answers.hpp"
#include "processes/support/godwit_processes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <unistd.h>

namespace godwit::test {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

namespace {

/// Processes whose parent is, or was told to be, this one.
std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> out;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const auto name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream file(entry.path() / "cmdline", std::ios::binary);
    const std::string line((std::istreambuf_iterator<char>(file)), {});
    const auto wanted = std::string("--parent") + '\0' + std::to_string(parent) + '\0';
    if (line.find(wanted) != std::string::npos) out.push_back(static_cast<pid_t>(std::stol(name)));
  }
  return out;
}

std::vector<std::string> with(std::vector<std::string> base, const std::vector<std::string>& more) {
  base.insert(base.end(), more.begin(), more.end());
  return base;
}

const std::vector<std::string> scaling{
    "--instances", "1", "--threads", "1", "--scaling", "on", "--scaling-hold", "300ms", "--scaling-instances-max", "2"};
/// Idle, an instance has a thousand free blocks; a dozen requests bring that below 100 each.
const std::vector<std::string> by_load{"--scaling-freeness-min", "200", "--scaling-freeness-max", "500"};
const std::vector<std::string> always_more{"--scaling-freeness-min", "100000", "--scaling-freeness-max", "200000"};
const std::vector<std::string> by_children{"--scaling-provisioner", "process"};

/// A path, as a shell reads it.
std::string quoted(const std::string& path) { return "'" + path + "'"; }

/// Files of a test's commands. What they have started ends with it.
class scratch {
public:
  scratch() : notes_(std::filesystem::temp_directory_path() / ("godwit_scaling_" + std::to_string(::getpid()))) {}
  scratch(const scratch&) = delete;
  scratch& operator=(const scratch&) = delete;
  ~scratch() {
    if (process_runs()) ::kill(started(), SIGKILL);
    std::filesystem::remove(notes());
    std::filesystem::remove(pid());
  }
  [[nodiscard]] std::string notes() const { return notes_.string(); }
  [[nodiscard]] std::string pid() const { return notes() + ".pid"; }
  [[nodiscard]] std::string read() const {
    std::stringstream text;
    text << std::ifstream(notes_).rdbuf();
    return text.str();
  }
  /// Not one that has ended and that nobody has waited for.
  [[nodiscard]] bool process_runs() const {
    std::error_code error;
    const auto program = std::filesystem::read_symlink("/proc/" + std::to_string(started()) + "/exe", error);
    return started() > 0 && !error && program == std::filesystem::canonical(godwit_program(), error);
  }

private:
  [[nodiscard]] pid_t started() const {
    pid_t out = 0;
    std::ifstream(pid()) >> out;
    return out;
  }
  std::filesystem::path notes_;
};

class ScalingProcesses : public ::testing::Test {
protected:
  void SetUp() override {
    if (!has_default_model()) GTEST_SKIP() << "built without the embedded model";
  }
};

} // namespace

TEST_F(ScalingProcesses, AChildComesWithTheLoadServesTheSameTextsAndGoesWithTheLoad) {
  const auto questions = mixed_questions(12, 1300);
  const auto calm = calm_answers(questions);
  served head(patient(with(scaling, with(by_load, by_children)))); // the child takes after it
  ASSERT_TRUE(head.wait_ready()) << head.process.err();
  bool seen = false; // on a busy machine the answers may be over before the child is there
  for (int attempt = 0; attempt < 10 && !seen; ++attempt) {
    round_of_answers round(head.url(), questions);
    ASSERT_TRUE(wait_until(120s, [&] {
      const auto page = head.status();
      const auto children = children_of(head.process.pid());
      if (round.wait_ended(0ms)) return true; // with the load it may have gone already
      seen = page && page->instances.size() == 2 && page->ready() == 2;
      if (!seen) return false;
      EXPECT_EQ(children.size(), 1U);
      EXPECT_THAT(page->instances[1].node, MatchesRegex("scaled-[0-9a-f]{8}-[0-9]+"));
      return true;
    })) << head.process.err();
    ASSERT_TRUE(round.wait_ended(120s));
    const auto answers = round.answers();
    for (std::size_t i = 0; i < answers.size(); ++i) {
      EXPECT_EQ(answers[i].error, "") << "request " << i;
      EXPECT_TRUE(answers[i] == calm[i]) << "request " << i << " got another text";
    }
  }
  EXPECT_TRUE(seen) << head.process.err();
  ASSERT_TRUE(head.wait_instances(1, 60s)) << "idle, one is enough: " << head.process.err();
  EXPECT_TRUE(wait_until(30s, [&] { return children_of(head.process.pid()).empty(); })) << "its process ends too";
  EXPECT_EQ(head.status()->redispatches, 0U);
}

TEST_F(ScalingProcesses, AChildEndsWithItsHeadHoweverThatEnds) {
  for (const int by : {SIGTERM, SIGKILL}) {
    served head(with(scaling, with(always_more, by_children)));
    ASSERT_TRUE(head.wait_ready()) << head.process.err();
    ASSERT_TRUE(head.wait_instances(2, 60s)) << head.process.err();
    const auto pid = head.process.pid();
    ASSERT_EQ(children_of(pid).size(), 1U);
    head.process.signal(by);
    ASSERT_TRUE(head.process.wait_exit(20s)) << head.process.err();
    EXPECT_TRUE(wait_until(30s, [&] { return children_of(pid).empty(); })) << "after signal " << by;
  }
}

// As after an upgrade of the package.
TEST_F(ScalingProcesses, AChildComesAlsoWhereTheProgramsFileIsGone) {
  const auto copy = std::filesystem::temp_directory_path() / ("godwit_gone_" + std::to_string(::getpid()));
  std::filesystem::copy_file(godwit_program(), copy, std::filesystem::copy_options::overwrite_existing);
  child_process head(copy.string(), with({"serve", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0"},
                                         with(patient(scaling), with(always_more, by_children))));
  const bool began = head.wait_line("listening on ", 20s).has_value();
  std::filesystem::remove(copy);
  ASSERT_TRUE(began) << head.err();
  EXPECT_TRUE(head.wait_log("instance 1 takes requests", 60s)) << head.err();
  EXPECT_EQ(children_of(head.pid()).size(), 1U);
  head.signal(SIGTERM);
  EXPECT_EQ(head.wait_exit(20s), 0) << head.err();
}

TEST_F(ScalingProcesses, AChildThatIsKilledIsReplaced) {
  served head(with(scaling, with(always_more, by_children)));
  ASSERT_TRUE(head.wait_ready()) << head.process.err();
  ASSERT_TRUE(head.wait_instances(2, 60s)) << head.process.err();
  ::kill(children_of(head.process.pid()).at(0), SIGKILL);
  ASSERT_TRUE(head.process.wait_log("-1 ended: signal 9", 60s)) << head.process.err();
  ASSERT_TRUE(head.process.wait_log("instance 2 takes requests", 60s)) << head.process.err();
  ASSERT_TRUE(head.wait_instances(2, 60s));
}

// The order to start what it had stopped reaches it in the moment in which it is told to end.
TEST_F(ScalingProcesses, InPlaceOfASpareInstanceWhoseMemberEndsAnotherOneComes) {
  served head(patient(with(scaling, by_load)));
  ASSERT_TRUE(head.wait_ready()) << head.process.err();
  joined member(head.control(), patient({"--instances", "1", "--threads", "1"}));
  ASSERT_TRUE(member.wait_ready()) << member.process.err();
  ASSERT_TRUE(head.process.wait_log("scaled in: instance 1 is stopped", 60s)) << "idle, it is a spare one";
  member.process.signal(SIGSTOP); // so that it gets both at once
  ASSERT_TRUE(wait_until(30s, [&] { return member.process.stopped(); }));
  round_of_answers round(head.url(), mixed_questions(10, 1500)); // longer than it takes until another one is there
  ASSERT_TRUE(head.process.wait_log("scaling out: starting instance 1", 60s)) << head.process.err();
  member.process.signal(SIGTERM);
  member.process.signal(SIGCONT);
  EXPECT_EQ(member.process.wait_exit(30s), 0) << member.process.err();
  ASSERT_TRUE(head.process.wait_log("instance 2 takes requests", 60s)) << head.process.err();
  EXPECT_TRUE(round.wait_tokens(round.tokens() + 100, 60s) || round.wait_ended(0ms)) << "answers go on";
  for (const auto& answer : round.answers()) EXPECT_EQ(answer.error, "");
  const auto page = head.status();
  ASSERT_TRUE(page);
  EXPECT_EQ(page->requests_failed, 0U);
  for (const auto& instance : page->instances) EXPECT_NE(instance.id, 1U) << "it went with its process";
  EXPECT_THAT(page->json, HasSubstr("\"provisioning\":0,")) << "nobody is waited for any more";
}

TEST_F(ScalingProcesses, CommandsAreToldWhomTheyStartAndStop) {
  const scratch files;
  ::setenv("GODWIT_INSTANCES_COUNT", "1", 1); // the head's own number, which is not that of what it has started
  {
    served head(patient(
        with(scaling, with(by_load, {"--scaling-provisioner", "command", "--scaling-command-out",
                                     "echo out $GODWIT_NODE at $GODWIT_HEAD of ${GODWIT_INSTANCES_COUNT:-one} >> " +
                                         quoted(files.notes()) + "; " + quoted(godwit_program()) +
                                         " node --join $GODWIT_HEAD --name $GODWIT_NODE --threads 1 & echo $! > " +
                                         quoted(files.pid()),
                                     "--scaling-command-in",
                                     "echo in $GODWIT_NODE instance $GODWIT_INSTANCE >> " + quoted(files.notes()) +
                                         "; kill $(cat " + quoted(files.pid()) + ")"}))));
    ::unsetenv("GODWIT_INSTANCES_COUNT");
    ASSERT_TRUE(head.wait_ready()) << head.process.err();
    {
      round_of_answers round(head.url(), mixed_questions(12, 1300));
      // In its log, since with the load it may go before anybody has seen it.
      ASSERT_TRUE(head.process.wait_log("instance 1 takes requests", 60s)) << head.process.err();
      const auto notes = files.read();
      EXPECT_THAT(notes.substr(0, notes.find('\n')),
                  MatchesRegex("out scaled-[0-9a-f]{8}-1 at " + head.control() + " of one"));
      ASSERT_TRUE(round.wait_ended(120s));
    }
    ASSERT_TRUE(head.wait_instances(1, 60s)) << head.process.err();
    const auto told = [&] { return files.read().find("-1 instance 1\n") != std::string::npos; };
    EXPECT_TRUE(wait_until(30s, told)) << files.read();
    EXPECT_TRUE(wait_until(30s, [&] { return !files.process_runs(); }));
  }
}

TEST_F(ScalingProcesses, ACommandThatFailsIsSaidAndTriedAgainAfterTheHold) {
  served head(
      with(scaling, with(always_more, {"--scaling-provisioner", "command", "--scaling-command-out", "exit 3"})));
  ASSERT_TRUE(head.wait_ready()) << head.process.err();
  ASSERT_TRUE(head.process.wait_log("-2 after ", 60s)) << head.process.err();
  EXPECT_THAT(head.process.err(), HasSubstr("scaling.command_out: exit code 3"));
  const auto page = head.status();
  ASSERT_TRUE(page);
  EXPECT_EQ(page->ready(), 1U);
}

} // namespace godwit::test
