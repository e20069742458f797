#include "model_cases.hpp"
#include "model_diagram.hpp"
#include "model_explorer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

// docs/design/migration_model.md says what is explored, and how to read what is printed here.
namespace godwit::protocols::model {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool instrumented = true; // many times slower: the beginning of every case
#else
constexpr bool instrumented = false;
#endif

void print(const char* what, std::uint64_t states, std::uint64_t transitions, std::uint32_t depth, double seconds) {
  std::printf("model checker: %s: %llu states, %llu transitions, depth %u, %.1f s\n", what,
              static_cast<unsigned long long>(states), static_cast<unsigned long long>(transitions), depth, seconds);
  std::fflush(stdout);
}

[[nodiscard]] std::string in_words(const model_reach& r) {
  return std::to_string(r.stages) + " stages" + (r.extends ? ", extends" : "") + (r.tail ? ", a tail" : "") +
         (r.fault_extending ? ", a fault while it extends" : "") + (r.known ? ", blocks that were there" : "");
}

void explore_all(const std::vector<model_case>& cases, std::uint64_t states_max) {
  std::uint64_t states = 0, transitions = 0;
  std::uint32_t depth = 0;
  double seconds = 0;
  for (const auto& c : cases) {
    const auto found = explore(c, {.states_max = states_max});
    EXPECT_EQ(found.broken, "") << c.name << "\n" << diagram(c, found.path);
    EXPECT_TRUE(found.complete || !found.broken.empty() || instrumented) << c.name << ": not explored to the end";
    EXPECT_TRUE(found.at_rest > 1 || instrumented) << c.name;
    EXPECT_TRUE(found.reached == c.reaches || instrumented)
        << c.name << ": reaches " << in_words(found.reached) << ", and not " << in_words(c.reaches);
    print(c.name.c_str(), found.states, found.transitions, found.depth, found.seconds);
    states += found.states;
    transitions += found.transitions;
    depth = std::max(depth, found.depth);
    seconds += found.seconds;
  }
  print("all", states, transitions, depth, seconds);
}

TEST(MigrationModel, EveryPromiseHoldsInEveryInterleavingOfTheBoundedCases) {
  explore_all(everyday_cases(), instrumented ? 20'000 : 20'000'000);
}

// Several minutes, all together.
class MigrationModelAtNight : public ::testing::TestWithParam<model_case> {};
TEST_P(MigrationModelAtNight, EveryPromiseHoldsInEveryInterleaving) {
  explore_all({GetParam()}, instrumented ? 20'000 : 60'000'000);
}
INSTANTIATE_TEST_SUITE_P(Night, MigrationModelAtNight, ::testing::ValuesIn(nightly_cases()), [](const auto& each) {
  auto name = each.param.name;
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
});

TEST(MigrationModel, EveryPlantedBugIsFoundByAShortestCounterexample) {
  const auto planted = static_cast<int>(mutant::count) - 1;
  int found = 0;
  double seconds = 0;
  std::string shown; // below the summary, which is looked for
  for (int i = 1; i <= planted; ++i) {
    const auto bounds = case_for(static_cast<mutant>(i));
    const auto result = explore(bounds, {.states_max = 1'000'000});
    seconds += result.seconds;
    EXPECT_EQ(result.broken, promise_broken_by(bounds.bug)) << bounds.name << ": " << result.states << " states";
    if (result.broken.empty()) continue;
    ++found;
    shown += "\nplanted: " + bounds.name + "\nfound after " + std::to_string(result.states) + " states, " +
             std::to_string(result.path.size()) + " steps: " + result.broken + "\n" + diagram(bounds, result.path);
  }
  EXPECT_GE(planted, 20);
  std::printf("model checker: mutants found %d of %d, %.1f s\n%s", found, planted, seconds, shown.c_str());
}

// What the mutants rest on: the same cases without the bug are sound.
TEST(MigrationModel, TheCasesOfThePlantedBugsAreSoundWithoutThem) {
  for (int i = 1; i < static_cast<int>(mutant::count); ++i) {
    auto bounds = case_for(static_cast<mutant>(i));
    bounds.bug = mutant::none;
    const auto result = explore(bounds, {.states_max = instrumented ? 2'000U : 20'000U, .check_rest_reachable = false});
    EXPECT_EQ(result.broken, "") << bounds.name << "\n" << diagram(bounds, result.path);
  }
}

TEST(MigrationModel, ACounterexampleIsDrawnAsASequence) {
  const auto bounds = case_for(mutant::leaks_what_it_received);
  const auto result = explore(bounds);
  ASSERT_EQ(result.broken, "a reservation outlives its migration");
  const auto drawn = diagram(bounds, result.path);
  EXPECT_EQ(drawn.substr(0, drawn.find('\n')), " home      A         A/src     B/dst     B") << drawn;
  EXPECT_NE(drawn.find("  |<------------------|         |         |       prepare_move e1\n"), std::string::npos)
      << drawn;
  EXPECT_NE(drawn.find("  |         |         *         |         |       its timer runs out\n"), std::string::npos)
      << drawn;
}

std::string page() {
  std::ifstream in(std::string(GODWIT_SOURCE_DIR) + "/docs/design/migration_model.md");
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(MigrationModel, TheCounterexamplesInTheDocumentationAreThoseThatAreFound) {
  const auto text = page();
  for (const auto bug : {mutant::resumes_when_commit_is_unanswered, mutant::leaks_what_it_received}) {
    const auto bounds = case_for(bug);
    const auto result = explore(bounds);
    const auto drawn = diagram(bounds, result.path);
    EXPECT_NE(text.find(drawn), std::string::npos) << drawn;
    EXPECT_NE(text.find(result.broken), std::string::npos) << result.broken;
  }
}

TEST(MigrationModel, TheDocumentationNamesEveryPlantedBug) {
  const auto text = page();
  for (int i = 1; i < static_cast<int>(mutant::count); ++i) {
    const auto name = std::string(to_string(static_cast<mutant>(i)));
    EXPECT_NE(text.find("* " + name + "\n"), std::string::npos) << name;
  }
}

// `serialise` takes the numbers of timers and leases out of the machines' states by their place.
TEST(MigrationModel, TimersAndLeasesAreWhereTheModelLooksForThem) {
  migration_source source({16, 0}, {});
  (void)source.begin();
  EXPECT_EQ(std::get<8>(source.state()), 1U);
  migration_destination destination({4, 4});
  (void)destination.begin();
  EXPECT_EQ(std::get<5>(destination.state()), 1U);
}

} // namespace
} // namespace godwit::protocols::model
