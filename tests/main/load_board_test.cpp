#include "main/load_board.hpp"

#include "actors/support/idle_llumlet.hpp"

#include <godwit/runtime/sim/world.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace godwit::main {
namespace {

using protocols::instance_id;
using protocols::load_report;
using ::testing::HasSubstr;
using ::testing::Not;

actors::instance_entry ready(std::uint32_t id, std::uint64_t generation = 1) {
  return {instance_id{id}, generation, true, {}};
}
actors::instance_entry down(std::uint32_t id, std::uint64_t generation = 1) {
  return {instance_id{id}, generation, false, {}};
}
actors::topology there(std::vector<actors::instance_entry> instances) {
  actors::topology out;
  out.instances = std::move(instances);
  return out;
}
load_report busy(std::uint32_t id, std::uint64_t generation, std::uint32_t running) {
  load_report out{instance_id{id}, generation, 1, true};
  out.running = running;
  return out;
}

TEST(LoadBoard, ShowsVirtualUsageAndFreenessButNoFreenessOfAnInstanceThatDrains) {
  runtime::metrics::registry metrics;
  load_board board(metrics);
  board.adopt(there({ready(3)}));
  load_report report{instance_id{3}, 1, 1, true};
  report.blocks_total = 100;
  report.blocks_used = 40;
  report.queued_blocks = 8;
  report.headroom_blocks = 12;
  report.running = 4;
  board.take(report);
  const auto before = metrics.expose();
  EXPECT_THAT(before, HasSubstr("godwit_instance_virtual_usage_blocks{engine=\"3\"} 60\n"));
  EXPECT_THAT(before, HasSubstr("godwit_instance_freeness{engine=\"3\"} 10\n"));
  EXPECT_THAT(before, HasSubstr("godwit_instance_terminating{engine=\"3\"} 0\n"));
  report.terminating = true;
  ++report.sequence;
  board.take(report);
  const auto draining = metrics.expose();
  EXPECT_THAT(draining, Not(HasSubstr("godwit_instance_freeness{")));
  EXPECT_THAT(draining, HasSubstr("godwit_instance_terminating{engine=\"3\"} 1\n"));
}

TEST(LoadBoard, SaysWhatEachInstanceIsFor) {
  runtime::metrics::registry metrics;
  load_board board(metrics);
  board.adopt(there({ready(3), ready(4)}));
  auto report = busy(3, 1, 0);
  report.role = protocols::instance_role::prefill;
  board.take(report);
  board.take(busy(4, 1, 0));
  EXPECT_THAT(metrics.expose(), HasSubstr("godwit_instance_role_info{engine=\"3\",role=\"prefill\"} 1\n"));
  EXPECT_THAT(metrics.expose(), HasSubstr("godwit_instance_role_info{engine=\"4\",role=\"mixed\"} 1\n"));
}

TEST(LoadBoard, CountsRestartsAlsoOfInstancesThatAreDown) {
  runtime::metrics::registry metrics;
  load_board board(metrics);
  board.adopt(there({ready(0), down(3, 4)}));
  const auto page = metrics.expose();
  EXPECT_THAT(page, HasSubstr("godwit_instance_restarts_total{engine=\"0\"} 0\n"));
  EXPECT_THAT(page, HasSubstr("godwit_instance_restarts_total{engine=\"3\"} 3\n"));
}

TEST(LoadBoard, ShowsReportsUnderVllmsNamesWhereItKnowsTheModel) {
  runtime::metrics::registry metrics;
  load_board board(metrics, {"tiny", "bfloat16", true});
  board.adopt(there({ready(3)}));
  load_report report{instance_id{3}, 1, 1, true};
  report.blocks_total = 100;
  report.blocks_used = 25;
  report.running = 4;
  report.waiting = 7;
  report.preemptions_total = 2;
  report.prefix_query_tokens_total = 50;
  report.prefix_hit_tokens_total = 16;
  report.drafts_total = 5;
  report.draft_tokens_total = 30;
  report.accepted_tokens_total = 12;
  report.model_draft_tokens_total = 20;
  report.model_accepted_tokens_total = 11;
  report.drafting_ns_total = 2'500'000'000;
  board.take(report);
  const auto page = metrics.expose();
  const std::string labels = "{model_name=\"tiny\",engine=\"3\"} ";
  EXPECT_THAT(page, HasSubstr("vllm:num_requests_running" + labels + "4\n"));
  EXPECT_THAT(page, HasSubstr("vllm:num_requests_waiting" + labels + "7\n"));
  EXPECT_THAT(
      page, HasSubstr("vllm:num_requests_waiting_by_reason{model_name=\"tiny\",engine=\"3\",reason=\"capacity\"} 7\n"));
  EXPECT_THAT(page, HasSubstr("vllm:kv_cache_usage_perc" + labels + "0.25\n"));
  EXPECT_THAT(page, HasSubstr("# TYPE vllm:num_preemptions_total counter\n"));
  EXPECT_THAT(page, HasSubstr("vllm:num_preemptions_total" + labels + "2\n"));
  EXPECT_THAT(page, HasSubstr("vllm:prefix_cache_queries_total" + labels + "50\n"));
  EXPECT_THAT(page, HasSubstr("vllm:prefix_cache_hits_total" + labels + "16\n"));
  EXPECT_THAT(page, HasSubstr("vllm:prompt_tokens_cached_total" + labels + "16\n"));
  EXPECT_THAT(page, HasSubstr("vllm:spec_decode_num_drafts_total" + labels + "5\n"));
  EXPECT_THAT(page, HasSubstr("vllm:spec_decode_num_draft_tokens_total" + labels + "30\n"));
  EXPECT_THAT(page, HasSubstr("vllm:spec_decode_num_accepted_tokens_total" + labels + "12\n"));
  EXPECT_THAT(page, HasSubstr("godwit_instance_accepted_tokens_total{engine=\"3\"} 12\n"));
  EXPECT_THAT(page, HasSubstr("godwit_instance_model_draft_tokens_total{engine=\"3\"} 20\n"));
  EXPECT_THAT(page, HasSubstr("godwit_instance_model_accepted_tokens_total{engine=\"3\"} 11\n"));
  EXPECT_THAT(page, HasSubstr("godwit_instance_drafting_seconds_total{engine=\"3\"} 2.5\n"));
  EXPECT_THAT(page, HasSubstr("vllm:cache_config_info{block_size=\"16\",cache_dtype=\"bfloat16\","
                              "enable_prefix_caching=\"True\",engine=\"3\",num_gpu_blocks=\"100\"} 1\n"));
  EXPECT_EQ(metrics.expose().find("model_name=\"\""), std::string::npos);
}

TEST(LoadBoard, TokensOfAllInstancesAreCountedWhoeverGoesOrStartsAnew) {
  runtime::metrics::registry metrics;
  load_board board(metrics);
  board.adopt(there({ready(1), ready(2)}));
  const auto told = [&](std::uint32_t id, std::uint64_t generation, std::uint64_t tokens) {
    load_report report{instance_id{id}, generation, 1, true};
    report.generated_tokens_total = tokens;
    board.take(report);
    return board.all().answer_tokens;
  };
  EXPECT_EQ(told(1, 1, 100), 100U);
  EXPECT_EQ(told(2, 1, 10), 110U);
  EXPECT_EQ(told(1, 2, 5), 115U) << "the first was started anew";
  board.adopt(there({ready(1, 2)}));
  EXPECT_EQ(told(1, 2, 7), 117U);
  board.adopt(there({down(1, 2)}));
  board.adopt(there({ready(1, 2)}));
  EXPECT_EQ(told(1, 2, 8), 118U) << "it was out of sight, and not started anew";
}

TEST(LoadBoard, ShowsNothingOfAnInstanceThatIsDownUntilItReportsAgain) {
  runtime::metrics::registry metrics;
  load_board board(metrics, {"tiny", "bfloat16", true});
  const std::string shows = "vllm:num_requests_running{model_name=\"tiny\",engine=\"3\"} ";
  board.adopt(there({ready(3)}));
  board.take(busy(3, 1, 12));
  EXPECT_THAT(metrics.expose(), HasSubstr(shows + "12\n"));
  EXPECT_EQ(board.all().running, 12U);
  board.adopt(there({down(3)}));
  board.take(busy(3, 1, 11)); // which lay in the scheduler's mailbox
  EXPECT_THAT(metrics.expose(), Not(HasSubstr("model_name=\"tiny\",engine=\"3\"")));
  EXPECT_THAT(metrics.expose(), Not(HasSubstr("godwit_instance_requests_running{engine=\"3\"")));
  EXPECT_EQ(board.all().running, 0U);
  board.adopt(there({ready(3, 2)}));
  board.take(busy(3, 1, 10));
  EXPECT_THAT(metrics.expose(), Not(HasSubstr(shows))) << "of its start before";
  board.take(busy(3, 2, 1));
  EXPECT_THAT(metrics.expose(), HasSubstr(shows + "1\n"));
}

TEST(LoadBoard, ALateReportOfAnInstanceThatIsGoneDoesNotBringItBack) {
  runtime::metrics::registry metrics;
  load_board board(metrics);
  board.adopt(there({ready(1), ready(3)}));
  board.take(busy(3, 1, 12));
  board.adopt(there({ready(1)}));
  board.take(busy(3, 1, 12));
  EXPECT_THAT(metrics.expose(), Not(HasSubstr("engine=\"3\"")));
  EXPECT_EQ(board.all().running, 0U);
}

TEST(LoadBoard, CountsInstancesByState) {
  runtime::metrics::registry metrics;
  load_board board(metrics);
  EXPECT_THAT(metrics.expose(), HasSubstr("godwit_instances{state=\"ready\"} 0\n"));
  auto news = there({ready(0), ready(1), ready(2), down(3), ready(4), down(5)});
  news.instances.edit()[4].draining = true;
  runtime::sim::world world(1);
  runtime::sim::system system(world, {});
  const auto loading =
      system.spawn<godwit::test::idle_llumlet>(std::make_shared<godwit::test::idle_llumlet::journal>());
  news.instances.edit()[5].llumlet = loading;
  news.ordered = 2;
  board.adopt(news);
  const auto page = metrics.expose();
  EXPECT_THAT(page, HasSubstr("godwit_instances{state=\"ready\"} 3\n"));
  EXPECT_THAT(page, HasSubstr("godwit_instances{state=\"draining\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("godwit_instances{state=\"starting\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("godwit_instances{state=\"down\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("godwit_instances{state=\"ordered\"} 2\n"));
}

TEST(LoadBoard, KnowsNoVllmWithoutAModel) {
  runtime::metrics::registry metrics;
  load_board board(metrics);
  board.adopt(there({ready(3)}));
  board.take({instance_id{3}, 1, 1, true});
  EXPECT_THAT(metrics.expose(), Not(HasSubstr("vllm:")));
}

} // namespace
} // namespace godwit::main
