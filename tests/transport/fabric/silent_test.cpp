// Whoever connects to UCX's ports and says nothing.
#include "transport/fabric/raw_stream.hpp"
#include "transport/fabric/rig.hpp"
#include "ucx/silent_sockets.hpp"

#include <godwit/transport/ucx/fabric.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <list>
#include <set>

#include <sys/resource.h>

namespace godwit::transport::testing {
namespace {

// UCX keeps them, and tells nobody before their first word: they would take all descriptors.
TEST(FabricSilence, WhoSaysNothingIsLeftWhereDescriptorsRunShortAndOthersStay) {
  const auto before = ucx::listening_ports();
  ucx::settings options;
  options.connect_timeout = 500ms;
  options.streams = false;
  answers<ucx::link_end> told;
  options.on_end = [&told](const ucx::link_end& what) { told.put(what); };
  auto b = ucx::make_fabric(options);
  auto ports = ucx::listening_ports();
  for (const auto others : before) ports.erase(others);
  ASSERT_EQ(ports.size(), 2U) << "that of its listener and that of its tcp";
  options.on_end = {};
  auto a = ucx::make_fabric(options);
  block_memory from(3, 100'000), to(3, 100'000);
  post(*b, {1, 1}, to.part(0, 1));
  EXPECT_EQ(send(*a, b->address(), {1, 1}, 0, from.part(0, 1))->next(), "");

  rlimit most{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &most), 0);
  const rlimit little{256, most.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &little), 0);
  std::list<raw_stream> silent; // with both ends in this process
  for (int i = 0; i < 25; ++i)
    for (const auto port : ports) silent.emplace_back("127.0.0.1", port);
  for (auto& one : silent) EXPECT_TRUE(one.connected());
  std::size_t left = 0;
  EXPECT_TRUE(eventually(
      [&] {
        left = 0;
        for (auto& one : silent) left += one.shut(0) ? 0U : 1U;
        return left <= 10; // the descriptors of the others are in the upper half, which is enough
      },
      20s))
      << left;
  EXPECT_TRUE(told.next().value_or(ucx::link_end{}).goes_on);
  post(*b, {2, 1}, to.part(1, 1));
  EXPECT_EQ(send(*a, b->address(), {2, 1}, 0, from.part(1, 1))->next(), "") << "who has spoken stays";
  EXPECT_EQ(b->figures().peers_open, 1U);
  silent.clear();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &most), 0);
  a.reset();
  b.reset();
}

} // namespace
} // namespace godwit::transport::testing
