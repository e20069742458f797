// A process dies or freezes at a named point of a live migration, on either side of it, and whatever was being answered
// goes on to the same text.
#include "processes/support/calm_answers.hpp"
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

enum class victim : std::uint8_t { head, member, member_of_two };
enum class fate : std::uint8_t { killed, stopped };

struct drill {
  std::string place;
  victim who = victim::member;
  fate how = fate::killed;
  /// The way that the requests go, such that the victim comes to the place.
  [[nodiscard]] mover::way direction() const {
    const bool gives = place.starts_with("source.");
    if (who == victim::member_of_two) return gives ? across : back;
    return gives == (who == victim::head) ? outwards : inwards;
  }
  [[nodiscard]] std::string failpoint() const {
    const auto at = std::min(place.find('@'), place.size());
    return place.substr(0, at) + (how == fate::killed ? "=kill" : "=stop") + place.substr(at);
  }
};

/// Every place for the kill of one victim or another and, as they take their time, every other one for stops. With
/// GODWIT_TEST_DRILLS=all every one for each, and with the name of a place that one.
bool wanted(std::size_t index, victim who, fate how) {
  const char* only = std::getenv("GODWIT_TEST_DRILLS");
  if (only != nullptr && std::string(only) == "all") return true;
  if (only != nullptr && *only != 0) return places.at(index) == std::string(only);
  const auto turn = static_cast<std::size_t>(who);
  if (how == fate::stopped) return index % 6 == 2 * turn;
  return who == victim::member ? index % 2 == 1 : index % 4 == (who == victim::head ? 0U : 2U);
}

/// Questions with the answers of a run that nothing disturbs.
struct quiz {
  std::vector<question> questions;
  std::vector<streamed_answer> calm;
};
quiz make_quiz(std::size_t count, std::uint32_t tokens) {
  quiz out;
  out.questions = mixed_questions(count, tokens);
  out.calm = calm_answers(out.questions);
  return out;
}

class MigrationDrills : public ::testing::Test {
protected:
  /// On a busy machine the answers of a round may be over before a request has moved.
  static constexpr int rounds_max = 20;
  void SetUp() override {
    if (!has_default_model()) GTEST_SKIP() << "built without the embedded model";
    afterwards_ = make_quiz(4, 300);
  }

  /// Both processes take requests, migrate in both directions, and hold nothing afterwards.
  void expect_all_well(pair_of_processes& both, const mover::way& there) {
    const mover::way here{there.second, there.first};
    ASSERT_TRUE(both.operator_console().wait_instances(2, 60s)) << both.logs();
    EXPECT_EQ(both.operator_console().left_over(30s), "") << both.logs();
    std::uint64_t out = 0, in = 0;
    std::string summaries;
    for (int i = 0; i < rounds_max && (out == 0 || in == 0); ++i) {
      round_of_answers round(both.head().url(), afterwards_.questions);
      mover moving(both.head().control(), {there, here});
      ASSERT_TRUE(round.wait_ended(120s)) << both.logs();
      moving.stop();
      ASSERT_EQ(difference(round.answers(), afterwards_.calm), "") << both.logs();
      out += moving.committed(there);
      in += moving.committed(here);
      summaries += "\n" + moving.summary();
    }
    EXPECT_GT(out, 0U) << summaries << both.logs();
    EXPECT_GT(in, 0U) << summaries << both.logs();
    EXPECT_EQ(both.operator_console().left_over(30s), "") << both.logs();
  }

  /// `missed`: what went on where the answers were over before the victim came to the place; empty: it came.
  void run(const drill& what, std::string& missed) {
    // What is stopped stands still for longer than this; that others are missed meanwhile does not matter.
    const std::vector<std::string> none{"--cluster-connection-timeout", "1s"};
    auto trap = none;
    trap.insert(trap.end(), {"--debug-failpoints", what.failpoint()});
    pair_of_processes both(what.who == victim::head ? trap : none, what.who == victim::head ? none : trap,
                           what.who == victim::member_of_two ? pair_of_processes::kind::two_members
                                                             : pair_of_processes::kind::head_and_member);
    ASSERT_EQ(both.wait_ready(), "");
    auto& hit = what.who == victim::head ? both.head().process : both.member().process;
    const auto happened = [&] { return what.how == fate::killed ? !hit.running() : hit.stopped(); };

    round_of_answers round(both.head().url(), meanwhile_.questions);
    mover moving(both.head().control(), {what.direction()});
    ASSERT_TRUE(wait_until(120s, [&] { return happened() || round.wait_ended(0ms); })) << both.logs();
    const bool undisturbed = !happened() && round.answers() == meanwhile_.calm;
    // Its connections may end a moment before the process does.
    if (!wait_until(undisturbed ? 1s : 20s, happened)) {
      missed = moving.summary() + both.logs();
      EXPECT_EQ(difference(round.answers(), meanwhile_.calm), "") << missed;
      return;
    }
    missed.clear();
    if (what.how == fate::stopped) {
      // Longer than the others wait for a sign of life; for some places also longer than for the last stage.
      std::this_thread::sleep_for(what.place.size() % 2 == 0 ? 1500ms : 2500ms);
      hit.signal(SIGCONT);
    }
    ASSERT_TRUE(round.wait_ended(120s)) << both.logs();
    moving.stop();
    if (what.how == fate::killed && what.who == victim::head) {
      const auto answers = round.answers();
      EXPECT_EQ(difference_when_cut_off(answers, meanwhile_.calm), "") << both.logs();
      if (answers == meanwhile_.calm) {
        missed = "nobody was cut off" + both.logs();
        return;
      }
      both.start_head_again();
      return expect_all_well(both, what.direction());
    }
    EXPECT_EQ(difference(round.answers(), meanwhile_.calm), "") << both.logs();
    if (what.how == fate::killed) {
      EXPECT_EQ(both.operator_console().left_over(30s), "") << "while the other is dead" << both.logs();
      both.start_member_again();
    }
    expect_all_well(both, what.direction());
    const auto now = both.operator_console().status();
    ASSERT_TRUE(now);
    EXPECT_EQ(now->requests_failed_total, 0U);
    redispatches_ += now->redispatches_total;
  }

  void run_all(victim who, fate how) {
    // A member goes on for a while when its head stands still; its answers must not all be over by then.
    meanwhile_ = make_quiz(6, who == victim::head && how == fate::stopped ? 900 : 500);
    std::size_t count = 0;
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (!wanted(i, who, how)) continue;
      const drill what{places.at(i), who, how};
      SCOPED_TRACE(what.failpoint());
      const auto began = std::chrono::steady_clock::now();
      std::string missed = "never tried";
      for (int round = 0; round < rounds_max && !missed.empty() && !HasFailure(); ++round) run(what, missed);
      EXPECT_EQ(missed, "") << "no migration came to the place";
      ++count;
      using namespace std::chrono;
      std::cout << what.failpoint() << ": " << duration_cast<milliseconds>(steady_clock::now() - began).count()
                << " ms\n";
      if (HasFailure()) return; // the others take their time to fail too
    }
    RecordProperty("drills", std::to_string(count));
    const bool missed = who != victim::head || how == fate::stopped;
    if (missed && count > 1) {
      EXPECT_GT(redispatches_, 0U) << "nobody was ever missed";
    }
  }

private:
  quiz meanwhile_, afterwards_;
  std::uint64_t redispatches_ = 0;
};

} // namespace

TEST_F(MigrationDrills, AMemberKilledAtNamedPlacesOfAMigrationCostsNoToken) { run_all(victim::member, fate::killed); }

TEST_F(MigrationDrills, AMemberStoppedAtNamedPlacesOfAMigrationCostsNoTokenAndComesBack) {
  run_all(victim::member, fate::stopped);
}

// The home of the requests is a third process then, which hears of the two sides on different connections.
TEST_F(MigrationDrills, AMemberKilledAtNamedPlacesOfAMigrationPastTheHeadCostsNoToken) {
  run_all(victim::member_of_two, fate::killed);
}

TEST_F(MigrationDrills, AMemberStoppedAtNamedPlacesOfAMigrationPastTheHeadCostsNoToken) {
  run_all(victim::member_of_two, fate::stopped);
}

TEST_F(MigrationDrills, AHeadKilledAtNamedPlacesOfAMigrationLeavesNothingAtItsMember) {
  run_all(victim::head, fate::killed);
}

TEST_F(MigrationDrills, AHeadStoppedAtNamedPlacesOfAMigrationGoesOnWhenItWakes) {
  run_all(victim::head, fate::stopped);
}

} // namespace godwit::test
