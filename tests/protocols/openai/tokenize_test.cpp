#include <godwit/protocols/openai/tokenize.hpp>

#include <gtest/gtest.h>

#include <string>

namespace godwit::protocols::openai {
namespace {

/// So many tokens, of a context of 4 and a vocabulary of 10.
expected<detokenize_request, api_error> detokenized(std::size_t count, const std::string& id = "9") {
  request_limits limits;
  limits.context_length = 4;
  limits.vocabulary = 10;
  std::string body = R"({"tokens":[)";
  for (std::size_t i = 0; i < count; ++i) body += (i == 0 ? "" : ",") + id;
  return parse_detokenize(body + "]}", limits);
}

TEST(Detokenize, TakesAsManyTokensAsTheContextHas) {
  ASSERT_TRUE(detokenized(4));
  EXPECT_EQ(detokenized(4)->tokens, (std::vector<token_id>{9, 9, 9, 9}));
  const auto more = detokenized(5);
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().status, 400);
  EXPECT_EQ(more.error().param, "tokens");
}

TEST(Detokenize, TakesOnlyTokensOfTheVocabulary) {
  for (const auto* wrong : {"10", "-1", "1.5", "true"}) {
    const auto refused = detokenized(1, wrong);
    ASSERT_FALSE(refused) << wrong;
    EXPECT_EQ(refused.error().status, 400);
    EXPECT_EQ(refused.error().param, "tokens[0]");
  }
}

} // namespace
} // namespace godwit::protocols::openai
