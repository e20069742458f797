#include <godwit/actors/engine_metrics.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>

namespace godwit::actors {

using protocols::instance_id;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(EngineMetrics, TellOfARequestFromItsFirstStepOn) {
  runtime::metrics::registry registry;
  engine_metrics engines(registry, "tiny", 512);
  engines.ended({instance_id{3}, "stop", 7.0, 2.0, 4.0, 10, 20, 30});
  const auto page = registry.expose();
  const std::string labels = "{model_name=\"tiny\",engine=\"3\"} ";
  EXPECT_THAT(page, HasSubstr("vllm:request_prefill_time_seconds_sum" + labels + "2\n"));
  EXPECT_THAT(page, HasSubstr("vllm:request_decode_time_seconds_sum" + labels + "4\n"));
  EXPECT_THAT(page, HasSubstr("vllm:request_inference_time_seconds_sum" + labels + "6\n"));
  EXPECT_THAT(page, HasSubstr("vllm:e2e_request_latency_seconds_sum" + labels + "7\n"));
  EXPECT_THAT(page, HasSubstr("vllm:request_max_num_generation_tokens_sum" + labels + "20\n"));
}

// Labels are bounded; a dashboard that looks for its model finds the others under it all the same.
TEST(EngineMetrics, InstancesBeyondTheBoundAreOthersOfTheSameModel) {
  runtime::metrics::registry registry;
  engine_metrics engines(registry, "tiny", 512);
  for (std::uint32_t id = 0; id < 300; ++id) {
    engines.tokens(instance_id{id}, 1);
    engines.ended({instance_id{id}, "stop", 1, 1, 1, 1, 1, 1});
  }
  const auto page = registry.expose();
  EXPECT_THAT(page, Not(HasSubstr("model_name=\"other\"")));
  EXPECT_THAT(page, HasSubstr("vllm:generation_tokens_total{model_name=\"tiny\",engine=\"other\"} 45\n"));
  EXPECT_THAT(page, HasSubstr("engine=\"other\",finished_reason=\"stop\"} 45\n"));
}

namespace {

topology there(const std::set<std::uint32_t>& ids) {
  topology out;
  for (const auto id : ids)
    out.instances.edit().emplace_back(instance_id{id}, 1, true, runtime::handle<llumlet_interface>{});
  return out;
}

std::string tokens_of(const std::string& engine, int count) {
  return "vllm:generation_tokens_total{model_name=\"tiny\",engine=\"" + engine + "\"} " + std::to_string(count) + "\n";
}

} // namespace

TEST(EngineMetrics, WhoHasBeenGoneLongestGivesItsPlaceToANewInstance) {
  runtime::metrics::registry registry;
  engine_metrics engines(registry, "tiny", 512);
  std::set<std::uint32_t> ids;
  for (std::uint32_t id = 0; id < 255; ++id) {
    ids.insert(id);
    engines.tokens(instance_id{id}, 1);
    for (const auto* outcome : {"stop", "length", "cancelled", "error"})
      engines.ended({instance_id{id}, outcome, 1, 1, 1, 1, 1, 1});
  }
  for (const std::uint32_t leaves : {7U, 9U, 3U}) {
    ids.erase(leaves);
    engines.adopt(there(ids));
  }
  ids.insert(9); // it was out of sight
  engines.adopt(there(ids));
  EXPECT_THAT(registry.expose(), HasSubstr(tokens_of("7", 1))) << "nobody needs its place";

  engines.tokens(instance_id{1000}, 5);
  auto page = registry.expose();
  EXPECT_THAT(page, Not(HasSubstr("engine=\"7\"")));
  EXPECT_THAT(page, HasSubstr(tokens_of("3", 1)));
  EXPECT_THAT(page, HasSubstr(tokens_of("1000", 5)));

  engines.tokens(instance_id{1001}, 6);
  engines.tokens(instance_id{1002}, 8);
  page = registry.expose();
  EXPECT_THAT(page, Not(HasSubstr("engine=\"3\"")));
  EXPECT_THAT(page, HasSubstr(tokens_of("9", 1)));
  EXPECT_THAT(page, HasSubstr(tokens_of("1001", 6)));
  EXPECT_THAT(page, HasSubstr(tokens_of("other", 8))) << "all the others are there";
  EXPECT_THAT(page, Not(HasSubstr("model_name=\"other\"")));

  ids.erase(20);
  ids.insert({1000, 1001, 1002});
  engines.adopt(there(ids));
  engines.tokens(instance_id{1002}, 2);
  page = registry.expose();
  EXPECT_THAT(page, HasSubstr(tokens_of("1002", 2)));
  EXPECT_THAT(page, HasSubstr(tokens_of("other", 8)));
  EXPECT_THAT(page, Not(HasSubstr("model_name=\"other\"")));
}

TEST(EngineMetrics, AreThereAtZeroAsSoonAsTheInstanceIsReady) {
  runtime::metrics::registry registry;
  engine_metrics engines(registry, "tiny", 512);
  engines.adopt(there({4}));
  const auto page = registry.expose();
  EXPECT_THAT(page, HasSubstr(tokens_of("4", 0)));
  for (const auto* reason : {"stop", "length", "abort", "error"})
    EXPECT_THAT(page, HasSubstr("vllm:request_success_total{model_name=\"tiny\",engine=\"4\",finished_reason=\"" +
                                std::string(reason) + "\"} 0\n"));
}

TEST(EngineMetrics, OfThoseThatHaveLeftTheLastFewStay) {
  runtime::metrics::registry registry;
  engine_metrics engines(registry, "tiny", 512);
  std::set<std::uint32_t> ids{0};
  for (std::uint32_t id = 1; id <= 40; ++id) { // one process that is started anew again and again
    ids.insert(id);
    engines.adopt(there(ids));
    engines.tokens(instance_id{id}, 1);
    ids.erase(id);
    engines.adopt(there(ids));
  }
  const auto page = registry.expose();
  EXPECT_THAT(page, Not(HasSubstr("engine=\"24\"")));
  EXPECT_THAT(page, HasSubstr(tokens_of("25", 1)));
  EXPECT_THAT(page, HasSubstr(tokens_of("40", 1)));
  EXPECT_THAT(page, HasSubstr("engine=\"0\""));
  // One of its requests ends later: it has a place again, and is not there.
  engines.tokens(instance_id{3}, 7);
  EXPECT_THAT(registry.expose(), HasSubstr(tokens_of("3", 7)));
  engines.adopt(there(ids));
  EXPECT_THAT(registry.expose(), Not(HasSubstr("engine=\"25\"")));
}

} // namespace godwit::actors
