// A process that was stopped itself: others seem silent to it, and are not.
#include "transport/fabric/liar.hpp"
#include "transport/fabric/peer_process.hpp"
#include "transport/fabric/rig.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <variant>

namespace godwit::transport::testing {
namespace {

using clock = std::chrono::steady_clock;
namespace wire = ucx::wire;

// The other process gives up whom it has not heard for a second. Its timers are late when it goes on, and come before
// it has looked at what was said meanwhile.
TEST(FabricStandstill, WhoWasStoppedHimselfReadsWhatHasComeBeforeHeTakesAnybodyForSilent) {
  peer_process peer(way::cross_memory);
  listening_liar l;
  l.lives = true;
  peer.tell("send " + l.address() + " 1 1 65536");
  ASSERT_EQ(peer.hear(), "sending");
  ASSERT_TRUE(l.until([&] { return !l.heard.empty(); })) << "an offer, which it wants an answer to";
  const auto* offer = std::get_if<wire::blocks>(&l.heard.front());
  ASSERT_NE(offer, nullptr);

  peer.signal(SIGSTOP);
  const auto stopped = clock::now();
  wire::refusal no;
  no.number = offer->number;
  no.reason = "no room today";
  l.say(no);
  ASSERT_TRUE(l.until([&] { return clock::now() - stopped > 1500ms; })) << "longer than its patience";
  peer.signal(SIGCONT);
  EXPECT_EQ(peer.hear(), "sent no room today");

  // And the connection is the same.
  peer.tell("send " + l.address() + " 2 1 65536");
  EXPECT_EQ(peer.hear(), "sending");
  const auto first = l.to;
  EXPECT_TRUE(l.until([&] { return l.heard.size() == 2; }));
  EXPECT_EQ(l.to, first);
  EXPECT_FALSE(l.closed);
  l.worker.stop();
}

} // namespace
} // namespace godwit::transport::testing
