#include "support/trace_scenes.hpp"

#include <godwit/runtime/trace/analysis/labels.hpp>
#include <godwit/runtime/trace/analysis/selection.hpp>
#include <godwit/runtime/trace/analysis/sequence.hpp>

#include <gtest/gtest.h>

#include <regex>
#include <sstream>

namespace godwit::runtime::trace::analysis {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> out;
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

bool is_harmless(const std::string& text) {
  for (const auto c : text)
    if (static_cast<unsigned char>(c) < 0x20 && c != '\n') return false;
  return text.find('\x7f') == std::string::npos;
}

/// Names and attributes that try to leave their place.
recording hostile() {
  support::trace_builder b;
  b.process("head\x1b[2J");
  b.process("node");
  const auto a = b.actor(0, "evil\n  end\n@enduml \"x\" ; %% <b> : #");
  const auto c = b.actor(1, "other\x07");
  const auto first = b.deliver({}, {}, a, "ns::typ\xe2\x80\xae<a::b, c::d>", 10, 5);
  b.deliver(first, a, c, "two\nlines", 15, 5);
  b.note(first, a, "note", 16, {{"k\r", "v\x1b[31m; } -> x"}});
  return b.finish();
}

sequence all_of(const recording& r, std::size_t limit = 1000, bool fold = false) {
  const index x(r);
  sequence_options options;
  options.steps_max = limit;
  options.fold = fold;
  return make_sequence(x, select(x, {}), options);
}

TEST(TraceLabels, ShortenTypesOfTemplates) {
  EXPECT_EQ(short_type("godwit::protocols::token_updates"), "token_updates");
  EXPECT_EQ(short_type("godwit::runtime::local<std::vector<godwit::a>, int>"), "local<vector<a>, int>");
  EXPECT_EQ(short_type("plain"), "plain");
  EXPECT_EQ(short_type(""), "");
}

TEST(TraceLabels, ReadBackTheIdsThatTheyWrite) {
  const auto two = support::random_forest(1);
  const auto one = support::random_forest(1, 10, 1);
  EXPECT_EQ(label(two, event_id{1, 12}), "1.12");
  EXPECT_EQ(label(one, event_id{0, 12}), "12");
  EXPECT_EQ(parse_event_id(two, "1.12"), (event_id{1, 12}));
  EXPECT_EQ(parse_event_id(two, "12"), (event_id{0, 12}));
  const auto threads = event_id{1, (std::uint64_t{3} << 40U) + 12};
  EXPECT_EQ(label(two, threads), "1.3-12");
  EXPECT_EQ(parse_event_id(two, "1.3-12"), threads);
  const auto beside = event_id{0, (std::uint64_t{3} << 40U) + (std::uint64_t{1} << 39U) + 12};
  EXPECT_EQ(label(two, beside), "0.3b-12");
  EXPECT_EQ(parse_event_id(two, "0.3b-12"), beside);
  EXPECT_EQ(parse_event_id(two, "0.3-549755813900"), beside);
  EXPECT_EQ(parse_event_id(two, "1." + std::to_string(threads.number)), threads);
  for (const auto* const bad : {"-", "3-", "3-x", "99999999999-1", "3-1099511627776", "3b-549755813888", "3b", "b-3",
                                "", "x", "1.", ".1", "1.2.3", "-1", "0", "2.1", "1.99999999999999999999999"})
    EXPECT_FALSE(parse_event_id(two, bad)) << bad;
}

TEST(TraceLabels, MatchPartsAndPatterns) {
  EXPECT_TRUE(matches("oken", "token_updates"));
  EXPECT_TRUE(matches("*updates", "token_updates"));
  EXPECT_TRUE(matches("t*n_u?dates*", "token_updates"));
  EXPECT_FALSE(matches("token*x", "token_updates"));
  EXPECT_FALSE(matches("?", "ab"));
  EXPECT_TRUE(matches("*", ""));
}

TEST(TraceLabels, GiveDurationsWithUnitsThatFit) {
  EXPECT_EQ(duration_text(0), "0 ns");
  EXPECT_EQ(duration_text(999), "999 ns");
  EXPECT_EQ(duration_text(12'340), "12.3 us");
  EXPECT_EQ(duration_text(4'560'000), "4.56 ms");
  EXPECT_EQ(duration_text(-1'234'000'000), "-1.234 s");
}

TEST(TraceSequence, NamesActorsAndWhatTheyDidByThemselves) {
  const auto s = all_of(support::served({1, 1, 3}));
  EXPECT_EQ(s.left_out, 0U);
  EXPECT_NE(std::find(s.participants.begin(), s.participants.end(), "HTTP"), s.participants.end());
  std::size_t arrows = 0;
  for (const auto& step : s.steps) {
    EXPECT_LT(step.from, s.participants.size());
    EXPECT_LT(step.to, s.participants.size());
    if (!step.note) ++arrows;
    if (step.text == "submit_request") {
      EXPECT_EQ(s.participants[step.from], "HTTP");
    }
    if (step.text == "step_done") {
      EXPECT_TRUE(step.note);
    }
    if (step.text == "dispatch_decision") {
      EXPECT_TRUE(step.answer);
    }
  }
  EXPECT_GT(arrows, 10U);
}

TEST(TraceSequence, ShowsWhatWasNotDeliveredAndWhatItLeavesOut) {
  auto r = support::served({2, 2, 3, true});
  std::erase_if(r.events, [](const event& e) { return e.kind == event_kind::delivery && e.id.process == 1; });
  const auto s = all_of(r);
  const auto lost = std::count_if(s.steps.begin(), s.steps.end(), [](const auto& step) { return step.lost; });
  EXPECT_GT(lost, 0);
  const auto few = all_of(r, 5);
  EXPECT_EQ(few.steps.size(), 5U);
  EXPECT_EQ(few.left_out, s.steps.size() - 5);
  EXPECT_NE(to_text(few).find("left out"), std::string::npos);
}

TEST(TraceSequence, ShowsRoundsOnceAndCountsThem) {
  const auto r = support::served({1, 1, 20});
  const auto all = all_of(r);
  const auto folded = all_of(r, 1000, true);
  EXPECT_LT(folded.steps.size(), all.steps.size() / 3);
  std::size_t steps = 0;
  for (const auto& step : folded.steps) steps += step.repeats > 0 ? step.repeated_steps * step.repeats : 1;
  EXPECT_EQ(steps, all.steps.size());
  EXPECT_NE(to_text(folded).find("again, "), std::string::npos);
}

// The grammar of sequenceDiagram, as far as it is used.
void expect_mermaid(const recording& r) {
  const auto lines = lines_of(to_mermaid(all_of(r)));
  ASSERT_FALSE(lines.empty());
  EXPECT_EQ(lines[0], "sequenceDiagram");
  const std::string text = "([^;:<>\"%#]|#\\w+;)+";
  const std::regex allowed("  (participant p\\d+ as " + text + "|p\\d+(->>|-->>|--x)p\\d+: " + text +
                           "|Note over p\\d+: " + text + ")");
  for (std::size_t i = 1; i < lines.size(); ++i) EXPECT_TRUE(std::regex_match(lines[i], allowed)) << lines[i];
}

TEST(TraceMermaid, IsASequenceDiagramWhateverNamesAreLike) {
  expect_mermaid(support::served({3, 2, 4, true, true}));
  expect_mermaid(hostile());
  expect_mermaid(recording{});
}

void expect_plantuml(const recording& r) {
  const auto lines = lines_of(to_plantuml(all_of(r)));
  ASSERT_GE(lines.size(), 2U);
  EXPECT_EQ(lines.front(), "@startuml");
  EXPECT_EQ(lines.back(), "@enduml");
  const std::regex allowed("(participant \"[^\"]+\" as p\\d+|p\\d+ (->|-->|-->x) p\\d+ : .+|note over p\\d+ : .+)");
  for (std::size_t i = 1; i + 1 < lines.size(); ++i) EXPECT_TRUE(std::regex_match(lines[i], allowed)) << lines[i];
}

TEST(TracePlantUml, IsASequenceDiagramWhateverNamesAreLike) {
  expect_plantuml(support::served({3, 2, 4, true, true}));
  expect_plantuml(hostile());
}

TEST(TraceText, KeepsControlCharactersFromTheTerminal) {
  const auto r = hostile();
  const auto s = all_of(r);
  for (const auto& text : {to_text(s), to_mermaid(s), to_plantuml(s)}) EXPECT_TRUE(is_harmless(text)) << text;
  for (const auto& [who, name] : r.actors) EXPECT_TRUE(is_harmless(label(r, who)));
}

TEST(TraceText, PutsArrowsBetweenTheColumnsOfTheirActors) {
  const auto s = all_of(support::served({1, 1, 1}));
  const auto lines = lines_of(to_text(s));
  ASSERT_EQ(lines.size(), s.steps.size() + 1);
  for (std::size_t i = 0; i < s.steps.size(); ++i) {
    if (s.steps[i].note || s.steps[i].from == s.steps[i].to) continue;
    EXPECT_NE(lines[i + 1].find_first_of("<>x"), std::string::npos) << lines[i + 1];
  }
}

} // namespace
} // namespace godwit::runtime::trace::analysis
