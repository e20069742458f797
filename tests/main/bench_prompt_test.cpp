#include "main/bench_prompt.hpp"

#include <boost/json.hpp>
#include <gtest/gtest.h>

#include <algorithm>

namespace godwit::main {
namespace {

using protocols::workload::workload_request;

workload_request request(std::uint32_t prompt, std::vector<std::uint64_t> hashes = {}) {
  auto r = workload_request{};
  r.prompt_tokens = prompt;
  r.answer_tokens = 9;
  r.prefix_hashes = std::move(hashes);
  return r;
}

prompt_writer writer(std::uint64_t seed = 1, std::uint32_t vocabulary = 0,
                     bench_endpoint endpoint = bench_endpoint::completions) {
  return prompt_writer({"m", endpoint, vocabulary, seed, 0.5, true, {}});
}

TEST(PromptWriter, WritesAsManyIdsAsAskedWithinTheVocabulary) {
  for (const auto vocabulary : {0U, 1U, 15U, 1000U}) {
    const auto ids = writer(1, vocabulary).ids(request(5000), 0);
    ASSERT_EQ(ids.size(), 5000U);
    EXPECT_LT(*std::max_element(ids.begin(), ids.end()), vocabulary == 0 ? 250 : vocabulary);
  }
}

TEST(PromptWriter, WritesTheSameForTheSameSeedAndRequestOnly) {
  EXPECT_EQ(writer(1).ids(request(50), 3), writer(1).ids(request(50), 3));
  EXPECT_NE(writer(1).ids(request(50), 3), writer(2).ids(request(50), 3));
  EXPECT_NE(writer(1).ids(request(50), 3), writer(1).ids(request(50), 4));
}

TEST(PromptWriter, SharesPrefixesWhereTheWorkloadDoes) {
  const auto a = writer().ids(request(1100, {7, 8, 9}), 0);
  const auto b = writer().ids(request(1300, {7, 8, 4}), 1);
  ASSERT_EQ(a.size(), 1100U);
  ASSERT_EQ(b.size(), 1300U);
  EXPECT_TRUE(std::equal(a.begin(), a.begin() + 1024, b.begin()));
  EXPECT_FALSE(std::equal(a.begin() + 1024, a.end(), b.begin() + 1024));
}

TEST(PromptWriter, WritesTheBodyOfACompletion) {
  const auto body = boost::json::parse(writer().body(request(4), 0)).as_object();
  EXPECT_EQ(body.at("model").as_string(), "m");
  EXPECT_EQ(body.at("prompt").as_array().size(), 4U);
  EXPECT_EQ(body.at("max_tokens").as_int64(), 9);
  EXPECT_EQ(body.at("temperature").as_double(), 0.5);
  EXPECT_TRUE(body.at("stream").as_bool());
  EXPECT_TRUE(body.at("stream_options").at("include_usage").as_bool());
  EXPECT_TRUE(body.at("ignore_eos").as_bool());
}

TEST(PromptWriter, WritesPrioritiesOnlyWhereTheyAreAskedFor) {
  auto chosen = request(4);
  chosen.priority = 1;
  const auto body = [](const std::string& name, const workload_request& r) {
    auto settings = prompt_writer::settings{};
    settings.priority = name;
    return boost::json::parse(prompt_writer(settings).body(r, 0)).as_object();
  };
  EXPECT_EQ(body("high", chosen).at("execution_priority").as_string(), "high");
  EXPECT_EQ(body("high", chosen).at("priority").as_int64(), -1);
  for (const auto& plain : {body("high", request(4)), body("", chosen)}) {
    EXPECT_FALSE(plain.contains("execution_priority"));
    EXPECT_FALSE(plain.contains("priority"));
  }
}

TEST(PromptWriter, WritesAWordForEachTokenOfAChat) {
  const auto body = boost::json::parse(writer(1, 0, bench_endpoint::chat).body(request(4), 0)).as_object();
  const auto& content = body.at("messages").at(0).at("content").as_string();
  EXPECT_EQ(std::count(content.begin(), content.end(), ' '), 3);
  EXPECT_FALSE(body.contains("prompt"));
}

} // namespace
} // namespace godwit::main
