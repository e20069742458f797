#include <godwit/actors/engine_metrics.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace godwit::actors {

using protocols::instance_id;
using testing::HasSubstr;
using testing::Not;

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

} // namespace godwit::actors
