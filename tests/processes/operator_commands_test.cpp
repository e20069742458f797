// `godwit policy`, `godwit drain` and `godwit status --request` as an operator meets them.
#include "processes/support/answers.hpp"
#include "processes/support/console.hpp"
#include "processes/support/godwit_processes.hpp"

#include <boost/json.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <optional>
#include <thread>

namespace godwit::test {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

namespace json = boost::json;

class OperatorCommands : public ::testing::Test {
protected:
  struct outcome {
    int code = -1;
    std::string out, err;
    [[nodiscard]] json::value parsed() const {
      boost::system::error_code wrong;
      auto value = json::parse(out, wrong);
      EXPECT_FALSE(wrong) << out << err;
      return value;
    }
  };

  void SetUp() override {
    if (!has_default_model()) GTEST_SKIP() << "built without the embedded model";
    head_ = std::make_unique<served>(patient(
        {"--instances", "2", "--threads", "1", "--policy-plugin", GODWIT_BINARY_DIR "/tests/policies/policies.so"}));
    ASSERT_TRUE(head_->wait_ready()) << head_->process.err();
    console_ = std::make_unique<console>(head_->control());
  }
  outcome run(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--control", head_->control()});
    child_process command(godwit_program(), arguments);
    const auto code = command.wait_exit(60s);
    return {code.value_or(-1), command.out(), command.err()};
  }
  /// With another answer where one was over before the commands about it had come, or decoded faster than it moved.
  static constexpr int attempts_max = 10;
  static std::vector<question> one_long(int attempt) {
    auto out = mixed_questions(1, 1900);
    out[0].request_id = "looked-after-" + std::to_string(attempt);
    return out;
  }
  static std::string label(int attempt) { return "cmpl-looked-after-" + std::to_string(attempt); }
  /// The instance on which the only request decodes. Nothing where it is over before it is seen.
  std::optional<std::uint32_t> place(round_of_answers& round) {
    std::optional<std::uint32_t> out;
    (void)wait_until(60s, [&] {
      if (round.wait_ended(0ms)) return true;
      const auto now = console_->status(true);
      if (!now) return false;
      for (const auto& instance : now->instances)
        for (const auto& request : instance.requests)
          if (request.answer_tokens > 0) out = instance.instance.value();
      return out.has_value();
    });
    return out;
  }

  std::unique_ptr<served> head_;
  std::unique_ptr<console> console_;
};

TEST_F(OperatorCommands, PoliciesAreSwitchedWhileTheServerRuns) {
  const auto before = run({"policy", "--json"}).parsed();
  EXPECT_EQ(before.at("dispatch").as_string(), "freeness");
  EXPECT_EQ(before.at("migration").as_string(), "freeness");
  EXPECT_FALSE(before.at("migration_paused").as_bool());
  const auto switched = run({"policy", "set", "dispatch=round_robin", "migration=none", "--json"});
  EXPECT_EQ(switched.code, 0) << switched.err;
  EXPECT_EQ(switched.parsed().at("dispatch").as_string(), "round_robin");
  EXPECT_EQ(run({"policy", "pause"}).code, 0);
  const auto status = run({"status", "--json"}).parsed().at("scheduling");
  EXPECT_EQ(status.at("dispatch_policy").as_string(), "round_robin");
  EXPECT_EQ(status.at("migration_policy").as_string(), "none");
  EXPECT_TRUE(status.at("migration_paused").as_bool());
  EXPECT_THAT(run({"policy", "resume"}).out, ::testing::Not(HasSubstr("paused")));
  const auto wrong = run({"policy", "set", "dispatch=best"});
  EXPECT_EQ(wrong.code, 1);
  EXPECT_THAT(wrong.err, HasSubstr("known are freeness, infaas"));
  EXPECT_THAT(wrong.err, HasSubstr(", lowest"));
  EXPECT_EQ(run({"policy", "set", "migration=best"}).code, 2);
}

// tests/support/policies/plugin.cpp
TEST_F(OperatorCommands, APluginsDispatchPolicyIsSwitchedTo) {
  ASSERT_EQ(run({"policy", "set", "dispatch=lowest", "migration=never"}).code, 0);
  round_of_answers round(head_->url(), mixed_questions(6, 40));
  ASSERT_TRUE(round.wait_ended(60s));
  const auto status = run({"status", "--json"}).parsed();
  EXPECT_EQ(status.at("scheduling").at("dispatch_policy").as_string(), "lowest");
  const auto& instances = status.at("instances").as_array();
  const auto asked = [&](std::size_t i) {
    return instances.at(i).at("prefix_query_tokens").to_number<std::uint64_t>();
  };
  EXPECT_GT(asked(0), 0U);
  EXPECT_EQ(asked(1), 0U);
  child_process wrong(godwit_program(), {"serve", "--policy-plugin", GODWIT_SOURCE_DIR "/LICENSE"});
  EXPECT_EQ(wrong.wait_exit(60s), 2);
  EXPECT_THAT(wrong.err(), HasSubstr("scheduler.policy_plugin: it cannot be loaded"));
}

TEST_F(OperatorCommands, ARequestIsExplainedWhileItRunsAndAfterItsEnd) {
  std::optional<std::uint32_t> at;
  std::string name, to;
  outcome moved, open;
  json::value story;
  for (int attempt = 0; attempt < attempts_max; ++attempt) {
    round_of_answers round(head_->url(), one_long(attempt));
    at = place(round);
    if (!at) continue;
    name = label(attempt);
    to = std::to_string(1 - *at);
    moved = run({"migrate", name, "--to", to});
    open = run({"status", "--request", name, "--json"});
    ASSERT_TRUE(round.wait_ended(120s));
    story = open.parsed();
    const bool late = says_it_ended(moved.err) || says_it_goes_on(moved.err);
    if (moved.code == 0 ? story.at("outcome").is_null() : !late) break;
  }
  ASSERT_TRUE(at);
  EXPECT_EQ(moved.code, 0) << moved.err;
  EXPECT_EQ(open.code, 0) << open.err;
  EXPECT_TRUE(story.at("outcome").is_null());
  EXPECT_EQ(story.at("instance").to_number<std::uint32_t>(), 1 - *at);
  ASSERT_EQ(story.at("events").as_array().size(), 2U) << open.out;
  EXPECT_EQ(story.at("events").at(0).at("why").at("policy").as_string(), "freeness");
  EXPECT_EQ(story.at("events").at(0).at("instance").to_number<std::uint32_t>(), *at);
  EXPECT_EQ(story.at("events").at(1).at("migration").at("cause").at("kind").as_string(), "manual");
  EXPECT_EQ(story.at("events").at(1).at("migration").at("outcome").as_string(), "committed");

  const auto number = std::to_string(story.at("id").to_number<std::uint64_t>());
  const auto ended = run({"status", "--request", number});
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("request " + number + " (" + name + "): ended"));
  EXPECT_THAT(ended.out, HasSubstr("to " + to + " by hand; "));

  const auto unknown = run({"status", "--request", "cmpl-nobody"});
  EXPECT_EQ(unknown.code, 1);
  EXPECT_EQ(unknown.out, "");
  EXPECT_THAT(unknown.err, HasSubstr("no request is called 'cmpl-nobody'"));
  EXPECT_EQ(std::count(unknown.err.begin(), unknown.err.end(), '\n'), 1) << unknown.err;
}

TEST_F(OperatorCommands, ADrainedInstanceGivesItsRequestAwayStopsAndComesBack) {
  const auto calm = ask_all(head_->url(), one_long(-1));
  for (int attempt = 0; attempt < attempts_max; ++attempt) {
    round_of_answers round(head_->url(), one_long(attempt));
    const auto at = place(round);
    if (!at && attempt + 1 < attempts_max) continue;
    ASSERT_TRUE(at);
    const auto drained = run({"drain", std::to_string(*at)});
    EXPECT_EQ(drained.code, 0) << drained.err;
    EXPECT_TRUE(head_->wait_instances(1, 60s)) << "it stops and leaves the list";
    ASSERT_TRUE(round.wait_ended(120s));
    EXPECT_EQ(round.answers(), calm) << "nothing is lost";
    const auto status = head_->status();
    ASSERT_TRUE(status);
    EXPECT_EQ(status->redispatches, 0U);
    const auto story = run({"status", "--request", label(attempt)}).out;
    EXPECT_EQ(run({"drain", std::to_string(*at), "--undo"}).code, 0);
    EXPECT_TRUE(head_->wait_instances(2, 60s));
    const bool told = story.find("because the source drains") != std::string::npos;
    if (!told && attempt + 1 < attempts_max) continue; // it may have been over before its turn to move came
    EXPECT_TRUE(told) << story;
    break;
  }

  const auto waited = run({"drain", "1", "--wait=60s", "--json"});
  EXPECT_EQ(waited.code, 0) << waited.err;
  EXPECT_EQ(waited.out, "{\"instance\":1,\"state\":\"stopped\"}\n");
  const auto back = run({"drain", "1", "--undo", "--wait"});
  EXPECT_EQ(back.code, 0) << back.err;
  EXPECT_EQ(back.out, "instance 1 is ready\n");
  EXPECT_EQ(run({"drain", "1", "--wait=soon"}).code, 2);

  const auto nobody = run({"drain", "17"});
  EXPECT_EQ(nobody.code, 1);
  EXPECT_THAT(nobody.err, HasSubstr("no instance 17"));
}

TEST_F(OperatorCommands, AnInstanceThatIsToPrefillGivesAwayWhatItDecodes) {
  const auto calm = ask_all(head_->url(), one_long(-2));
  for (int attempt = 0; attempt < attempts_max; ++attempt) {
    round_of_answers round(head_->url(), one_long(attempt));
    const auto at = place(round);
    if (!at && attempt + 1 < attempts_max) continue;
    ASSERT_TRUE(at);
    const auto who = std::to_string(*at);
    const auto given = run({"role", who, "prefill", "--json"});
    EXPECT_EQ(given.code, 0) << given.err;
    EXPECT_EQ(given.out, "{\"instance\":" + who + ",\"role\":\"prefill\",\"before\":\"mixed\",\"note\":null}\n");
    ASSERT_TRUE(round.wait_ended(120s));
    EXPECT_EQ(round.answers(), calm) << "nothing is lost";
    const auto status = head_->status();
    ASSERT_TRUE(status);
    EXPECT_EQ(status->redispatches, 0U);
    const auto story = run({"status", "--request", label(attempt)}).out;
    const auto back = run({"role", who, "mixed"});
    EXPECT_EQ(back.out, "instance " + who + " is for mixed from now on, no longer for prefill\n");
    const bool told = story.find("as its prompt was computed") != std::string::npos;
    if (!told && attempt + 1 < attempts_max) continue; // it may have been over before its turn to move came
    EXPECT_TRUE(told) << story;
    break;
  }
  const auto wrong = run({"role", "0", "prompts"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_EQ(wrong.err, "godwit: 'prompts' is none of the roles prefill, decode and mixed\n");
  const auto nobody = run({"role", "17", "decode"});
  EXPECT_EQ(nobody.code, 1);
  EXPECT_EQ(nobody.err, "godwit: there is no instance 17\n");
}

// The head closes the connection of one that says nothing for cluster.connection_timeout.
TEST_F(OperatorCommands, AWatchGoesOnAfterItHasStoodStill) {
  served head({"--instances", "1", "--threads", "1", "--cluster-connection-timeout", "2s"});
  ASSERT_TRUE(head.wait_ready()) << head.process.err();
  child_process watch(godwit_program(), {"status", "--watch", "--json", "--control", head.control()});
  const auto lines = [&] {
    const auto said = watch.out();
    return std::count(said.begin(), said.end(), '\n');
  };
  ASSERT_TRUE(wait_until(20s, [&] { return lines() > 0; })) << watch.err();
  watch.signal(SIGSTOP);
  std::this_thread::sleep_for(5s);
  const auto before = lines();
  watch.signal(SIGCONT);
  EXPECT_TRUE(wait_until(20s, [&] { return lines() > before + 2; })) << watch.err();
  EXPECT_EQ(watch.err(), "");
  watch.signal(SIGTERM);
  EXPECT_EQ(watch.wait_exit(20s), 0);
}

} // namespace godwit::test
