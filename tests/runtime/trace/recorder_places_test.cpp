#include "trace/recorder_core.hpp"

#include <godwit/runtime/trace/recorder.hpp>

#include <gtest/gtest.h>

#include <cstdint>

namespace godwit::runtime::trace {
namespace {

using detail::recorder_core;

constexpr std::uint64_t head_key = 7;
constexpr std::uint64_t first_command = 1000;
constexpr std::uint64_t first_member = 1'000'000;

class RecorderPlaces : public ::testing::Test {
protected:
  RecorderPlaces() { core().name_process(0, head_key, "head"); }
  [[nodiscard]] recorder_core& core() const { return *recorder_.core(); }
  /// Each `godwit status` is a process that nobody has seen before.
  void ask_status(std::uint64_t times) const {
    for (std::uint64_t i = 0; i < times; ++i) (void)core().process_by_key(first_command + i, false);
  }

private:
  recorder recorder_{process{}};
};

TEST_F(RecorderPlaces, EachProcessHasOnePlace) {
  EXPECT_EQ(core().process_by_key(head_key, true), 0U);
  EXPECT_EQ(core().process_by_key(11, false), 1U);
  EXPECT_EQ(core().process_by_key(12, true), 2U);
  EXPECT_EQ(core().process_by_key(11, true), 1U);
  EXPECT_EQ(core().others(), 0U);
  EXPECT_EQ(core().processes().size(), 3U);
}

TEST_F(RecorderPlaces, MembersThatJoinAfterThousandsOfCommandsHaveTheirOwn) {
  ask_status(10'000);
  const auto member = core().process_by_key(first_member, true);
  EXPECT_EQ(member, recorder_core::strangers_max + 1);
  EXPECT_EQ(core().processes()[member].key, first_member);
  EXPECT_EQ(core().process_by_key(first_member, false), member);
}

TEST_F(RecorderPlaces, WhoeverHasNoneIsAnotherAndNeverTheHead) {
  ask_status(10'000);
  const auto command = core().process_by_key(first_command + 9'999, false);
  EXPECT_EQ(command, recorder_core::strangers_max);
  EXPECT_EQ(command, core().others());
  EXPECT_EQ(core().processes()[command].name, "other");
  EXPECT_EQ(core().processes()[command].key, 0U);
  for (std::uint64_t i = 0; i < 5'000; ++i) (void)core().process_by_key(first_member + i, true);
  EXPECT_EQ(core().processes().size(), recorder_core::processes_max);
  EXPECT_EQ(core().process_by_key(first_member + 4'999, true), command);
  EXPECT_EQ(core().process_by_key(head_key, true), 0U);
}

TEST_F(RecorderPlaces, OnceACommandIsKnownToRecordItGetsItsOwn) {
  ask_status(10'000);
  const auto late = first_command + 9'999;
  ASSERT_EQ(core().process_by_key(late, false), core().others());
  const auto place = core().process_by_key(late, true);
  EXPECT_NE(place, core().others());
  EXPECT_EQ(core().process_by_key(late, false), place);
}

} // namespace
} // namespace godwit::runtime::trace
