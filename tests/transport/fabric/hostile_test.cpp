// Peers that lie, garble, speak another version or are no fabrics at all.
#include "transport/fabric/liar.hpp"
#include "transport/fabric/rig.hpp"
#include "ucx/address.hpp"
#include "ucx/core.hpp"
#include "ucx/notices.hpp"
#include "ucx/wire.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <random>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace godwit::transport::testing {
namespace {

using ::testing::HasSubstr;
namespace wire = ucx::wire;

std::shared_ptr<ucx::core> make(bool cross_memory, bool checksum, const std::shared_ptr<ucx::faults>& broken) {
  ucx::settings options;
  options.cross_memory = cross_memory;
  options.checksum = checksum;
  options.connect_timeout = 1500ms;
  options.idle_timeout = 300ms;
  return std::make_shared<ucx::core>(options, broken);
}

TEST(FabricPeers, AWrongBitIsFoundByTheChecksum) {
  for (const bool cross_memory : {true, false}) {
    const auto broken = std::make_shared<ucx::faults>();
    const auto a = make(cross_memory, true, broken), b = make(cross_memory, true, broken);
    block_memory from(10, 100'000), to(10, 100'000);
    const auto landed = post(*b, {1, 1}, to.regions());
    broken->corrupt_pieces = 1;
    EXPECT_THAT(send(*a, b->address(), {1, 1}, 0, from.regions())->next().value_or(""), HasSubstr("checksum"));
    std::string error;
    while (error.empty()) {
      const auto told = landed->next();
      ASSERT_TRUE(told);
      error = told->error;
    }
    EXPECT_THAT(error, HasSubstr("checksum"));
    EXPECT_THAT(send(*a, b->address(), {1, 1}, 9, from.part(9, 1))->next().value_or(""), HasSubstr("dead"));
    EXPECT_TRUE(withdraw(*b, {1, 1}));
    post(*b, {1, 2}, to.regions());
    EXPECT_EQ(send(*a, b->address(), {1, 2}, 0, from.regions())->next(), "");
  }
}

TEST(FabricPeers, AMessageThatThereIsNoMemoryForEndsItsConnectionAlone) {
  const auto broken = std::make_shared<ucx::faults>();
  answers<std::string> why;
  ucx::settings options;
  options.on_end = [&why](const ucx::link_end& end) { why.put(end.reason); };
  const auto b = std::make_shared<ucx::core>(options, broken);
  const auto a = make(false, false, std::make_shared<ucx::faults>());
  block_memory from(10, 1000), to(10, 1000);
  from.scribble(3);
  post(*b, {1, 1}, to.regions());
  broken->messages_without_memory = 1;
  EXPECT_NE(send(*a, b->address(), {1, 1}, 0, from.regions())->next(), "");
  EXPECT_THAT(why.next().value_or(""), HasSubstr("bad_alloc"));
  EXPECT_TRUE(withdraw(*b, {1, 1}));
  post(*b, {1, 2}, to.regions());
  EXPECT_EQ(send(*a, b->address(), {1, 2}, 0, from.regions())->next(), "");
  EXPECT_TRUE(same(from, to));
}

TEST(FabricPeers, WhatATurnThrowsIsToldAndTheNextGoesOn) {
  const auto broken = std::make_shared<ucx::faults>();
  answers<std::string> why;
  ucx::settings options;
  options.on_end = [&why](const ucx::link_end& end) { why.put(end.reason); };
  const auto b = std::make_shared<ucx::core>(options, broken);
  const auto a = make(false, false, std::make_shared<ucx::faults>());
  block_memory from(10, 1000), to(10, 1000);
  post(*b, {1, 1}, to.regions());
  broken->turns_without_memory = 3;
  EXPECT_EQ(send(*a, b->address(), {1, 1}, 0, from.regions())->next(), "");
  for (int i = 0; i < 3; ++i) EXPECT_THAT(why.next().value_or(""), HasSubstr("bad_alloc")) << i;
  EXPECT_TRUE(withdraw(*b, {1, 1}));
}

TEST(FabricPeers, AnotherVersionIsRefusedByName) {
  const auto old = std::make_shared<ucx::faults>();
  old->old_version = true;
  const auto a = make(true, false, old), b = make(true, false, std::make_shared<ucx::faults>());
  block_memory from(1, 100);
  EXPECT_THAT(send(*a, b->address(), {1, 1}, 0, from.regions())->next().value_or(""),
              HasSubstr("speaks version " + std::to_string(wire::version)));
  EXPECT_TRUE(eventually([&] { return a->figures().peers_open == 0 && b->figures().peers_open == 0; }));
}

TEST(FabricPeers, AnotherFabricAtTheAddressIsRefused) {
  const auto none = std::make_shared<ucx::faults>();
  const auto a = make(true, false, none), b = make(true, false, none);
  auto elsewhere = ucx::parse_address(b->address()).value();
  elsewhere.identity = "0123456789abcdef";
  block_memory from(1, 100);
  EXPECT_THAT(send(*a, ucx::to_string(elsewhere), {1, 1}, 0, from.regions())->next().value_or(""),
              HasSubstr("another one"));
}

TEST(FabricPeers, DeviceMemoryIsRefusedClearly) {
  const auto a = make(true, false, std::make_shared<ucx::faults>());
  std::byte there[8];
  const std::vector<memory_region> device{{there, 8, protocols::memory_kind::device}};
  EXPECT_THAT(post(*a, {1, 1}, device)->next().value_or(landing{}).error, HasSubstr("device memory"));
  EXPECT_THAT(send(*a, a->address(), {1, 1}, 0, device)->next().value_or(""), HasSubstr("device memory"));
}

TEST(FabricPeers, AddressesThatAreNoneAreErrors) {
  const auto a = make(true, false, std::make_shared<ucx::faults>());
  block_memory from(1, 10);
  for (const auto* text : {"", "x", "godwit-fabric/1/ucx/", "godwit-fabric/1/ucx/127.0.0.1/abc",
                           "godwit-fabric/1/ucx/127.0.0.1:0/abc", "godwit-fabric/1/ucx/127.0.0.1:99999/abc",
                           "godwit-fabric/1/ucx/host:1/abc", "godwit-fabric/2/ucx/127.0.0.1:1/abc"})
    EXPECT_NE(send(*a, text, {1, 1}, 0, from.regions())->next().value_or(""), "") << text;
  EXPECT_EQ(a->figures().sends_open, 0U);
}

TEST(FabricPeers, GarbageAtTheListenerHurtsNobody) {
  const auto none = std::make_shared<ucx::faults>();
  const auto a = make(true, false, none), b = make(true, false, none);
  const auto where = ucx::parse_address(b->address()).value();
  std::mt19937 random(7);
  for (int i = 0; i < 20; ++i) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(where.port);
    ::inet_pton(AF_INET, where.host.c_str(), &to.sin_addr);
    ASSERT_EQ(::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
    std::string noise(1 + random() % 3000, ' ');
    for (auto& c : noise) c = static_cast<char>(random());
    (void)::send(fd, noise.data(), noise.size(), MSG_NOSIGNAL);
    ::close(fd);
  }
  block_memory from(3, 1000), to(3, 1000);
  post(*b, {1, 1}, to.regions());
  EXPECT_EQ(send(*a, b->address(), {1, 1}, 0, from.regions())->next(), "");
}

/// A fabric that writes down how its connections ended.
struct told_fabric {
  told_fabric() {
    ucx::settings options;
    options.connect_timeout = 1500ms;
    options.on_end = [this](const ucx::link_end& end) {
      const std::lock_guard lock(mutex);
      ends.push_back(end);
    };
    fabric = ucx::make_fabric(options);
  }
  ~told_fabric() { fabric.reset(); } // its thread is over before the list goes
  std::size_t count() {
    const std::lock_guard lock(mutex);
    return ends.size();
  }
  std::mutex mutex;
  std::vector<ucx::link_end> ends;
  std::shared_ptr<transport::fabric> fabric;
};

TEST(FabricPeers, WhyAConnectionWasClosedIsTold) {
  told_fabric b;
  {
    liar l(b.fabric->address());
    l.say("nonsense");
    EXPECT_TRUE(l.until([&] { return l.closed; }));
    ASSERT_EQ(b.count(), 1U);
  }
  EXPECT_EQ(b.ends.at(0).reason, "not a message of a fabric");
  EXPECT_FALSE(b.ends.at(0).gone);
  EXPECT_THAT(b.ends.at(0).peer, ::testing::MatchesRegex("127.0.0.1:[0-9]+"));
}

TEST(FabricPeers, AConnectionThatWasUsedAndIsClosedByItsMakerIsNoNews) {
  told_fabric b;
  block_memory from(1, 1000), to(1, 1000);
  post(*b.fabric, {1, 1}, to.regions());
  {
    const auto a = make(true, false, std::make_shared<ucx::faults>());
    EXPECT_EQ(send(*a, b.fabric->address(), {1, 1}, 0, from.regions())->next(), "");
  }
  EXPECT_TRUE(eventually([&] { return b.fabric->figures().peers_open == 0; }));
  EXPECT_EQ(b.count(), 0U);
}

TEST(FabricPeers, OfManyEndsTenAreToldInTenSeconds) {
  std::vector<ucx::link_end> told;
  ucx::notices ends([&](const ucx::link_end& end) { told.push_back(end); });
  const ucx::notices::time start{100s};
  for (int i = 0; i < 1000; ++i) ends.tell({"peer", "reason"}, start + std::chrono::milliseconds(i));
  EXPECT_EQ(told.size(), 10U);
  ends.tell({"peer", "later"}, start + 10s);
  ASSERT_EQ(told.size(), 11U);
  EXPECT_EQ(told.back().left_out, 990U);
  ends.tell({"peer", "later"}, start + 11s);
  EXPECT_EQ(told.back().left_out, 0U);
  ucx::notices nobody({});
  nobody.tell({"peer", "reason"}, start); // whom nobody listens to
}

TEST(FabricPeers, AConnectionThatLiesIsClosedAndOthersGoOn) {
  const auto none = std::make_shared<ucx::faults>();
  const auto a = make(true, false, none), b = make(true, false, none);
  block_memory from(3, 1000), to(3, 1000, 9);
  post(*b, {1, 1}, to.regions());
  wire::blocks data;
  data.number = 1;
  data.key = {1, 1};
  data.what.bytes = 1000;
  data.what.sizes = {{1000, 1}};
  auto offer = data;
  offer.offered = true;
  const wire::remote_span beyond{reinterpret_cast<std::uint64_t>(from.regions().front().address), 1'000'000};
  const std::string long_list(reinterpret_cast<const char*>(&beyond), sizeof beyond);
  const std::function<void(liar&)> lies[] = {
      [](liar& l) { l.say("nonsense"); },
      [&](liar& l) { l.say(wire::encode(data), std::string(1000, 'x')); }, // without a hello
      [&](liar& l) { l.greet(), l.say(wire::encode(data), std::string(999, 'x')); },
      [&](liar& l) { l.greet(), l.say(wire::encode(data), std::string(200'000, 'x')); },
      [&](liar& l) { l.greet(), l.say(wire::encode(offer), long_list); },
      [&](liar& l) { l.greet(), l.say(wire::encode(offer), "odd"); },
      [](liar& l) { l.greet(), l.greet(); },
      [](liar& l) { l.greet(), l.say(wire::encode(wire::welcome{})); },
      [](liar& l) { l.greet(), l.say(std::string(4000, 'z')); },
      [](liar&) {}, // says nothing at all
  };
  int number = 0;
  for (const auto& lie : lies) {
    liar l(b->address());
    lie(l);
    EXPECT_TRUE(l.until([&] { return l.closed; })) << "lie " << number;
    ++number;
    l.worker.stop();
  }
  EXPECT_TRUE(to.all(9));
  EXPECT_EQ(send(*a, b->address(), {1, 1}, 0, from.regions())->next(), "");
  EXPECT_TRUE(eventually([&] { return a->figures().peers_open == 0 && b->figures().peers_open == 0; }));
}

TEST(FabricPeers, MemoryThatIsNotThereIsAnErrorOfThatPosting) {
  const auto b = make(true, false, std::make_shared<ucx::faults>());
  block_memory to(3, 1000, 9);
  const auto landed = post(*b, {1, 1}, to.regions());
  liar l(b->address());
  l.greet();
  wire::blocks offer;
  offer.offered = true;
  offer.key = {1, 1};
  offer.what.bytes = 1000;
  offer.what.sizes = {{1000, 1}};
  const wire::remote_span nowhere{8, 1000};
  l.say(wire::encode(offer), {reinterpret_cast<const char*>(&nowhere), sizeof nowhere});
  EXPECT_TRUE(l.until([&] {
    for (const auto& m : l.heard)
      if (std::holds_alternative<wire::refusal>(m)) return true;
    return false;
  }));
  EXPECT_THAT(landed->next().value_or(landing{}).error, HasSubstr("memory"));
  l.worker.stop();
}

// The first one may have been read, and waits for its sender's word by its number.
TEST(FabricPeers, ASecondOfferOfTheSameNumberEndsThatPosting) {
  const auto b = make(true, false, std::make_shared<ucx::faults>());
  block_memory to(2, 1000, 9);
  const auto keep = std::make_shared<int>(0);
  const auto landed = post(*b, {1, 1}, to.regions(), keep);
  liar l(b->address());
  l.greet();
  const std::vector<std::byte> bytes(1000, std::byte{7});
  const wire::remote_span span{reinterpret_cast<std::uint64_t>(bytes.data()), bytes.size()};
  for (std::uint32_t region = 0; region < 2; ++region) {
    wire::blocks offer;
    offer.offered = true;
    offer.number = 5;
    offer.key = {1, 1};
    offer.what = {region, 0, 1000, {{1000, 1}}};
    l.say(wire::encode(offer), {reinterpret_cast<const char*>(&span), sizeof span});
  }
  EXPECT_TRUE(l.until([&] { return landed->count() != 0; }));
  EXPECT_THAT(landed->next().value_or(landing{}).error, HasSubstr("a second offer"));
  EXPECT_TRUE(withdraw(*b, {1, 1}));
  EXPECT_EQ(keep.use_count(), 1);
  l.worker.stop();
}

TEST(FabricWire, EveryMessageComesBackAndNoDamageIsMistaken) {
  wire::blocks blocks;
  blocks.number = 3;
  blocks.key = {4, 5};
  blocks.what = {1, 2, 3, {{4, 5}, {6, 7}}};
  wire::receipts receipts;
  receipts.numbers = {1, 2, 3};
  wire::hello hello;
  hello.from = "a";
  auto offer = blocks;
  offer.offered = true;
  offer.within = {1, 2, 3, 4};
  auto keyed = blocks;
  keyed.offered = keyed.keyed = true;
  const wire::message messages[] = {hello, wire::welcome{1}, wire::rejection{"no"},       blocks,          offer,
                                    keyed, receipts,         wire::refusal{1, "x", true}, wire::ping{true}};
  std::mt19937 random(3);
  for (const auto& m : messages) {
    const auto text = wire::encode(m);
    const auto back = wire::decode(text);
    ASSERT_TRUE(back);
    EXPECT_EQ(wire::encode(*back), text);
    for (std::size_t cut = 0; cut < text.size(); ++cut) EXPECT_FALSE(wire::decode(text.substr(0, cut))) << cut;
    EXPECT_FALSE(wire::decode(text + "x"));
    for (int i = 0; i < 20'000; ++i) {
      auto damaged = text;
      for (auto n = 1 + random() % 3; n != 0; --n) damaged[random() % damaged.size()] = static_cast<char>(random());
      (void)wire::decode(damaged); // whatever it is, it is read within its bounds
    }
  }
}

TEST(FabricWire, AListWithKeysComesBackAndNoDamageIsMistaken) {
  const auto text = wire::pack_keyed({{"one", "", "three"}, {{1, 2, 0}, {3, 4, 2}, {5, 0, 1}}});
  const auto back = wire::unpack_keyed(text);
  ASSERT_TRUE(back);
  EXPECT_EQ(wire::pack_keyed(*back), text);
  for (std::size_t cut = 0; cut < text.size(); ++cut) EXPECT_FALSE(wire::unpack_keyed(text.substr(0, cut))) << cut;
  EXPECT_FALSE(wire::unpack_keyed(text + "x"));
  std::mt19937 random(3);
  for (int i = 0; i < 20'000; ++i) {
    auto damaged = text;
    for (auto n = 1 + random() % 3; n != 0; --n) damaged[random() % damaged.size()] = static_cast<char>(random());
    const auto list = wire::unpack_keyed(damaged);
    if (!list) continue;
    for (const auto& span : list->spans) EXPECT_LT(span.key, list->keys.size());
  }
}

} // namespace
} // namespace godwit::transport::testing
