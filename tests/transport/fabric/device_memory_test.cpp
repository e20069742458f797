// Memory of a device: what goes wrong there, and what must not happen before its copies have ended.
#include "transport/fabric/liar.hpp"
#include "transport/fabric/one_piece.hpp"
#include "transport/fabric/peer_process.hpp"
#include "transport/fabric/rig.hpp"

#include <godwit/transport/in_process/fabric.hpp>
#include <godwit/transport/ucx/fabric.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

namespace godwit::transport::testing {
namespace {

using ::testing::HasSubstr;
using clock = std::chrono::steady_clock;
using godwit::testing::fake_copier;

enum class path { in_process, ucx_self, cross_memory, streams, messages };

/// Two fabrics and a device for each, or one of all where they are in one process.
class FabricDevice : public ::testing::TestWithParam<path> {
protected:
  [[nodiscard]] bool local() const { return GetParam() == path::in_process || GetParam() == path::ucx_self; }
  void make(std::uint32_t pieces = 16, std::uint32_t urgent_pieces = 2, std::chrono::milliseconds patience = 10s) {
    const auto options = [&](const std::shared_ptr<fake_copier>& copier) {
      device_memory out;
      out.copier = copier;
      out.pieces = pieces;
      out.urgent_pieces = urgent_pieces;
      out.bytes_per_copy = 1 << 20;
      out.patience = patience;
      return out;
    };
    sending_ = std::make_shared<fake_copier>(device_, 1);
    arriving_ = local() ? sending_ : std::make_shared<fake_copier>(device_, 2);
    const auto ucx_fabric = [&](const std::shared_ptr<fake_copier>& copier) {
      auto s = settings_for(GetParam() == path::streams    ? way::streams
                            : GetParam() == path::messages ? way::messages
                                                           : way::cross_memory);
      s.peer_timeout = 1000ms;
      s.device = options(copier);
      return ucx::make_fabric(s);
    };
    if (GetParam() == path::in_process) {
      const auto hub = in_process::make_hub({.device = options(sending_)});
      a_ = in_process::make_fabric(hub);
      b_ = in_process::make_fabric(hub);
    } else {
      a_ = ucx_fabric(sending_);
      b_ = local() ? a_ : ucx_fabric(arriving_);
    }
  }
  [[nodiscard]] block_memory blocks(std::size_t count, std::size_t bytes) const {
    return block_memory(count, bytes, 0, device_);
  }
  void expect_it_works() {
    auto from = blocks(80, 300'000), to = blocks(80, 300'000); // more than the pieces hold together
    from.scribble(77);
    post(*b_, {7777, 1}, to.regions());
    EXPECT_EQ(send(*a_, b_->address(), {7777, 1}, 0, from.regions())->next(), "");
    EXPECT_TRUE(withdraw(*b_, {7777, 1}));
    EXPECT_TRUE(same(from, to));
    EXPECT_EQ(a_->figures().sends_open, 0U);
    EXPECT_EQ(b_->figures().postings_open, 0U);
  }
  std::shared_ptr<fake_device> device_ = std::make_shared<fake_device>();
  std::shared_ptr<fake_copier> sending_, arriving_;
  std::shared_ptr<fabric> a_, b_;
};

TEST_P(FabricDevice, NothingCountsBeforeItsCopyHasEnded) {
  make();
  auto from = blocks(6, 100'000), to = blocks(6, 100'000);
  from.scribble(1);
  arriving_->hold(true);
  const auto landed = post(*b_, {1, 1}, to.regions());
  const auto sent = send(*a_, b_->address(), {1, 1}, 0, from.regions());
  ASSERT_TRUE(eventually([&] { return arriving_->waiting() != 0; }));
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(landed->count(), 0U);
  EXPECT_EQ(sent->count(), 0U);
  arriving_->hold(false);
  EXPECT_EQ(sent->next(), "");
  std::uint64_t regions = 0;
  while (regions < 6) {
    const auto told = landed->next();
    ASSERT_TRUE(told);
    ASSERT_EQ(told->error, "");
    regions = told->regions;
  }
  EXPECT_TRUE(same(from, to));
}

TEST_P(FabricDevice, AWithdrawalWaitsForTheCopiesThatAreUnderWayAndNoOthersFollow) {
  make();
  auto from = blocks(40, 300'000), to = blocks(40, 300'000);
  from.poison(1);
  const auto keep = std::make_shared<int>(0);
  arriving_->hold(true);
  post(*b_, {1, 1}, to.regions(), keep);
  const auto sent = send(*a_, b_->address(), {1, 1}, 0, from.regions());
  ASSERT_TRUE(eventually([&] { return arriving_->waiting() != 0; }));
  const auto done = std::make_shared<answers<int>>();
  b_->withdraw({1, 1}, [done] { done->put(1); });
  EXPECT_FALSE(done->next(100ms)) << "a copy could still land";
  EXPECT_GT(keep.use_count(), 1);
  arriving_->hold(false);
  ASSERT_TRUE(done->next());
  EXPECT_EQ(keep.use_count(), 1);
  to.poison(0xEE);
  ASSERT_TRUE(sent->next());
  std::this_thread::sleep_for(5ms);
  EXPECT_TRUE(to.all(0xEE));
  expect_it_works();
}

TEST_P(FabricDevice, ACopyThatFailsIsTheSendsErrorAndFreesEverything) {
  make();
  auto from = blocks(40, 300'000), to = blocks(40, 300'000);
  for (const bool sender : {true, false}) {
    const auto keep = std::make_shared<int>(0);
    const transfer_key key{sender ? 1U : 2U, 1};
    const auto landed = post(*b_, key, to.regions(), keep);
    (sender ? sending_ : arriving_)->fail = 1;
    const auto error = send(*a_, b_->address(), key, 0, from.regions(), transfer_priority::bulk, 10s, keep)->next();
    EXPECT_THAT(error.value_or(""), HasSubstr("the copy failed"));
    if (!sender || local()) {
      landing last;
      while (last.error.empty()) {
        const auto told = landed->next();
        ASSERT_TRUE(told);
        last = *told;
      }
      EXPECT_THAT(last.error, HasSubstr("the copy failed")) << "the posting is dead";
    }
    ASSERT_TRUE(withdraw(*b_, key));
    EXPECT_TRUE(eventually([&] { return keep.use_count() == 1; }));
  }
  expect_it_works();
}

TEST_P(FabricDevice, UrgentSendsPassBulkThatIsStuckInItsCopies) {
  make(4, 1);
  auto bulk = blocks(80, 300'000), into = blocks(80, 300'000), small = blocks(20, 70'000),
       small_into = blocks(20, 70'000);
  bulk.scribble(1);
  small.scribble(2);
  sending_->hold(true, false);
  arriving_->hold(true, false);
  post(*b_, {1, 1}, into.regions());
  post(*b_, {2, 1}, small_into.regions());
  const auto stuck = send(*a_, b_->address(), {1, 1}, 0, bulk.regions());
  ASSERT_TRUE(eventually([&] { return sending_->waiting() != 0; }));
  EXPECT_EQ(send(*a_, b_->address(), {2, 1}, 0, small.regions(), transfer_priority::urgent)->next(), "");
  EXPECT_TRUE(same(small, small_into));
  // Now as far as the other side's copies.
  sending_->hold(false);
  if (!local()) {
    ASSERT_TRUE(eventually([&] { return arriving_->waiting() != 0; }));
  }
  post(*b_, {3, 1}, small_into.regions());
  small.scribble(3);
  EXPECT_EQ(send(*a_, b_->address(), {3, 1}, 0, small.regions(), transfer_priority::urgent)->next(), "");
  EXPECT_TRUE(same(small, small_into));
  if (!local()) {
    EXPECT_EQ(stuck->count(), 0U);
  }
  arriving_->hold(false);
  EXPECT_EQ(stuck->next(), "");
  EXPECT_TRUE(withdraw(*b_, {1, 1}));
  EXPECT_TRUE(same(bulk, into));
}

TEST_P(FabricDevice, TwoPiecesInEachDirectionAreEnoughForTransfersBothWays) {
  make(2, 1);
  constexpr std::uint32_t count = 12;
  std::vector<block_memory> from, to;
  std::vector<std::shared_ptr<answers<std::string>>> sent;
  for (std::uint32_t i = 0; i < count; ++i) {
    from.push_back(blocks(12, 200'000 + i));
    to.push_back(blocks(12, 200'000 + i));
    from.back().scribble(i);
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    auto& source = i % 2 == 0 ? *a_ : *b_;
    auto& target = i % 2 == 0 ? *b_ : *a_;
    post(target, {i, 1}, to[i].regions());
    sent.push_back(send(source, target.address(), {i, 1}, 0, from[i].regions(),
                        i % 3 == 0 ? transfer_priority::urgent : transfer_priority::bulk, 30s));
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    EXPECT_EQ(sent[i]->next(30s), "") << i;
    EXPECT_TRUE(withdraw(i % 2 == 0 ? *b_ : *a_, {i, 1}));
    EXPECT_TRUE(same(from[i], to[i])) << i;
  }
}

TEST_P(FabricDevice, ASendThatTimesOutHoldsItsMemoryUntilItsCopiesHaveEnded) {
  make();
  auto from = blocks(4, 100'000), to = blocks(4, 100'000);
  from.poison(1);
  const auto keep = std::make_shared<int>(0);
  sending_->hold(true);
  const auto landed = post(*b_, {1, 1}, to.regions());
  const auto sent = send(*a_, b_->address(), {1, 1}, 0, from.regions(), transfer_priority::bulk, 2s, keep);
  ASSERT_TRUE(eventually([&] { return sending_->waiting() != 0; })) << "they are connected, and a copy is under way";
  EXPECT_EQ(sent->next(), "timed out");
  EXPECT_GT(keep.use_count(), 1);
  from.poison(2);
  sending_->hold(false);
  EXPECT_TRUE(eventually([&] { return keep.use_count() == 1; }));
  if (local()) { // the copy is the landing: it does not count
    const auto told = landed->next();
    ASSERT_TRUE(told);
    EXPECT_NE(told->error, "");
  } else { // what was gathered late is not sent
    std::this_thread::sleep_for(20ms);
    EXPECT_EQ(landed->count(), 0U);
    EXPECT_TRUE(to.all(0));
  }
  EXPECT_TRUE(withdraw(*b_, {1, 1}));
  expect_it_works();
}

TEST_P(FabricDevice, AFabricThatEndsWaitsForItsCopies) {
  make();
  auto from = blocks(40, 300'000), to = blocks(40, 300'000);
  const auto keep = std::make_shared<int>(0);
  arriving_->hold(true);
  post(*b_, {1, 1}, to.regions(), keep);
  const auto sent = send(*a_, b_->address(), {1, 1}, 0, from.regions(), transfer_priority::bulk, 20s, keep);
  ASSERT_TRUE(eventually([&] { return arriving_->waiting() != 0; }));
  const auto start = clock::now(); // before the thread that lets go: it may be a while until this one goes on
  std::thread later([this] {
    std::this_thread::sleep_for(100ms);
    arriving_->hold(false);
  });
  b_.reset();
  if (local()) a_.reset();
  EXPECT_GE(clock::now() - start, 80ms);
  later.join();
  a_.reset();
  EXPECT_EQ(sent->count(), 1U);
  EXPECT_EQ(keep.use_count(), 1);
}

TEST_P(FabricDevice, ADeviceThatNeverEndsACopyKeepsTheMemoryAndNotTheFabric) {
  make(16, 2, 100ms);
  auto from = blocks(4, 100'000), to = blocks(4, 100'000);
  const auto keep = std::make_shared<int>(0);
  arriving_->hold(true);
  post(*b_, {1, 1}, to.regions(), keep);
  const auto sent = send(*a_, b_->address(), {1, 1}, 0, from.regions(), transfer_priority::bulk, 20s, {});
  ASSERT_TRUE(eventually([&] { return arriving_->waiting() != 0; }));
  b_.reset();
  a_.reset();
  EXPECT_EQ(sent->count(), 1U);
  EXPECT_GT(keep.use_count(), 1) << "the copy may still land";
  arriving_->hold(false);
  EXPECT_TRUE(eventually([&] { return keep.use_count() == 1; }));
}

INSTANTIATE_TEST_SUITE_P(All, FabricDevice,
                         ::testing::Values(path::in_process, path::ucx_self, path::cross_memory, path::streams,
                                           path::messages),
                         [](const auto& each) {
                           switch (each.param) {
                           case path::in_process:
                             return "in_process";
                           case path::ucx_self:
                             return "ucx_self";
                           case path::cross_memory:
                             return "cross_memory";
                           case path::streams:
                             return "streams";
                           default:
                             return "messages";
                           }
                         });

TEST(FabricDeviceMemory, IsRefusedWhereNobodyCopiesIt) {
  const auto device = std::make_shared<fake_device>();
  block_memory blocks(2, 1000, 0, device);
  const std::shared_ptr<fabric> all[] = {in_process::make_fabric(in_process::make_hub()), ucx::make_fabric()};
  for (const auto& one : all) {
    EXPECT_THAT(post(*one, {1, 1}, blocks.regions())->next().value_or(landing{}).error, HasSubstr("device memory"));
    EXPECT_THAT(send(*one, one->address(), {2, 1}, 0, blocks.regions())->next().value_or(""),
                HasSubstr("device memory"));
    EXPECT_EQ(one->figures().sends_open, 0U);
  }
}

TEST(FabricDeviceMemory, AndTheHostsAreNotInOneTransfer) {
  const auto device = std::make_shared<fake_device>();
  device_memory options;
  options.copier = std::make_shared<fake_copier>(device);
  block_memory theirs(1, 1000, 0, device), ours(1, 1000);
  auto both = theirs.regions();
  both.push_back(ours.regions().front());
  ucx::settings settings;
  settings.device = options;
  const std::shared_ptr<fabric> all[] = {in_process::make_fabric(in_process::make_hub({.device = options})),
                                         ucx::make_fabric(settings)};
  for (const auto& one : all) {
    EXPECT_THAT(post(*one, {1, 1}, both)->next().value_or(landing{}).error, HasSubstr("in one transfer"));
    EXPECT_THAT(send(*one, one->address(), {2, 1}, 0, both)->next().value_or(""), HasSubstr("in one transfer"));
  }
}

TEST(FabricDeviceMemory, NeedsPageLockedMemoryAtOnce) {
  device_memory options;
  const auto copier = std::make_shared<fake_copier>(std::make_shared<fake_device>());
  copier->pinned_refused = true;
  options.copier = copier;
  ucx::settings settings;
  settings.device = options;
  EXPECT_THROW((void)ucx::make_fabric(settings), std::runtime_error);
  EXPECT_THROW((void)in_process::make_hub({.device = options}), std::runtime_error);
}

TEST(FabricDeviceMemory, GoesFromPlaceToPlaceWithinAProcessWithoutTheHost) {
  const auto device = std::make_shared<fake_device>();
  const auto copier = std::make_shared<fake_copier>(device);
  device_memory options;
  options.copier = copier;
  block_memory from(20, 700'000, 0, device), to(20, 700'000, 0, device);
  from.scribble(1);
  ucx::settings settings;
  settings.device = options;
  const std::shared_ptr<fabric> all[] = {in_process::make_fabric(in_process::make_hub({.device = options})),
                                         ucx::make_fabric(settings)};
  for (const auto& one : all) {
    to.poison(0);
    post(*one, {1, 1}, to.regions());
    EXPECT_EQ(send(*one, one->address(), {1, 1}, 0, from.regions())->next(), "");
    EXPECT_TRUE(same(from, to));
  }
  EXPECT_GE(copier->copied, 2U);
  EXPECT_EQ(copier->gathered, 0U);
  EXPECT_EQ(copier->scattered, 0U);
}

TEST(FabricDeviceMemory, UcxSaysWhatMemoryItKnows) {
  EXPECT_THAT(ucx::memory_types("tcp"), HasSubstr("host"));
  EXPECT_EQ(ucx::memory_types("nonsense"), "");
}

// What is still being copied out of the device has not left: nobody can have it, or refuse it.
TEST(FabricDeviceMemory, AReceiverThatAnswersWhatWasNotSentLosesTheConnection) {
  ucx::wire::receipts pulled, landed;
  pulled.what = ucx::wire::fate::pulled;
  landed.what = ucx::wire::fate::landed;
  pulled.numbers = landed.numbers = {1};
  auto unknown = landed;
  unknown.numbers = {77};
  const ucx::wire::message lies[] = {pulled, landed, unknown, ucx::wire::refusal{1, "no"}};
  const auto device = std::make_shared<fake_device>();
  for (const bool pull : {true, false})
    for (const auto& lie : lies) {
      const auto copier = std::make_shared<fake_copier>(device);
      ucx::settings settings;
      settings.device.copier = copier;
      block_memory from(3, 1'000'000, 0, device), to(3, 1'000'000, 0, device); // several pieces
      const auto a = ucx::make_fabric(settings);
      listening_liar l;
      l.pull = pull;
      copier->hold(true);
      const auto sent = send(*a, l.address(), {1, 1}, 0, from.regions());
      ASSERT_TRUE(l.until([&] { return copier->waiting() != 0; }));
      l.say(lie);
      EXPECT_TRUE(l.until([&] { return l.closed; }));
      EXPECT_THAT(sent->next().value_or(""), HasSubstr("was not sent"));
      copier->hold(false);
      EXPECT_TRUE(eventually([&] { return copier->waiting() == 0; }));
      EXPECT_EQ(a->figures().sends_open, 0U);
      l.worker.stop();
      const auto b = ucx::make_fabric(settings);
      from.scribble(1);
      post(*b, {2, 1}, to.regions());
      EXPECT_EQ(send(*a, b->address(), {2, 1}, 0, from.regions())->next(), "");
      EXPECT_TRUE(withdraw(*b, {2, 1}));
      EXPECT_TRUE(same(from, to));
    }
}

// What a peer does not read stays in page-locked memory. Whoever stands still has a part of what was left to it.
TEST(FabricDeviceMemory, PeersThatStandStillLeaveSomethingToOthers) {
  for (const auto priority : {transfer_priority::bulk, transfer_priority::urgent}) {
    const auto device = std::make_shared<fake_device>();
    ucx::settings settings;
    settings.peer_timeout = 60s;
    settings.device.copier = std::make_shared<fake_copier>(device);
    block_memory from(40, 1'000'000, 0, device), to(40, 1'000'000, 0, device);
    from.scribble(1);
    const auto a = ucx::make_fabric(settings), b = ucx::make_fabric(settings);
    std::list<listening_liar> still(3);
    for (auto& l : still) {
      const auto before = a->figures().messages_sent;
      (void)send(*a, l.address(), {1, 1}, 0, from.regions(), priority, 30s);
      ASSERT_TRUE(l.until([&] { return a->figures().messages_sent != before; }));
      std::this_thread::sleep_for(50ms); // it takes what it may
    }
    post(*b, {2, 1}, to.regions());
    EXPECT_EQ(send(*a, b->address(), {2, 1}, 0, from.regions(), priority, 8s)->next(), "");
    EXPECT_TRUE(withdraw(*b, {2, 1}));
    EXPECT_TRUE(same(from, to));
    for (auto& l : still) l.worker.stop();
  }
}

// A device's page-locked memory may be a mapping that the kernel lets nobody else read: that is found out beforehand.
TEST(FabricDeviceMemory, ReceiversTryWhetherTheyCanReadPageLockedMemory) {
  const auto device = std::make_shared<fake_device>();
  const auto copier = std::make_shared<fake_copier>(device);
  ucx::settings settings;
  settings.device.copier = copier;
  block_memory from(1, 1000, 0, device);
  const auto a = ucx::make_fabric(settings);
  listening_liar l;
  (void)send(*a, l.address(), {1, 1}, 0, from.regions());
  ASSERT_TRUE(l.until([&] { return l.greeting.has_value(); }));
  const auto* const probe = reinterpret_cast<const char*>(l.greeting->probe);
  ASSERT_TRUE(copier->pinned(reinterpret_cast<const std::byte*>(probe), l.greeting->from.size()));
  EXPECT_EQ(std::string_view(probe, l.greeting->from.size()), l.greeting->from);
  l.worker.stop();
}

TEST(FabricDeviceMemory, UrgentSendsThatWaitForCopiesDoNotHoldUpOthersWithinTheProcess) {
  const auto device = std::make_shared<fake_device>();
  const auto copier = std::make_shared<fake_copier>(device);
  device_memory options;
  options.copier = copier;
  options.bytes_per_copy = 100'000;
  ucx::settings settings;
  settings.device = options;
  const std::shared_ptr<fabric> all[] = {in_process::make_fabric(in_process::make_hub({.device = options})),
                                         ucx::make_fabric(settings)};
  for (const auto& one : all) {
    block_memory from(20, 100'000, 0, device), to(20, 100'000, 0, device), ours(2, 1000, 7), into(2, 1000);
    copier->hold(true);
    post(*one, {1, 1}, to.regions());
    post(*one, {2, 1}, into.regions());
    const auto stuck = send(*one, one->address(), {1, 1}, 0, from.regions(), transfer_priority::urgent, 20s);
    ASSERT_TRUE(eventually([&] { return copier->waiting() >= 4; }));
    EXPECT_EQ(send(*one, one->address(), {2, 1}, 0, ours.regions())->next(3s).value_or("nothing"), "");
    copier->hold(false);
    EXPECT_EQ(stuck->next(), "");
    EXPECT_TRUE(withdraw(*one, {1, 1}));
  }
}

TEST(FabricDeviceMemory, AMessageLargerThanAPieceIsRefused) {
  const one_piece b;
  block_memory to(1, 3'000'000, 0, b.device);
  post(*b.fabric, {1, 1}, to.regions());
  ucx::settings large = settings_for(way::messages);
  large.bytes_per_message = 2 << 20;
  const auto a = ucx::make_fabric(large);
  block_memory from(1, 3'000'000);
  EXPECT_THAT(send(*a, b.fabric->address(), {1, 1}, 0, from.regions())->next().value_or(""),
              HasSubstr("in one message"));
  EXPECT_TRUE(to.all(0));
}

// Messages cannot be left in a socket: those for which there is no room now are kept, as far as an honest sender goes.
TEST(FabricDeviceMemory, ASenderThatDoesNotWaitForReceiptsIsShutOut) {
  const one_piece b(100'000);
  b.copier->hold(true);
  std::vector<block_memory> to;
  for (std::uint64_t id = 1; id <= 12; ++id) {
    to.emplace_back(1, 60'000, 0, b.device);
    post(*b.fabric, {id, 1}, to.back().regions());
  }
  liar l(b.fabric->address());
  l.greet(false);
  ASSERT_TRUE(l.heard_of<ucx::wire::welcome>());
  for (std::uint64_t id = 1; id <= 12; ++id) l.say(ucx::wire::encode(message(id, 60'000)), std::string(60'000, 'x'));
  EXPECT_TRUE(l.until([&] { return l.closed; }));
  b.copier->hold(false);
  for (std::uint64_t id = 1; id <= 12; ++id) EXPECT_TRUE(withdraw(*b.fabric, {id, 1}));
  l.worker.stop();
}

} // namespace
} // namespace godwit::transport::testing
