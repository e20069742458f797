#include "main/bench_answer.hpp"

#include <gtest/gtest.h>

namespace godwit::main {
namespace {

using transport::http::client_error;
using transport::http::client_error_kind;

constexpr std::int64_t ms = 1'000'000;

const std::string text_event = "data: {\"choices\":[{\"text\":\" a\",\"finish_reason\":null}],\"usage\":null}\n\n";
const std::string last_events = "data: {\"choices\":[{\"text\":\"\",\"finish_reason\":\"length\"}]}\n\n"
                                "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":3}}\n\n"
                                "data: [DONE]\n\n";

TEST(AnswerReader, NotesWhenEachPieceOfTextCame) {
  auto r = request_record{};
  auto reader = answer_reader(r);
  reader.head(200);
  reader.data(text_event, 10 * ms);
  reader.data(text_event, 14 * ms);
  reader.data(text_event, 20 * ms);
  reader.data(last_events, 21 * ms);
  reader.end(std::nullopt, 22 * ms);
  EXPECT_EQ(r.outcome, bench_outcome::answered);
  EXPECT_EQ(r.first_text_ns, 10 * ms);
  EXPECT_EQ(r.last_text_ns, 20 * ms);
  EXPECT_EQ(r.ended_ns, 22 * ms);
  EXPECT_EQ(r.gaps_ms, (std::vector<float>{4.0F, 6.0F}));
  EXPECT_EQ(r.usage_prompt, 5U);
  EXPECT_EQ(r.tokens(), 3U);
  EXPECT_EQ(r.finish_reason, "length");
  EXPECT_FALSE(r.usage_mismatch());
}

TEST(AnswerReader, ReadsTheSameHoweverTheBytesAreCut) {
  const auto whole = text_event + text_event + last_events;
  for (std::size_t size = 1; size < whole.size(); ++size) {
    auto r = request_record{};
    auto reader = answer_reader(r);
    reader.head(200);
    for (std::size_t at = 0; at < whole.size(); at += size) reader.data(std::string_view(whole).substr(at, size), ms);
    reader.end(std::nullopt, ms);
    ASSERT_EQ(r.outcome, bench_outcome::answered) << size;
    ASSERT_EQ(r.pieces, 2U) << size;
  }
}

// vLLM called it reasoning_content before, and so do others.
TEST(AnswerReader, WhatAModelThinksIsTextByEitherName) {
  for (const auto* const name : {"reasoning", "reasoning_content"}) {
    auto r = request_record{};
    auto reader = answer_reader(r);
    reader.head(200);
    reader.data(std::string("data: {\"error\":null,\"choices\":[{\"delta\":{\"") + name + "\":\"hm\"}}]}\n\n", 2 * ms);
    reader.data("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: [DONE]\n\n", 5 * ms);
    reader.end(std::nullopt, 6 * ms);
    EXPECT_EQ(r.outcome, bench_outcome::answered) << r.error_message;
    EXPECT_EQ(r.first_text_ns, 2 * ms) << name;
    EXPECT_EQ(r.pieces, 2U) << name;
  }
}

// OpenAI's first event of a chat names the role and has no text: it must not count as the first token.
TEST(AnswerReader, DoesNotTakeTheRoleOfAChatForAToken) {
  auto r = request_record{};
  auto reader = answer_reader(r);
  reader.head(200);
  reader.data("data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n", 1 * ms);
  reader.data("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: [DONE]\n\n", 5 * ms);
  reader.end(std::nullopt, 6 * ms);
  EXPECT_EQ(r.first_text_ns, 5 * ms);
  EXPECT_EQ(r.pieces, 1U);
}

TEST(AnswerReader, TakesMorePiecesThanTokensForAMismatch) {
  auto r = request_record{};
  auto reader = answer_reader(r);
  reader.head(200);
  for (auto i = 0; i < 4; ++i) reader.data(text_event, ms);
  reader.data(last_events, ms);
  reader.end(std::nullopt, ms);
  EXPECT_TRUE(r.usage_mismatch());
}

struct ending {
  int status;
  std::string bytes;
  std::optional<client_error> error;
  std::string kind;
  std::string message;
};

void PrintTo(const ending& e, std::ostream* os) { *os << e.kind; }

class FailedAnswer : public ::testing::TestWithParam<ending> {};

TEST_P(FailedAnswer, IsCountedByItsKind) {
  auto r = request_record{};
  auto reader = answer_reader(r);
  if (GetParam().status != 0) reader.head(GetParam().status);
  if (!GetParam().bytes.empty()) reader.data(GetParam().bytes, ms);
  reader.end(GetParam().error, 2 * ms);
  EXPECT_EQ(r.outcome, bench_outcome::failed);
  EXPECT_EQ(r.error_kind, GetParam().kind);
  EXPECT_EQ(r.error_message, GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    AnswerReader, FailedAnswer,
    ::testing::Values(ending{429, R"({"error":{"message":"the queue\nis full"}})", std::nullopt, "http_429",
                             "the queue is full"},
                      ending{500, "<html>", std::nullopt, "http_500", "<html>"},
                      ending{502, "", std::nullopt, "http_502", "no message"},
                      ending{200, text_event, std::nullopt, "truncated", "the stream ended without [DONE]"},
                      ending{200, text_event, client_error{client_error_kind::closed, "gone"}, "disconnect", "gone"},
                      ending{200, text_event, client_error{client_error_kind::timeout, "late"}, "timeout", "late"},
                      ending{0, "", client_error{client_error_kind::connect, "refused"}, "connect", "refused"},
                      ending{200, "data: {\"error\":{\"message\":\"boom\"}}\n\ndata: [DONE]\n\n", std::nullopt,
                             "error_event", "boom"},
                      ending{200, "data: nonsense\n\ndata: [DONE]\n\n", std::nullopt, "bad_stream",
                             "an event of the stream is not JSON: nonsense"}));

TEST(AnswerReader, CountsACancelledRequestAsUnfinishedNotAsFailed) {
  auto r = request_record{};
  auto reader = answer_reader(r);
  reader.head(200);
  reader.data(text_event, ms);
  reader.end(client_error{client_error_kind::cancelled, "cancelled"}, ms);
  EXPECT_EQ(r.outcome, bench_outcome::unfinished);
}

TEST(AnswerReader, ShortensMessagesWithinNoCharacter) {
  auto text = std::string(299, 'a') + "\xC3\xA9 and more";
  EXPECT_EQ(one_line(text), std::string(299, 'a') + "...");
}

} // namespace
} // namespace godwit::main
