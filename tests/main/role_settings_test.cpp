// `instances.roles`, as a command line or a file says it.
#include "main/scheduling_settings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace godwit::main {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using enum protocols::instance_role;

serve_settings with_roles(std::vector<std::string> roles) {
  serve_settings settings;
  settings.instances.roles = std::move(roles);
  return settings;
}

std::optional<std::string> set(runtime::config::registry& registry, const std::string& roles) {
  return registry.set("instances.roles", roles, {runtime::config::source::flag, "--roles"});
}

TEST(RoleSettings, AreReadFromAList) {
  serve_settings settings;
  runtime::config::registry registry;
  declare(registry, settings);
  EXPECT_FALSE(set(registry, "prefill:2,decode"));
  EXPECT_THAT(registry.validate(), IsEmpty());
  EXPECT_THAT(roles_of(settings), ElementsAre(prefill, prefill, decode));
  EXPECT_FALSE(set(registry, ""));
  EXPECT_THAT(registry.validate(), IsEmpty());
  EXPECT_THAT(roles_of(settings), IsEmpty());
}

TEST(RoleSettings, WhatIsNoRoleIsToldWithTheOnesThatAre) {
  for (const auto* wrong : {"prompt", "prefill:0", "prefill:", "decode:x", "decode:2x", "prefill:-1", ":2", "Prefill",
                            "decode:99999999999", " decode"}) {
    serve_settings settings;
    runtime::config::registry registry;
    declare(registry, settings);
    EXPECT_FALSE(set(registry, std::string("mixed,") + wrong)) << wrong;
    EXPECT_THAT(registry.validate(), ElementsAre(HasSubstr("is none of prefill, decode and mixed"))) << wrong;
  }
}

TEST(RoleSettings, AreBounded) {
  serve_settings settings;
  runtime::config::registry registry;
  declare(registry, settings);
  EXPECT_FALSE(set(registry, "prefill:60000,decode:60000"));
  EXPECT_THAT(registry.validate(), ElementsAre(HasSubstr("more than 65536 instances")));
}

TEST(RoleSettings, AreOfNoUseWhereNothingMoves) {
  const auto wrong = [](const std::string& roles, auto&& change) {
    serve_settings settings;
    runtime::config::registry registry;
    declare(registry, settings);
    change(settings);
    EXPECT_FALSE(set(registry, roles));
    return registry.validate();
  };
  const auto no_fabric = [](serve_settings& s) { s.fabric.backend = fabric_choice::none; };
  EXPECT_THAT(wrong("prefill,decode", no_fabric), ElementsAre(HasSubstr("fabric.backend none")));
  EXPECT_THAT(wrong("decode", no_fabric), ElementsAre(HasSubstr("fabric.backend none")));
  EXPECT_THAT(wrong("mixed:3", no_fabric), IsEmpty());
}

TEST(RoleSettings, AreNoMoreThanThereAreInstances) {
  EXPECT_EQ(wrong_with_roles(with_roles({"prefill:2", "decode"}), 3), "");
  EXPECT_EQ(wrong_with_roles(with_roles({"prefill:2", "decode"}), 8), "") << "the last is that of all behind it";
  EXPECT_THAT(wrong_with_roles(with_roles({"prefill:2", "decode"}), 2),
              HasSubstr("instances.roles names 3 instances, and there are 2"));
  EXPECT_EQ(wrong_with_roles(with_roles({}), 0), "");
  EXPECT_EQ(wrong_with_roles(with_roles({"decode"}), 0), "") << "of what it orders";
  EXPECT_NE(wrong_with_roles(with_roles({"prefill", "decode"}), 0), "");
}

TEST(RoleSettings, PrefillNeedsAPolicyByWhichRequestsMove) {
  auto settings = with_roles({"prefill", "decode"});
  settings.scheduler.migration = protocols::migration_policy::never;
  EXPECT_THAT(wrong_with_roles(settings, 2), HasSubstr("by the migration policy never no request leaves"));
  settings.scheduler.migration = protocols::migration_policy::none;
  EXPECT_EQ(wrong_with_roles(settings, 2), "");
}

} // namespace
} // namespace godwit::main
