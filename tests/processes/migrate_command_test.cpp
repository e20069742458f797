// `godwit migrate` as an operator meets it.
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
using ::testing::HasSubstr;
using ::testing::StartsWith;

namespace json = boost::json;

namespace {

struct outcome {
  int code = -1;
  std::string out, err;
};
outcome migrate(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "migrate");
  child_process command(godwit_program(), arguments);
  const auto code = command.wait_exit(60s);
  return {code.value_or(-1), command.out(), command.err()};
}

struct place {
  protocols::request_id request;
  protocols::instance_id at, other;
};
/// Where the only request decodes, and the other of two instances. Nothing where it is over before it is seen.
std::optional<place> find_request(console& through, round_of_answers& round) {
  std::optional<place> out;
  (void)wait_until(60s, [&] {
    if (round.wait_ended(0ms)) return true;
    const auto now = through.status(true);
    if (!now || now->instances.size() != 2) return false;
    for (std::size_t i = 0; i < 2; ++i)
      for (const auto& r : now->instances[i].requests)
        if (r.answer_tokens > 0) out = place{r.request, now->instances[i].instance, now->instances[1 - i].instance};
    return out.has_value();
  });
  return out;
}

} // namespace

class MigrateCommand : public ::testing::Test {
protected:
  void SetUp() override {
    if (!has_default_model()) GTEST_SKIP() << "built without the embedded model";
    head_ = std::make_unique<served>(patient({"--instances", "2", "--threads", "1"}));
    ASSERT_TRUE(head_->wait_ready()) << head_->process.err();
    console_ = std::make_unique<console>(head_->control());
  }
  /// With another answer where one was over before the commands about it had come, or decoded faster than it moved.
  static constexpr int attempts_max = 10;
  /// Long enough to be found and moved by hand.
  static std::vector<question> one_long() {
    auto out = mixed_questions(1, 1900);
    out[0].request_id = "moved-by-hand";
    return out;
  }
  std::unique_ptr<served> head_;
  std::unique_ptr<console> console_;
};

TEST_F(MigrateCommand, MovesARequestByItsNumberOrByTheIdThatItsClientSees) {
  const auto calm = ask_all(head_->url(), one_long());
  std::optional<place> first;
  outcome by_number, by_label;
  std::string number, at, other;
  for (int attempt = 0; attempt < attempts_max; ++attempt) {
    round_of_answers round(head_->url(), one_long());
    first = find_request(*console_, round);
    if (!first) continue;
    number = std::to_string(first->request.value());
    at = std::to_string(first->at.value());
    other = std::to_string(first->other.value());
    by_number = migrate({number, "--to", other, "--control", head_->control()});
    by_label = migrate({"cmpl-moved-by-hand", "--to", at, "--control", head_->control(), "--json"});
    ASSERT_TRUE(round.wait_ended(120s));
    EXPECT_EQ(round.answers(), calm);
    const auto late = [](const std::string& printed) { return says_it_ended(printed) || says_it_goes_on(printed); };
    if (!late(by_number.err) && !late(by_label.out) && !late(by_label.err)) break;
  }
  ASSERT_TRUE(first);
  EXPECT_EQ(by_number.code, 0) << by_number.err;
  EXPECT_THAT(by_number.out, StartsWith("request " + number + " moved from instance " + at + " to " + other + ": "));
  EXPECT_EQ(by_number.err, "");

  EXPECT_EQ(by_label.code, 0) << by_label.err;
  boost::system::error_code wrong;
  const auto report = json::parse(by_label.out, wrong);
  ASSERT_FALSE(wrong) << by_label.out;
  const auto& fields = report.as_object();
  EXPECT_EQ(fields.at("request").to_number<std::uint64_t>(), first->request.value());
  EXPECT_EQ(fields.at("from").to_number<std::uint32_t>(), first->other.value());
  EXPECT_EQ(fields.at("to").to_number<std::uint32_t>(), first->at.value());
  EXPECT_EQ(fields.at("outcome").as_string(), "committed");
  EXPECT_GT(fields.at("stages").to_number<std::uint32_t>(), 0U);
  EXPECT_GT(fields.at("bytes").to_number<std::uint64_t>(), 0U);
  EXPECT_GT(fields.at("stall_ms").to_number<double>(), 0.0);
}

TEST_F(MigrateCommand, SaysInOneLineWhyNothingMoves) {
  const auto order = [&](const std::string& request, const std::string& to) {
    return migrate({request, "--to", to, "--control", head_->control()});
  };
  const auto expect_refusal = [](const outcome& said, const std::string& line) {
    EXPECT_EQ(said.code, 1);
    EXPECT_EQ(said.out, "");
    EXPECT_THAT(said.err, StartsWith("godwit: not moved: " + line));
    EXPECT_EQ(std::count(said.err.begin(), said.err.end(), '\n'), 1) << said.err;
  };
  outcome nowhere, already;
  std::string number, here;
  for (int attempt = 0; attempt < attempts_max; ++attempt) {
    round_of_answers round(head_->url(), one_long());
    const auto running = find_request(*console_, round);
    if (!running) continue;
    number = std::to_string(running->request.value());
    here = std::to_string(running->at.value());
    nowhere = order(number, "17");
    already = order(number, here);
    if (!says_it_ended(already.err)) break;
  }
  expect_refusal(nowhere, "there is no instance 17 that takes requests");
  expect_refusal(already, "request " + number + " is on instance " + here + " already");
  expect_refusal(order("999999999", "0"), "no running request is called '999999999'");
  expect_refusal(order("cmpl-nobody", "0"), "no running request is called 'cmpl-nobody'");

  const auto in_json = migrate({"cmpl-nobody", "--to", "0", "--control", head_->control(), "--json"});
  EXPECT_EQ(in_json.code, 1);
  EXPECT_THAT(in_json.out, HasSubstr("\"outcome\":\"refused\""));
}

TEST_F(MigrateCommand, TellsAWrongCommandLineFromAHeadThatIsNotThere) {
  const auto expect_end = [](const std::vector<std::string>& arguments, int code, const std::string& line) {
    const auto said = migrate(arguments);
    EXPECT_EQ(said.code, code) << said.err;
    EXPECT_EQ(said.out, "");
    EXPECT_THAT(said.err, HasSubstr(line));
  };
  expect_end({"7", "--to", "1", "--control", "nowhere"}, 2, "'nowhere' is not HOST:PORT");
  expect_end({"7"}, 2, "--to");
  expect_end({"--to", "1"}, 2, "request");
  expect_end({"7", "--to", "one"}, 2, "--to");
  expect_end({"7", "--to", "1", "--control", "127.0.0.1:1"}, 1, "no godwit answers at 127.0.0.1:1");
}

} // namespace godwit::test
