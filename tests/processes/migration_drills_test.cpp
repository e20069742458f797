// A process dies or freezes at a named point of a live migration, on either
// side of it, and whatever was being answered goes on to the same text.
#include "processes/support/pair_of_processes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <string>
#include <thread>

namespace godwit::test {

using namespace std::chrono_literals;

namespace {

/// As `godwit serve` knows them, and some again at a later stage.
constexpr std::array places{"source.opened",        "source.copying",         "source.copied",
                            "source.copied@2",      "source.parked",          "source.last_copy",
                            "source.committing",    "source.committed",       "destination.opened",
                            "destination.reserved", "destination.reserved@2", "destination.landed",
                            "destination.landed@2", "destination.commit",     "destination.adopting",
                            "destination.adopted",  "destination.answered"};

enum class victim : std::uint8_t { head, member };
enum class fate : std::uint8_t { killed, stopped };

struct drill {
  std::string place;
  victim who = victim::member;
  fate how = fate::killed;
  /// The way that the requests go, such that the victim comes to the place.
  [[nodiscard]] mover::way direction() const {
    return place.starts_with("source.") == (who == victim::head) ? outwards : inwards;
  }
  [[nodiscard]] std::string failpoint() const {
    const auto at = std::min(place.find('@'), place.size());
    return place.substr(0, at) + (how == fate::killed ? "=kill" : "=stop") + place.substr(at);
  }
};

/// Half of the places; with GODWIT_TEST_DRILLS=all every one, and with the name
/// of a place that one.
bool wanted(std::size_t index, victim who, fate how) {
  const char* only = std::getenv("GODWIT_TEST_DRILLS");
  if (only != nullptr && std::string(only) == "all") return true;
  if (only != nullptr && *only != 0) return places.at(index) == std::string(only);
  return (index % 2 == 0) == ((who == victim::head) == (how == fate::killed));
}

const std::vector<question>& questions() {
  static const auto all = mixed_questions(6, 500);
  return all;
}
const std::vector<question>& small_questions() {
  static const auto all = mixed_questions(4, 300);
  return all;
}
std::vector<streamed_answer> undisturbed(const std::vector<question>& what) {
  served head({"--instances", "1", "--threads", "1"});
  EXPECT_TRUE(head.wait_ready()) << head.process.err();
  return ask_all(head.url(), what);
}
const std::vector<streamed_answer>& calm() {
  static const auto answers = undisturbed(questions());
  return answers;
}
const std::vector<streamed_answer>& small_calm() {
  static const auto answers = undisturbed(small_questions());
  return answers;
}

class MigrationDrills : public testing::Test {
protected:
  void SetUp() override {
    if (!has_default_model()) GTEST_SKIP() << "built without the embedded model";
    (void)calm();
    (void)small_calm();
  }

  /// Both processes take requests, migrate in both directions, and hold nothing
  /// afterwards.
  static void expect_all_well(pair_of_processes& both) {
    ASSERT_TRUE(both.operator_console().wait_instances(2, 20s)) << both.logs();
    EXPECT_EQ(both.operator_console().left_over(5s), "") << both.logs();
    round_of_answers round(both.head().url(), small_questions());
    mover moving(both.head().control(), {outwards, inwards});
    ASSERT_TRUE(round.wait_ended(20s)) << both.logs();
    moving.stop();
    EXPECT_EQ(difference(round.answers(), small_calm()), "") << both.logs();
    EXPECT_GT(moving.committed(outwards), 0U) << moving.summary() << both.logs();
    EXPECT_GT(moving.committed(inwards), 0U) << moving.summary() << both.logs();
    EXPECT_EQ(both.operator_console().left_over(5s), "") << both.logs();
  }

  static void run(const drill& what) {
    const std::vector<std::string> trap{"--debug-failpoints", what.failpoint()};
    const std::vector<std::string> none;
    pair_of_processes both(what.who == victim::head ? trap : none, what.who == victim::head ? none : trap);
    ASSERT_EQ(both.wait_ready(), "");
    auto& hit = what.who == victim::head ? both.head().process : both.member().process;
    const auto happened = [&] { return what.how == fate::killed ? !hit.running() : hit.stopped(); };

    round_of_answers round(both.head().url(), questions());
    mover moving(both.head().control(), {what.direction()});
    (void)wait_until(20s, [&] { return happened() || round.wait_ended(0ms); });
    // Its connections may end a moment before the process does.
    ASSERT_TRUE(wait_until(2s, happened)) << "no migration came to the place: " << moving.summary() << both.logs();
    if (what.how == fate::stopped) {
      // Longer than the others wait for a sign of life; for some places also
      // longer than for the last stage.
      std::this_thread::sleep_for(what.place.size() % 2 == 0 ? 1500ms : 2500ms);
      hit.signal(SIGCONT);
    }
    ASSERT_TRUE(round.wait_ended(20s)) << both.logs();
    moving.stop();
    if (what.how == fate::killed && what.who == victim::head) {
      const auto answers = round.answers();
      EXPECT_EQ(difference_when_cut_off(answers, calm()), "") << both.logs();
      EXPECT_NE(answers, calm()) << "nobody was cut off";
      both.start_head_again();
      return expect_all_well(both);
    }
    EXPECT_EQ(difference(round.answers(), calm()), "") << both.logs();
    if (what.how == fate::killed) {
      EXPECT_EQ(both.operator_console().left_over(5s), "") << "while the other is dead" << both.logs();
      both.start_member_again();
    }
    expect_all_well(both);
    const auto now = both.operator_console().status();
    ASSERT_TRUE(now);
    EXPECT_EQ(now->requests_failed_total, 0U);
    EXPECT_GT(now->redispatches_total, 0U) << "it was not missed";
  }

  static void run_all(victim who, fate how) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (!wanted(i, who, how)) continue;
      const drill what{places.at(i), who, how};
      SCOPED_TRACE(what.failpoint());
      const auto began = std::chrono::steady_clock::now();
      const auto failures = testing::UnitTest::GetInstance()->current_test_info()->result()->total_part_count();
      run(what);
      ++count;
      std::cout
          << what.failpoint() << ": "
          << std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - began).count()
          << " ms"
          << (testing::UnitTest::GetInstance()->current_test_info()->result()->total_part_count() > failures
                  ? ", FAILED"
                  : "")
          << std::endl;
    }
    RecordProperty("drills", std::to_string(count));
  }
};

} // namespace

TEST_F(MigrationDrills, AMemberKilledAtAnyPointOfAMigrationCostsNoToken) { run_all(victim::member, fate::killed); }

TEST_F(MigrationDrills, AMemberStoppedAtAnyPointOfAMigrationCostsNoTokenAndComesBack) {
  run_all(victim::member, fate::stopped);
}

TEST_F(MigrationDrills, AHeadKilledAtAnyPointOfAMigrationLeavesNothingAtItsMember) {
  run_all(victim::head, fate::killed);
}

TEST_F(MigrationDrills, AHeadStoppedAtAnyPointOfAMigrationGoesOnWhenItWakes) { run_all(victim::head, fate::stopped); }

} // namespace godwit::test
