// Answers of the default model that have to follow a schema, through the CPU device.
#include <godwit/gpu/cpu/cpu_executor.hpp>
#include <godwit/gpu/event.hpp>
#include <godwit/gpu/model/model_directory.hpp>
#include <godwit/protocols/grammar/json_schema.hpp>
#include <godwit/protocols/kv/sequence_blocks.hpp>

#include <boost/json/parse.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace godwit::gpu::cpu {
namespace {

using protocols::token_id;

struct loaded {
  std::shared_ptr<const model::file_source> files = model::embedded_model();
  std::unique_ptr<model::model_directory> directory;
  std::shared_ptr<const packed_model> packed;
  loaded() {
    if (!files) return;
    auto opened = model::open_model(files);
    if (!opened) return;
    directory = std::make_unique<model::model_directory>(std::move(*opened));
    packed = pack_model(directory->configuration, *directory->tensors, 2);
  }
};
const loaded& model_here() {
  static const loaded one;
  return one;
}

struct asked {
  std::string schema; ///< empty: free
  float temperature = 0.0F;
  std::uint64_t seed = 0;
  std::uint32_t min_tokens = 0;
  std::int32_t logprobs = -1;
};
struct answered {
  std::vector<token_id> tokens; ///< without the end
  bool ended = false;
  bool failed = false;
  float worst_logprob = 0.0F;
  std::string text;
  std::string why; ///< it failed
};

/// All of them in one batch, each until its end or `tokens_max`.
std::vector<answered> answers(const std::vector<asked>& all, std::uint32_t tokens_max = 160, bool vocabulary = true) {
  const auto& directory = *model_here().directory;
  constexpr std::uint32_t blocks_each = 20;
  cpu_executor_settings settings;
  settings.threads = 2;
  settings.blocks = blocks_each * static_cast<std::uint32_t>(all.size());
  if (vocabulary) settings.tokens = directory.tokens;
  const auto runner = make_cpu_executor(model_here().packed, settings);
  const auto prompt = directory.tokens->encode("A hacker is", false);
  const auto& eos = directory.configuration.eos;

  std::vector<answered> out(all.size());
  for (std::uint64_t step = 0;; ++step) {
    protocols::step_input input;
    input.step = step;
    std::vector<std::size_t> who;
    for (std::size_t i = 0; i < all.size(); ++i) {
      auto& mine = out[i];
      if (mine.ended || mine.failed || mine.tokens.size() >= tokens_max) continue;
      protocols::step_slice slice;
      slice.request = protocols::request_id(i + 1);
      const auto known = static_cast<std::uint32_t>(mine.tokens.size());
      slice.first_position = known == 0 ? 0 : static_cast<std::uint32_t>(prompt.size()) + known - 1;
      slice.tokens = known == 0 ? prompt : std::vector<token_id>{mine.tokens.back()};
      for (std::uint32_t b = 0; b < blocks_each; ++b)
        slice.blocks.emplace_back(static_cast<std::uint32_t>(i) * blocks_each + b);
      slice.samples = true;
      slice.sample_index = known;
      slice.sampling.temperature = all[i].temperature;
      slice.sampling.seed = all[i].seed;
      slice.sampling.logprobs = all[i].logprobs;
      slice.sampling.json_schema = all[i].schema;
      if (!all[i].schema.empty()) slice.generated = mine.tokens;
      if (known < all[i].min_tokens) slice.forbidden = eos;
      input.slices.push_back(std::move(slice));
      who.push_back(i);
    }
    if (who.empty()) break;
    const auto pass = runner->begin(std::move(input));
    const event ran;
    pass->advance(pass->layers(), [&](const std::string&) { ran.set(); });
    ran.wait();
    const auto output = pass->take();
    const auto& drawn = output.tokens;
    auto why = output.undrawn.begin();
    for (std::size_t k = 0; k < who.size(); ++k) {
      auto& mine = out[who[k]];
      mine.worst_logprob = std::min(mine.worst_logprob, drawn[k].logprob);
      if (drawn[k].id == protocols::no_token) {
        mine.failed = true;
        mine.why = *why++;
      } else if (std::ranges::find(eos, drawn[k].id) != eos.end())
        mine.ended = true;
      else
        mine.tokens.push_back(drawn[k].id);
    }
  }
  for (auto& one : out) one.text = directory.tokens->decode(one.tokens, false);
  return out;
}

class ConstrainedAnswers : public ::testing::Test {
protected:
  void SetUp() override {
    if (!model_here().packed) GTEST_SKIP() << "built without the embedded model";
  }
};

const std::string person =
    R"({"type":"object","properties":{"name":{"type":"string","maxLength":20},"age":{"type":"integer","minimum":0,"maximum":120},)"
    R"("tags":{"type":"array","items":{"enum":["red","green","blue"]},"maxItems":3},"score":{"type":"number","minimum":0,"maximum":1}},)"
    R"("required":["name","age","tags"],"additionalProperties":false})";
const std::string shapes =
    R"({"type":"array","minItems":1,"maxItems":2,"items":{"oneOf":[{"type":"object","properties":{"kind":{"const":"circle"},"r":{"type":"integer","maximum":99,"minimum":1}},"required":["kind","r"],"additionalProperties":false},)"
    R"({"type":"object","properties":{"kind":{"const":"date"},"on":{"type":"string","format":"date"}},"required":["kind","on"],"additionalProperties":false}]}})";

TEST_F(ConstrainedAnswers, FollowTheirSchemaAtAnyTemperature) {
  std::vector<asked> all;
  for (const auto& schema :
       {person, shapes, std::string(R"(["yes","no","maybe so"])"), std::string(R"("[A-F]{3}-[0-9]{4}")")})
    for (const float temperature : {0.0F, 0.7F, 1.0F, 2.0F})
      for (std::uint64_t seed = 0; seed < 3; ++seed) all.push_back({schema, temperature, seed, 0, -1});
  std::size_t i = 0;
  for (const auto& one : answers(all)) {
    const auto& schema = all[i++].schema;
    EXPECT_TRUE(one.ended) << one.text;
    EXPECT_TRUE(protocols::grammar::compile_schema(schema)->accepts(one.text)) << schema << "\n" << one.text;
    if (schema.front() == '{') {
      boost::system::error_code why;
      const auto parsed = boost::json::parse(one.text, why);
      EXPECT_FALSE(why) << one.text;
    }
  }
}

TEST_F(ConstrainedAnswers, AreTheSameAloneAndInABatchAndDisturbNobody) {
  const std::vector<asked> all{{person, 0.9F, 1, 0, -1},
                               {"", 0.9F, 2, 0, -1},
                               {R"({"type":"object"})", 0.8F, 3, 0, -1},
                               {"", 0.0F, 4, 0, -1},
                               {shapes, 0.0F, 5, 0, -1}};
  const auto together = answers(all, 80);
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(answers({all[i]}, 80)[0].tokens, together[i].tokens) << i;
}

TEST_F(ConstrainedAnswers, ThatAreCutByTheirLengthHaveBegunRight) {
  const std::string long_one = R"({"type":"array","minItems":20})";
  for (const auto& one : answers({{long_one, 1.0F, 11, 0, -1}, {person, 1.0F, 12, 0, -1}}, 7)) {
    EXPECT_EQ(one.tokens.size(), 7U);
    EXPECT_FALSE(one.ended || one.failed);
    EXPECT_TRUE(one.text.front() == '[' || one.text.front() == '{');
  }
}

TEST_F(ConstrainedAnswers, EndWhereTheSchemaEndsWhateverMinTokensSays) {
  const auto all = answers({{R"(["yes"])", 0.0F, 1, 50, -1}, {R"({"type":"boolean"})", 1.0F, 1, 50, -1}});
  EXPECT_EQ(all[0].text, "yes");
  EXPECT_TRUE(all[0].ended);
  EXPECT_TRUE(all[1].text == "true" || all[1].text == "false");
  // Where it may end or go on, min_tokens makes it go on.
  const auto longer = answers({{R"("(?:ab)*")", 0.0F, 1, 9, -1}}, 30);
  EXPECT_GE(longer[0].tokens.size(), 9U);
}

TEST_F(ConstrainedAnswers, KeepTheLogProbabilitiesOfTheModel) {
  // The model would not have said this: its log-probabilities say so.
  const auto one = answers({{R"(["}}}}"])", 0.0F, 1, 0, 0}})[0];
  EXPECT_EQ(one.text, "}}}}");
  EXPECT_LT(one.worst_logprob, -4.0F);
}

TEST_F(ConstrainedAnswers, FailAloneWhereTheyCannotBeFollowed) {
  const auto all = answers({{R"({"type":"nothing"})", 0.0F, 1, 0, -1}, {R"(["ok"])", 0.0F, 1, 0, -1}});
  EXPECT_TRUE(all[0].failed);
  EXPECT_EQ(all[0].why.find("the schema cannot be followed: "), 0U) << all[0].why;
  EXPECT_EQ(all[1].text, "ok");
  const auto blind = answers({{R"(["ok"])", 0.0F, 1, 0, -1}, {"", 0.0F, 1, 0, -1}}, 5, false);
  EXPECT_TRUE(blind[0].failed);
  EXPECT_NE(blind[0].why.find("vocabulary"), std::string::npos) << blind[0].why;
  EXPECT_EQ(blind[1].tokens.size(), 5U);
}

} // namespace
} // namespace godwit::gpu::cpu
