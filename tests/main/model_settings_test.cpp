// `model.name` and `model.aliases`, as a command line or a file says them.
#include "main/settings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace godwit::main {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(ModelSettings, AModelMayHaveOtherNamesEachOnce) {
  serve_settings settings;
  runtime::config::registry registry;
  declare(registry, settings);
  const auto tell = [&](const char* name, const std::string& value) {
    EXPECT_FALSE(registry.set(name, value, {runtime::config::source::flag, "--x"}));
  };
  tell("model.name", "llama");
  tell("model.aliases", "gpt-4o,default");
  EXPECT_THAT(settings.model.aliases, ElementsAre("gpt-4o", "default"));
  EXPECT_THAT(registry.validate(), IsEmpty());
  for (const auto* const twice : {"gpt-4o,gpt-4o", "llama", "default,llama"}) {
    tell("model.aliases", twice);
    EXPECT_THAT(registry.validate(), ElementsAre(HasSubstr("is a name that the model has already"))) << twice;
  }
}

} // namespace
} // namespace godwit::main
