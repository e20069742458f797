// The simulated network: time, faults, and the same run twice.
#include "transport/fabric/rig.hpp"

#include <godwit/transport/sim/network.hpp>

#include <gtest/gtest.h>

#include <map>

namespace godwit::transport::testing {
namespace {

/// Time that passes when `run` is called.
class manual_timers final : public runtime::async::timer_source {
public:
  [[nodiscard]] std::chrono::nanoseconds now() const noexcept override { return now_; }
  timer_id call_after(std::chrono::nanoseconds delay, std::function<void()> function) override {
    due_.emplace(std::pair{now_ + delay, ++last_}, std::move(function));
    return last_;
  }
  bool cancel(timer_id id) override {
    return std::erase_if(due_, [id](const auto& each) { return each.first.second == id; }) != 0;
  }
  /// All that is due until then, or all there is.
  void run(std::chrono::nanoseconds until = std::chrono::hours(1)) {
    const bool all = until == std::chrono::hours(1);
    while (!due_.empty() && due_.begin()->first.first <= until) {
      auto first = due_.extract(due_.begin());
      now_ = first.key().first;
      first.mapped()();
    }
    if (!all) now_ = until;
  }

private:
  std::chrono::nanoseconds now_{0};
  timer_id last_ = 0;
  std::map<std::pair<std::chrono::nanoseconds, timer_id>, std::function<void()>> due_;
};

class SimNetwork : public ::testing::Test {
protected:
  SimNetwork() { from_.scribble(1); }
  void start(std::chrono::nanoseconds timeout = 10s) {
    b_->post({1, 1}, to_.regions(), {}, [this](const landing& l) { log("landed " + std::to_string(l.regions)); });
    a_->send(b_->address(), {1, 1}, 0, from_.regions(), transfer_priority::bulk, timeout, {},
             [this](const std::string& error) { log("sent " + error); });
  }
  void log(const std::string& what) {
    log_.push_back(std::to_string(std::chrono::duration_cast<std::chrono::microseconds>(timers_.now()).count()) + " " +
                   what);
  }
  // 2 x 1 MB at 1 GB/s in messages of 1 MB, 50 us each way
  manual_timers timers_;
  sim::network net_{timers_, {1e9, 50us, 1'000'000}};
  std::shared_ptr<fabric> a_ = net_.make_fabric("a"), b_ = net_.make_fabric("b");
  block_memory from_{2, 1'000'000}, to_{2, 1'000'000};
  std::vector<std::string> log_;
};

TEST_F(SimNetwork, MessagesTakeTheirTime) {
  start();
  timers_.run();
  EXPECT_EQ(log_, (std::vector<std::string>{"1050 landed 1", "2050 landed 2", "2100 sent "}));
  EXPECT_TRUE(same(from_, to_));
}

// Messages of one send overlap in it, and the sender hears of the end one latency after the receiver.
TEST_F(SimNetwork, OverheadComesOnceAndOnTheWayThereOnly) {
  sim::network slow(timers_, {1e9, 50us, 1'000'000, 3ms});
  a_ = slow.make_fabric("a");
  b_ = slow.make_fabric("b");
  start();
  timers_.run();
  EXPECT_EQ(log_, (std::vector<std::string>{"4050 landed 1", "5050 landed 2", "5100 sent "}));
  a_.reset();
  b_.reset();
}

// A link has as much room for what comes as for what goes: two that send to one have half each, in turn, and what one
// of them has for others waits behind.
TEST_F(SimNetwork, WhoReceivesFromSeveralHasNoMoreRoomThanALinkHas) {
  const auto c = net_.make_fabric("c"), d = net_.make_fabric("d");
  block_memory more(2, 1'000'000), there(2, 1'000'000), elsewhere(1, 1'000'000);
  start();
  b_->post({2, 2}, there.regions(), {}, [this](const landing& l) { log("of c landed " + std::to_string(l.regions)); });
  d->post({3, 3}, elsewhere.regions(), {}, [this](const landing&) { log("at d landed"); });
  c->send(b_->address(), {2, 2}, 0, more.regions(), transfer_priority::bulk, 10s, {}, [](const std::string&) {});
  c->send(d->address(), {3, 3}, 0, {more.regions().front()}, transfer_priority::bulk, 10s, {},
          [](const std::string&) {});
  timers_.run();
  EXPECT_EQ(log_, (std::vector<std::string>{"1050 landed 1", "2050 of c landed 1", "3050 landed 2", "3100 sent ",
                                            "4050 of c landed 2", "5050 at d landed"}));
}

TEST_F(SimNetwork, WhatIsUrgentDoesNotWaitWithBulkWhoseReceiverIsBusy) {
  const auto c = net_.make_fabric("c"), d = net_.make_fabric("d");
  block_memory more(2, 1'000'000), there(2, 1'000'000), small(1, 64), into(1, 64);
  start();
  b_->post({2, 2}, there.regions(), {}, [](const landing&) {});
  c->send(b_->address(), {2, 2}, 0, more.regions(), transfer_priority::bulk, 10s, {}, [](const std::string&) {});
  d->post({3, 3}, into.regions(), {}, [this](const landing&) { log("at d landed"); });
  timers_.run(100us);
  c->send(d->address(), {3, 3}, 0, small.regions(), transfer_priority::urgent, 10s, {}, [](const std::string&) {});
  timers_.run();
  EXPECT_EQ(log_, (std::vector<std::string>{"150 at d landed", "1050 landed 1", "3050 landed 2", "3100 sent "}));
}

TEST_F(SimNetwork, AUrgentSendWaitsForOneMessageOnly) {
  start();
  block_memory small(1, 64), into(1, 64);
  b_->post({2, 1}, into.regions(), {}, [this](const landing&) { log("urgent landed"); });
  timers_.run(100us);
  a_->send(b_->address(), {2, 1}, 0, small.regions(), transfer_priority::urgent, 10s, {}, [](const std::string&) {});
  timers_.run();
  EXPECT_EQ(log_.at(1), "1050 urgent landed");
}

TEST_F(SimNetwork, ACutLinkLosesWhatIsUnderWay) {
  start(20ms);
  timers_.run(1100us);
  net_.cut("b", "a");
  timers_.run();
  EXPECT_EQ(log_, (std::vector<std::string>{"1050 landed 1", "20000 sent timed out"}));
  net_.heal("a", "b");
  log_.clear();
  b_->withdraw({1, 1}, [this] { log("withdrawn"); });
  b_->post({1, 2}, to_.regions(), {}, [](const landing&) {});
  a_->send(b_->address(), {1, 2}, 0, from_.regions(), transfer_priority::bulk, 1s, {},
           [this](const std::string& error) { log("sent " + error); });
  timers_.run();
  EXPECT_EQ(log_, (std::vector<std::string>{"20000 withdrawn", "22100 sent "}));
}

TEST_F(SimNetwork, AFrozenFabricNeitherTakesNorSends) {
  net_.freeze("a");
  start(20ms);
  timers_.run(5ms);
  EXPECT_TRUE(log_.empty());
  net_.thaw("a");
  timers_.run();
  EXPECT_EQ(log_.back(), "7100 sent ") << "it went on where it had stopped, at 5 ms";
}

TEST_F(SimNetwork, ALostAcknowledgementLeavesTheSenderInDoubt) {
  net_.drop_acknowledgements("b", 1);
  start(20ms);
  timers_.run();
  EXPECT_EQ(log_, (std::vector<std::string>{"1050 landed 1", "2050 landed 2", "20000 sent timed out"}));
  EXPECT_EQ(a_->figures().sends_open, 0U);
}

TEST_F(SimNetwork, ASendThatWasGivenUpWritesNothing) {
  start(1040us);
  timers_.run();
  EXPECT_EQ(log_, (std::vector<std::string>{"1040 sent timed out"}));
  EXPECT_TRUE(to_.all(0));
}

// What a withdrawal is there for: a write that was admitted is waited for, also where its send has been given up.
TEST_F(SimNetwork, ASlowWriteIsOpenUntilItsEndAndKeepsItsPosting) {
  net_.slow_writes("b", 0us, 500us);
  start(1200us);
  timers_.run(1100us);
  EXPECT_TRUE(to_.all(0)) << "admitted, and not in the memory";
  b_->withdraw({1, 1}, [this] { log("withdrawn"); });
  from_.scribble(2); // the bytes are those that were sent
  timers_.run();
  EXPECT_EQ(log_.at(0), "1200 sent timed out");
  ASSERT_EQ(log_.size(), 2U);
  EXPECT_GT(log_[1], "1200 withdrawn");
  EXPECT_FALSE(to_.all(0));
  EXPECT_EQ(b_->figures().postings_open, 0U);
  EXPECT_EQ(b_->figures().refused, 1U) << "the second message found the posting closed";
}

TEST_F(SimNetwork, MessagesOnASlowWayDoNotOvertake) {
  net_.slow_writes("b", 3ms, 0us);
  start();
  timers_.run(900us);
  net_.slow_writes("b", 0us, 0us);
  timers_.run();
  EXPECT_EQ(log_, (std::vector<std::string>{"4050 landed 1", "4050 landed 2", "4100 sent "}));
  EXPECT_TRUE(same(from_, to_));
  net_.slow_writes("b", 0us, 1ms);
  b_->post({2, 1}, to_.regions(), {}, [](const landing&) {});
  a_->send(b_->address(), {2, 1}, 0, from_.regions(), transfer_priority::bulk, 1s, {}, [](const std::string&) {});
  timers_.run(timers_.now() + 2060us);
  b_.reset(); // with a write that is open: nothing is written any more
  timers_.run();
}

// A process whose clock jumps gives up what is still under way; one that stands still gives up nothing.
TEST_F(SimNetwork, TimeoutsGoByTheClockOfTheirProcess) {
  manual_timers own;
  a_ = net_.make_fabric("a", own);
  start(20ms);
  timers_.run(1100us);
  own.run(20ms);
  timers_.run();
  EXPECT_EQ(log_, (std::vector<std::string>{"1050 landed 1", "1100 sent timed out"}));
  log_.clear();
  net_.cut("a", "b");
  a_->send(b_->address(), {1, 1}, 0, from_.regions(), transfer_priority::bulk, 20ms, {},
           [this](const std::string& error) { log("sent " + error); });
  timers_.run(10s);
  EXPECT_TRUE(log_.empty());
  EXPECT_EQ(a_->figures().sends_open, 1U);
  own.run();
  EXPECT_EQ(log_, (std::vector<std::string>{"10000000 sent timed out"}));
  a_.reset(); // before its timers
}

} // namespace
} // namespace godwit::transport::testing
