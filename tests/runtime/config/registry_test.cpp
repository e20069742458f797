#include <godwit/runtime/config/command_line.hpp>
#include <godwit/runtime/config/registry.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

namespace godwit::runtime::config {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using variables = std::vector<std::pair<std::string, std::string>>;

enum class shade { light, dark };

struct registered_program {
  std::uint32_t queue_max = 100;
  std::uint16_t port = 8000;
  double factor = 0.5;
  bool migrate = true;
  std::string model = "tiny";
  shade look = shade::light;
  std::chrono::milliseconds patience{200};
  std::uint64_t pool = 512ULL << 20;
  std::vector<std::string> peers{"a", "b"};
  registry settings;

  registered_program() {
    settings.add("model", model, {.doc = "The model's name."});
    settings.add("scheduler.queue_max", queue_max,
                 {.doc = "Requests that may wait.", .unit = "requests", .min = 1, .max = 100000});
    settings.add("http.port", port, {.doc = "Where clients connect.", .min = 0, .max = 65535, .flag = "--port"});
    settings.add("scheduler.factor", factor, {.doc = "A ratio | a share.", .min = 0, .max = 1});
    settings.add("scheduler.migrate", migrate, {.doc = "Whether requests move."});
    settings.add("look", look, {{"light", shade::light}, {"dark", shade::dark}}, {.doc = "Colours."});
    settings.add("http.patience", patience, {.doc = "How long to wait.", .min = 1, .max = 60000});
    settings.add("memory.pool", pool, {.doc = "KV cache.", .unit = "bytes", .min = 4096});
    settings.add("cluster.peers", peers, {.doc = "Nodes."});
  }
};

TEST(ConfigRegistry, MakesFlagAndVariableFromTheName) {
  auto p = registered_program();
  const auto* s = p.settings.find("scheduler.queue_max");
  ASSERT_NE(s, nullptr);
  EXPECT_EQ(s->flag, "--scheduler-queue-max");
  EXPECT_EQ(s->variable, "GODWIT_SCHEDULER_QUEUE_MAX");
  EXPECT_EQ(s->default_text, "100");
  EXPECT_EQ(p.settings.find("http.port")->flag, "--port");
}

TEST(ConfigRegistry, ReadsEveryTypeFromText) {
  auto p = registered_program();
  const auto by = origin{source::flag, "--x"};
  for (const auto& [name, text] : variables{{"model", "big one"},
                                            {"scheduler.queue_max", "7"},
                                            {"scheduler.factor", "0.25"},
                                            {"scheduler.migrate", "off"},
                                            {"look", "dark"},
                                            {"http.patience", "1s500ms"},
                                            {"memory.pool", "1.5GiB"},
                                            {"cluster.peers", "x:1,y:2"}})
    EXPECT_EQ(p.settings.set(name, text, by), std::nullopt) << name;
  EXPECT_EQ(p.model, "big one");
  EXPECT_EQ(p.queue_max, 7U);
  EXPECT_EQ(p.factor, 0.25);
  EXPECT_FALSE(p.migrate);
  EXPECT_EQ(p.look, shade::dark);
  EXPECT_EQ(p.patience, 1500ms);
  EXPECT_EQ(p.pool, 3ULL << 29);
  EXPECT_THAT(p.peers, ElementsAre("x:1", "y:2"));
}

TEST(ConfigRegistry, AFlagBeatsTheEnvironmentWhichBeatsTheFileInAnyOrder) {
  auto p = registered_program();
  EXPECT_EQ(p.settings.set("http.port", "1", {source::flag, "--port"}), std::nullopt);
  EXPECT_THAT(p.settings.load_environment(variables{{"GODWIT_HTTP_PORT", "2"}, {"GODWIT_MODEL", "env"}}), IsEmpty());
  EXPECT_THAT(p.settings.load_toml("model = 'file'\nlook = 'dark'\n[http]\nport = 3\n", "g.toml"), IsEmpty());
  EXPECT_EQ(p.port, 1);
  EXPECT_EQ(p.model, "env");
  EXPECT_EQ(p.look, shade::dark);
  EXPECT_EQ(p.settings.find("http.port")->set_by.where, "--port");
  EXPECT_EQ(p.settings.find("model")->set_by.where, "GODWIT_MODEL");
  EXPECT_EQ(p.settings.find("look")->set_by.where, "g.toml:2");
  EXPECT_EQ(p.settings.find("http.patience")->set_by.from, source::built_in);
}

TEST(ConfigRegistry, AnUnknownNameIsAnErrorThatNamesTheNearestKnownOne) {
  auto p = registered_program();
  EXPECT_THAT(p.settings.load_toml("\n[scheduler]\nqueue_mx = 4\n", "g.toml"),
              ElementsAre("g.toml:3: unknown setting scheduler.queue_mx; did you mean scheduler.queue_max?"));
  EXPECT_THAT(p.settings.load_toml("zzzzzzzz = 4\n", "g.toml"), ElementsAre("g.toml:1: unknown setting zzzzzzzz"));
  EXPECT_THAT(p.settings.load_environment(variables{{"GODWIT_HTTP_PROT", "2"}, {"PATH", "/bin"}}),
              ElementsAre("unknown environment variable GODWIT_HTTP_PROT; did you mean GODWIT_HTTP_PORT?"));
  EXPECT_THAT(p.settings.load_environment(variables{{"GODWIT_FOO", "2"}}),
              ElementsAre("unknown environment variable GODWIT_FOO"));
  EXPECT_EQ(p.settings.nearest_flag("--prot"), "--port");
  EXPECT_EQ(p.settings.nearest_flag("--something-else-altogether"), "");
}

TEST(ConfigRegistry, WhatKubernetesSaysOfAServiceIsNoSetting) {
  auto p = registered_program();
  EXPECT_THAT(p.settings.load_environment(variables{{"GODWIT_SERVICE_HOST", "10.0.0.1"},
                                                    {"GODWIT_SERVICE_PORT", "8000"},
                                                    {"GODWIT_SERVICE_PORT_HTTP", "8000"},
                                                    {"GODWIT_PORT", "tcp://10.0.0.1:8000"},
                                                    {"GODWIT_HTTP_PORT", "tcp://10.0.0.1:8000"},
                                                    {"GODWIT_PORT_8000_TCP", "tcp://10.0.0.1:8000"},
                                                    {"GODWIT_PORT_8000_TCP_ADDR", "10.0.0.1"},
                                                    {"GODWIT_HEAD_PORT_7070_TCP_PROTO", "tcp"}}),
              IsEmpty());
  EXPECT_THAT(p.settings.load_environment(variables{{"GODWIT_PORT", "8000"}}), SizeIs(1));
}

TEST(ConfigRegistry, AllowedVariablesAreLeftAlone) {
  auto p = registered_program();
  p.settings.allow_variable("GODWIT_CONFIG");
  EXPECT_THAT(p.settings.load_environment(variables{{"GODWIT_CONFIG", "x.toml"}}), IsEmpty());
}

TEST(ConfigRegistry, AValueOutOfBoundsIsRefusedWithTheBoundsAndTheUnit) {
  auto p = registered_program();
  EXPECT_EQ(p.settings.set("scheduler.queue_max", "0", {source::flag, "--scheduler-queue-max"}),
            "--scheduler-queue-max is 0 requests, but must be from 1 to 100000 requests");
  EXPECT_EQ(p.settings.set("http.port", "70000", {source::flag, "--port"}),
            "--port is 70000, but must be from 0 to 65535");
  EXPECT_EQ(p.settings.set("http.port", "-1", {source::flag, "--port"}), "--port is -1, but must be from 0 to 65535");
  EXPECT_THAT(p.settings.load_toml("[http]\npatience = '2h'\n[memory]\npool = '1KiB'\n", "g.toml"),
              ElementsAre("g.toml:2: http.patience is 2h, but must be from 1ms to 1m",
                          "g.toml:4: memory.pool is 1KiB, but must be at least 4KiB"));
  EXPECT_EQ(p.queue_max, 100U);
  EXPECT_EQ(p.port, 8000);
  EXPECT_EQ(p.patience, 200ms);
}

TEST(ConfigRegistry, AValueOfTheWrongTypeIsRefusedWithWhatIsExpected) {
  auto p = registered_program();
  const auto by = origin{source::environment, "GODWIT_X"};
  EXPECT_EQ(p.settings.set("scheduler.queue_max", "many", by), "GODWIT_X: \"many\" is not a whole number of requests");
  EXPECT_EQ(p.settings.set("look", "red", by), "GODWIT_X: \"red\" is not one of light, dark");
  EXPECT_EQ(p.settings.set("scheduler.migrate", "perhaps", by), "GODWIT_X: \"perhaps\" is not true or false");
  EXPECT_THAT(p.settings.set("http.patience", "5", by).value_or(""), HasSubstr("a time with its unit"));
  EXPECT_THAT(p.settings.set("http.patience", "1500us", by).value_or(""), HasSubstr("does not fit"));
  EXPECT_THAT(p.settings.load_toml("model = 3\n[scheduler]\nqueue_max = 'x'\nmigrate = 1\nfactor = true\n", "g.toml"),
              ElementsAre("g.toml:1: model is 3, which is not a string",
                          "g.toml:3: scheduler.queue_max is 'x', which is not a whole number of requests",
                          "g.toml:4: scheduler.migrate is 1, which is not true or false",
                          "g.toml:5: scheduler.factor is true, which is not a number"));
  EXPECT_EQ(p.model, "tiny");
}

// It stands in metrics, logs and JSON; a file of it would not be read back.
TEST(ConfigRegistry, WhatIsNotUtf8IsRefused) {
  auto p = registered_program();
  const auto by = origin{source::environment, "GODWIT_X"};
  EXPECT_EQ(p.settings.set("model",
                           "b\xff"
                           "ad",
                           by),
            "GODWIT_X: \"b\xEF\xBF\xBD"
            "ad\" is not UTF-8");
  EXPECT_EQ(p.settings.set("model", "b\xc3\xa4r", by), std::nullopt);
}

TEST(ConfigRegistry, AnEmptyTableThatNobodyKnowsIsTold) {
  auto p = registered_program();
  EXPECT_THAT(p.settings.load_toml("[scheduler]\n[nosuch]\n", "g.toml"),
              ElementsAre(HasSubstr("g.toml:2: unknown setting nosuch")));
}

TEST(ConfigRegistry, WhatIsNoNumberInAFileIsWithinNoBounds) {
  auto p = registered_program();
  EXPECT_THAT(p.settings.load_toml("[scheduler]\nfactor = nan\n", "g.toml"),
              ElementsAre("g.toml:2: scheduler.factor is nan, which is not a number"));
  EXPECT_THAT(p.settings.load_toml("[scheduler]\nfactor = -inf\n", "g.toml"),
              ElementsAre("g.toml:2: scheduler.factor is -inf, which is not a number"));
  EXPECT_EQ(p.factor, 0.5);
}

TEST(ConfigRegistry, ABrokenFileIsToldWithItsLine) {
  auto p = registered_program();
  const auto found = p.settings.load_toml("model = 'x'\n[http\n", "g.toml");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_THAT(found.front(), HasSubstr("g.toml:2: not valid TOML"));
  EXPECT_THAT(p.settings.load_file("no/such/file.toml"),
              ElementsAre("cannot read the configuration file no/such/file.toml: No such file or directory"));
}

TEST(ConfigRegistry, RulesBetweenSettingsAreCheckedWhenEverythingIsLoaded) {
  auto p = registered_program();
  p.settings.relate([&p]() -> std::optional<std::string> {
    if (p.pool >= p.queue_max * 4096ULL) return std::nullopt;
    return "memory.pool must hold a block for each of scheduler.queue_max requests";
  });
  EXPECT_THAT(p.settings.validate(), IsEmpty());
  EXPECT_EQ(p.settings.set("memory.pool", "4KiB", {source::flag, "--memory-pool"}), std::nullopt);
  EXPECT_THAT(p.settings.validate(), ElementsAre("memory.pool must hold a block for each of scheduler.queue_max "
                                                 "requests (from --memory-pool)"));
}

TEST(ConfigRegistry, PrintedConfigurationReadsBackAsTheSameValues) {
  auto p = registered_program();
  const auto by = origin{source::flag, "--x"};
  for (const auto& [name, text] : variables{{"model", "q\"uo\\te\nü\x01"},
                                            {"scheduler.factor", "0.1"},
                                            {"http.patience", "45s"},
                                            {"memory.pool", "123456789"},
                                            {"look", "dark"},
                                            {"cluster.peers", "a \"b\",c"}})
    ASSERT_EQ(p.settings.set(name, text, by), std::nullopt) << name;
  const auto printed = p.settings.print_config();
  auto again = registered_program();
  EXPECT_THAT(again.settings.load_toml(printed, "printed"), IsEmpty()) << printed;
  EXPECT_EQ(again.model, p.model);
  EXPECT_EQ(again.factor, p.factor);
  EXPECT_EQ(again.patience, p.patience);
  EXPECT_EQ(again.pool, p.pool);
  EXPECT_EQ(again.look, p.look);
  EXPECT_EQ(again.peers, p.peers);
  EXPECT_EQ(again.port, p.port);
  EXPECT_THAT(printed, HasSubstr("# Requests that may wait.\n# unit: requests; from 1 to 100000 requests\n# default\n"
                                 "queue_max = 100\n"));
  EXPECT_THAT(printed, HasSubstr("# set by the flag --x; default: 200ms\npatience = \"45s\"\n"));
  EXPECT_THAT(printed, HasSubstr("pool = \"123456789B\"\n"));
}

TEST(ConfigRegistry, TheReferenceHasARowForEverySetting) {
  auto p = registered_program();
  const auto page = p.settings.reference_markdown();
  for (const auto& s : p.settings.settings()) {
    EXPECT_THAT(page, HasSubstr("`" + s.flag + "`"));
    EXPECT_THAT(page, HasSubstr("`" + s.variable + "`"));
  }
  EXPECT_THAT(page, HasSubstr("A ratio \\| a share."));
  EXPECT_THAT(page, HasSubstr("## [scheduler]"));
}

TEST(ConfigRegistry, AWrongDeclarationIsABug) {
  auto p = registered_program();
  auto x = 5;
  EXPECT_THROW(p.settings.add("model", x, {.doc = "Twice."}), std::logic_error);
  EXPECT_THROW(p.settings.add("http.port.number", x, {.doc = "Below a value."}), std::logic_error);
  EXPECT_THROW(p.settings.add("Bad Name", x, {.doc = "Not lower case."}), std::logic_error);
  EXPECT_THROW(p.settings.add("undocumented", x, {}), std::logic_error);
  EXPECT_THROW(p.settings.add("beyond", x, {.doc = "Default out of bounds.", .max = 4}), std::logic_error);
  EXPECT_EQ(p.settings.find("beyond"), nullptr);
}

} // namespace
} // namespace godwit::runtime::config
