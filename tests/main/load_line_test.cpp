#include "main/load_line.hpp"

#include <gtest/gtest.h>

namespace godwit::main {

TEST(LoadLine, SaysWhatWasDoneSinceTheLastOne) {
  load_line line;
  EXPECT_FALSE(line.next({}, 10)) << "nothing to do";
  load_board::sums now{3, 1, 200, 50, 1000, 400};
  EXPECT_EQ(line.next(now, 10), "3 running, 1 waiting, KV 25.0 %, 100.0 prompt and 40.0 answer tokens/s");
  now = {0, 0, 200, 0, 1000, 450};
  EXPECT_EQ(line.next(now, 10), "0 running, 0 waiting, KV 0.0 %, 0.0 prompt and 5.0 answer tokens/s");
  EXPECT_FALSE(line.next(now, 10)) << "nothing since";
}

} // namespace godwit::main
