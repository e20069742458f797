#include <godwit/runtime/async/scope.hpp>
#include <godwit/runtime/async/task.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace godwit::runtime::async {
namespace {

/// Counts itself: what is left over is a leaked frame.
struct probe {
  explicit probe(int& count) : live(&count) { ++*live; }
  probe(const probe& other) : live(other.live) { ++*live; }
  probe& operator=(const probe&) = delete;
  ~probe() { --*live; }
  int* live;
};

/// A wait that the test ends.
class gate final : public parked {
public:
  explicit gate(scope& owner, wait_id& out) : owner_(&owner), out_(&out) {}
  gate(gate&& other) noexcept : owner_(other.owner_), out_(other.out_) {}
  ~gate() {
    if (id_) owner_->forget(id_);
  }
  [[nodiscard]] bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> frame) {
    frame_ = frame;
    id_ = *out_ = owner_->park(*this);
  }
  int await_resume() const noexcept { return value_; }
  void wake(void* value) override {
    value_ = value ? *static_cast<int*>(value) : 0;
    id_ = {};
    frame_.resume();
  }

private:
  scope* owner_;
  wait_id* out_;
  wait_id id_;
  std::coroutine_handle<> frame_;
  int value_ = 0;
};

void open(scope& owner, wait_id id, int value) {
  if (auto* waiter = owner.take(id)) waiter->wake(&value);
}

task<int> give(int value) { co_return value; }

task<std::int64_t> sum(int count) {
  std::int64_t total = 0;
  for (int i = 0; i < count; ++i) total += co_await give(i);
  co_return total;
}

TEST(Task, RunsOnlyWhenSomebodyWaits) {
  bool ran = false;
  auto body = [](bool* flag) -> task<void> {
    *flag = true;
    co_return;
  };
  scope owner;
  auto t = body(&ran);
  EXPECT_FALSE(ran);
  bool ended = false;
  owner.start(std::move(t), [&](outcome<void> o) { ended = !o.failure; });
  EXPECT_TRUE(ran);
  EXPECT_TRUE(ended);
  EXPECT_EQ(owner.roots(), 0U);
}

TEST(Task, AMillionNestedTasksThatEndAtOnceKeepTheStackFlat) {
  scope owner;
  std::int64_t result = 0;
  owner.start(sum(1'000'000), [&](outcome<std::int64_t> o) { result = *o.value; });
  EXPECT_EQ(result, 499'999'500'000);
}

TEST(Task, AnExceptionGoesThroughNestedTasksToTheOutcome) {
  auto inner = []() -> task<int> {
    throw std::runtime_error("inside");
    co_return 1;
  };
  auto outer = [](task<int> t) -> task<int> { co_return co_await std::move(t) + 1; };
  scope owner;
  std::string what;
  owner.start(outer(inner()), [&](outcome<int> o) {
    try {
      std::rethrow_exception(o.failure);
    } catch (const std::exception& e) {
      what = e.what();
    }
  });
  EXPECT_EQ(what, "inside");
}

task<int> wait_nested(scope& owner, wait_id& id, int depth, int& live) {
  const probe p{live};
  if (depth == 0) co_return co_await gate{owner, id};
  co_return co_await wait_nested(owner, id, depth - 1, live) + 1;
}

TEST(Scope, ResumesTheInnermostOfNestedTasksAndEndsThemAll) {
  scope owner;
  wait_id id;
  int live = 0;
  int result = 0;
  owner.start(wait_nested(owner, id, 10, live), [&](outcome<int> o) { result = *o.value; });
  EXPECT_EQ(live, 11);
  EXPECT_EQ(owner.waits(), 1U);
  open(owner, id, 32);
  EXPECT_EQ(result, 42);
  EXPECT_EQ(live, 0);
  EXPECT_EQ(owner.waits(), 0U);
}

TEST(Scope, DestroysSuspendedFramesOfNestedTasks) {
  int live = 0;
  bool called = false;
  auto guard = std::make_shared<int>(1);
  std::weak_ptr<int> watched = guard;
  {
    scope owner;
    wait_id id;
    owner.start(wait_nested(owner, id, 5, live), [&called, g = std::move(guard)](outcome<int>) { called = true; });
    EXPECT_EQ(live, 6);
    owner.destroy_all();
    EXPECT_EQ(live, 0);
    EXPECT_EQ(owner.waits(), 0U);
    open(owner, id, 1); // stale
  }
  EXPECT_FALSE(called);
  EXPECT_TRUE(watched.expired()) << "the unanswered continuation must go with the frame";
}

TEST(Scope, StartsNothingAfterDestroyAll) {
  scope owner;
  owner.destroy_all();
  bool ran = false;
  auto body = [](bool* flag) -> task<void> {
    *flag = true;
    co_return;
  };
  owner.start(body(&ran), [](outcome<void>) {});
  EXPECT_FALSE(ran);
}

TEST(Scope, AStaleWaitIdWakesNobodyThoughItsSlotIsUsedAgain) {
  scope owner;
  wait_id first;
  wait_id second;
  int live = 0;
  int a = -1;
  int b = -1;
  owner.start(wait_nested(owner, first, 0, live), [&](outcome<int> o) { a = *o.value; });
  open(owner, first, 1);
  owner.start(wait_nested(owner, second, 0, live), [&](outcome<int> o) { b = *o.value; });
  EXPECT_EQ(first.slot, second.slot);
  EXPECT_FALSE(first == second);
  open(owner, first, 2);
  EXPECT_EQ(a, 1);
  EXPECT_EQ(b, -1);
  open(owner, second, 3);
  EXPECT_EQ(b, 3);
}

TEST(Scope, DestroysRootsNewestFirst) {
  struct noisy {
    noisy(std::vector<int>& out, int n) : log(&out), number(n) {}
    noisy(const noisy&) = delete;
    noisy& operator=(const noisy&) = delete;
    ~noisy() { log->push_back(number); }
    std::vector<int>* log;
    int number;
  };
  auto body = [](scope& owner, wait_id& id, std::vector<int>& log, int n) -> task<int> {
    const noisy one{log, n};
    co_return co_await gate{owner, id};
  };
  std::vector<int> log;
  scope owner;
  wait_id ids[3];
  for (int i = 0; i < 3; ++i) owner.start(body(owner, ids[i], log, i), [](outcome<int>) {});
  owner.destroy_all();
  EXPECT_EQ(log, (std::vector<int>{2, 1, 0}));
}

} // namespace
} // namespace godwit::runtime::async
