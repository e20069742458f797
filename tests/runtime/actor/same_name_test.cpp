#include "runtime/actor/test_actors.hpp"

#include <godwit/runtime/sim/world.hpp>

#include <gtest/gtest.h>

namespace godwit::runtime::test {

void register_another_parcel(actor_host& host); // same_name_other.cpp

namespace {

struct parcel {
  double value = 0;
  auto fields() { return std::tie(value); }
};

TEST(MessageType, OfANameThatAnotherOneHasIsReportedOnce) {
  std::vector<std::string> reports;
  sim::world world{1};
  sim::system_settings settings;
  settings.report = [&](std::string_view, std::string_view text) { reports.emplace_back(text); };
  sim::system host{world, settings};
  host.register_messages<parcel, number>();
  host.register_messages<parcel, number>();
  EXPECT_TRUE(reports.empty());
  register_another_parcel(host);
  register_another_parcel(host);
  host.register_messages<parcel>();
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0], "two message types are called " + std::string(message_type_of<parcel>.name) +
                            "; what comes from other nodes is taken for the first: give each a namespace with a name");
}

} // namespace
} // namespace godwit::runtime::test
