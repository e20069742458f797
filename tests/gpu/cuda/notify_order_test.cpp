#include "cuda/native/ends_in_order.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <random>
#include <vector>

namespace godwit::gpu::cuda::native {
namespace {

struct work {
  int stream = 0;
  int number = 0;
};

TEST(CudaPoller, TellsNothingBeforeWhatWasNotSeenToEndEarlierInItsStream) {
  // The first of stream 7 ends after it was asked and before the second is: both have ended then, in their order.
  const std::vector<work> all{{7, 1}, {8, 1}, {7, 2}, {9, 1}};
  EXPECT_EQ(first_to_tell(all, [](const work& one) { return one.number == 2; }), all.size());
  EXPECT_EQ(first_to_tell(all, [](const work& one) { return one.number == 2 || one.stream == 9; }), 3U);
  EXPECT_EQ(first_to_tell(all, [](const work& one) { return one.stream != 8; }), 0U);
  EXPECT_EQ(first_to_tell(std::vector<work>{}, [](const work&) { return true; }), 0U);
}

TEST(CudaPoller, TellsEachStreamsEndsInTheirOrderWhateverEndsBetweenTwoQuestions) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<work> open;
    std::vector<int> given(4), ended(4), told(4);
    for (int i = 0; i < 40; ++i) {
      const auto stream = random() % 4;
      open.push_back({static_cast<int>(stream), ++given[stream]});
    }
    while (!open.empty()) {
      const auto i = first_to_tell(open, [&](const work& one) {
        // Streams go on between any two questions.
        const auto stream = random() % 4;
        if (ended[stream] < given[stream]) ++ended[stream];
        return one.number <= ended[static_cast<std::size_t>(one.stream)];
      });
      if (i == open.size()) continue;
      ASSERT_EQ(open[i].number, ++told[static_cast<std::size_t>(open[i].stream)]);
      open.erase(open.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
}

} // namespace
} // namespace godwit::gpu::cuda::native
