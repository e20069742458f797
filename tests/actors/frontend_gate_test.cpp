#include "actors/support/idle_llumlet.hpp"

#include <godwit/actors/frontend_gate.hpp>
#include <godwit/runtime/sim/world.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace godwit::actors {
namespace {

TEST(FrontendGate, TheLongestWaitThatThereIsEndsWithTheLastInstance) {
  runtime::sim::world world{1};
  runtime::sim::system host{world};
  frontend_gate gate{host};
  topology news;
  news.version = 1;
  news.instances.edit().emplace_back(
      protocols::instance_id{0}, 1, true,
      host.spawn<godwit::test::idle_llumlet>(std::make_shared<godwit::test::idle_llumlet::journal>()));
  std::thread later{[&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20)); // while it waits
    gate.update(news);
  }};
  EXPECT_TRUE(gate.wait_ready(1, std::chrono::milliseconds::max()));
  later.join();
}

} // namespace
} // namespace godwit::actors
