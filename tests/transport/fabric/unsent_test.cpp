// What a peer does not take waits on our side, and that is bounded.
#include "transport/fabric/rig.hpp"
#include "ucx/worker.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace godwit::transport::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr std::size_t unsent_max = 16'384; // docs/design/fabric.md names it

/// A worker that counts what comes. It stands still unless it is told to go on.
class end_of_a_line final : public ucx::worker::events {
public:
  void connected(ucx::connection) override {}
  void received(ucx::connection, std::string_view, std::string_view) override { ++heard; }
  void lost(ucx::connection which, const std::string& reason, bool gone) override {
    losses.emplace_back(which, reason);
    EXPECT_FALSE(gone) << "it did not go";
  }
  void go_on() {
    while (worker.progress()) {
    }
  }
  bool until(const std::function<bool()>& condition) {
    return eventually([&] {
      go_on();
      return condition();
    });
  }
  std::size_t heard = 0;
  std::vector<std::pair<ucx::connection, std::string>> losses;
  ucx::worker worker{ucx::settings{}, *this};
};

TEST(UcxWorker, APeerThatTakesNothingIsLostOnceTooManyMessagesWaitForIt) {
  end_of_a_line still, mine;
  const auto to = mine.worker.connect("127.0.0.1", still.worker.port());
  ASSERT_NE(to, 0U);
  const auto keep = std::make_shared<int>(0);
  for (std::size_t i = 0; i < unsent_max; ++i) mine.worker.send(to, "word", {}, {}, keep);
  mine.go_on();
  EXPECT_THAT(mine.losses, IsEmpty()) << "so many may wait";
  EXPECT_EQ(static_cast<std::size_t>(keep.use_count()), 1 + unsent_max);

  mine.worker.send(to, "one too many", {}, {}, keep);
  EXPECT_THAT(mine.losses, IsEmpty()) << "not within the call";
  EXPECT_FALSE(mine.worker.arm()) << "whoever sleeps would hear of it with the next event only";
  mine.worker.send(to, "nothing more is sent to it", {}, {}, keep);
  EXPECT_EQ(static_cast<std::size_t>(keep.use_count()), 1 + unsent_max);
  EXPECT_TRUE(mine.until([&] { return !mine.losses.empty(); }));
  EXPECT_THAT(mine.losses, ElementsAre(Pair(to, "it reads nothing of what it is sent")));
  EXPECT_TRUE(mine.until([&] { return keep.use_count() == 1; })) << "what waited is let go of";
  EXPECT_EQ(mine.worker.connections(), 0U);
  EXPECT_EQ(mine.losses.size(), 1U) << "told once";
  mine.worker.stop();
}

TEST(UcxWorker, AnotherThatTakesWhatItIsSentIsNotLostWithIt) {
  end_of_a_line still, well, mine;
  const auto to_still = mine.worker.connect("127.0.0.1", still.worker.port());
  const auto to_well = mine.worker.connect("127.0.0.1", well.worker.port());
  for (std::size_t i = 0; i <= unsent_max; ++i) mine.worker.send(to_still, "word", {}, {}, {});
  mine.worker.send(to_well, "word", {}, {}, {});
  EXPECT_TRUE(mine.until([&] {
    well.go_on();
    return well.heard == 1;
  }));
  ASSERT_EQ(mine.losses.size(), 1U);
  EXPECT_EQ(mine.losses.front().first, to_still);
  EXPECT_EQ(mine.worker.connections(), 1U);
  mine.worker.stop();
}

// Only what waits counts, not what was sent.
TEST(UcxWorker, APeerThatTakesMessagesMayGetAnyNumber) {
  constexpr std::size_t count = 3 * unsent_max, at_once = 2'000;
  end_of_a_line well, mine;
  const auto to = mine.worker.connect("127.0.0.1", well.worker.port());
  std::size_t said = 0;
  EXPECT_TRUE(mine.until([&] {
    for (; said < count && said < well.heard + at_once; ++said) mine.worker.send(to, "word", {}, {}, {});
    well.go_on();
    return well.heard == count;
  })) << well.heard
      << " of " << said;
  EXPECT_THAT(mine.losses, IsEmpty());
  mine.worker.stop();
}

} // namespace
} // namespace godwit::transport::testing
