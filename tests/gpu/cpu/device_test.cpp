#include "cpu/team.hpp"
#include "gpu/cpu/kernel_support.hpp"

#include <godwit/gpu/cpu/cpu_device.hpp>
#include <godwit/gpu/shared_memory.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <stdexcept>
#include <thread>

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

namespace godwit::gpu::cpu::testing {
namespace {

TEST(CpuStream, RunsWorkInOrderOnAnotherThread) {
  const auto device = make_cpu_device({.threads = 1});
  const auto stream = device->make_stream();
  std::vector<int> order;
  std::thread::id where;
  for (int i = 0; i < 100; ++i) stream->enqueue([&, i] { order.push_back(i), where = std::this_thread::get_id(); });
  const auto done = stream->record();
  done.wait();
  ASSERT_EQ(order.size(), 100U);
  EXPECT_TRUE(std::ranges::is_sorted(order));
  EXPECT_NE(where, std::this_thread::get_id());
}

TEST(CpuStream, WaitsForAnEventWithoutBlockingOtherStreams) {
  const auto device = make_cpu_device({.threads = 1});
  const auto waiting = device->make_stream(), free = device->make_stream();
  const event gate;
  std::atomic<bool> passed = false;
  waiting->wait(gate);
  waiting->enqueue([&] { passed = true; });
  const auto after = waiting->record();
  free->enqueue([] {});
  free->record().wait();
  EXPECT_FALSE(passed);
  gate.set();
  after.wait();
  EXPECT_TRUE(passed);
}

TEST(CpuStream, OrdersItselfAfterAnotherByAnEvent) {
  const auto device = make_cpu_device({.threads = 2});
  const auto first = device->make_stream(), second = device->make_stream();
  for (int round = 0; round < 200; ++round) {
    int value = 0;
    first->enqueue([&] { value = 1; });
    second->wait(first->record());
    int seen = 0;
    second->enqueue([&] { seen = value; });
    second->record().wait();
    ASSERT_EQ(seen, 1);
  }
}

TEST(CpuStream, DropsWhatHasNotBegunAndStillSetsItsEvents) {
  const auto device = make_cpu_device({.threads = 1});
  auto stream = device->make_stream();
  const event gate;
  std::atomic<bool> ran = false;
  stream->wait(gate);
  stream->enqueue([&] { ran = true; });
  const auto mark = stream->record();
  bool told = false;
  mark.on_ready([&] { told = true; });
  stream.reset();
  EXPECT_TRUE(mark.ready());
  EXPECT_TRUE(told);
  gate.set();
  EXPECT_FALSE(ran);
}

TEST(Event, CallsBackAtOnceWhenItIsReady) {
  const event one;
  int calls = 0;
  one.on_ready([&] { ++calls; });
  EXPECT_EQ(calls, 0);
  one.set();
  one.set();
  EXPECT_EQ(calls, 1);
  one.on_ready([&] { ++calls; });
  EXPECT_EQ(calls, 2);
}

TEST(CpuMemory, IsZeroedAlignedBoundedAndGivenBack) {
  const auto device = make_cpu_device({.threads = 1, .memory_bytes_max = std::uint64_t{16} << 20});
  auto& pool = device->memory();
  EXPECT_EQ(pool.available_bytes(), std::uint64_t{16} << 20);
  {
    const auto piece = pool.allocate((5U << 20) + 1, "a test");
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(piece.data()) % (2U << 20), 0U);
    EXPECT_TRUE(std::all_of(piece.data(), piece.data() + piece.bytes(), [](std::byte b) { return b == std::byte{}; }));
    EXPECT_EQ(pool.used_bytes(), 6U << 20);
    try {
      (void)pool.allocate(11U << 20, "another test");
      FAIL() << "beyond the bound";
    } catch (const out_of_memory& error) {
      EXPECT_STREQ(error.what(), "not enough memory for another test: 12.0 MiB needed, 10.0 MiB available");
    }
  }
  EXPECT_EQ(pool.used_bytes(), 0U);
}

TEST(CpuMemory, WhatIsSharedIsFoundByAnyAddressInItUntilItIsGivenBack) {
  const auto device = make_cpu_device({.threads = 1, .memory_bytes_max = std::uint64_t{16} << 20});
  auto& pool = device->memory();
  const std::byte* address = nullptr;
  protocols::shared_memory first;
  {
    const auto piece = pool.allocate_shared((3U << 20) + 1, "a test");
    address = piece.data();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(address) % (2U << 20), 0U);
    EXPECT_TRUE(std::all_of(address, address + piece.bytes(), [](std::byte b) { return b == std::byte{}; }));
    EXPECT_EQ(pool.used_bytes(), 4U << 20);
    const auto found = find_shared_memory(address + piece.bytes() - 1);
    if (!found) GTEST_SKIP() << "this system has no memory that others can map";
    first = *found;
    EXPECT_EQ(first.address, address);
    EXPECT_EQ(first.bytes, 4U << 20);
    EXPECT_EQ(find_shared_memory(address)->id, first.id);
    EXPECT_FALSE(find_shared_memory(address - 1));
    EXPECT_FALSE(find_shared_memory(address + first.bytes));
    const auto another = pool.allocate_shared(100, "another");
    EXPECT_NE(find_shared_memory(another.data())->id, first.id);
    const auto own = pool.allocate(100, "not shared");
    EXPECT_FALSE(find_shared_memory(own.data()));
    EXPECT_THROW((void)pool.allocate_shared(15U << 20, "too much"), out_of_memory);
  }
  EXPECT_EQ(pool.used_bytes(), 0U);
  EXPECT_FALSE(find_shared_memory(address));
}

TEST(CpuMemory, WhatIsGivenBackIsFreeThoughAnotherHasMappedIt) {
  const auto device = make_cpu_device({.threads = 1});
  auto piece = device->memory().allocate_shared(4U << 20, "a test");
  const auto found = find_shared_memory(piece.data());
  if (!found) GTEST_SKIP() << "this system has no memory that others can map";
  std::fill_n(piece.data(), piece.bytes(), std::byte{7});
  EXPECT_LT(::ftruncate(found->file, 4096), 0); // whoever reads it must not come to its end
  void* const other = ::mmap(nullptr, found->bytes, PROT_READ, MAP_SHARED, found->file, 0);
  ASSERT_NE(other, MAP_FAILED);
  const auto* seen = static_cast<const std::byte*>(other);
  EXPECT_EQ(seen[found->bytes - 1], std::byte{7});
  const int file = ::dup(found->file);
  piece = {};
  struct stat state {};
  ASSERT_EQ(::fstat(file, &state), 0);
  EXPECT_EQ(state.st_blocks, 0);
  EXPECT_EQ(seen[0], std::byte{}); // which takes a page
  ::close(file);
  ::munmap(other, found->bytes);
}

TEST(CpuDevice, RefusesAnInstructionSetOrAThreadCountThatCannotBe) {
  if (best_isa() < isa::amx) {
    EXPECT_THROW((void)make_cpu_device({.threads = 1, .isa = isa::amx}), std::invalid_argument);
  }
  EXPECT_THROW((void)make_cpu_device({.threads = 5000}), std::invalid_argument);
}

TEST(Team, GivesEveryPieceToOneMemberBetweenBarriers) {
  team four(4);
  for (int round = 0; round < 50; ++round) {
    std::vector<std::atomic<int>> taken(1000);
    four.run([&](team::member& self) {
      for (int phase = 0; phase < 5; ++phase) {
        for (auto i = self.next(); i < taken.size(); i = self.next()) ++taken[i];
        self.barrier();
      }
    });
    for (const auto& count : taken) ASSERT_EQ(count, 5);
  }
}

// A container may allow few threads, or little memory for their stacks.
TEST(Team, ThatCannotStartItsThreadsIsAnErrorAndNotTheEnd) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer needs more address space than the test leaves";
#else
  const auto start = [] {
    std::ifstream sizes("/proc/self/statm");
    rlim_t pages = 0;
    sizes >> pages;
    constexpr rlim_t left = 64U << 20U; // of stacks of 8 MiB a few
    const auto limit = pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + left;
    const rlimit bytes{limit, limit};
    ::setrlimit(RLIMIT_AS, &bytes);
    try {
      const team many(64);
    } catch (const std::runtime_error& failure) {
      std::fputs(failure.what(), stderr);
      std::_Exit(7);
    }
    std::_Exit(0);
  };
  EXPECT_EXIT(start(), ::testing::ExitedWithCode(7), "the system starts no more than [0-9]+ of 64 threads");
#endif
}

TEST(Team, SleepsWhenIdle) {
  team three(3);
  three.run([](team::member&) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const auto cpu_ms = [] {
    timespec spent{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
    return spent.tv_sec * 1000 + spent.tv_nsec / 1000000;
  };
  const auto before = cpu_ms();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_LT(cpu_ms() - before, 50);
}

} // namespace
} // namespace godwit::gpu::cpu::testing
