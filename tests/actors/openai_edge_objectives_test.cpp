// What clients say of the time that their answers may take.
#include "actors/support/openai_edge_fixture.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace godwit::test {

using ::testing::HasSubstr;

namespace {

class OpenaiEdgeObjectives : public openai_edge_fixture {
protected:
  void begin_with(bool refuses) {
    restart({.instances = 1, .adjust = [refuses](actors::node_options& o) {
               o.frontend.objectives.refusable = refuses;
               o.frontend.metrics = nullptr;
             }});
    ASSERT_EQ(complete(R"({"prompt":"A hacker is a person who","max_tokens":4})")->whole.status, 200)
        << "so that something is known of the instance";
  }
  std::shared_ptr<fake_exchange> within(const fields& more) {
    return call("POST", "/v1/completions", R"({"prompt":"A hacker is","max_tokens":4})", more);
  }
};

} // namespace

TEST_F(OpenaiEdgeObjectives, WhatIsOutOfReachIsRefusedWithA429) {
  ASSERT_NO_FATAL_FAILURE(begin_with(true));
  for (const auto* field : {"X-SLO-TTFT-MS", "x-llm-d-slo-ttft-ms"}) {
    const auto refused = within({{field, "0.001"}});
    EXPECT_EQ(refused->whole.status, 429) << field;
    EXPECT_THAT(refused->whole.body, HasSubstr("\"code\":\"objectives_not_met\"")) << field;
    EXPECT_THAT(refused->whole.body, HasSubstr("\"type\":\"rate_limit_error\"")) << field;
    EXPECT_THAT(refused->whole.body, HasSubstr("0.001 ms to the first token, where ")) << field;
    EXPECT_EQ(refused->whole.fields.find("Retry-After"), "1") << field;
    EXPECT_EQ(within({{field, "60000"}})->whole.status, 200) << field;
  }
  for (const auto* field : {"X-SLO-TPOT-MS", "X-LLM-D-SLO-TPOT-MS"}) {
    EXPECT_EQ(within({{field, "0.000001"}})->whole.status, 429) << field;
    EXPECT_EQ(within({{field, "1000.5"}})->whole.status, 200) << field;
  }
  const auto chat = call("POST", "/v1/chat/completions",
                         R"({"messages":[{"role":"user","content":"x"}],"stream":true})", {{"X-SLO-TTFT-MS", "0.001"}});
  EXPECT_EQ(chat->whole.status, 429) << "before a stream begins";
  EXPECT_EQ(cluster->status().requests_open, 0U);
}

TEST_F(OpenaiEdgeObjectives, OfWhoeverMayNotBeRefusedTheyAreAWish) {
  ASSERT_NO_FATAL_FAILURE(begin_with(false));
  EXPECT_EQ(within({{"X-SLO-TTFT-MS", "0.001"}, {"X-SLO-TPOT-MS", "0.001"}})->whole.status, 200);
}

TEST_F(OpenaiEdgeObjectives, OfMoreThanOnePromptOneRefusalIsEnough) {
  ASSERT_NO_FATAL_FAILURE(begin_with(true));
  const auto refused =
      call("POST", "/v1/completions", R"({"prompt":["a","b"],"n":2,"max_tokens":4})", {{"X-SLO-TTFT-MS", "0.001"}});
  EXPECT_EQ(refused->whole.status, 429);
  ASSERT_TRUE(cluster->run_until([&] { return cluster->blocks_used() == 0; }));
  EXPECT_EQ(cluster->status().requests_open, 0U);
}

TEST_F(OpenaiEdgeObjectives, WhoGoesBeforeOthersIsNotRefused) {
  ASSERT_NO_FATAL_FAILURE(begin_with(true));
  const auto with = [&](const std::string& more) {
    return call("POST", "/v1/completions", R"({"prompt":"A hacker is","max_tokens":4,)" + more + "}",
                {{"X-SLO-TTFT-MS", "0.001"}})
        ->whole.status;
  };
  EXPECT_EQ(with(R"("priority":0)"), 429);
  EXPECT_EQ(with(R"("priority":3)"), 429);
  EXPECT_EQ(with(R"("priority":-1)"), 200);
  EXPECT_EQ(with(R"("execution_priority":"high")"), 200);
}

TEST_F(OpenaiEdgeObjectives, WhatIsNoTimeIsAnError) {
  for (const auto* text : {"", "soon", "0", "-5", "1e400", "nan", "inf", "5ms", "86400001", " 5 x"}) {
    const auto wrong = within({{"X-SLO-TTFT-MS", text}});
    EXPECT_EQ(wrong->whole.status, 400) << text;
    EXPECT_THAT(wrong->whole.body, HasSubstr("The header X-SLO-TTFT-MS should be a number of milliseconds")) << text;
  }
}

} // namespace godwit::test
