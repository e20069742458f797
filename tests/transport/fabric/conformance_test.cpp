// What every fabric promises, tried on all of them.
#include "transport/fabric/peer_process.hpp"
#include "transport/fabric/rig.hpp"
#include "ucx/core.hpp"

#include <godwit/runtime/async/timer_thread.hpp>
#include <godwit/transport/in_process/fabric.hpp>
#include <godwit/transport/sim/network.hpp>
#include <godwit/transport/ucx/fabric.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <new>
#include <thread>

namespace godwit::transport::testing {
namespace {

using ::testing::HasSubstr;
using sizes = std::vector<std::size_t>;

struct two_fabrics {
  std::shared_ptr<fabric> a, b;
  std::shared_ptr<void> world = {}; ///< outlives them
};

struct timed_network {
  runtime::async::timer_thread timers;
  sim::network net{timers, {}};
};

struct kind {
  const char* name;
  two_fabrics (*make)(const device_memory& device);
  bool from_device = false, to_device = false; ///< where the memory is
  bool shared = false;                         ///< the host's can be mapped
  bool reachable = false;                      ///< the device's can be read by UCX
  bool read = false;                           ///< and is, or the host's is
};

ucx::settings ucx_settings(way how, bool checksum, const device_memory& device) {
  auto s = settings_for(how);
  s.checksum = checksum;
  s.device = device;
  return s;
}

two_fabrics in_process_pair(const device_memory& device) {
  const auto hub = in_process::make_hub({.device = device});
  return {in_process::make_fabric(hub), in_process::make_fabric(hub)};
}
two_fabrics in_process_self(const device_memory& device) {
  const auto one = in_process::make_fabric(in_process::make_hub({.device = device}));
  return {one, one};
}
two_fabrics simulated(const device_memory&) {
  const auto world = std::make_shared<timed_network>();
  return {world->net.make_fabric("a"), world->net.make_fabric("b"), world};
}
template <way a, way b, bool checksum = false> two_fabrics ucx_pair(const device_memory& device) {
  return {ucx::make_fabric(ucx_settings(a, checksum, device)), ucx::make_fabric(ucx_settings(b, checksum, device))};
}
/// All tests' that go this way.
const std::shared_ptr<shared_pages>& pages() {
  static const auto one = std::make_shared<shared_pages>();
  return one;
}
template <bool checksum = false> two_fabrics ucx_mapped(const device_memory& device) {
  const auto make = [&] {
    auto options = ucx_settings(way::mapped, checksum, device);
    options.shared_memory = [](const std::byte* address) { return pages()->find(address); };
    return ucx::make_fabric(options);
  };
  return {make(), make()};
}
/// Whose memory UCX reads: what is a device's as well, which lies in the host's.
std::shared_ptr<fabric> reading_fabric(bool checksum, const device_memory& device, bool reads = true,
                                       bool reaches_devices = true) {
  auto options = ucx_settings(way::remote_reads, checksum, device);
  options.shared_memory = [](const std::byte* address) { return pages()->find(address); };
  if (!reads) options.reads = ucx::remote_reading::never;
  const auto broken = std::make_shared<ucx::faults>();
  broken->reads_by_messages = true;
  broken->devices_are_hosts = reaches_devices;
  return std::make_shared<ucx::core>(options, broken);
}
template <bool checksum = false> two_fabrics ucx_reads(const device_memory& device) {
  return {reading_fabric(checksum, device), reading_fabric(checksum, device)};
}
template <bool a, bool b> two_fabrics ucx_one_reads(const device_memory& device) {
  return {reading_fabric(false, device, a), reading_fabric(false, device, b)};
}
two_fabrics ucx_reads_hosts_alone(const device_memory& device) {
  return {reading_fabric(false, device, true, false), reading_fabric(false, device, true, false)};
}
two_fabrics ucx_self(const device_memory& device) {
  ucx::settings options;
  options.device = device;
  const auto one = ucx::make_fabric(options);
  return {one, one};
}

constexpr auto read = way::cross_memory;
constexpr auto streams = way::streams;
constexpr auto messages = way::messages;

const kind kinds[] = {
    {"in_process", in_process_pair},
    {"in_process_self", in_process_self},
    {"sim", simulated},
    {"ucx_cross_memory", ucx_pair<read, read>},
    {"ucx_mapped", ucx_mapped<>, false, false, true},
    {"ucx_mapped_checksums", ucx_mapped<true>, false, false, true},
    {"ucx_mapped_to_device", ucx_mapped<>, false, true, true},
    {"ucx_streams", ucx_pair<streams, streams>},
    {"ucx_one_without_streams", ucx_pair<streams, messages>},
    {"ucx_messages", ucx_pair<messages, messages>},
    {"ucx_checksums", ucx_pair<read, streams, true>},
    {"ucx_self", ucx_self},
    {"ucx_reads", ucx_reads<>, false, false, true, false, true},
    {"ucx_reads_checksums", ucx_reads<true>, false, false, true, false, true},
    {"ucx_sender_alone_would_be_read", ucx_one_reads<true, false>, false, false, true},
    {"ucx_receiver_alone_would_read", ucx_one_reads<false, true>, false, false, true},
    {"ucx_reads_device", ucx_reads<>, true, true, false, true, true},
    {"ucx_reads_device_unreachable", ucx_reads_hosts_alone, true, true},
    {"ucx_reads_checksums_device", ucx_reads<true>, true, true, false, true},
    {"ucx_reads_to_device", ucx_reads<>, false, true, true, true, true},
    {"ucx_reads_to_device_unreachable", ucx_reads_hosts_alone, false, true, true, false, true},
    {"ucx_reads_from_device", ucx_reads<>, true, false, true, true, true},
    {"in_process_device", in_process_pair, true, true},
    {"in_process_to_device", in_process_pair, false, true},
    {"in_process_from_device", in_process_self, true, false},
    {"ucx_cross_memory_device", ucx_pair<read, read>, true, true},
    {"ucx_streams_device", ucx_pair<streams, streams>, true, true},
    {"ucx_messages_device", ucx_pair<messages, messages>, true, true},
    {"ucx_checksums_device", ucx_pair<read, streams, true>, true, true},
    {"ucx_checksums_to_device", ucx_pair<read, read, true>, false, true},
    {"ucx_checksums_from_device", ucx_pair<streams, streams, true>, true, false},
    {"ucx_cross_memory_to_device", ucx_pair<read, read>, false, true},
    {"ucx_streams_from_device", ucx_pair<streams, streams>, true, false},
    {"ucx_self_device", ucx_self, true, true},
    {"ucx_self_from_device", ucx_self, true, false},
};

class Fabric : public ::testing::TestWithParam<kind> {
protected:
  Fabric() {
    device_memory options;
    if (GetParam().from_device || GetParam().to_device) {
      copier_ = std::make_shared<godwit::testing::fake_copier>(device_);
      options.copier = copier_;
      options.pieces = 5; // few, so that they run out
      options.urgent_pieces = 1;
    }
    auto made = GetParam().make(options);
    world_ = made.world;
    a_ = made.a;
    b_ = made.b;
  }
  template <class... Args> block_memory source(Args... args) const { return memory(GetParam().from_device, args...); }
  template <class... Args> block_memory target(Args... args) const { return memory(GetParam().to_device, args...); }
  block_memory memory(bool device, const std::vector<std::size_t>& each, unsigned char fill = 0) const {
    return block_memory(each, fill, device ? device_ : nullptr, GetParam().shared ? pages() : nullptr);
  }
  block_memory memory(bool device, std::size_t count, std::size_t bytes, unsigned char fill = 0) const {
    return block_memory(count, bytes, fill, device ? device_ : nullptr, GetParam().shared ? pages() : nullptr);
  }
  std::shared_ptr<fake_device> device_ = std::make_shared<fake_device>(GetParam().reachable);
  std::shared_ptr<godwit::testing::fake_copier> copier_;
  std::shared_ptr<void> world_;
  std::shared_ptr<fabric> a_, b_;
};

TEST_P(Fabric, BytesArriveExactlyAndNowhereElse) {
  auto from = source(sizes{65536, 1, 0, 3'000'001, 16384, 0, 7, 131072});
  auto to = target(sizes{65536, 1, 0, 3'000'001, 16384, 0, 7, 131072}, 9);
  from.scribble(1);
  const auto landed = post(*b_, {1, 1}, to.regions());
  EXPECT_EQ(send(*a_, b_->address(), {1, 1}, 0, from.regions())->next(), "");
  std::uint64_t regions = 0;
  while (regions < 8) {
    const auto told = landed->next();
    ASSERT_TRUE(told);
    ASSERT_EQ(told->error, "");
    ASSERT_GT(told->regions, regions);
    regions = told->regions;
  }
  EXPECT_TRUE(same(from, to));
  EXPECT_TRUE(to.holes_untouched(9));
  EXPECT_TRUE(withdraw(*b_, {1, 1}));
  EXPECT_EQ(b_->figures().bytes_read != 0, GetParam().read);
}

TEST_P(Fabric, TheLongestTimeoutIsLong) {
  auto from = source(3, 1000), to = target(3, 1000);
  from.scribble(1);
  post(*b_, {1, 1}, to.regions());
  EXPECT_EQ(send(*a_, b_->address(), {1, 1}, 0, from.regions(), transfer_priority::bulk,
                 std::chrono::nanoseconds::max(), from.owner())
                ->next(),
            "");
  EXPECT_TRUE(withdraw(*b_, {1, 1}));
  EXPECT_TRUE(same(from, to));
}

TEST_P(Fabric, PartsMayComeInAnyOrder) {
  auto from = source(40, 20'000);
  auto to = target(40, 20'000);
  from.scribble(2);
  const auto landed = post(*b_, {7, 1}, to.regions());
  const auto last = send(*a_, b_->address(), {7, 1}, 30, from.part(30, 10));
  const auto first = send(*a_, b_->address(), {7, 1}, 0, from.part(0, 13), transfer_priority::urgent);
  const auto middle = send(*a_, b_->address(), {7, 1}, 13, from.part(13, 17));
  EXPECT_EQ(last->next(), "");
  EXPECT_EQ(first->next(), "");
  EXPECT_EQ(middle->next(), "");
  std::uint64_t regions = 0;
  while (regions < 40) {
    const auto told = landed->next();
    ASSERT_TRUE(told);
    regions = told->regions;
  }
  EXPECT_TRUE(same(from, to));
}

TEST_P(Fabric, AnUrgentSendOvertakesQueuedBulk) {
  auto bulk = source(512, 131072);
  auto into = target(512, 131072);
  auto small = source(1, 64);
  auto small_into = target(1, 64);
  small.scribble(3);
  post(*b_, {1, 1}, small_into.regions());
  ASSERT_EQ(send(*a_, b_->address(), {1, 1}, 0, small.regions(), transfer_priority::urgent)->next(), "");
  // A machine that is busy may let the bulk end before this thread comes to the urgent send.
  bool overtook = false;
  for (std::uint32_t attempt = 0; attempt < 8 && !overtook; ++attempt) {
    post(*b_, {2, attempt}, into.regions());
    post(*b_, {3, attempt}, small_into.regions());
    const auto order = std::make_shared<answers<int>>();
    a_->send(b_->address(), {2, attempt}, 0, bulk.regions(), transfer_priority::bulk, 20s, {},
             [order](const std::string& error) { order->put(error.empty() ? 1 : -1); });
    a_->send(b_->address(), {3, attempt}, 0, small.regions(), transfer_priority::urgent, 20s, {},
             [order](const std::string& error) { order->put(error.empty() ? 2 : -2); });
    const auto first = order->next(20s);
    const auto second = order->next(20s);
    ASSERT_TRUE(first && second);
    EXPECT_EQ(*first + *second, 3) << *first << ", " << *second;
    overtook = *first == 2;
  }
  EXPECT_TRUE(overtook);
  EXPECT_TRUE(same(small, small_into));
}

TEST_P(Fabric, NothingIsWrittenOnceAPostingIsWithdrawn) {
  auto from = source(256, 65536);
  auto to = target(256, 65536);
  from.poison(1);
  for (std::uint32_t round = 0; round < 20; ++round) {
    const auto keep = std::make_shared<int>(0);
    const transfer_key key{5, round};
    const auto landed = post(*b_, key, to.regions(), keep);
    const auto sent = send(*a_, b_->address(), key, 0, from.regions(), transfer_priority::bulk, 10s, from.owner());
    if (round % 3 == 1) std::this_thread::sleep_for(std::chrono::microseconds(100 * round));
    if (round % 3 == 2) {
      ASSERT_TRUE(landed->next());
    }
    ASSERT_TRUE(withdraw(*b_, key));
    EXPECT_EQ(keep.use_count(), 1);
    to.poison(0xEE);
    const auto error = sent->next();
    ASSERT_TRUE(error);
    if (!error->empty()) {
      EXPECT_THAT(*error, HasSubstr("posting"));
    }
    ASSERT_TRUE(to.all(0xEE)) << "round " << round;
  }
  EXPECT_EQ(b_->figures().postings_open, 0U);
}

TEST_P(Fabric, WithoutAPostingNothingIsTaken) {
  auto from = source(3, 1000);
  const auto error = send(*a_, b_->address(), {404, 1}, 0, from.regions())->next();
  ASSERT_TRUE(error);
  EXPECT_THAT(*error, HasSubstr("no posting 404.1"));
  EXPECT_GE(b_->figures().refused, 1U);
  EXPECT_EQ(a_->figures().failed, 1U);
  EXPECT_TRUE(withdraw(*b_, {404, 1})) << "withdrawing what is not there is done at once";
}

TEST_P(Fabric, SizesMustMatch) {
  auto from = source(3, 1000);
  auto to = target(sizes{1000, 999, 1000}, 5);
  post(*b_, {1, 1}, to.regions());
  const auto refused = [&](std::uint32_t first, std::vector<memory_region> regions) {
    return send(*a_, b_->address(), {1, 1}, first, regions)->next().value_or("");
  };
  EXPECT_THAT(refused(0, from.regions()), HasSubstr("999"));
  EXPECT_THAT(refused(2, from.part(0, 2)), HasSubstr("posting of 3"));
  EXPECT_THAT(refused(4'000'000'000, from.part(0, 1)), HasSubstr("posting of 3"));
  EXPECT_TRUE(to.all(5));
  EXPECT_EQ(refused(0, from.part(0, 1)), "") << "the posting lives on";
  EXPECT_THAT(refused(0, from.part(0, 1)), HasSubstr("before")) << "but takes nothing twice";
}

// They must not; where there is no memory to post with they do.
TEST_P(Fabric, WhatCallbacksThrowIsNoAffairOfOthers) {
  if (world_) GTEST_SKIP() << "a simulation's go to whoever runs it";
  auto from = source(4, 1000), to = target(4, 1000);
  from.scribble(5);
  answers<int> called;
  const auto fails = [&called](auto&&...) {
    called.put(1);
    throw std::bad_alloc();
  };
  b_->post({1, 1}, to.regions(), {}, fails);
  a_->send(b_->address(), {1, 1}, 0, from.regions(), transfer_priority::bulk, 10s, {}, fails);
  a_->send(b_->address(), {1, 2}, 0, from.regions(), transfer_priority::bulk, 10s, {}, fails); // there is none
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(called.next()) << i;
  b_->withdraw({1, 1}, fails);
  EXPECT_TRUE(eventually([&] { return called.count() >= 4; }));
  EXPECT_TRUE(same(from, to));
  post(*b_, {1, 3}, to.regions());
  EXPECT_EQ(send(*a_, b_->address(), {1, 3}, 0, from.regions())->next(), "");
  EXPECT_TRUE(withdraw(*b_, {1, 3}));
  a_->send(b_->address(), {1, 4}, 0, from.regions(), transfer_priority::bulk, 10s, {}, fails);
  b_->post({1, 5}, to.regions(), {}, fails);
  b_->withdraw({1, 5}, fails);
  a_.reset(); // ends what is open
  b_.reset();
}

TEST_P(Fabric, AKeyIsUsedOnce) {
  auto from = source(1, 10);
  auto to = target(1, 10);
  post(*b_, {1, 1}, to.regions());
  EXPECT_THAT(post(*b_, {1, 1}, to.regions())->next().value_or(landing{}).error, HasSubstr("used before"));
  EXPECT_TRUE(withdraw(*b_, {1, 1}));
  EXPECT_THAT(post(*b_, {1, 1}, to.regions())->next().value_or(landing{}).error, HasSubstr("used before"));
  const auto next = post(*b_, {1, 2}, to.regions());
  EXPECT_EQ(send(*a_, b_->address(), {1, 2}, 0, from.regions())->next(), "");
  EXPECT_EQ(next->next().value_or(landing{}).regions, 1U);
}

TEST_P(Fabric, EmptyListsAndEmptyRegionsAreSent) {
  auto nothing = target(5, 0);
  const auto landed = post(*b_, {1, 1}, nothing.regions());
  EXPECT_EQ(send(*a_, b_->address(), {1, 1}, 0, nothing.regions())->next(), "");
  EXPECT_EQ(landed->next().value_or(landing{}).regions, 5U);
  EXPECT_EQ(send(*a_, b_->address(), {1, 1}, 5, {})->next(), "");
  EXPECT_NE(send(*a_, b_->address(), {2, 1}, 0, {})->next(), "");
}

TEST_P(Fabric, TransfersGoBothWaysAtOnce) {
  constexpr std::uint32_t count = 24;
  std::vector<std::unique_ptr<block_memory>> from, to;
  std::vector<std::shared_ptr<answers<std::string>>> sent;
  for (std::uint32_t i = 0; i < count; ++i) {
    from.push_back(std::make_unique<block_memory>(source(48, 30'000 + i)));
    to.push_back(std::make_unique<block_memory>(target(48, 30'000 + i)));
    from.back()->scribble(i);
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    auto& source = i % 2 == 0 ? *a_ : *b_;
    auto& target = i % 2 == 0 ? *b_ : *a_;
    post(target, {i, 1}, to[i]->regions());
    sent.push_back(send(source, target.address(), {i, 1}, 0, from[i]->regions(),
                        i % 5 == 0 ? transfer_priority::urgent : transfer_priority::bulk));
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    EXPECT_EQ(sent[i]->next(), "");
    EXPECT_TRUE(withdraw(i % 2 == 0 ? *b_ : *a_, {i, 1}));
    EXPECT_TRUE(same(*from[i], *to[i])) << i;
  }
}

TEST_P(Fabric, ThousandsOfSmallTransfersLeaveNothingOpen) {
  constexpr std::uint32_t count = 3000;
  auto from = source(count, 100);
  auto to = target(count, 100);
  from.scribble(4);
  const auto keep = std::make_shared<int>(0);
  const auto sent = std::make_shared<answers<std::string>>();
  for (std::uint32_t i = 0; i < count; ++i) {
    post(*b_, {i, 1}, to.part(i, 1), keep);
    a_->send(b_->address(), {i, 1}, 0, from.part(i, 1), transfer_priority::bulk, 60s, keep,
             [sent](std::string error) { sent->put(std::move(error)); });
  }
  for (std::uint32_t i = 0; i < count; ++i) ASSERT_EQ(sent->next(60s), "");
  for (std::uint32_t i = 0; i < count; ++i) ASSERT_TRUE(withdraw(*b_, {i, 1}));
  EXPECT_TRUE(same(from, to));
  EXPECT_EQ(a_->figures().sends_open, 0U);
  EXPECT_EQ(b_->figures().postings_open, 0U);
  EXPECT_EQ(a_->figures().failed, 0U);
  EXPECT_EQ(a_->figures().bytes_sent, 100U * count);
  EXPECT_EQ(b_->figures().bytes_landed, 100U * count);
  EXPECT_EQ(a_->figures().messages_sent, b_->figures().messages_landed);
  EXPECT_TRUE(eventually([&] { return keep.use_count() == 1; }));
}

TEST_P(Fabric, AFabricThatEndsAnswersWhatIsOpen) {
  auto from = source(400, 65536);
  auto to = target(400, 65536);
  const auto keep = std::make_shared<int>(0);
  post(*b_, {1, 1}, to.regions(), keep);
  const auto sent = send(*a_, b_->address(), {1, 1}, 0, from.regions(), transfer_priority::bulk, 20s, keep);
  const auto refused = send(*a_, "nowhere", {1, 1}, 0, from.regions(), transfer_priority::bulk, 20s, keep);
  EXPECT_NE(refused->next(), "");
  if (a_ == b_) b_.reset();
  a_.reset();
  EXPECT_EQ(sent->count(), 1U) << "before the destructor returned";
  b_.reset();
  EXPECT_EQ(keep.use_count(), 1);
}

TEST_P(Fabric, APeerThatHasEndedIsAnError) {
  if (a_ == b_) return; // there is one fabric only
  auto from = source(1, 1000);
  auto to = target(1, 1000);
  const auto address = b_->address();
  EXPECT_LE(address.size(), 4096U);
  b_.reset();
  const auto error = send(*a_, address, {1, 1}, 0, from.regions())->next();
  ASSERT_TRUE(error);
  EXPECT_NE(*error, "");
}

INSTANTIATE_TEST_SUITE_P(All, Fabric, ::testing::ValuesIn(kinds), [](const auto& each) { return each.param.name; });

} // namespace
} // namespace godwit::transport::testing
