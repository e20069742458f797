#pragma once

#include <godwit/actors/kv_store_shard.hpp>
#include <godwit/runtime/sim/world.hpp>
#include <godwit/transport/sim/network.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace godwit::test {

/// Asks a shard of four chunks of 512 bytes, and has a fabric of its own.
class ShardTest : public ::testing::Test {
protected:
  ShardTest() : network(world.timers(), {}), ours(network.make_fabric("ours")), theirs(network.make_fabric("theirs")) {
    system = std::make_unique<runtime::sim::system>(world, runtime::sim::system_settings{});
    start_shard(nullptr);
  }
  /// In the place of the one that is there.
  void start_shard(std::shared_ptr<transport::disk> disk,
                   const std::function<void(actors::kv_store_settings&)>& adjust = {}) {
    if (shard) system->stop(shard);
    actors::kv_store_shard_options o;
    o.settings.disk = std::move(disk);
    o.keeper = keeper;
    o.bytes = 4 * 512;
    o.block_bytes = 128;
    o.settings.put_timeout = std::chrono::seconds(3);
    o.settings.load_timeout = std::chrono::seconds(1);
    o.settings.offers_max = 2;
    o.fabric = theirs;
    o.transfers = transfers;
    o.recount = true;
    if (adjust) adjust(o.settings);
    shard = system->spawn<actors::kv_store_shard>(std::move(o));
  }
  ~ShardTest() override {
    theirs.reset();
    EXPECT_TRUE(system->shutdown());
  }

  template <class Message> auto ask(Message what) {
    return system->ask(shard, std::chrono::seconds(10), std::move(what)).value();
  }
  void tell(protocols::store_settled news) { system->tell(shard, news); }

  static protocols::chunk_name name_of(std::uint64_t i) { return {i, i}; }
  std::vector<std::uint8_t> filed(std::uint64_t most) {
    protocols::store_look look;
    for (std::uint64_t i = 1; i <= most; ++i) look.names.push_back(name_of(i));
    return ask(look).filed;
  }
  protocols::store_room offer(std::vector<std::uint64_t> which, protocols::chunk_shape shape = {512, 8}) {
    protocols::store_offer wish;
    wish.shape = shape;
    for (const auto i : which) wish.names.push_back(name_of(i));
    return ask(std::move(wish));
  }
  /// Chunk `value`'s bytes are all that.
  std::string send(const protocols::store_room& room, std::uint32_t place, std::uint8_t value,
                   std::uint32_t regions = 8) {
    auto bytes = std::make_shared<std::vector<std::byte>>(512, std::byte{value});
    std::vector<protocols::memory_region> list;
    for (std::uint32_t i = 0; i < regions; ++i)
      list.push_back({bytes->data() + i * (512 / 8), 512 / 8, protocols::memory_kind::host});
    std::optional<std::string> error;
    ours->send(room.fabric, {room.transfer, 0}, place * 8, std::move(list), transport::transfer_priority::bulk,
               std::chrono::seconds(1), bytes, [&error](std::string e) { error = std::move(e); });
    EXPECT_TRUE(world.run_until([&] { return error.has_value(); }, 100'000));
    return error.value_or("nothing");
  }
  void bring(std::vector<std::uint64_t> which) {
    const auto room = offer(which);
    for (std::uint32_t i = 0; i < room.wanted.size(); ++i)
      EXPECT_EQ(send(room, i, static_cast<std::uint8_t>(which[room.wanted[i]])), "");
    tell({room.transfer, static_cast<std::uint32_t>(room.wanted.size())});
    world.run_for(std::chrono::milliseconds(10));
  }
  /// What has landed of each chunk: its value, or 0.
  std::vector<int> fetch(std::vector<std::uint64_t> which, std::uint32_t regions = 8) {
    auto memory = std::make_shared<std::vector<std::byte>>(which.size() * 512);
    std::vector<protocols::memory_region> list;
    for (std::size_t i = 0; i < which.size() * regions; ++i)
      list.push_back({memory->data() + i * (512 / regions), 512 / regions, protocols::memory_kind::host});
    const auto key = ++keys;
    ours->post({key, 0}, std::move(list), memory, [](const transport::landing&) {});
    protocols::store_fetch order;
    order.fabric = ours->address();
    order.transfer = key;
    order.shape = {512, regions};
    for (std::size_t i = 0; i < which.size(); ++i)
      order.chunks.emplace_back(name_of(which[i]), static_cast<std::uint32_t>(i) * regions);
    const auto answer = ask(std::move(order));
    ours->withdraw({key, 0}, [] {});
    world.run_for(std::chrono::milliseconds(1));
    std::vector<int> out;
    for (std::size_t i = 0; i < which.size(); ++i) {
      const auto first = (*memory)[i * 512];
      EXPECT_TRUE(std::all_of(memory->begin() + static_cast<std::ptrdiff_t>(i * 512),
                              memory->begin() + static_cast<std::ptrdiff_t>((i + 1) * 512),
                              [first](std::byte b) { return b == first; }));
      EXPECT_EQ(answer.landed.at(i) != 0, first != std::byte{0});
      out.push_back(static_cast<int>(first));
    }
    return out;
  }

  runtime::sim::world world{1};
  transport::sim::network network;
  std::shared_ptr<transport::fabric> ours, theirs;
  std::unique_ptr<runtime::sim::system> system;
  runtime::handle<actors::kv_store_interface> shard;
  runtime::handle<actors::store_keeper_interface> keeper; ///< of the next shard
  std::shared_ptr<std::atomic<std::uint64_t>> transfers = std::make_shared<std::atomic<std::uint64_t>>(100);
  std::uint64_t keys = 0;
};

} // namespace godwit::test
