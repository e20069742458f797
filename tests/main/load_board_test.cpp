#include "main/load_board.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace godwit::main {

using testing::HasSubstr;
using testing::Not;

TEST(LoadBoard, ShowsVirtualUsageAndFreenessButNoFreenessOfAnInstanceThatDrains) {
  runtime::metrics::registry metrics;
  load_board board(metrics);
  protocols::load_report report{protocols::instance_id{3}, 1, 1, true};
  report.blocks_total = 100;
  report.blocks_used = 40;
  report.queued_blocks = 8;
  report.headroom_blocks = 12;
  report.running = 4;
  board.take(report);
  const auto ready = metrics.expose();
  EXPECT_THAT(ready, HasSubstr("godwit_instance_virtual_usage_blocks{instance=\"3\"} 60\n"));
  EXPECT_THAT(ready, HasSubstr("godwit_instance_freeness{instance=\"3\"} 10\n"));
  EXPECT_THAT(ready, HasSubstr("godwit_instance_terminating{instance=\"3\"} 0\n"));
  report.terminating = true;
  ++report.sequence;
  board.take(report);
  const auto draining = metrics.expose();
  EXPECT_THAT(draining, Not(HasSubstr("godwit_instance_freeness{")));
  EXPECT_THAT(draining, HasSubstr("godwit_instance_terminating{instance=\"3\"} 1\n"));
}

} // namespace godwit::main
