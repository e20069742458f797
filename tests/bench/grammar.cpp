// What it costs to keep answers within a schema: compiling it, the masks of a first answer, those of later ones, and a
// draw with a mask next to one without. With the default model's vocabulary and with a generated one of 128k tokens.

#include "support/bench.hpp"

#include <godwit/gpu/model/constraints.hpp>
#include <godwit/gpu/model/file_source.hpp>
#include <godwit/gpu/model/model_directory.hpp>
#include <godwit/gpu/model/sampler.hpp>
#include <godwit/protocols/grammar/json_schema.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace {

using namespace godwit;
using namespace godwit::bench;
using protocols::token_id;
using std::chrono::steady_clock;

constexpr std::size_t vocabulary_large = 128'000;

double us_since(steady_clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(steady_clock::now() - begin).count();
}

const std::string orders =
    R"({"type":"object","properties":{"customer":{"type":"object","properties":{"name":{"type":"string","maxLength":80},)"
    R"("email":{"type":"string","format":"email"},"since":{"type":"string","format":"date"}},"required":["name","email"],)"
    R"("additionalProperties":false},"items":{"type":"array","items":{"$ref":"#/$defs/item"},"minItems":1},)"
    R"("note":{"anyOf":[{"type":"string"},{"type":"null"}]},"paid":{"type":"boolean"}},"required":["customer","items","paid"],)"
    R"("additionalProperties":false,"$defs":{"item":{"type":"object","properties":{"sku":{"type":"string","pattern":)"
    R"("^[A-Z]{3}-[0-9]{4}$"},"title":{"type":"string"},"count":{"type":"integer","minimum":1,"maximum":999},)"
    R"("price":{"type":"number","minimum":0}},"required":["sku","title","count","price"],"additionalProperties":false}}})";

std::string answer_text() {
  std::string text =
      R"({"customer": {"name": "Ada Lovelace", "email": "ada@example.org", "since": "1843-10-01"}, "items": [)";
  for (int i = 0; i < 12; ++i) {
    if (i > 0) text += ", ";
    text += "{\"sku\": \"ABC-" + std::to_string(1000 + i) + "\", \"title\": \"Punched cards, a box of " +
            std::to_string(i * 7 + 1) + "\", \"count\": " + std::to_string(i + 1) + ", \"price\": 12.5}";
  }
  return text + R"(], "note": "Deliver to the engine room, please.", "paid": true})";
}

/// Words of syllables, with and without a space in front, digits, runs of punctuation, and every byte.
std::vector<std::string> generated_vocabulary() {
  std::vector<std::string> out;
  std::unordered_set<std::string> seen;
  const auto add = [&](std::string text) {
    if (out.size() < vocabulary_large && seen.insert(text).second) out.push_back(std::move(text));
  };
  for (int b = 0; b < 256; ++b) add(std::string(1, static_cast<char>(b)));
  for (int i = 0; i < 1000; ++i) add(std::to_string(i));
  std::mt19937 random(1);
  const std::vector<std::string> syllables{"a",
                                           "be",
                                           "ci",
                                           "do",
                                           "en",
                                           "for",
                                           "ga",
                                           "he",
                                           "in",
                                           "jo",
                                           "ka",
                                           "lo",
                                           "ment",
                                           "no",
                                           "or",
                                           "pre",
                                           "qu",
                                           "re",
                                           "st",
                                           "tion",
                                           "un",
                                           "ver",
                                           "wa",
                                           "x",
                                           "y",
                                           "ze",
                                           "\xc3\xa9",
                                           "\xd0\xb0\xd0\xb2",
                                           "\xe4\xb8\xad",
                                           "ing",
                                           "er",
                                           "th"};
  const std::vector<std::string> marks{"\"", ":", ",", "{", "}",  "[", "]", " ", "\n",
                                       ".",  "(", ")", ";", "\\", "-", "_", "=", "/"};
  for (int i = 0; i < 6000; ++i) {
    std::string text;
    for (auto n = 1 + random() % 4; n > 0; --n) text += marks[random() % marks.size()];
    add(text);
  }
  while (out.size() < vocabulary_large) {
    std::string text = random() % 2 == 0 ? " " : "";
    for (auto n = 1 + random() % 5; n > 0; --n) text += syllables[random() % syllables.size()];
    if (random() % 40 == 0) text += marks[random() % marks.size()];
    add(text);
  }
  return out;
}

/// A vocabulary and an answer cut into its tokens, the longest first.
struct scene {
  std::string name;
  std::vector<std::string> texts;
  std::vector<token_id> ends;
  std::vector<token_id> answer;

  scene(std::string called, std::vector<std::string> tokens, std::vector<token_id> end_tokens)
      : name(std::move(called)), texts(std::move(tokens)), ends(std::move(end_tokens)) {
    std::unordered_map<std::string, token_id> ids;
    for (std::size_t i = 0; i < texts.size(); ++i)
      if (!texts[i].empty()) ids.emplace(texts[i], static_cast<token_id>(i));
    const auto text = answer_text();
    for (std::size_t at = 0; at < text.size();) {
      auto length = std::min<std::size_t>(24, text.size() - at);
      while (length > 1 && !ids.contains(text.substr(at, length))) --length;
      answer.push_back(ids.at(text.substr(at, length)));
      at += length;
    }
  }
  [[nodiscard]] std::unique_ptr<gpu::model::constraints> fresh() const {
    return std::make_unique<gpu::model::constraints>(texts, ends, static_cast<std::uint32_t>(texts.size()));
  }
};

/// The times of all steps of one answer, in microseconds.
std::vector<double> follow(gpu::model::constraints& masks, const scene& with, std::uint64_t request) {
  std::vector<double> times;
  protocols::step_slice slice;
  slice.request = protocols::request_id(request);
  slice.samples = true;
  slice.sampling.json_schema = orders;
  for (const auto id : with.answer) {
    const auto begin = steady_clock::now();
    const auto mask = masks.allowed(slice);
    times.push_back(us_since(begin));
    if (!mask->allows(id)) std::abort();
    slice.generated.push_back(id);
    ++slice.sample_index;
  }
  return times;
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

figure figure_of(std::string name, double value, const char* unit) {
  figure f;
  f.name = std::move(name);
  f.value = value;
  f.unit = unit;
  return f;
}

void bench_masks(session& out, const scene& with) {
  struct part {
    const char* what;
    const char* unit;
    std::vector<double> values;
  };
  part build{"vocabulary_tree", "ms", {}}, tokens{"answer_tokens", "", {static_cast<double>(with.answer.size())}};
  part first{"first_answer_step", "us", {}}, first_worst{"first_answer_worst_step", "ms", {}};
  part later{"later_answer_step", "us", {}}, later_worst{"later_answer_worst_step", "us", {}};
  const std::array parts{&build, &tokens, &first, &first_worst, &later, &later_worst};
  const auto name = [&](const part* one) { return "grammar/" + with.name + "/" + one->what; };
  const auto wanted = [&](const part* one) { return out.wants(name(one)); };
  if (std::ranges::none_of(parts, wanted)) return;
  for (int i = 0; i < out.repetitions(); ++i) {
    const auto begin = steady_clock::now();
    const auto masks = with.fresh();
    build.values.push_back(us_since(begin) / 1000);
    auto times = follow(*masks, with, 1);
    first.values.push_back(mean(times));
    first_worst.values.push_back(*std::ranges::max_element(times) / 1000);
    times = follow(*masks, with, 2);
    later.values.push_back(mean(times));
    later_worst.values.push_back(*std::ranges::max_element(times));
  }
  for (const auto* one : parts)
    if (wanted(one)) out.add(figure_of(name(one), median(one->values), one->unit));
}

void bench_draw(session& out, const scene& with) {
  const auto name = "grammar/" + with.name + "/draw";
  if (!out.wants(name)) return;
  const auto masks = with.fresh();
  protocols::step_slice slice;
  slice.samples = true;
  slice.sampling.json_schema = R"({"type":"string","maxLength":1000})";
  slice.generated = {with.answer.front()};
  const auto quote = std::ranges::find(with.texts, "\"") - with.texts.begin();
  slice.generated = {static_cast<token_id>(quote)};
  slice.sample_index = 1;
  std::vector<float> logits(with.texts.size());
  std::mt19937 random(2);
  for (auto& logit : logits) logit = static_cast<float>(random() % 1000) / 100.0F;
  gpu::model::sampler draw;
  const auto timed = [&](bool constrained) {
    constexpr int draws = 20;
    double sum = 0;
    for (int i = 0; i < draws; ++i) {
      auto copy = logits;
      const auto begin = steady_clock::now();
      if (constrained) {
        const auto mask = masks->allowed(slice);
        (void)draw.draw(copy, slice, mask.get());
      } else {
        (void)draw.draw(copy, slice);
      }
      sum += us_since(begin);
    }
    return sum / draws;
  };
  auto f = compare(name,
                   interleave(
                       out.repetitions(), [&] { return timed(true); }, [&] { return timed(false); }),
                   "us", figure::direction::at_most, 2.0);
  out.add(f);
}

void bench_compile(session& out) {
  if (!out.wants("grammar/compile")) return;
  std::vector<double> times;
  for (int i = 0; i < out.repetitions(); ++i) {
    const auto begin = steady_clock::now();
    if (!protocols::grammar::compile_schema(orders)) std::abort();
    times.push_back(us_since(begin));
  }
  out.add(figure_of("grammar/compile", median(times), "us"));
}

} // namespace

int main(int argc, char** argv) {
  session out{argc, argv, 7};
  bench_compile(out);
  std::vector<scene> scenes;
  if (const auto files = gpu::model::embedded_model())
    if (const auto model = gpu::model::open_model(files)) {
      std::vector<std::string> texts(model->tokens->size());
      for (std::size_t i = 0; i < texts.size(); ++i)
        if (!model->tokens->is_special(static_cast<token_id>(i)))
          texts[i] = model->tokens->bytes(static_cast<token_id>(i));
      scenes.emplace_back("default", std::move(texts), model->configuration.eos);
    }
  auto texts = generated_vocabulary();
  texts.emplace_back();
  const auto end = static_cast<token_id>(texts.size() - 1);
  scenes.emplace_back("128k", std::move(texts), std::vector<token_id>{end});
  for (const auto& one : scenes) {
    bench_masks(out, one);
    bench_draw(out, one);
  }
  return out.result();
}
