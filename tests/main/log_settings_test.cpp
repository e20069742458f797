#include "main/logging.hpp"
#include "main/settings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace godwit::main {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

runtime::config::problems with_levels(const std::string& levels) {
  serve_settings settings;
  runtime::config::registry registry;
  declare(registry, settings);
  EXPECT_EQ(registry.set("log.levels", levels, {runtime::config::source::flag, "--log-level"}), std::nullopt);
  return registry.validate();
}

TEST(LogSettings, AComponentThatLogsNothingIsRefusedWithThoseThatDo) {
  EXPECT_THAT(with_levels("warning,http=debug,node=trace"), IsEmpty());
  EXPECT_THAT(with_levels("htpp=debug"), ElementsAre("log.levels: nothing that logs is called \"htpp\"; did you mean "
                                                     "http? (from --log-level)"));
  EXPECT_THAT(with_levels("nonesuch=debug"), ElementsAre("log.levels: nothing that logs is called \"nonesuch\"; there "
                                                         "are " +
                                                         log_components() + " (from --log-level)"));
}

} // namespace
} // namespace godwit::main
