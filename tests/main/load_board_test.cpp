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

TEST(LoadBoard, ShowsReportsUnderVllmsNamesWhereItKnowsTheModel) {
  runtime::metrics::registry metrics;
  load_board board(metrics, {"tiny", "bfloat16", true});
  protocols::load_report report{protocols::instance_id{3}, 1, 1, true};
  report.blocks_total = 100;
  report.blocks_used = 25;
  report.running = 4;
  report.waiting = 7;
  report.preemptions_total = 2;
  report.prefix_query_tokens_total = 50;
  report.prefix_hit_tokens_total = 16;
  board.take(report);
  const auto page = metrics.expose();
  const std::string labels = "{model_name=\"tiny\",engine=\"3\"} ";
  EXPECT_THAT(page, HasSubstr("vllm:num_requests_running" + labels + "4\n"));
  EXPECT_THAT(page, HasSubstr("vllm:num_requests_waiting" + labels + "7\n"));
  EXPECT_THAT(page, HasSubstr("vllm:kv_cache_usage_perc" + labels + "0.25\n"));
  EXPECT_THAT(page, HasSubstr("# TYPE vllm:num_preemptions_total counter\n"));
  EXPECT_THAT(page, HasSubstr("vllm:num_preemptions_total" + labels + "2\n"));
  EXPECT_THAT(page, HasSubstr("vllm:prefix_cache_queries_total" + labels + "50\n"));
  EXPECT_THAT(page, HasSubstr("vllm:prefix_cache_hits_total" + labels + "16\n"));
  EXPECT_THAT(page, HasSubstr("vllm:cache_config_info{block_size=\"16\",cache_dtype=\"bfloat16\","
                              "enable_prefix_caching=\"True\",engine=\"3\",num_gpu_blocks=\"100\"} 1\n"));
  EXPECT_EQ(metrics.expose().find("model_name=\"\""), std::string::npos);
}

TEST(LoadBoard, TokensOfAllInstancesAreCountedWhoeverGoesOrStartsAnew) {
  runtime::metrics::registry metrics;
  load_board board(metrics);
  const auto told = [&](std::uint32_t id, std::uint64_t generation, std::uint64_t tokens) {
    protocols::load_report report{protocols::instance_id{id}, generation, 1, true};
    report.generated_tokens_total = tokens;
    board.take(report);
    return board.all().answer_tokens;
  };
  EXPECT_EQ(told(1, 1, 100), 100U);
  EXPECT_EQ(told(2, 1, 10), 110U);
  EXPECT_EQ(told(1, 2, 5), 115U) << "the first was started anew";
  board.retain({protocols::instance_id{1}});
  EXPECT_EQ(told(1, 2, 7), 117U);
}

TEST(LoadBoard, KnowsNoVllmWithoutAModel) {
  runtime::metrics::registry metrics;
  load_board board(metrics);
  board.take({protocols::instance_id{3}, 1, 1, true});
  EXPECT_THAT(metrics.expose(), Not(HasSubstr("vllm:")));
}

} // namespace godwit::main
