// What /v1/messages answers, whole and as a stream; and Anthropic's errors and models.
#include "protocols/openai/json_support.hpp"

#include <godwit/protocols/anthropic/error.hpp>
#include <godwit/protocols/anthropic/messages_writer.hpp>
#include <godwit/protocols/anthropic/models.hpp>

#include <boost/json/serialize.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace godwit::protocols::anthropic {
namespace {

using openai::choice;
using openai::tool_call_delta;
using openai::usage;
using openai::testing_support::read;
using openai::testing_support::string_at;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

messages_writer::form form_of(bool stream) {
  messages_writer::form out;
  out.head = {"msg_1", "tiny", 1700000000};
  out.stream = stream;
  out.prompt_tokens = 5;
  return out;
}

choice say(std::string text, std::string finish = {}) {
  choice out;
  out.text = std::move(text);
  out.finish_reason = std::move(finish);
  return out;
}
choice think(std::string text) {
  choice out;
  out.reasoning = std::move(text);
  return out;
}
choice use(tool_call_delta call, std::string text = {}) {
  choice out;
  out.text = std::move(text);
  out.calls.push_back(std::move(call));
  return out;
}

/// The events of a stream, each with its name looked at; the blocks put together as clients do.
class told {
public:
  explicit told(const std::vector<choice>& pieces, messages_writer::form form = form_of(true),
                const usage& used = {5, 7, 3})
      : writer_(std::move(form)) {
    take(writer_.begin());
    for (const auto& piece : pieces) take(writer_.add(piece, {}));
    if (!pieces.empty() && !pieces.back().finish_reason.empty()) take(writer_.finish(used));
  }
  void fail(const openai::api_error& error) { take(writer_.fail(error)); }

  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& event : all) out.push_back(string_at(event, "/type"));
    return out;
  }
  /// The message as a client has it in the end.
  [[nodiscard]] boost::json::value message() const {
    boost::json::value out = all.front().at("message");
    auto& content = out.at("content").as_array();
    for (const auto& event : all) {
      const auto type = string_at(event, "/type");
      if (type == "content_block_start") {
        EXPECT_EQ(event.at("index"), content.size());
        content.push_back(event.at("content_block"));
        json_.emplace_back();
      } else if (type == "content_block_delta") {
        EXPECT_EQ(event.at("index"), content.size() - 1);
        grow(content.back().as_object(), event.at("delta"));
      } else if (type == "content_block_stop") {
        EXPECT_EQ(event.at("index"), content.size() - 1);
        if (!json_.back().empty()) content.back().at("input") = read(json_.back());
      } else if (type == "message_delta") {
        for (const auto& field : event.at("delta").as_object()) out.as_object()[field.key()] = field.value();
        if (const auto* edits = event.as_object().if_contains("context_management"))
          out.as_object()["context_management"] = *edits;
        out.at("usage") = event.at("usage");
      }
    }
    return out;
  }

  std::vector<boost::json::value> all;

private:
  void grow(boost::json::object& block, const boost::json::value& delta) const {
    const auto type = string_at(delta, "/type");
    const auto append = [&](const char* name) {
      auto& text = block.at(name).as_string();
      text.append(delta.at(name).as_string());
    };
    if (type == "text_delta") append("text");
    if (type == "thinking_delta") append("thinking");
    if (type == "signature_delta") block.at("signature") = delta.at("signature");
    if (type == "input_json_delta") json_.back() += string_at(delta, "/partial_json");
  }
  void take(const openai::answer_part& part) {
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
    }
  }
  messages_writer writer_;
  mutable std::vector<std::string> json_; // of the calls
};

boost::json::value whole_of(const std::vector<choice>& pieces, messages_writer::form form = form_of(false),
                            const usage& used = {5, 7, 3}) {
  messages_writer one(std::move(form));
  for (const auto& piece : pieces) EXPECT_EQ(one.add(piece, {}).bytes, "");
  return read(one.finish(used).bytes);
}

TEST(Messages, AnAnswerIsWhatClientsExpect) {
  EXPECT_EQ(whole_of({say("Hello"), say(" you"), say("", "stop")}), read(R"({
    "id":"msg_1","type":"message","role":"assistant","model":"tiny",
    "content":[{"type":"text","text":"Hello you","citations":null}],
    "stop_reason":"end_turn","stop_sequence":null,"stop_details":null,"container":null,"diagnostics":null,
    "usage":{"input_tokens":2,"cache_creation_input_tokens":0,"cache_read_input_tokens":3,"output_tokens":7,
      "output_tokens_details":null,"cache_creation":null,"server_tool_use":null,"service_tier":"standard"}})"));
}

TEST(Messages, AStreamTellsTheSameFromBlockToBlock) {
  const std::vector<choice> pieces{think("Hm"),
                                   think("."),
                                   say("\n\n"),
                                   say("Let me see."),
                                   use({0, "toolu_a", "f", "{\"a\"", 0}),
                                   use({0, "", "", ":1}", 0}),
                                   use({1, "toolu_b", "g", "", 0}),
                                   say("", "tool_calls")};
  const usage used{5, 7, 0, 2};
  const auto object = whole_of(pieces, form_of(false), used);
  EXPECT_EQ(object.at("content"), read(R"([{"type":"thinking","thinking":"Hm.","signature":""},
    {"type":"text","text":"\n\nLet me see.","citations":null},
    {"type":"tool_use","id":"toolu_a","name":"f","input":{"a":1},"caller":{"type":"direct"}},
    {"type":"tool_use","id":"toolu_b","name":"g","input":{},"caller":{"type":"direct"}}])"));
  EXPECT_EQ(object.at("stop_reason"), "tool_use");
  EXPECT_EQ(object.at_pointer("/usage/output_tokens_details/thinking_tokens"), 2);
  const told stream(pieces, form_of(true), used);
  EXPECT_THAT(stream.names(),
              ElementsAre("message_start", "ping", "content_block_start", "content_block_delta", "content_block_delta",
                          "content_block_delta", "content_block_stop", "content_block_start", "content_block_delta",
                          "content_block_stop", "content_block_start", "content_block_delta", "content_block_delta",
                          "content_block_stop", "content_block_start", "content_block_stop", "message_delta",
                          "message_stop"));
  EXPECT_EQ(stream.message(), object);
  const auto& begun = stream.all.front().at("message");
  EXPECT_EQ(begun.at("stop_reason"), boost::json::value());
  EXPECT_EQ(begun.at_pointer("/usage/input_tokens"), 5);
  EXPECT_EQ(begun.at_pointer("/usage/output_tokens"), 0);
}

TEST(Messages, WhyItEndedIsTold) {
  const auto reason = [](const choice& last, bool context_is_less = false) {
    auto form = form_of(false);
    form.context_is_less = context_is_less;
    const auto object = whole_of({say("x"), last}, form);
    form.stream = true;
    EXPECT_EQ(told({say("x"), last}, form).message().at("stop_reason"), object.at("stop_reason"));
    return string_at(object, "/stop_reason");
  };
  EXPECT_EQ(reason(say("", "stop")), "end_turn");
  EXPECT_EQ(reason(say("", "length")), "max_tokens");
  EXPECT_EQ(reason(say("", "length"), true), "model_context_window_exceeded");
  EXPECT_EQ(reason(say("", "stop"), true), "end_turn");
  auto stopped = say("", "stop");
  stopped.stop_string = "END";
  EXPECT_EQ(reason(stopped), "stop_sequence");
  EXPECT_EQ(whole_of({stopped}).at("stop_sequence"), "END");
  // A chosen tool's call ends as a chat's text does.
  EXPECT_EQ(whole_of({use({0, "toolu_a", "f", "{}", 0}), say("", "stop")}).at("stop_reason"), "tool_use");
  EXPECT_EQ(whole_of({use({0, "toolu_a", "f", "{\"a", 0}), say("", "length")}).at("stop_reason"), "max_tokens");
}

TEST(Messages, ACallThatBreaksOffHasNoInput) {
  const auto object = whole_of({use({0, "toolu_a", "f", "{\"a\":[1,", 0}), say("", "length")});
  EXPECT_EQ(object.at_pointer("/content/0/input"), read("{}"));
}

// Half a pair of surrogates is JSON all the same, and a stream would have told it.
TEST(Messages, ACallIsToldAsTheModelWroteIt) {
  messages_writer one(form_of(false));
  EXPECT_EQ(one.add(use({0, "toolu_a", "f", R"({"t":"\ud83d"})", 0}), {}).bytes, "");
  EXPECT_NE(one.finish({5, 7, 3}).bytes.find(R"("input":{"t":"\ud83d"})"), std::string::npos);
}

TEST(Messages, WhiteSpaceAloneIsATextOnlyWhereThereIsNothingElse) {
  EXPECT_EQ(whole_of({say(" \n"), say("", "stop")}).at_pointer("/content/0/text"), " \n");
  const auto called = whole_of({say("\n"), use({0, "toolu_a", "f", "{}", 0}), say("\n", "tool_calls")});
  EXPECT_EQ(called.at("content").as_array().size(), 1U);
  EXPECT_EQ(whole_of({say("", "stop")}).at("content").as_array().size(), 0U);
  EXPECT_THAT(told({say("", "stop")}).names(), ElementsAre("message_start", "ping", "message_delta", "message_stop"));
}

TEST(Messages, WhatIsThoughtIsNotToldToWhoDoesNotAsk) {
  for (const bool stream : {false, true}) {
    auto form = form_of(stream);
    form.tells_thoughts = false;
    const std::vector<choice> pieces{think("secret"), say("Hi"), say("", "stop")};
    const auto object = stream ? told(pieces, form).message() : whole_of(pieces, form);
    EXPECT_EQ(object.at_pointer("/content/0"), read(R"({"type":"thinking","thinking":"","signature":""})"));
    EXPECT_EQ(object.at_pointer("/content/1/text"), "Hi");
  }
}

TEST(Messages, WhatBecameOfTheContextIsToldToWhoAsks) {
  for (const bool stream : {false, true}) {
    auto form = form_of(stream);
    form.manages_context = true;
    const auto object = stream ? told({say("Hi", "stop")}, form).message() : whole_of({say("Hi", "stop")}, form);
    EXPECT_EQ(object.at("context_management"), read(R"({"applied_edits":[]})"));
  }
  EXPECT_EQ(read(count_object(7, false)), read(R"({"input_tokens":7})"));
  EXPECT_EQ(read(count_object(7, true)),
            read(R"({"input_tokens":7,"context_management":{"original_input_tokens":7}})"));
}

TEST(Messages, AnErrorEndsAStreamAsAnEvent) {
  told stream({say("Hel")});
  stream.fail(openai::unavailable("no instance is ready"));
  EXPECT_EQ(stream.all.back(), read(R"({"type":"error","error":{"type":"overloaded_error",
    "message":"no instance is ready"},"request_id":"msg_1"})"));
  const messages_writer writer(form_of(true));
  EXPECT_EQ(writer.keep_alive(), "event: ping\ndata: {\"type\":\"ping\"}\n\n");
  EXPECT_EQ(string_at(read(writer.refusal(openai::overloaded(1))), "/error/type"), "rate_limit_error");
}

TEST(AnthropicErrors, TheirTypeFollowsFromTheStatus) {
  const std::vector<std::pair<int, std::string>> all{{400, "invalid_request_error"}, {401, "authentication_error"},
                                                     {403, "permission_error"},      {404, "not_found_error"},
                                                     {405, "invalid_request_error"}, {408, "timeout_error"},
                                                     {413, "request_too_large"},     {429, "rate_limit_error"},
                                                     {431, "request_too_large"},     {500, "api_error"},
                                                     {503, "overloaded_error"},      {504, "timeout_error"}};
  for (const auto& [status, type] : all) EXPECT_EQ(error_type(status), type) << status;
}

TEST(AnthropicErrors, TheMessageNamesWhatIsWrong) {
  const auto message = [](const openai::api_error& error) {
    return string_at(read(error_object(error)), "/error/message");
  };
  EXPECT_EQ(message(openai::invalid_value("max_tokens", "'max_tokens' is required.")), "'max_tokens' is required.");
  EXPECT_EQ(message(openai::invalid_value("messages[0].role", "There is no such role.")),
            "messages[0].role: There is no such role.");
  EXPECT_THAT(message(openai::context_length_exceeded(10, 8, "messages")), HasSubstr("prompt is too long"));
  EXPECT_EQ(read(error_object(openai::model_not_found("m"), "req-1")).at("request_id"), "req-1");
  EXPECT_EQ(read(error_object(openai::model_not_found("m"))).at("request_id"), boost::json::value());
}

TEST(AnthropicErrors, ThatOfAThreadHasItsCode) {
  auto error = openai::unsupported("thread");
  EXPECT_FALSE(read(error_object(error)).at("error").as_object().contains("details"));
  error.code = "thread_unsupported_request";
  EXPECT_EQ(read(error_object(error)).at_pointer("/error/details/error_code"), "thread_unsupported_request");
}

TEST(AnthropicModels, AreAPage) {
  openai::model_card tiny{"tiny", 1700000000, "godwit", 512, ""};
  openai::model_card other{"other", 0, "godwit", 0, ""};
  const auto page = read(models_page({tiny, other}));
  EXPECT_EQ(page.at("has_more"), false);
  EXPECT_EQ(page.at("first_id"), "tiny");
  EXPECT_EQ(page.at("last_id"), "other");
  EXPECT_EQ(page.at_pointer("/data/0"), read(model_info(tiny)));
  EXPECT_EQ(page.at_pointer("/data/0/created_at"), "2023-11-14T22:13:20Z");
  EXPECT_EQ(page.at_pointer("/data/0/display_name"), "tiny");
  EXPECT_EQ(page.at_pointer("/data/0/max_input_tokens"), 512);
  EXPECT_EQ(page.at_pointer("/data/1/created_at"), "1970-01-01T00:00:00Z");
  EXPECT_EQ(page.at_pointer("/data/1/max_tokens"), boost::json::value());
  EXPECT_EQ(read(models_page({})).at("first_id"), boost::json::value());
}

} // namespace
} // namespace godwit::protocols::anthropic
