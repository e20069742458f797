// `godwit policy`, `godwit drain` and `godwit status --request` as an operator meets them.
#include "processes/support/answers.hpp"
#include "processes/support/console.hpp"
#include "processes/support/godwit_processes.hpp"

#include <boost/json.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>

namespace godwit::test {

using namespace std::chrono_literals;
using testing::HasSubstr;

namespace json = boost::json;

class OperatorCommands : public testing::Test {
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
    head_ = std::make_unique<served>(std::vector<std::string>{"--instances", "2", "--threads", "1"});
    ASSERT_TRUE(head_->wait_ready()) << head_->process.err();
    console_ = std::make_unique<console>(head_->control());
  }
  outcome run(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--control", head_->control()});
    child_process command(godwit_program(), arguments);
    const auto code = command.wait_exit(20s);
    return {code.value_or(-1), command.out(), command.err()};
  }
  static std::vector<question> one_long() {
    auto out = mixed_questions(1, 1900);
    out[0].request_id = "looked-after";
    return out;
  }
  /// The instance on which the only request decodes.
  std::optional<std::uint32_t> place() {
    std::optional<std::uint32_t> out;
    (void)wait_until(10s, [&] {
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
  EXPECT_THAT(run({"policy", "resume"}).out, testing::Not(HasSubstr("paused")));
  const auto wrong = run({"policy", "set", "dispatch=best"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("there are freeness, infaas"));
}

TEST_F(OperatorCommands, ARequestIsExplainedWhileItRunsAndAfterItsEnd) {
  round_of_answers round(head_->url(), one_long());
  const auto at = place();
  ASSERT_TRUE(at);
  const auto to = std::to_string(1 - *at);
  EXPECT_EQ(run({"migrate", "cmpl-looked-after", "--to", to}).code, 0);
  const auto open = run({"status", "--request", "cmpl-looked-after", "--json"});
  EXPECT_EQ(open.code, 0) << open.err;
  const auto story = open.parsed();
  EXPECT_TRUE(story.at("outcome").is_null());
  EXPECT_EQ(story.at("instance").to_number<std::uint32_t>(), 1 - *at);
  ASSERT_EQ(story.at("events").as_array().size(), 2U) << open.out;
  EXPECT_EQ(story.at("events").at(0).at("why").at("policy").as_string(), "freeness");
  EXPECT_EQ(story.at("events").at(0).at("instance").to_number<std::uint32_t>(), *at);
  EXPECT_EQ(story.at("events").at(1).at("migration").at("cause").at("kind").as_string(), "manual");
  EXPECT_EQ(story.at("events").at(1).at("migration").at("outcome").as_string(), "committed");

  ASSERT_TRUE(round.wait_ended(30s));
  const auto number = std::to_string(story.at("id").to_number<std::uint64_t>());
  const auto ended = run({"status", "--request", number});
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("request " + number + " (cmpl-looked-after): ended"));
  EXPECT_THAT(ended.out, HasSubstr("to " + to + " by hand; "));

  const auto unknown = run({"status", "--request", "cmpl-nobody"});
  EXPECT_EQ(unknown.code, 1);
  EXPECT_EQ(unknown.out, "");
  EXPECT_THAT(unknown.err, HasSubstr("no request is called 'cmpl-nobody'"));
  EXPECT_EQ(std::count(unknown.err.begin(), unknown.err.end(), '\n'), 1) << unknown.err;
}

TEST_F(OperatorCommands, ADrainedInstanceGivesItsRequestAwayStopsAndComesBack) {
  const auto calm = ask_all(head_->url(), one_long());
  round_of_answers round(head_->url(), one_long());
  const auto at = place();
  ASSERT_TRUE(at);
  const auto drained = run({"drain", std::to_string(*at)});
  EXPECT_EQ(drained.code, 0) << drained.err;
  EXPECT_TRUE(head_->wait_instances(1, 20s)) << "it stops and leaves the list";
  ASSERT_TRUE(round.wait_ended(30s));
  EXPECT_EQ(round.answers(), calm) << "nothing is lost";
  const auto status = head_->status();
  ASSERT_TRUE(status);
  EXPECT_EQ(status->redispatches, 0U);
  EXPECT_THAT(run({"status", "--request", "cmpl-looked-after"}).out, HasSubstr("because the source drains"));
  EXPECT_EQ(run({"drain", std::to_string(*at), "--undo"}).code, 0);
  EXPECT_TRUE(head_->wait_instances(2, 20s));

  const auto nobody = run({"drain", "17"});
  EXPECT_EQ(nobody.code, 1);
  EXPECT_THAT(nobody.err, HasSubstr("no instance 17"));
}

} // namespace godwit::test
