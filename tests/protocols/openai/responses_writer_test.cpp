// What /v1/responses answers, whole and as a stream.
#include "protocols/openai/json_support.hpp"

#include <godwit/protocols/openai/error.hpp>
#include <godwit/protocols/openai/responses_writer.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace godwit::protocols::openai {
namespace {

using ::testing::ElementsAre;
using testing_support::read;
using testing_support::string_at;

responses_writer writer(bool stream) {
  return responses_writer({{"resp_1", "tiny", 1700000000}, "u", R"("tools":[])", stream});
}

choice said(std::string text, std::string finish = {}) {
  choice out;
  out.text = std::move(text);
  out.finish_reason = std::move(finish);
  return out;
}
choice thought(std::string text) {
  choice out;
  out.reasoning = std::move(text);
  return out;
}
choice called(tool_call_delta call, std::string text = {}) {
  choice out;
  out.text = std::move(text);
  out.calls.push_back(std::move(call));
  return out;
}
choice with_logprob(choice piece, std::string token) {
  token_choice one;
  one.chosen = {token, -0.5F};
  one.top = {{std::move(token), -0.5F}};
  piece.logprobs = {one};
  return piece;
}

/// The events of a stream, each with its name and number looked at.
class stream {
public:
  explicit stream(const std::vector<choice>& pieces, const usage& used = {5, 7, 3}) : writer_(writer(true)) {
    take(writer_.begin());
    for (const auto& piece : pieces) take(writer_.add(piece, {}));
    if (!pieces.empty() && !pieces.back().finish_reason.empty()) take(writer_.finish(used));
  }
  void fail(const api_error& error) { take(writer_.fail(error)); }

  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& event : all) out.push_back(string_at(event, "/type"));
    return out;
  }
  /// What the events of this name have at a place, joined.
  [[nodiscard]] std::string joined(std::string_view name, std::string_view pointer) const {
    std::string out;
    for (const auto& event : all)
      if (string_at(event, "/type") == name) out += string_at(event, pointer);
    return out;
  }
  [[nodiscard]] const boost::json::value& last() const { return all.back(); }

  std::vector<boost::json::value> all;

private:
  void take(const answer_part& part) {
    std::string_view rest = part.bytes;
    while (!rest.empty()) {
      const auto end = rest.find("\n\n");
      ASSERT_NE(end, std::string_view::npos);
      const auto event = rest.substr(0, end);
      rest.remove_prefix(end + 2);
      const auto line = event.find('\n');
      ASSERT_TRUE(event.starts_with("event: ") && event.substr(line).starts_with("\ndata: ")) << event;
      all.push_back(read(event.substr(line + 7)));
      EXPECT_EQ(string_at(all.back(), "/type"), event.substr(7, line - 7));
      EXPECT_EQ(all.back().at("sequence_number"), all.size() - 1);
    }
  }
  responses_writer writer_;
};

boost::json::value whole(const std::vector<choice>& pieces, const usage& used = {5, 7, 3}) {
  auto one = writer(false);
  for (const auto& piece : pieces) EXPECT_EQ(one.add(piece, {}).bytes, "");
  return read(one.finish(used).bytes);
}

TEST(Responses, AnAnswerIsWhatClientsExpect) {
  EXPECT_EQ(whole({said("Hello"), said(" you"), said("", "stop")}), read(R"({
    "id":"resp_1","object":"response","created_at":1700000000,"status":"completed","model":"tiny","error":null,
    "incomplete_details":null,"output":[{"id":"msg_u_0","type":"message","status":"completed","role":"assistant",
      "content":[{"type":"output_text","text":"Hello you","annotations":[],"logprobs":[]}]}],"tools":[],
    "usage":{"input_tokens":5,"input_tokens_details":{"cached_tokens":3},"output_tokens":7,
      "output_tokens_details":{"reasoning_tokens":0},"total_tokens":12}})"));
}

TEST(Responses, WhatIsCutByItsLengthIsIncomplete) {
  const auto cut = whole({said("Hello", "length")});
  EXPECT_EQ(cut.at("status"), "incomplete");
  EXPECT_EQ(cut.at("incomplete_details"), read(R"({"reason":"max_output_tokens"})"));
  EXPECT_EQ(cut.at_pointer("/output/0/status"), "incomplete");
  const stream told({said("Hello", "length")});
  EXPECT_EQ(told.names().back(), "response.incomplete");
  EXPECT_EQ(told.last().at("response"), cut);
}

TEST(Responses, WhatIsThoughtSaidAndCalledAreItemsInTheirOrder) {
  const std::vector<choice> pieces{thought("Hm"),
                                   thought("."),
                                   said("Let me see.\n"),
                                   called({0, "call_a", "f", "{\"a\"", 0}),
                                   called({0, "", "", ":1}", 0}),
                                   called({1, "call_b", "g", "{}", 0}),
                                   said("", "tool_calls")};
  const auto object = whole(pieces, {5, 7, 0, 2});
  EXPECT_EQ(object.at("output"), read(R"([
    {"id":"rs_u_0","type":"reasoning","status":"completed","summary":[],"content":[{"type":"reasoning_text","text":"Hm."}]},
    {"id":"msg_u_1","type":"message","status":"completed","role":"assistant",
     "content":[{"type":"output_text","text":"Let me see.\n","annotations":[],"logprobs":[]}]},
    {"id":"fc_u_2","type":"function_call","status":"completed","call_id":"call_a","name":"f","arguments":"{\"a\":1}"},
    {"id":"fc_u_3","type":"function_call","status":"completed","call_id":"call_b","name":"g","arguments":"{}"}])"));
  EXPECT_EQ(object.at("status"), "completed");
  EXPECT_EQ(object.at_pointer("/usage/output_tokens_details/reasoning_tokens"), 2);

  const stream told(pieces, {5, 7, 0, 2});
  EXPECT_THAT(told.names(),
              ElementsAre("response.created", "response.in_progress", "response.output_item.added",
                          "response.content_part.added", "response.reasoning_text.delta",
                          "response.reasoning_text.delta", "response.reasoning_text.done", "response.content_part.done",
                          "response.output_item.done", "response.output_item.added", "response.content_part.added",
                          "response.output_text.delta", "response.output_text.done", "response.content_part.done",
                          "response.output_item.done", "response.output_item.added",
                          "response.function_call_arguments.delta", "response.function_call_arguments.delta",
                          "response.function_call_arguments.done", "response.output_item.done",
                          "response.output_item.added", "response.function_call_arguments.delta",
                          "response.function_call_arguments.done", "response.output_item.done", "response.completed"));
  EXPECT_EQ(told.last().at("response"), object);
  EXPECT_EQ(told.joined("response.function_call_arguments.delta", "/delta"), "{\"a\":1}{}");
}

TEST(Responses, AStreamTellsBeginningGrowthAndEnd) {
  const stream told({said("Hello"), said(" you"), said("", "stop")});
  ASSERT_EQ(told.all.size(), 10U);
  EXPECT_EQ(told.all[0].at("response"), read(R"({"id":"resp_1","object":"response","created_at":1700000000,
    "status":"in_progress","model":"tiny","error":null,"incomplete_details":null,"output":[],"tools":[],"usage":null})"));
  EXPECT_EQ(told.all[2], read(R"({"type":"response.output_item.added","sequence_number":2,"output_index":0,
    "item":{"id":"msg_u_0","type":"message","status":"in_progress","role":"assistant","content":[]}})"));
  EXPECT_EQ(told.all[3], read(R"({"type":"response.content_part.added","sequence_number":3,"item_id":"msg_u_0",
    "output_index":0,"content_index":0,"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]}})"));
  EXPECT_EQ(told.all[4], read(R"({"type":"response.output_text.delta","sequence_number":4,"item_id":"msg_u_0",
    "output_index":0,"content_index":0,"delta":"Hello","logprobs":[]})"));
  EXPECT_EQ(told.all[6], read(R"({"type":"response.output_text.done","sequence_number":6,"item_id":"msg_u_0",
    "output_index":0,"content_index":0,"text":"Hello you","logprobs":[]})"));
  EXPECT_EQ(told.all[7].at_pointer("/part/text"), "Hello you");
  EXPECT_EQ(told.all[8].at_pointer("/item/content/0/text"), "Hello you");
  EXPECT_EQ(told.last().at("response"), whole({said("Hello you", "stop")}));
}

TEST(Responses, ACallIsToldWithItsNameAndWithAllOfIt) {
  const stream told({called({0, "call_a", "f", "{}", 0}), said("", "tool_calls")});
  ASSERT_EQ(told.all.size(), 7U);
  EXPECT_EQ(told.all[2], read(R"({"type":"response.output_item.added","sequence_number":2,"output_index":0,
    "item":{"id":"fc_u_0","type":"function_call","status":"in_progress","call_id":"call_a","name":"f","arguments":""}})"));
  EXPECT_EQ(told.all[3], read(R"({"type":"response.function_call_arguments.delta","sequence_number":3,
    "item_id":"fc_u_0","output_index":0,"delta":"{}"})"));
  EXPECT_EQ(told.all[4], read(R"({"type":"response.function_call_arguments.done","sequence_number":4,
    "item_id":"fc_u_0","output_index":0,"name":"f","arguments":"{}"})"));
}

// A step may bring several tokens.
TEST(Responses, TheItemsAreTheSameHoweverTheAnswerCame) {
  auto together = called({0, "call_a", "f", "{}", 5}, "One. Two.");
  together.reasoning = "Hm.";
  together.finish_reason = "stop";
  const auto expected = whole({together});
  EXPECT_EQ(expected, whole({thought("Hm."), said("O"), said("ne. "), called({0, "call_a", "f", "", 0}),
                             called({0, "", "", "{}", 0}, "T"), said("wo.", "stop")}));
  EXPECT_EQ(stream({together}).last().at("response"), expected);
  EXPECT_EQ(expected.at("output").as_array().size(), 4U);
  EXPECT_EQ(string_at(expected, "/output/1/content/0/text"), "One. ");
  EXPECT_EQ(string_at(expected, "/output/3/content/0/text"), "Two.");
}

TEST(Responses, WhiteSpaceAloneIsNoMessageBesideOtherItems) {
  EXPECT_EQ(whole({thought("Hm."), said("\n\n"), called({0, "c", "f", "{}", 0}), said(" \n", "tool_calls")})
                .at("output")
                .as_array()
                .size(),
            2U);
  EXPECT_EQ(string_at(whole({said("\n"), said("\nHi", "stop")}), "/output/0/content/0/text"), "\n\nHi");
  const auto nothing_else = whole({said("\n", "stop")});
  EXPECT_EQ(string_at(nothing_else, "/output/0/content/0/text"), "\n");
  EXPECT_EQ(stream({said("\n", "stop")}).last().at("response"), nothing_else);
}

TEST(Responses, AnEmptyAnswerIsAnEmptyMessage) {
  const auto empty = whole({said("", "stop")});
  EXPECT_EQ(string_at(empty, "/output/0/content/0/text"), "");
  EXPECT_EQ(stream({said("", "stop")}).last().at("response"), empty);
}

TEST(Responses, WhatIsCutWhileItThinksHasNoMessage) {
  const auto cut = whole({thought("Hm"), said("", "length")});
  ASSERT_EQ(cut.at("output").as_array().size(), 1U);
  EXPECT_EQ(cut.at_pointer("/output/0/type"), "reasoning");
  EXPECT_EQ(cut.at_pointer("/output/0/status"), "incomplete");
}

TEST(Responses, ACallThatIsCutIsIncomplete) {
  const auto cut = whole({called({0, "c", "f", "{\"a\":", 0}), said("", "length")});
  EXPECT_EQ(cut.at_pointer("/output/0/status"), "incomplete");
  EXPECT_EQ(string_at(cut, "/output/0/arguments"), "{\"a\":");
}

// As harmony has it, where a step has several tokens.
TEST(Responses, OneStepMayEndACallAndBeginAThought) {
  auto both = thought("Hm");
  both.text = "So";
  both.calls.push_back({0, "", "", "1}", 0});
  both.calls.push_back({1, "d", "g", "{}", 2});
  const std::vector<choice> pieces{called({0, "c", "f", "{\"a\":", 0}), both, said("", "tool_calls")};
  const auto object = whole(pieces);
  const auto& items = object.at("output").as_array();
  ASSERT_EQ(items.size(), 4U);
  EXPECT_EQ(string_at(items[0], "/arguments"), "{\"a\":1}");
  EXPECT_EQ(string_at(items[1], "/content/0/text"), "Hm");
  EXPECT_EQ(string_at(items[2], "/content/0/text"), "So");
  EXPECT_EQ(string_at(items[3], "/name"), "g");
  EXPECT_EQ(stream(pieces).last().at("response"), object);
}

TEST(Responses, ACallThatIsCutBehindItsArgumentsIsWhole) {
  const auto cut = whole({called({0, "c", "f", "{\"a\":1}", 0}), said("", "length")});
  EXPECT_EQ(cut.at_pointer("/status"), "incomplete");
  EXPECT_EQ(cut.at_pointer("/output/0/status"), "completed");
}

// Some models open and close what they think with nothing within.
TEST(Responses, LogprobsOfAnEmptyThoughtAreNobodys) {
  const auto thinking = [](choice piece) {
    piece.thinks = true;
    return piece;
  };
  const auto object = whole({thinking(with_logprob(said(""), "<think>")), thinking(with_logprob(said(""), "\n\n")),
                             thinking(with_logprob(said(""), "</think>")), thinking(with_logprob(said(""), "\n")),
                             with_logprob(said("Hi"), "Hi"), said("", "stop")});
  const auto& told = object.at_pointer("/output/0/content/0/logprobs").as_array();
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told.at(0).at("token"), "Hi");
}

TEST(Responses, LogprobsAreThoseOfWhatIsSaid) {
  std::vector<choice> pieces{with_logprob(said(""), "<think>"),
                             with_logprob(thought("Hm"), "Hm"),
                             with_logprob(said(""), "</think>"),
                             with_logprob(said("Hel"), "Hel"),
                             with_logprob(said(""), "l"),
                             with_logprob(said("lo"), "o"),
                             with_logprob(said(""), "<tool_call>"),
                             with_logprob(called({0, "c", "f", "{", 0}), "{"),
                             with_logprob(called({0, "", "", "}", 0}), "}"),
                             said("", "tool_calls")};
  const auto object = whole(pieces);
  EXPECT_EQ(object.at_pointer("/output/1/content/0/logprobs"), read(R"([
    {"token":"Hel","logprob":-0.5,"bytes":[72,101,108],"top_logprobs":[{"token":"Hel","logprob":-0.5,"bytes":[72,101,108]}]},
    {"token":"l","logprob":-0.5,"bytes":[108],"top_logprobs":[{"token":"l","logprob":-0.5,"bytes":[108]}]},
    {"token":"o","logprob":-0.5,"bytes":[111],"top_logprobs":[{"token":"o","logprob":-0.5,"bytes":[111]}]}])"));
  const stream told(pieces);
  EXPECT_EQ(told.last().at("response"), object);
  std::size_t deltas = 0;
  for (const auto& event : told.all)
    if (event.at("type") == "response.output_text.delta") deltas += event.at("logprobs").as_array().size();
  EXPECT_EQ(deltas, 3U);
}

TEST(Responses, OfHeldBackTokensTheLogprobsComeAtTheEnd) {
  const stream told({with_logprob(said("Hi"), "Hi"), with_logprob(said(""), " s"), said("", "stop")});
  EXPECT_THAT(told.names(),
              ElementsAre("response.created", "response.in_progress", "response.output_item.added",
                          "response.content_part.added", "response.output_text.delta", "response.output_text.delta",
                          "response.output_text.done", "response.content_part.done", "response.output_item.done",
                          "response.completed"));
  EXPECT_EQ(told.last().at_pointer("/response/output/0/content/0/logprobs").as_array().size(), 2U);
}

TEST(Responses, AnErrorInTheMiddleIsToldAndEndsIt) {
  stream told({said("Hel")});
  told.fail(timed_out("too late"));
  ASSERT_EQ(told.all.size(), 7U);
  EXPECT_EQ(told.all[5], read(R"({"type":"error","sequence_number":5,"code":"timeout","message":"too late",
    "param":"timeout"})"));
  const auto& failed = told.last();
  EXPECT_EQ(failed.at("type"), "response.failed");
  EXPECT_EQ(failed.at_pointer("/response/status"), "failed");
  EXPECT_EQ(failed.at_pointer("/response/error"), read(R"({"code":"server_error","message":"too late"})"));
  EXPECT_EQ(failed.at_pointer("/response/output/0/status"), "incomplete");
  EXPECT_EQ(string_at(failed, "/response/output/0/content/0/text"), "Hel");

  stream early({});
  early.fail(overloaded(1));
  EXPECT_EQ(early.last().at_pointer("/response/error/code"), "rate_limit_exceeded");
  EXPECT_TRUE(early.last().at_pointer("/response/output").as_array().empty());
}

TEST(Responses, OfAStreamWhatIsToldAgainDoesNotCountAgainstItsReader) {
  auto one = writer(true);
  EXPECT_TRUE(one.begin().repeats);
  EXPECT_FALSE(one.add(said("Hello"), {}).repeats);
  EXPECT_FALSE(one.add(said("Hello"), {}).repeats);
  EXPECT_TRUE(one.add(called({0, "c", "f", "{}", 0}), {}).repeats) << "the message has ended";
  EXPECT_TRUE(one.add(said("", "stop"), {}).bytes.empty());
  EXPECT_TRUE(one.finish({}).repeats);
}

TEST(Responses, AnEarlierOneIs404) {
  const auto error = no_stored_response("/v1/responses/resp_1");
  EXPECT_EQ(error.status, 404);
  EXPECT_NE(error.message.find("/v1/responses/resp_1"), std::string::npos);
  EXPECT_EQ(error.code, "not_found");
}

} // namespace
} // namespace godwit::protocols::openai
