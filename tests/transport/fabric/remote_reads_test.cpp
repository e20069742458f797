// What UCX reads by itself: who may, what an offer with keys has to be, and how long its memory is held. That blocks
// arrive by this way, and what becomes of it where processes die: the suites of all ways.
#include "transport/fabric/liar.hpp"
#include "transport/fabric/peer_process.hpp"
#include "transport/fabric/rig.hpp"
#include "ucx/exposed_memory.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ucp/api/ucp.h>

namespace godwit::transport::testing {
namespace {

using ::testing::HasSubstr;

class RemoteReads : public ::testing::Test {
protected:
  side here_{{way::remote_reads, false}};
  std::mutex mutex_;
  std::vector<std::string> ends_;
  [[nodiscard]] ucx::settings options() {
    auto out = here_.settings();
    out.cross_memory = false;
    out.on_end = [this](const ucx::link_end& end) {
      const std::lock_guard lock(mutex_);
      ends_.push_back(end.reason);
    };
    return out;
  }
  [[nodiscard]] std::string ended() {
    (void)eventually([&] {
      const std::lock_guard lock(mutex_);
      return !ends_.empty();
    });
    const std::lock_guard lock(mutex_);
    return ends_.empty() ? std::string() : ends_.front();
  }
  /// An offer of 8 KiB.
  static ucx::wire::blocks keyed(std::uint64_t id) {
    auto m = message(id, 8192);
    m.offered = m.keyed = true;
    return m;
  }
  static std::optional<ucx::wire::blocks> offer(listening_liar& at, std::size_t index = 0) {
    std::optional<ucx::wire::blocks> found;
    (void)at.until([&] {
      std::vector<ucx::wire::blocks> all;
      for (const auto& m : at.heard)
        if (const auto* blocks = std::get_if<ucx::wire::blocks>(&m)) all.push_back(*blocks);
      if (all.size() > index) found = all[index];
      return found.has_value();
    });
    return found;
  }
};

TEST(RemoteReadsLanes, AreThoseOfTransportsThatReadWithoutTheOtherProcess) {
  for (const auto* none : {"", "tcp", "tcp,self,sysv,posix", "^tcp", "^rc,dc"})
    EXPECT_FALSE(ucx::may_read(none)) << none;
  for (const auto* some : {"tcp,rc", "dc_mlx5,cuda_copy", "all", "tcp,cma", "cuda_ipc"})
    EXPECT_TRUE(ucx::may_read(some)) << some;
  const std::string
      tcp = "#               lane[0]:  1:tcp/eth0.0 md[1]      -> md[1]/tcp/sysdev[255] rma_bw#0 am am_bw#0 wireup\n",
      rc = "#               lane[1]:  5:rc_mlx5/mlx5_0:1.0 md[4] -> md[4]/ib/sysdev[0] rma#0 rma_bw#1 am_bw#1\n",
      messages = "#               lane[2]:  5:rc_mlx5/mlx5_0:1.0 md[4] -> md[4]/ib/sysdev[0] am am_bw#0\n",
      ipc = "#               lane[3]:  7:cuda_ipc/cuda.0 md[5] -> md[5]/cuda_ipc/sysdev[0] rma_bw#2";
  EXPECT_FALSE(ucx::reads_by_lane("", true));
  EXPECT_FALSE(ucx::reads_by_lane("# UCP endpoint\n" + tcp + messages, true));
  EXPECT_TRUE(ucx::reads_by_lane(tcp + rc, false));
  EXPECT_FALSE(ucx::reads_by_lane(tcp + ipc, false)) << "UCX may choose messages for it";
  EXPECT_TRUE(ucx::reads_by_lane(tcp + ipc, true));
}

// Nobody has named such transports, or there are none: UCX takes any name of one that the machine has not.
TEST_F(RemoteReads, BlocksAreSentWhereTheConnectionHasNoSuchLane) {
  for (const auto* transports : {"tcp", "tcp,rc", "tcp,cma"}) {
    auto wanted = options();
    wanted.transports = transports;
    const auto a = ucx::make_fabric(wanted), b = ucx::make_fabric(wanted);
    auto from = here_.blocks(8, 65536), to = here_.blocks(8, 65536);
    from.scribble(1);
    post(*b, {1, 1}, to.regions());
    EXPECT_EQ(send(*a, b->address(), {1, 1}, 0, from.regions(), transfer_priority::bulk, 10s, from.owner())->next(),
              "");
    EXPECT_TRUE(withdraw(*b, {1, 1}));
    EXPECT_TRUE(same(from, to));
    EXPECT_EQ(b->figures().bytes_read, 0U) << transports;
    wanted.device.copier = std::make_shared<godwit::testing::fake_copier>(std::make_shared<fake_device>());
    EXPECT_FALSE(ucx::reads_devices(wanted)) << "Debian's UCX knows none";
  }
}

TEST_F(RemoteReads, AnOfferToAFabricThatDoesNotReadEndsTheConnection) {
  auto wanted = options();
  wanted.reads = ucx::remote_reading::never;
  const auto b = here_.make(wanted);
  auto to = here_.blocks(1, 8192);
  post(*b, {1, 1}, to.regions());
  liar a(b->address());
  a.greet();
  const auto m = keyed(1);
  a.say(ucx::wire::encode(m), ucx::wire::pack_keyed({{"a key"}, {{4096, 8192, 0}}}));
  EXPECT_TRUE(a.until([&] { return a.closed; }));
  EXPECT_THAT(ended(), HasSubstr("cannot be read"));
  EXPECT_TRUE(to.all(0));
}

TEST_F(RemoteReads, ListsThatAreNoneEndTheConnection) {
  using ucx::wire::pack_keyed;
  const auto good = pack_keyed({{"a key"}, {{4096, 8192, 0}}});
  const std::vector<std::pair<std::string, std::string>> wrong{
      {"", "none"},
      {good.substr(0, good.size() - 1), "none"},
      {good + "x", "none"},
      {pack_keyed({{"a key"}, {{4096, 8192, 1}}}), "none"},
      {pack_keyed({{}, {{4096, 8192, 0}}}), "none"},
      {pack_keyed({std::vector<std::string>(ucx::wire::keys_max + 1, "k"), {{4096, 8192, 0}}}), "none"},
      {pack_keyed({{std::string(ucx::wire::key_bytes_max + 1, 'k')}, {{4096, 8192, 0}}}), "none"},
      {pack_keyed({{"k"}, std::vector<ucx::wire::keyed_span>(ucx::wire::spans_max + 1, {4096, 0, 0})}), "none"},
      {pack_keyed({{"k"}, {{4096, 8193, 0}}}), "more memory"},
      {pack_keyed({{"k"}, {{4096, 8191, 0}}}), "less memory"},
  };
  for (const auto& [payload, what] : wrong) {
    ends_.clear();
    const auto b = here_.make(options());
    auto to = here_.blocks(1, 8192);
    post(*b, {1, 1}, to.regions());
    liar a(b->address());
    a.greet();
    const auto m = keyed(1);
    a.say(ucx::wire::encode(m), payload);
    EXPECT_TRUE(a.until([&] { return a.closed; }));
    EXPECT_THAT(ended(), HasSubstr(what));
    EXPECT_TRUE(to.all(0));
  }
}

// UCX would believe them.
TEST_F(RemoteReads, KeysThatAreNoneAreRefusedAndOthersGoOn) {
  const auto b = here_.make(options());
  auto to = here_.blocks(4, 8192);
  std::uint64_t id = 0;
  liar a(b->address());
  a.greet();
  for (const auto& key : {std::string(), std::string("short"), std::string(9, '\xff'), std::string(40, '\xff')}) {
    const auto landed = post(*b, {id + 1, 1}, to.part(id, 1));
    ++id;
    const auto m = keyed(id);
    a.say(ucx::wire::encode(m), ucx::wire::pack_keyed({{key}, {{4096, 8192, 0}}}));
    EXPECT_TRUE(a.until([&] { return a.count_of<ucx::wire::refusal>() == id; }));
    EXPECT_TRUE(std::get<ucx::wire::refusal>(a.heard.back()).unreadable);
    EXPECT_THAT(landed->next().value_or(landing{}).error, HasSubstr("reading the sender's memory"));
    EXPECT_TRUE(withdraw(*b, {id, 1}));
  }
  EXPECT_TRUE(to.all(0));
  EXPECT_FALSE(a.closed);
}

TEST_F(RemoteReads, ASenderWhoseMemoryCannotBeReadSendsIt) {
  const auto a = here_.make(options());
  listening_liar b;
  b.pull = false;
  b.reads = true;
  auto from = here_.blocks(2, 65536);
  const auto first = send(*a, b.address(), {1, 1}, 0, from.regions(), transfer_priority::bulk, 10s, from.owner());
  const auto offered = offer(b);
  ASSERT_TRUE(offered);
  EXPECT_TRUE(offered->offered && offered->keyed);
  b.say(ucx::wire::refusal{offered->number, "could not", true});
  (void)b.until([&] { return first->count() != 0; });
  EXPECT_EQ(first->next(), "could not");
  const auto second = send(*a, b.address(), {2, 1}, 0, from.regions(), transfer_priority::bulk, 10s, from.owner());
  const auto sent = offer(b, 1);
  ASSERT_TRUE(sent);
  EXPECT_FALSE(sent->offered);
  EXPECT_THAT(ended(), HasSubstr("could not read memory of this side (could not)"));
}

// That a peer is silent for a while says nothing of its adapter.
TEST_F(RemoteReads, APeerThatWasLeftForItsSilenceIsAskedToReadAgain) {
  auto impatient = options();
  impatient.peer_timeout = 300ms;
  const auto a = here_.make(impatient);
  listening_liar b;
  b.pull = false;
  b.reads = true;
  auto from = here_.blocks(2, 65536);
  const auto first = send(*a, b.address(), {1, 1}, 0, from.regions(), transfer_priority::bulk, 10s, from.owner());
  const auto offered = offer(b);
  ASSERT_TRUE(offered);
  EXPECT_TRUE(offered->keyed);
  EXPECT_EQ(first->next(), "the peer does not answer");
  const auto second = send(*a, b.address(), {2, 1}, 0, from.regions(), transfer_priority::bulk, 10s, from.owner());
  const auto again = offer(b, 1);
  ASSERT_TRUE(again);
  EXPECT_TRUE(again->keyed);
}

// Whatever has become of the send: an adapter does not ask.
TEST_F(RemoteReads, MemoryIsHeldUntilTheReceiverHasAnswered) {
  const auto a = here_.make(options());
  listening_liar b;
  b.pull = false;
  b.reads = b.lives = true;
  auto from = here_.blocks(2, 65536);
  for (const bool answers : {true, false}) {
    b.heard.clear();
    const auto keep = std::make_shared<int>(0);
    const auto told =
        send(*a, b.address(), {answers ? 1U : 2U, 1}, 0, from.regions(), transfer_priority::bulk, 300ms, keep);
    const auto offered = offer(b);
    ASSERT_TRUE(offered);
    (void)b.until([&] { return told->count() != 0; });
    EXPECT_EQ(told->next(), "timed out");
    EXPECT_GT(keep.use_count(), 1);
    EXPECT_EQ(a->figures().peers_open, 1U) << "nothing that goes out can be wrong: the connection stays";
    if (answers) {
      ucx::wire::receipts read;
      read.what = ucx::wire::fate::pulled;
      read.numbers = {offered->number};
      b.say(read);
    } else {
      b.worker.close(b.to);
    }
    EXPECT_TRUE(b.until([&] { return keep.use_count() == 1; }));
    if (!answers) continue;
    EXPECT_TRUE(b.until([&] { return std::holds_alternative<ucx::wire::receipts>(b.heard.back()); }));
    EXPECT_EQ(std::get<ucx::wire::receipts>(b.heard.back()).what, ucx::wire::fate::void_) << "it counts no more";
  }
}

TEST_F(RemoteReads, OnesThatArriveAreBesideOthersForWhichThereIsNoPlace) {
  const auto a = here_.make(options()), b = here_.make(options());
  auto from = here_.blocks(64, 65536), to = here_.blocks(64, 65536);
  from.scribble(1);
  post(*b, {1, 1}, to.regions());
  const auto refused = send(*a, b->address(), {2, 1}, 0, from.regions());
  EXPECT_EQ(send(*a, b->address(), {1, 1}, 0, from.regions())->next(), "");
  EXPECT_THAT(refused->next().value_or(""), HasSubstr("no posting"));
  EXPECT_TRUE(withdraw(*b, {1, 1}));
  EXPECT_TRUE(same(from, to));
  EXPECT_EQ(b->figures().bytes_read, 64U * 65536U);
}

struct deaf final : ucx::worker::events {
  void connected(ucx::connection) override {}
  void received(ucx::connection, std::string_view, std::string_view) override {}
  void lost(ucx::connection, const std::string&, bool) override {}
};

TEST_F(RemoteReads, MemoryIsToldOfOnceAndForgottenWithItsOwner) {
  deaf nobody;
  auto wanted = options();
  ucx::worker worker(wanted, nobody, true);
  const auto pages = std::make_shared<shared_pages>();
  int asked = 0;
  ucx::exposed_memory known(
      worker.context(),
      [&](const memory_region& region) -> std::optional<protocols::memory_extent> {
        ++asked;
        const auto found = pages->find(region.address);
        if (!found) return std::nullopt;
        return protocols::memory_extent{found->id, found->address, found->bytes};
      },
      false);
  auto memory = pages->allocate(1 << 20);
  const auto first = known.find({memory.get() + 4096, 4096});
  ASSERT_TRUE(first);
  EXPECT_FALSE(first->key().empty());
  EXPECT_EQ(known.find({memory.get() + 100'000, 10}), first);
  EXPECT_EQ(known.find({memory.get() + (1 << 20) - 8, 16}), nullptr) << "beyond its end";
  EXPECT_EQ(known.count(), 1U);
  // UCX does not know this device, and takes its memory for the host's.
  EXPECT_EQ(known.find({memory.get(), 4096, protocols::memory_kind::device}), nullptr);
  EXPECT_EQ(known.count(), 2U);
  known.forget_gone();
  EXPECT_EQ(known.count(), 2U);
  memory.reset();
  known.forget_gone();
  EXPECT_EQ(known.count(), 0U);
  EXPECT_GT(asked, 4);
}

} // namespace
} // namespace godwit::transport::testing
