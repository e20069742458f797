// Memory of a device: who waits for its copies and for page-locked pieces, and who does not.
#include "transport/fabric/copier_beside.hpp"
#include "transport/fabric/liar.hpp"
#include "transport/fabric/one_piece.hpp"
#include "transport/fabric/peer_process.hpp"
#include "transport/fabric/raw_stream.hpp"
#include "transport/fabric/rig.hpp"

#include <godwit/transport/in_process/fabric.hpp>
#include <godwit/transport/ucx/fabric.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace godwit::transport::testing {
namespace {

using godwit::testing::fake_copier;
namespace wire = ucx::wire;

/// Its first gather ends when it is told to.
class first_one_stuck final : public copier_beside {
public:
  using copier_beside::copier_beside;
  ~first_one_stuck() override { go_on(); }
  void gather(std::vector<region> from, region into, urgency how, completion done) override {
    if (stuck) return copier_beside::gather(std::move(from), into, how, std::move(done));
    later_ = [this, from = std::move(from), into, how, done = std::move(done)] {
      copier_beside::gather(from, into, how, done);
    };
    stuck = true;
  }
  void go_on() {
    if (const auto call = std::exchange(later_, nullptr)) call();
  }
  std::atomic<bool> stuck{false};

private:
  std::function<void()> later_;
};

TEST(FabricDeviceQueues, ACopyThatNeverEndsHoldsUpNoSendBehindTheOneThatTimedOut) {
  for (const auto how : {way::cross_memory, way::streams, way::messages}) {
    const auto device = std::make_shared<fake_device>();
    const auto copier = std::make_shared<first_one_stuck>(std::make_shared<fake_copier>(device));
    auto settings = settings_for(how);
    settings.device.copier = copier;
    const auto a = ucx::make_fabric(settings), b = ucx::make_fabric(settings);
    block_memory from(3, 200'000, 0, device), to(3, 200'000, 0, device);
    from.scribble(1);
    const auto keep = std::make_shared<int>(0);
    post(*b, {1, 1}, to.regions());
    post(*b, {2, 1}, to.regions());
    const auto over = send(*a, b->address(), {1, 1}, 0, from.regions(), transfer_priority::bulk, 2s, keep);
    ASSERT_TRUE(eventually([&] { return copier->stuck.load(); }));
    EXPECT_EQ(over->next(), "timed out");
    EXPECT_EQ(send(*a, b->address(), {2, 1}, 0, from.regions())->next(), "") << name(how);
    EXPECT_TRUE(withdraw(*b, {2, 1}));
    EXPECT_TRUE(same(from, to));
    EXPECT_GT(keep.use_count(), 1) << "it is still being read";
    copier->go_on();
    EXPECT_TRUE(eventually([&] { return keep.use_count() == 1; }));
  }
}

// A thread that looks at bulk which waits must not miss what comes meanwhile.
TEST(FabricDeviceQueues, UrgentSendsWithinTheProcessAreSeenWhileBulkWaits) {
  const auto device = std::make_shared<fake_device>();
  const auto copier = std::make_shared<fake_copier>(device);
  device_memory options;
  options.copier = copier;
  options.bytes_per_copy = 100'000;
  const auto one = in_process::make_fabric(in_process::make_hub({.device = options}));
  block_memory from(20, 100'000, 0, device), to(20, 100'000, 0, device), ours(1, 8, 7), into(1, 8);
  copier->hold(true);
  post(*one, {1, 1}, to.regions());
  const auto stuck = send(*one, one->address(), {1, 1}, 0, from.regions(), transfer_priority::bulk, 10min);
  ASSERT_TRUE(eventually([&] { return copier->waiting() == 4; }));
  for (std::uint32_t i = 0; i < 10'000; ++i) {
    post(*one, {2, i}, into.regions());
    one->withdraw({3, i}, [] {}); // it wakes, and looks at everything
    const auto until = std::chrono::steady_clock::now() + i % 200 * 500ns;
    while (std::chrono::steady_clock::now() < until) {
    }
    const auto sent = send(*one, one->address(), {2, i}, 0, ours.regions(), transfer_priority::urgent, 60s);
    ASSERT_EQ(sent->next().value_or("nothing"), "") << i;
    one->withdraw({2, i}, [] {});
  }
  copier->hold(false);
  EXPECT_EQ(stuck->next(), "");
  EXPECT_TRUE(withdraw(*one, {1, 1}));
}

TEST(FabricDeviceQueues, BulkForTheHostPassesUrgentOffersThatWaitForPieces) {
  const one_piece b(std::size_t{8} << 20, 20s); // nobody is too slow
  const auto a = ucx::make_fabric(settings_for(way::cross_memory));
  block_memory from(3, 300'000), to(3, 300'000, 0, b.device), ours(2, 100'000), into(2, 100'000);
  ours.scribble(1);
  b.copier->hold(true);
  std::vector<std::shared_ptr<answers<std::string>>> stuck;
  for (std::uint64_t i = 0; i < 3; ++i) { // there are two pieces
    post(*b.fabric, {10 + i, 1}, to.part(i, 1));
    stuck.push_back(send(*a, b.fabric->address(), {10 + i, 1}, 0, from.part(i, 1), transfer_priority::urgent, 60s));
  }
  ASSERT_TRUE(eventually([&] { return b.copier->waiting() == 2 && a->figures().messages_sent == 3; }));
  std::this_thread::sleep_for(50ms); // the third one's offer is there
  post(*b.fabric, {1, 1}, into.regions());
  EXPECT_EQ(send(*a, b.fabric->address(), {1, 1}, 0, ours.regions())->next(), "");
  EXPECT_TRUE(same(ours, into));
  EXPECT_EQ(b.copier->waiting(), 2U);
  b.copier->hold(false);
  for (const auto& sent : stuck) EXPECT_EQ(sent->next(), "");
  for (std::uint64_t i = 0; i < 3; ++i) EXPECT_TRUE(withdraw(*b.fabric, {10 + i, 1}));
}

TEST(FabricDeviceQueues, AStreamThatWaitsForAPieceGoesOnWhenItsPostingIsWithdrawn) {
  const one_piece b(std::size_t{8} << 20, 20s); // nobody is too slow
  block_memory to(2, 50'000, 0, b.device), ours(1, 1000);
  b.copier->hold(true);
  post(*b.fabric, {1, 1}, to.part(0, 1));
  post(*b.fabric, {2, 1}, to.part(1, 1));
  const auto landed = post(*b.fabric, {3, 1}, ours.regions());
  liar l(b.fabric->address());
  l.greet(false);
  const auto welcome = l.heard_of<wire::welcome>();
  ASSERT_TRUE(welcome);
  const raw_stream stream(l.where.host, welcome->stream_port);
  stream.greet(welcome->stream_token);
  std::string said;
  for (const std::uint64_t id : {1, 2, 3}) {
    const std::size_t bytes = id == 3 ? 1000 : 50'000;
    said += wire::pack(message(id, bytes)).value() + std::string(bytes, 'x');
  }
  stream.say(said);
  ASSERT_TRUE(eventually([&] { return b.copier->waiting() == 1; }));
  std::this_thread::sleep_for(50ms); // the second one waits for its piece
  EXPECT_TRUE(withdraw(*b.fabric, {2, 1}));
  EXPECT_EQ(landed->next().value_or(landing{0, "nothing"}).error, "");
  EXPECT_TRUE(ours.all('x'));
  EXPECT_EQ(b.copier->waiting(), 1U);
  b.copier->hold(false);
  EXPECT_TRUE(withdraw(*b.fabric, {1, 1}));
  l.worker.stop();
}

/// Notes how much it scatters.
class notes_scatters final : public copier_beside {
public:
  using copier_beside::copier_beside;
  void scatter(region from, std::vector<region> into, urgency how, completion done) override {
    {
      const std::lock_guard lock{mutex_};
      bytes_.push_back(from.bytes);
    }
    copier_beside::scatter(from, std::move(into), how, std::move(done));
  }
  [[nodiscard]] std::vector<std::size_t> bytes() const {
    const std::lock_guard lock{mutex_};
    return bytes_;
  }

private:
  mutable std::mutex mutex_;
  std::vector<std::size_t> bytes_;
};

TEST(FabricDeviceQueues, MessagesThatWaitAndOffersGetPiecesInTurns) {
  const auto device = std::make_shared<fake_device>();
  const auto held = std::make_shared<fake_copier>(device);
  const auto copier = std::make_shared<notes_scatters>(held);
  ucx::settings settings;
  settings.device.copier = copier;
  settings.device.pieces = 2;
  settings.device.urgent_pieces = 1;
  const auto b = ucx::make_fabric(settings);
  held->hold(true);
  constexpr std::uint64_t messages = 7, offered = 8;
  block_memory to(offered, 60'000, 0, device), from(1, 60'000);
  for (std::uint64_t id = 1; id <= offered; ++id) post(*b, {id, 1}, to.part(id - 1, 1));
  liar sends(b->address()), offers(b->address());
  sends.greet(false);
  offers.greet(true);
  ASSERT_TRUE(sends.heard_of<wire::welcome>());
  ASSERT_TRUE(offers.heard_of<wire::welcome>());
  for (std::uint64_t id = 1; id <= messages; ++id)
    sends.say(wire::encode(message(id, 60'000)), std::string(60'000, 'x'));
  ASSERT_TRUE(sends.taken());
  // Half of its region, so that it is told from the others.
  auto offer = message(offered, 60'000);
  offer.offered = true;
  offer.what.bytes = 30'000;
  const wire::remote_span span{reinterpret_cast<std::uint64_t>(from.regions().front().address), 30'000};
  offers.say(wire::encode(offer), {reinterpret_cast<const char*>(&span), sizeof span});
  ASSERT_TRUE(offers.taken());
  held->hold(false);
  ASSERT_TRUE(eventually([&] { return copier->bytes().size() == offered; }));
  const auto order = copier->bytes();
  EXPECT_LT(std::find(order.begin(), order.end(), 30'000U) - order.begin(), 4) << "not behind all that wait";
  for (std::uint64_t id = 1; id <= offered; ++id) EXPECT_TRUE(withdraw(*b, {id, 1}));
  sends.worker.stop();
  offers.worker.stop();
}

TEST(FabricDeviceQueues, CopiesOfNoBytesAtAllAreNotAskedFor) {
  const auto device = std::make_shared<fake_device>();
  device_memory options;
  options.copier = std::make_shared<fake_copier>(device);
  options.bytes_per_copy = 0;
  const auto one = in_process::make_fabric(in_process::make_hub({.device = options}));
  block_memory from(3, 10'000, 0, device), to(3, 10'000, 0, device);
  from.scribble(1);
  post(*one, {1, 1}, to.regions());
  EXPECT_EQ(send(*one, one->address(), {1, 1}, 0, from.regions())->next(), "");
  EXPECT_TRUE(withdraw(*one, {1, 1}));
  EXPECT_TRUE(same(from, to));
}

} // namespace
} // namespace godwit::transport::testing
