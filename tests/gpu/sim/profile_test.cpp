#include <godwit/gpu/sim/profile.hpp>

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <unistd.h>

namespace godwit::gpu::sim::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::HasSubstr;

const fs::path shipped = GODWIT_SOURCE_DIR "/gpu/sim/profiles";

std::string text_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

profile opened(const std::string& name) {
  auto opened = open_profile(name);
  EXPECT_TRUE(opened) << (opened ? "" : opened.error().line);
  return opened ? *opened : profile{};
}

/// The toy's file with one piece of text replaced.
std::string broken(const std::string& from, const std::string& to) {
  auto text = text_of(shipped / "toy.json");
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Profile, AFieldThatIsGivenTwiceIsRefused) {
  const auto read = parse_profile(broken("\"kv_blocks\":", "\"kv_blocks\": 3,\n  \"kv_blocks\":"), "mine.json");
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().line, HasSubstr("mine.json: line "));
  EXPECT_THAT(read.error().line, HasSubstr("\"kv_blocks\" occurs twice in one object; give it once"));
  EXPECT_FALSE(parse_profile(broken("\"layers\":", "\"layers\" : 3, \"layers\" :"), "mine.json"));
  EXPECT_TRUE(parse_profile(broken("\"source\": \"", "\"source\": \"a \\\\\\\"name\\\": b "), "mine.json"))
      << "what a text says is no field";
  // the same name written otherwise
  const auto hidden = parse_profile(broken("\"kv_blocks\":", "\"kv_block\\u0073\": 3,\n  \"kv_blocks\":"), "mine.json");
  ASSERT_FALSE(hidden);
  EXPECT_THAT(hidden.error().line, HasSubstr("\"kv_block\\u0073\" is not a field of a profile"));
}

TEST(Profile, OfEveryNameIsWhole) {
  const auto names = profile_names();
  for (const auto* name :
       {"toy", "llama-7b-a10", "llama-30b-4xa10", "llama-2-7b-a40", "llama-2-7b-a100", "llama-2-7b-h100",
        "llama-2-70b-a40", "llama-2-70b-a100", "llama-2-70b-h100", "llama-2-70b-128k-h100"})
    EXPECT_THAT(names, Contains(name));
  for (const auto& name : names) {
    const auto p = opened(name);
    EXPECT_EQ(p.name, name);
    EXPECT_FALSE(p.source.empty()) << name;
    EXPECT_GT(latency_model(p).linear.at(1), 0) << name;
  }
}

TEST(Profile, ComesFromAFileOfTheSameText) {
  for (const auto& name : profile_names())
    EXPECT_EQ(opened((shipped / (name + ".json")).string()), opened(name)) << name;
}

TEST(Profile, ReadsWhatItWrites) {
  for (const auto& name : profile_names()) {
    const auto p = opened(name);
    const auto again = parse_profile(to_json(p), "written");
    ASSERT_TRUE(again) << again.error().line;
    EXPECT_EQ(*again, p) << name;
    EXPECT_EQ(to_json(*again), to_json(p));
  }
}

TEST(Profile, KeepsATableOfReading) {
  auto p = opened("toy");
  p.kv.points = {{1, 0.25}, {1000, 300}};
  const auto again = parse_profile(to_json(p), "written");
  ASSERT_TRUE(again) << again.error().line;
  EXPECT_EQ(*again, p);
  EXPECT_EQ(latency_model(*again).kv, p.kv);
}

TEST(Profile, KeepsTheSpreadOfItsSteps) {
  auto p = opened("toy");
  EXPECT_TRUE(p.spread.factors.empty()); // round numbers, always
  p.spread = {{0.97, 1, 1.25}, 0.5};
  const auto again = parse_profile(to_json(p), "written");
  ASSERT_TRUE(again) << again.error().line;
  EXPECT_EQ(*again, p);
  EXPECT_EQ(latency_model(*again).spread, p.spread);
}

TEST(Profile, KeepsTheRateOfTheMemoryAtItsLinksEnds) {
  auto p = opened("toy");
  EXPECT_EQ(p.link.device_bytes_per_second, 0); // copies take nothing
  EXPECT_EQ(to_json(p).find("device_bytes_per_second"), std::string::npos);
  p.link.device_bytes_per_second = 6e11;
  const auto again = parse_profile(to_json(p), "written");
  ASSERT_TRUE(again) << again.error().line;
  EXPECT_EQ(*again, p);
}

TEST(Profile, KeepsTheRateOfTheWayToTheHost) {
  auto p = opened("toy");
  EXPECT_EQ(p.link.host_bytes_per_second, 2e9);
  p.link.host_bytes_per_second = 0; // nothing is swapped
  EXPECT_EQ(to_json(p).find("host_bytes_per_second"), std::string::npos);
  const auto again = parse_profile(to_json(p), "written");
  ASSERT_TRUE(again) << again.error().line;
  EXPECT_EQ(*again, p);
}

TEST(Profile, RefusesASpreadThatIsNone) {
  const auto refusal_of = [](const std::string& spread) {
    const auto read = parse_profile(broken("\"logits\": []", "\"logits\": [], \"spread\": " + spread), "a.json");
    return read ? std::string("taken") : read.error().line;
  };
  EXPECT_EQ(refusal_of(R"({"kept": 0.5, "factors": [1, 1.5]})"), "taken");
  EXPECT_THAT(refusal_of(R"({"kept": 1.5, "factors": [1]})"), HasSubstr("kept"));
  EXPECT_THAT(refusal_of(R"({"kept": 0, "factors": []})"), HasSubstr("factors"));
  EXPECT_THAT(refusal_of(R"({"kept": 0, "factors": [1.5, 1]})"), HasSubstr("must not fall"));
  EXPECT_THAT(refusal_of(R"({"kept": 0, "factors": [0]})"), HasSubstr("above 0"));
  EXPECT_THAT(refusal_of(R"({"kept": 0, "factors": [1], "shape": 2})"), HasSubstr("shape"));
}

TEST(Profile, CalledToyIsTheDefaultOfTheLatencyModel) { EXPECT_EQ(latency_model(opened("toy")), latency_model()); }

TEST(Profile, TakesLongerForMoreOfEverything) {
  for (const auto& name : profile_names()) {
    const latency_model m(opened(name));
    for (std::uint32_t n = 1; n < 9000; n += 13) {
      EXPECT_LE(m.linear.at(n), m.linear.at(n + 13)) << name << ' ' << n;
      EXPECT_LE(m.logits.at(n), m.logits.at(n + 13)) << name << ' ' << n;
      EXPECT_LE(m.attention_us(n, 1), m.attention_us(n + 1, 1)) << name << ' ' << n;
      EXPECT_LT(m.attention_us(n, 16), m.attention_us(n, 32)) << name << ' ' << n;
    }
  }
}

TEST(Profile, RefusesWithOneLineThatNamesTheField) {
  const std::pair<std::string, std::string> cases[] = {
      {broken("godwit-profile/1", "godwit-profile/9"), "format"},
      {broken("\"start_ms\"", "\"start_s\""), "start_s: is not a field"},
      {broken("\"per_decode_us\": 20", "\"per_decode_us\": -20"), "step.per_decode_us: must be a number from 0"},
      {broken("\"per_decode_us\": 20,", ""), "step.per_decode_us: is missing"},
      {broken("\"kv_blocks\": 64", "\"kv_blocks\": 0"), "kv_blocks: must be an integer from 1"},
      {broken("[1, 30]", "[1, 30], [1, 40]"), "step.linear[1]: has a count that is not above"},
      {broken("[1, 30]", "[1, 30], [2, 20], [3, 19]"), "step.linear[2]: takes less time"},
      {broken("[1, 30]", "[0, 30]"), "step.linear[0]: has a count that is not an integer"},
      {broken("[1, 30]", "[1, 30, 2]"), "step.linear[0]: must be a pair"},
      {broken("[1, 30]", "[1, \"x\"]"), "step.linear[0]: has a time that is not a number"},
      {broken("[1, 30]", ""), "step.linear: must have 1 to"},
      {broken("\"kv_bytes_per_second\": 20480000000", "\"kv_bytes_per_second\": 0"), "attention.kv_bytes_per_second"},
      {broken("\"latency_us\"", "\"device_bytes_per_second\": 1e9, \"latency_us\""), // below the link's
       "link.device_bytes_per_second: must be a number from"},
      {broken("\"host_bytes_per_second\": 2000000000", "\"host_bytes_per_second\": 0"),
       "link.host_bytes_per_second: must be a number from"},
      {broken("\"calibration\": []", "\"calibration\": [{\"field\": \"a\"}]"), "calibration[0].value: is missing"},
      {broken("\"assumptions\": []", "\"assumptions\": [1]"), "assumptions: must be an array of strings"},
      {"{", "is not valid JSON"},
      {"[]", "the top level must be an object"},
      {"", "is not valid JSON"}};
  for (const auto& [text, expected] : cases) {
    const auto parsed = parse_profile(text, "mine.json");
    ASSERT_FALSE(parsed) << expected;
    EXPECT_THAT(parsed.error().line, HasSubstr(expected));
    EXPECT_EQ(parsed.error().line.rfind("mine.json: ", 0), 0U) << parsed.error().line;
    EXPECT_EQ(parsed.error().line.find('\n'), std::string::npos) << parsed.error().line;
  }
}

TEST(Profile, CutOffAnywhereIsRefused) {
  const auto text = text_of(shipped / "llama-7b-a10.json");
  const auto whole = text.find_last_of('}');
  for (std::size_t size = 0; size < whole; size += 7) EXPECT_FALSE(parse_profile(text.substr(0, size), "cut")) << size;
}

TEST(Profile, ThatIsNotThereIsRefusedWithTheNamesThatAre) {
  const auto unknown = open_profile("a11");
  ASSERT_FALSE(unknown);
  EXPECT_THAT(unknown.error().line, HasSubstr("there is no profile \"a11\"; known are llama-2-70b-128k-h100, "));
  for (const auto* path : {"nowhere/a.json", "a.json"}) {
    const auto missing = open_profile(path);
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().line, std::string(path) + ": there is no such file");
  }
  const auto folder = open_profile("/");
  ASSERT_FALSE(folder);
  EXPECT_EQ(folder.error().line, "/: is not a file");
}

TEST(Profile, GivesAnExecutorItsSizes) {
  const auto p = opened("llama-7b-a10");
  const auto info = executor_info_of(p);
  EXPECT_EQ(info.blocks, 851U);
  EXPECT_EQ(info.block_bytes, std::uint64_t{8} << 20);
  EXPECT_EQ(info.layers, 32U);
}

TEST(Profile, FollowsFromTheMeasurementsAsItsScriptSays) {
  const auto measured = fs::path(GODWIT_SOURCE_DIR) / "../shared/data/profiles/vidur_linear_ops.csv";
  if (!fs::exists(measured)) GTEST_SKIP() << "no ../shared/data/profiles";
  if (std::system("python3 -c '' >/dev/null 2>&1") != 0) GTEST_SKIP() << "no python3";
  const auto out = fs::temp_directory_path() / ("godwit-derived-profiles-" + std::to_string(::getpid()));
  fs::remove_all(out);
  fs::create_directories(out);
  const auto command =
      "python3 -B '" + (shipped / "derive.py").string() + "' '" + measured.string() + "' '" + out.string() + "'";
  ASSERT_EQ(std::system(command.c_str()), 0);
  int files = 0;
  for (const auto& file : fs::directory_iterator(out)) {
    EXPECT_EQ(text_of(file.path()), text_of(shipped / file.path().filename())) << file.path().filename();
    ++files;
  }
  EXPECT_EQ(files, 9);
  fs::remove_all(out);
}

} // namespace
} // namespace godwit::gpu::sim::testing
