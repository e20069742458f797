#include "gpu/model/tokenizer_files.hpp"

#include <godwit/gpu/model/constraints.hpp>
#include <godwit/gpu/model/model_directory.hpp>
#include <godwit/protocols/grammar/json_schema.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace godwit::gpu::model {
namespace {

namespace grammar = protocols::grammar;
using protocols::token_id;
using namespace std::chrono_literals;

/// Every byte, pieces of JSON, words, spaces and halves of characters; two ends and an id without text behind them.
std::vector<std::string> vocabulary(std::uint32_t seed, std::size_t words) {
  std::vector<std::string> out;
  for (int b = 0; b < 256; ++b) out.emplace_back(1, static_cast<char>(b));
  for (const auto* text :
       {"{\"",      "\":",       "\": ",  "\",",   "\", \"",    "\"}",   "},",  "}, {",       "[{",
        "}]",       "null",      "true",  "false", "\n  ",      "  ",    "\\n", "\\u",        "\\\"",
        "00",       "12",        "123",   "-1",    "0.",        "1e",    "é",   "\xc3\xa9\"", "\xf0\x9f",
        "\x98\x80", "a\":1,\"b", "\"a\"", "name",  "\"name\":", "ab\"]", ",\n"})
    out.emplace_back(text);
  std::mt19937 random(seed);
  const std::string letters = "abcde \":{}[],0123.\n-\\u";
  for (std::size_t i = 0; i < words; ++i) {
    std::string word;
    for (auto n = 2 + random() % 7; n > 0; --n) word += letters[random() % letters.size()];
    out.push_back(word);
  }
  return out;
}

protocols::step_slice slice_of(const std::string& schema, std::vector<token_id> generated, std::uint64_t request = 1) {
  protocols::step_slice slice;
  slice.request = protocols::request_id(request);
  slice.samples = true;
  slice.sampling.json_schema = schema;
  slice.sample_index = static_cast<std::uint32_t>(generated.size());
  slice.generated = std::move(generated);
  return slice;
}

struct rig {
  explicit rig(constraint_limits limits = {}, std::size_t words = 600)
      : texts(vocabulary(7, words)), end(static_cast<token_id>(texts.size())),
        masks(texts, {end, end + 1}, static_cast<std::uint32_t>(texts.size()) + 5, limits) {}
  std::vector<std::string> texts;
  token_id end;
  constraints masks;
};

const std::vector<std::string> schemas{
    "{}",
    R"({"type":"object"})",
    R"({"type":"object","properties":{"name":{"type":"string","maxLength":12},"ab":{"type":"integer"},"c":{"type":["null","boolean"]}},"required":["name"]})",
    R"({"type":"array","items":{"enum":["a","ab","abc",12,null,{"a":1}]},"minItems":1,"maxItems":5})",
    R"({"type":"string","pattern":"^[a-c]{1,20}(?: [a-e]+)*$"})",
    R"({"type":"object","properties":{"v":{"type":"number"},"next":{"anyOf":[{"$ref":"#"},{"type":"null"}]}},"required":["v","next"]})",
    R"({"type":"array","items":{"anyOf":[{"type":"integer","minimum":-20,"maximum":1234},{"type":"string","format":"date"}]}})",
    R"({"type":"object","properties":{"a":{"type":"integer"}},"additionalProperties":{"type":"string"}})",
    R"(["yes","no","nothing at all"])",
    R"("[a-e]{3}-[0-9]+")",
};

/// A random answer; the tokens, ended by an end token or cut at `tokens_max`.
std::vector<token_id> random_answer(rig& with, const std::string& schema, std::uint32_t seed, std::size_t tokens_max,
                                    std::uint64_t request) {
  std::mt19937 random(seed);
  std::vector<token_id> answer;
  while (answer.size() < tokens_max) {
    const auto mask = with.masks.allowed(slice_of(schema, answer, request));
    if (mask->allows(with.end) && (mask->must_end || random() % 3 == 0)) {
      answer.push_back(with.end);
      break;
    }
    std::vector<token_id> choices;
    for (std::size_t i = 0; i < with.texts.size(); ++i)
      if (mask->allows(static_cast<token_id>(i))) choices.push_back(static_cast<token_id>(i));
    if (choices.empty()) {
      ADD_FAILURE() << "a dead end in " << schema;
      break;
    }
    answer.push_back(choices[random() % choices.size()]);
  }
  return answer;
}

std::string text_of(const rig& with, const std::vector<token_id>& answer) {
  std::string text;
  for (const auto id : answer)
    if (id < with.end) text += with.texts[static_cast<std::size_t>(id)];
  return text;
}

TEST(Constraints, AMaskIsExactlyTheTokensTheGrammarGoesOnWith) {
  rig with;
  std::size_t compared = 0;
  for (const auto& schema : schemas) {
    grammar::automaton run(*grammar::compile_schema(schema));
    for (std::uint32_t seed = 0; seed < 12; ++seed) {
      const auto answer = random_answer(with, schema, seed, 40, seed);
      std::vector<token_id> so_far;
      auto at = run.start();
      for (const auto next : answer) {
        const auto mask = with.masks.allowed(slice_of(schema, so_far, seed + 100));
        bool any = false;
        for (std::size_t i = 0; i < with.texts.size(); ++i) {
          const bool goes_on = run.advance(at, with.texts[i]) != grammar::dead;
          any = any || goes_on;
          ASSERT_EQ(mask->allows(static_cast<token_id>(i)), goes_on)
              << schema << "\nafter " << text_of(with, so_far) << "\ntoken " << with.texts[i];
        }
        EXPECT_EQ(mask->allows(with.end), run.may_end(at));
        EXPECT_EQ(mask->allows(with.end + 1), run.may_end(at));
        EXPECT_EQ(mask->must_end, !any);
        EXPECT_FALSE(mask->allows(with.end + 2));
        EXPECT_TRUE(any || run.may_end(at));
        ++compared;
        so_far.push_back(next);
        if (next < with.end) at = run.advance(at, with.texts[static_cast<std::size_t>(next)]);
      }
      if (!answer.empty() && answer.back() == with.end) {
        EXPECT_TRUE(run.may_end(at)) << schema << "\n" << text_of(with, answer);
      }
    }
  }
  EXPECT_GT(compared, 1000U);
}

TEST(Constraints, NothingThatIsKeptChangesAMask) {
  // Next to nothing is kept, and everything is.
  constraint_limits small;
  small.grammars_max = 1;
  small.requests_max = 1;
  small.first_masks_max = 1;
  small.masks_max = 1;
  rig tight(small), wide;
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    const auto& schema = schemas[seed % schemas.size()];
    EXPECT_EQ(random_answer(tight, schema, seed, 30, seed), random_answer(wide, schema, seed, 30, seed));
  }
}

TEST(Constraints, AnAnswerGoesOnElsewhereAndFromAnyPlace) {
  rig here, there;
  const auto& schema = schemas[5];
  const auto answer = random_answer(here, schema, 3, 60, 1);
  for (std::size_t cut : {std::size_t{0}, answer.size() / 2, answer.size() - 1, answer.size() / 3}) {
    const std::vector<token_id> so_far(answer.begin(), answer.begin() + static_cast<std::ptrdiff_t>(cut));
    EXPECT_EQ(there.masks.allowed(slice_of(schema, so_far))->words,
              here.masks.allowed(slice_of(schema, so_far))->words);
  }
}

/// Pieces of the markers, those that say more besides, and the markers themselves behind the usual vocabulary.
struct thinking_rig {
  explicit thinking_rig(constraint_limits limits = {})
      : texts(all_texts()), end(static_cast<token_id>(texts.size())),
        masks(texts, {end}, static_cast<std::uint32_t>(texts.size()) + 2, limits) {}
  static std::vector<std::string> all_texts() {
    auto out = vocabulary(7, 100);
    for (const auto* text : {"<th", "ink", "think>", "</", "</think", ">\n\n", ">{", "> so", "so </th", "<think>",
                             "</think>", "</think>\n", "<think>\n", "<think></think>"})
      out.emplace_back(text);
    return out;
  }
  [[nodiscard]] token_id id_of(const std::string& text) const {
    const auto found = std::ranges::find(texts, text);
    EXPECT_NE(found, texts.end()) << text;
    return static_cast<token_id>(found - texts.begin());
  }
  [[nodiscard]] std::vector<token_id> ids(const std::vector<std::string>& pieces) const {
    std::vector<token_id> out;
    for (const auto& piece : pieces) out.push_back(id_of(piece));
    return out;
  }
  static protocols::step_slice slice(const std::string& schema, protocols::reasoning_start how,
                                     std::vector<token_id> generated, std::uint64_t request = 1) {
    auto out = slice_of(schema, std::move(generated), request);
    out.sampling.reasoning = how;
    return out;
  }
  /// What may follow; null where everything may.
  std::shared_ptr<const token_mask> after(const std::string& schema, protocols::reasoning_start how,
                                          const std::vector<std::string>& pieces) {
    return masks.allowed(slice(schema, how, ids(pieces)));
  }
  std::vector<std::string> texts;
  token_id end;
  constraints masks;
};

using protocols::reasoning_start;
const std::string small_object = R"({"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]})";

TEST(ConstrainedThinking, IsFreeAndTheSchemaBindsTheFirstTokenBehindIt) {
  for (const auto& closing :
       {std::vector<std::string>{"</think>"}, {"</think>\n"}, {"</", "think>"}, {"so </th", "ink", ">\n\n"}}) {
    thinking_rig with;
    std::vector<std::string> said;
    for (const auto* piece : {"name", "},", "\x98\x80", "<", "think>"}) {
      EXPECT_EQ(with.after(small_object, reasoning_start::thinking, said), nullptr) << "ends and special tokens too";
      said.emplace_back(piece);
    }
    said.insert(said.end(), closing.begin(), closing.end());
    const auto mask = with.after(small_object, reasoning_start::thinking, said);
    ASSERT_NE(mask, nullptr);
    EXPECT_EQ(mask->words, with.after(small_object, reasoning_start::off, {})->words);
    said.emplace_back("{\"");
    EXPECT_EQ(with.after(small_object, reasoning_start::thinking, said)->words,
              with.after(small_object, reasoning_start::off, {"{\""})->words);
  }
}

TEST(ConstrainedThinking, WhatClosesItSaysNothingWithTheMarker) {
  thinking_rig with;
  const auto mask = with.after(small_object, reasoning_start::thinking, {"name", "</think"});
  ASSERT_NE(mask, nullptr);
  EXPECT_FALSE(mask->allows(with.id_of(">{")));
  EXPECT_FALSE(mask->allows(with.id_of("> so")));
  for (const auto* text : {">", ">\n\n", "name", "</think>", "<"}) EXPECT_TRUE(mask->allows(with.id_of(text))) << text;
  EXPECT_TRUE(mask->allows(with.end));
  EXPECT_TRUE(mask->allows(with.end + 1)) << "one without text";
  EXPECT_FALSE(mask->must_end);
}

TEST(ConstrainedThinking, WhatMayBeginWithItIsBoundUnlessItDoes) {
  thinking_rig with;
  const auto bound = with.after(small_object, reasoning_start::off, {});
  const auto first = with.after(small_object, reasoning_start::answer, {});
  // Not by a piece of the marker: who would rather say something else than its schema lets it, and never thinks, would
  // come in and not out again.
  for (std::size_t i = 0; i < with.texts.size() + 2; ++i) {
    const auto id = static_cast<token_id>(i);
    const bool opens = i < with.texts.size() && with.texts[i].starts_with("<think>");
    EXPECT_EQ(first->allows(id), bound->allows(id) || opens) << (i < with.texts.size() ? with.texts[i] : "");
  }
  EXPECT_EQ(with.after(small_object, reasoning_start::answer, {"<think>"}), nullptr);
  EXPECT_EQ(with.after(small_object, reasoning_start::answer, {"{\""})->words,
            with.after(small_object, reasoning_start::off, {"{\""})->words);
  EXPECT_EQ(with.after(small_object, reasoning_start::answer, {"<think></think>"})->words, bound->words);
  // What a pattern has begin so is its own.
  const std::string tag = R"("<thorn>[a-z]*")";
  EXPECT_EQ(with.after(tag, reasoning_start::answer, {"<th"})->words,
            with.after(tag, reasoning_start::off, {"<th"})->words);
}

TEST(ConstrainedThinking, GoesOnElsewhereFromAnyPlace) {
  // A walk through both parts, the second marker in pieces; at each place an instance that knows nothing of it allows
  // the same.
  constraint_limits small;
  small.requests_max = 1;
  thinking_rig here, forgets(small);
  for (const auto how : {reasoning_start::answer, reasoning_start::thinking}) {
    std::vector<std::string> said;
    if (how == reasoning_start::answer) said = {"<think>"};
    for (const auto* piece : {"name", "</", "so </th", "ink", ">\n\n", "{\"", "a", "\":", "12", "3"})
      said.emplace_back(piece);
    const auto all = here.ids(said);
    for (std::size_t cut = 0; cut <= all.size(); ++cut) {
      const std::vector<token_id> so_far(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(cut));
      thinking_rig there;
      const auto known = here.masks.allowed(thinking_rig::slice(small_object, how, so_far, 5));
      (void)forgets.masks.allowed(thinking_rig::slice(small_object, how, {}, 6));
      for (auto* other : {&there, &forgets}) {
        const auto mask = other->masks.allowed(thinking_rig::slice(small_object, how, so_far, 5));
        ASSERT_EQ(mask == nullptr, known == nullptr) << cut;
        if (mask) {
          EXPECT_EQ(mask->words, known->words) << cut;
        }
      }
    }
    // Preempted, and begun again from the start.
    EXPECT_EQ(here.masks.allowed(thinking_rig::slice(small_object, how, {}, 5)) == nullptr,
              forgets.masks.allowed(thinking_rig::slice(small_object, how, {}, 5)) == nullptr);
  }
}

TEST(ConstrainedThinking, AnAnswerThatNoMaskLetsPassIsRefusedInWords) {
  thinking_rig with;
  const auto refused = [&](reasoning_start how, const std::vector<std::string>& pieces) {
    EXPECT_THROW((void)with.after(small_object, how, pieces), std::runtime_error);
  };
  refused(reasoning_start::thinking, {"name", "</think", ">{"});
  refused(reasoning_start::thinking, {"</think>", "name"});
  refused(reasoning_start::answer, {"<th", "name"});
  refused(reasoning_start::answer, {"<th", "\x98\x80"});
  // Ended while it thought; nobody draws behind that.
  auto ended = with.ids({"name"});
  ended.push_back(with.end);
  const auto mask = with.masks.allowed(thinking_rig::slice(small_object, reasoning_start::thinking, ended));
  EXPECT_TRUE(mask->must_end);
}

TEST(ConstrainedThinking, EndsWithAMarkerThatIsASpecialToken) {
  auto json = tests::default_tokenizer_json();
  for (const auto& [from, to] : {std::pair{"<|im_start|>", "<think>"}, {"<|im_end|>", "</think>"}})
    while (json.find(from) != std::string::npos) json = tests::replaced(json, from, to);
  const auto tokens = tokenizer::from_json(json);
  ASSERT_TRUE(tokens);
  ASSERT_TRUE(tokens->is_special(1) && tokens->is_special(2));
  constraints masks(*tokens, {0}, tokens->size());
  const auto after = [&](std::vector<token_id> said) {
    return masks.allowed(thinking_rig::slice(small_object, reasoning_start::answer, std::move(said)));
  };
  EXPECT_TRUE(after({})->allows(1));
  EXPECT_FALSE(after({})->allows(2));
  auto said = tokens->encode("Well.", false);
  said.insert(said.begin(), 1);
  EXPECT_EQ(after(said), nullptr);
  said.push_back(2);
  const auto bound = after(said);
  ASSERT_NE(bound, nullptr);
  EXPECT_FALSE(bound->allows(1) || bound->allows(2));
  EXPECT_EQ(bound->words, masks.allowed(slice_of(small_object, {}, 9))->words);
}

TEST(ConstrainedThinking, GoesByTheBytesOfAVocabularyThatHasTheMarkersInPieces) {
  std::shared_ptr<const file_source> files = embedded_model();
  if (!files) GTEST_SKIP() << "built without the embedded model, whose tokenizer this test uses";
  const auto model = open_model(files);
  ASSERT_TRUE(model);
  constraints masks(*model->tokens, model->configuration.eos, model->configuration.vocabulary);
  const auto slice = [&](const std::string& text) {
    return thinking_rig::slice(small_object, reasoning_start::thinking, model->tokens->encode(text, false));
  };
  EXPECT_EQ(masks.allowed(slice("Well. <|im_start|>")), nullptr) << "special tokens are free as all others";
  const auto bound = masks.allowed(slice("Well.</think>"));
  ASSERT_NE(bound, nullptr);
  EXPECT_EQ(bound->words, masks.allowed(slice_of(small_object, {}, 9))->words);
}

TEST(Constraints, TheSameStateIsNotLookedAtTwice) {
  rig with;
  const std::string schema =
      R"({"type":"array","items":{"type":"object","properties":{"name":{"type":"string","maxLength":500}},"required":["name"]}})";
  std::vector<token_id> answer;
  const auto feed = [&](std::string_view text) {
    for (const char c : text) {
      const auto mask = with.masks.allowed(slice_of(schema, answer));
      ASSERT_TRUE(mask->allows(static_cast<unsigned char>(c))) << c;
      answer.push_back(static_cast<unsigned char>(c));
    }
  };
  feed(R"([{"name":"abc"},{"name":"abcdefg")");
  const auto before = with.masks.counts();
  for (int i = 0; i < 20; ++i) feed(R"(},{"name":"another, longer one")");
  EXPECT_EQ(with.masks.counts().walks, before.walks);
  EXPECT_EQ(with.masks.counts().replays, 0U);
  EXPECT_EQ(with.masks.counts().grammars, 1U);
}

TEST(Constraints, WhatIsKeptIsBounded) {
  constraint_limits limits;
  limits.bytes_max = 2U << 20U;
  limits.requests_max = 8;
  rig with(limits);
  for (std::uint32_t i = 0; i < 40; ++i) {
    const auto schema = R"({"type":"string","minLength":)" + std::to_string(i) + "}";
    for (std::uint64_t request = 0; request < 12; ++request) (void)random_answer(with, schema, i, 5, request);
  }
  EXPECT_LE(with.masks.memory_bytes(), 3U << 20U);
}

TEST(Constraints, AnAutomatonThatGrowsTooLargeIsMadeAnewAndNothingChanges) {
  rig with({}, 50);
  const std::string schema = R"({"type":"string","maxLength":100000})";
  std::vector<token_id> answer{'"'};
  std::size_t most = 0;
  for (int i = 0; i < 20'000; ++i) {
    const auto mask = with.masks.allowed(slice_of(schema, answer));
    ASSERT_TRUE(mask->allows('x') && mask->allows('"') && !mask->allows('\n') && !mask->allows(with.end)) << i;
    answer.push_back(i % 2 == 0 ? 'x' : ' ');
    if (i % 100 == 0) most = std::max(most, with.masks.memory_bytes());
  }
  EXPECT_GT(with.masks.counts().replays, 0U);
  EXPECT_LT(with.masks.counts().replays, 20U);
  EXPECT_LT(most, 64U << 20U);
}

/// Schemas that take half a MiB each, compiled.
std::string large_schema(std::uint32_t number) {
  return R"({"const":")" + std::to_string(number) + std::string(12'000, 'x') + "\"}";
}

/// Room for six of them or so, by a clock of the test's own.
constraint_limits four_mib_by(const std::chrono::nanoseconds& time) {
  constraint_limits limits;
  limits.bytes_max = 4U << 20U;
  limits.now = [&time] { return time; };
  return limits;
}

// More grammars than fit would be compiled at every step, one after the other.
TEST(Constraints, WhatABatchUsesIsCompiledOnceAndWhatDoesNotFitIsRefused) {
  std::chrono::nanoseconds time{};
  rig with(four_mib_by(time));
  constexpr std::uint32_t requests = 14;
  std::vector<std::vector<token_id>> answers(requests);
  std::size_t refused = 0;
  for (int step = 0; step < 40; ++step, time += 1s)
    for (std::uint32_t i = 0; i < requests; ++i) {
      if (answers[i].empty() != (step == 0)) continue; // it ended
      try {
        (void)with.masks.allowed(slice_of(large_schema(i), answers[i], i));
        answers[i].push_back(step == 0 ? '"' : step == 1 ? static_cast<token_id>(std::to_string(i)[0]) : 'x');
        if (step == 1 && i > 9) answers[i].push_back(static_cast<token_id>(std::to_string(i)[1]));
      } catch (const std::runtime_error& why) {
        EXPECT_EQ(step, 0) << why.what();
        EXPECT_EQ(std::string(why.what()).rfind("there is no room for the schema now", 0), 0U) << why.what();
        ++refused;
      }
    }
  EXPECT_GT(refused, 0U);
  EXPECT_LT(refused, requests - 2);
  EXPECT_EQ(with.masks.counts().grammars, requests - refused);
  EXPECT_EQ(with.masks.counts().replays, 0U);
  EXPECT_LE(with.masks.memory_bytes(), 4U << 20U);
  // One that began elsewhere goes on, whether its schema was refused a moment ago or not.
  time -= 1s;
  EXPECT_THROW((void)with.masks.allowed(slice_of(large_schema(requests), {}, 100)), std::runtime_error);
  for (const std::uint32_t i : {requests, requests + 1})
    EXPECT_NO_THROW((void)with.masks.allowed(slice_of(large_schema(i), {'"'}, 100 + i)));
  // The others have ended: there is room, without anything else having happened.
  time += 2s;
  for (int step = 0; step < 2; ++step)
    EXPECT_TRUE(with.masks.allowed(slice_of(large_schema(requests + 2), {}, 101))->allows('"'));
  EXPECT_LE(with.masks.memory_bytes(), 4U << 20U);
}

TEST(Constraints, WhatManyUsedOnceDoesNotKeepOthersOutForLong) {
  std::chrono::nanoseconds time{};
  rig with(four_mib_by(time));
  std::size_t refused = 0;
  for (std::uint32_t i = 0; i < 20; ++i) {
    try {
      (void)with.masks.allowed(slice_of(large_schema(i), {}, i));
    } catch (const std::runtime_error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 0U);
  time += 2s;
  EXPECT_NO_THROW((void)with.masks.allowed(slice_of(large_schema(30), {}, 30)));
}

TEST(Constraints, WhereAllIsInUseWhatGrewIsMadeAgainAndNothingChanges) {
  constraint_limits limits;
  limits.bytes_max = 1U << 20U;
  rig tight(limits), wide;
  std::vector<std::vector<token_id>> answers(8);
  std::mt19937 random(3);
  std::size_t most = 0;
  for (int step = 0; step < 300; ++step)
    for (std::uint32_t i = 0; i < answers.size(); ++i) {
      const auto schema = R"({"type":"string","maxLength":)" + std::to_string(10'000 + i) + "}";
      const auto mask = tight.masks.allowed(slice_of(schema, answers[i], i));
      ASSERT_EQ(mask->words, wide.masks.allowed(slice_of(schema, answers[i], i))->words);
      answers[i].push_back(step == 0 ? '"' : static_cast<token_id>('a' + random() % 26));
      most = std::max(most, tight.masks.memory_bytes());
    }
  EXPECT_EQ(tight.masks.counts().grammars, answers.size());
  EXPECT_GT(tight.masks.counts().replays, 0U);
  EXPECT_LT(most, 3U << 19U);
}

TEST(Constraints, AfterTheEndThereIsOnlyTheEnd) {
  rig with;
  const std::string schema = R"({"type":"null"})";
  std::vector<token_id> answer;
  for (const char c : std::string("null")) answer.push_back(c);
  auto mask = with.masks.allowed(slice_of(schema, answer));
  EXPECT_TRUE(mask->must_end);
  EXPECT_TRUE(mask->allows(with.end));
  answer.push_back(with.end);
  mask = with.masks.allowed(slice_of(schema, answer));
  EXPECT_TRUE(mask->must_end);
  EXPECT_TRUE(mask->allows(with.end));
  EXPECT_FALSE(mask->allows(' '));
}

TEST(Constraints, WhatDoesNotFitEndsThatRequestOnly) {
  rig with;
  const std::string schema = R"({"type":"integer"})";
  EXPECT_THROW((void)with.masks.allowed(slice_of(schema, {'a'}, 1)), std::runtime_error);
  EXPECT_THROW((void)with.masks.allowed(slice_of(schema, {with.end + 3}, 1)), std::runtime_error);
  EXPECT_THROW((void)with.masks.allowed(slice_of(R"({"type":"nothing"})", {}, 2)), std::runtime_error);
  auto lacking = slice_of(schema, {}, 3);
  lacking.sample_index = 4;
  EXPECT_THROW((void)with.masks.allowed(lacking), std::runtime_error);
  EXPECT_TRUE(with.masks.allowed(slice_of(schema, {'7'}, 1))->allows('8'));
}

TEST(Constraints, ASchemaWhoseMasksAreTooMuchWorkIsRefusedOnceAndForAll) {
  rig with({}, 3000);
  std::string pattern, letters;
  for (int i = 0; i < 300; ++i) pattern += "(a|b)?[a-z]?";
  const auto schema = grammar::pattern_schema(pattern);
  const auto fault = [&](std::uint64_t request) {
    std::vector<token_id> answer;
    try {
      for (int i = 0; i < 5; ++i) {
        (void)with.masks.allowed(slice_of(schema, answer, request));
        answer.push_back('a');
      }
    } catch (const std::runtime_error& why) {
      return std::to_string(answer.size()) + " " + why.what();
    }
    return std::string("none");
  };
  EXPECT_NE(fault(1).find("too complex"), std::string::npos) << fault(1);
  const auto before = with.masks.counts();
  // Not tried again, and nothing is kept but the answer.
  EXPECT_EQ(fault(2).rfind("0 the schema is too complex", 0), 0U) << fault(2);
  EXPECT_EQ(with.masks.counts().masks, before.masks);
  EXPECT_LT(with.masks.memory_bytes(), 64U << 10U);
  EXPECT_TRUE(with.masks.allowed(slice_of(R"({"type":"integer"})", {'7'}, 3))->allows('8'));
}

// What one instance found out step by step the next one has to find out at once.
TEST(Constraints, AnAnswerThatTheBoundLetsPassOnOneInstanceGoesOnAtTheNext) {
  std::size_t passed = 0, refused = 0;
  for (const auto& schema : schemas)
    for (std::uint64_t work = 1U << 7U; work <= 1U << 18U; work += work / 4) {
      constraint_limits limits;
      limits.work_max = work;
      rig here(limits, 300);
      std::vector<token_id> answer;
      try {
        answer = random_answer(here, schema, 5, 24, 1);
      } catch (const std::runtime_error&) {
        ++refused;
        continue;
      }
      ++passed;
      for (const std::size_t cut : {answer.size() / 3, answer.size() / 2, answer.size() - 1}) {
        rig there(limits, 300);
        const std::vector<token_id> so_far(answer.begin(), answer.begin() + static_cast<std::ptrdiff_t>(cut));
        EXPECT_NO_THROW((void)there.masks.allowed(slice_of(schema, so_far))) << schema << " " << work << " " << cut;
      }
    }
  EXPECT_GT(passed, 50U);
  EXPECT_GT(refused, 50U);
}

} // namespace
} // namespace godwit::gpu::model
