// Memory of another process, which here is this one: mapped where it can be, read by the kernel otherwise.
#include "transport/fabric/rig.hpp"
#include "ucx/core.hpp"
#include "ucx/cross_memory.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include <sys/mman.h>
#include <unistd.h>

namespace godwit::transport::testing {
namespace {

using ucx::cross_memory;
namespace wire = ucx::wire;

std::uint64_t number(const std::byte* address) { return reinterpret_cast<std::uint64_t>(address); }

wire::mapping mapping_of(const protocols::shared_memory& m) { return {m.id, m.file, number(m.address), m.bytes}; }

/// Sandboxes without /proc, or whose processes may not see each other, have the kernel read or messages.
bool can_map() {
  const auto pages = std::make_shared<shared_pages>();
  const auto one = pages->allocate(4096);
  const auto found = pages->find(one.get()).value();
  return ucx::mapped_file::of_process(static_cast<std::uint64_t>(::getpid()), found.file, found.bytes).has_value();
}

class CrossMemory : public ::testing::Test {
protected:
  static constexpr std::size_t bytes = 200'000;
  CrossMemory() {
    for (std::size_t i = 0; i < bytes; ++i) theirs_.get()[i] = static_cast<std::byte>(i * 7 + i / 256);
  }
  [[nodiscard]] std::string read(const wire::mapping& within, const std::vector<wire::remote_span>& from,
                                 const std::vector<memory_region>& into) {
    return memory_.read(within, from, into);
  }
  [[nodiscard]] std::string read_all(const wire::mapping& within) {
    mine_.assign(bytes, std::byte{});
    return read(within, {{number(theirs_.get()), bytes}}, {{mine_.data(), bytes}});
  }
  [[nodiscard]] bool right() const { return std::memcmp(mine_.data(), theirs_.get(), bytes) == 0; }

  std::shared_ptr<shared_pages> pages_ = std::make_shared<shared_pages>();
  std::shared_ptr<std::byte> theirs_ = pages_->allocate(bytes);
  std::vector<std::byte> mine_;
  cross_memory memory_{static_cast<std::uint64_t>(::getpid())};
};

TEST_F(CrossMemory, ListsThatAreCutDifferentlyHoldTheSameBytesEitherWay) {
  std::mt19937 random(5);
  const auto shared = mapping_of(pages_->find(theirs_.get()).value());
  for (int round = 0; round < 200; ++round) {
    std::vector<wire::remote_span> from;
    std::vector<std::byte> expected;
    for (auto n = random() % 600; n != 0; --n) {
      const std::size_t at = random() % bytes, size = std::min<std::size_t>(random() % 900, bytes - at);
      from.push_back({number(theirs_.get()) + at, size});
      expected.insert(expected.end(), theirs_.get() + at, theirs_.get() + at + size);
    }
    for (const auto& within : {shared, wire::mapping{}}) {
      std::vector<std::byte> got(expected.size());
      std::vector<memory_region> into;
      for (std::size_t at = 0; at < got.size();) {
        const auto size = std::min<std::size_t>(random() % 2000, got.size() - at);
        into.push_back({got.data() + at, size});
        at += size;
      }
      ASSERT_EQ(read(within, from, into), "");
      ASSERT_EQ(got, expected);
    }
  }
  EXPECT_EQ(memory_.mapped(), can_map() ? 1U : 0U);
}

// The file behind the address that is named has other bytes than the address itself: so it is known who was read.
TEST_F(CrossMemory, WhatCanBeMappedIsNotReadByTheKernel) {
  if (!can_map()) GTEST_SKIP() << "nothing can be mapped here";
  const auto other = pages_->allocate(bytes);
  std::memset(other.get(), 9, bytes);
  auto within = mapping_of(pages_->find(other.get()).value());
  within.address = number(theirs_.get());
  ASSERT_EQ(read_all(within), "");
  EXPECT_EQ(mine_.front(), std::byte{9});
  EXPECT_EQ(mine_.back(), std::byte{9});
}

TEST_F(CrossMemory, AFileThatCanShrinkOrHasAnotherSizeOrIsNoneIsNotMapped) {
  const auto within = mapping_of(pages_->find(theirs_.get()).value());
  std::uint64_t id = 100;
  const auto refused = [&](wire::mapping m) {
    m.id = ++id;
    ASSERT_EQ(read_all(m), "");
    EXPECT_TRUE(right()) << "the kernel reads it";
  };
  const auto unsealed = pages_->allocate(bytes, false);
  std::memset(unsealed.get(), 9, bytes);
  auto loose = mapping_of(pages_->find(unsealed.get()).value());
  loose.address = within.address;
  refused(loose);
  auto larger = within;
  larger.bytes += 4096;
  refused(larger);
  auto no_file = within;
  no_file.file = -1;
  refused(no_file);
  no_file.file = 0; // the terminal, a pipe
  refused(no_file);
  auto empty = within;
  empty.bytes = 0;
  refused(empty);
  auto beside = within; // what is to be read does not lie in it
  beside.address += 4096;
  refused(beside);
  beside.address = ~std::uint64_t{0} - 10;
  refused(beside);
}

TEST_F(CrossMemory, AHundredFilesAreReadAndNotAllKept) {
  for (int i = 0; i < 100; ++i) {
    theirs_ = pages_->allocate(bytes);
    std::memset(theirs_.get(), i, bytes);
    ASSERT_EQ(read_all(mapping_of(pages_->find(theirs_.get()).value())), "");
    ASSERT_TRUE(right());
    ASSERT_LE(memory_.mapped(), 64U);
  }
  EXPECT_EQ(memory_.mapped() != 0, can_map());
}

TEST_F(CrossMemory, MemoryThatWasGivenBackIsAnErrorWhereItIsNotMappedAndAnythingWhereItIs) {
  const auto within = mapping_of(pages_->find(theirs_.get()).value());
  ASSERT_EQ(read_all(within), "");
  const auto where = number(theirs_.get());
  theirs_.reset();
  // Nobody else is to have that place.
  void* const hole = ::mmap(reinterpret_cast<void*>(where), within.bytes, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  ASSERT_EQ(hole, reinterpret_cast<void*>(where));
  EXPECT_NE(read({}, {{where, bytes}}, {{mine_.data(), bytes}}), "");
  if (can_map()) {
    EXPECT_EQ(read(within, {{where, bytes}}, {{mine_.data(), bytes}}), "") << "its sender will say what it is worth";
  }
  auto fresh = within; // of another id: the file is gone
  fresh.id += 1000;
  EXPECT_NE(read(fresh, {{where, bytes}}, {{mine_.data(), bytes}}), "");
  ::munmap(hole, within.bytes);
}

// As above, between two fabrics: the sender shares what it says it does.
TEST(FabricMapped, TheReceiverCopiesFromWhatItHasMapped) {
  if (!can_map()) GTEST_SKIP() << "nothing can be mapped here";
  constexpr std::size_t bytes = 1U << 20U;
  const auto pages = std::make_shared<shared_pages>();
  const auto said = pages->allocate(bytes), meant = pages->allocate(bytes);
  std::memset(said.get(), 1, bytes);
  std::memset(meant.get(), 2, bytes);
  ucx::settings options;
  options.shared_memory = [&](const std::byte* address) {
    auto found = pages->find(address);
    if (found) found->file = pages->find(meant.get())->file;
    return found;
  };
  const auto a = ucx::make_fabric(options), b = ucx::make_fabric();
  block_memory to(4, bytes / 4);
  post(*b, {1, 1}, to.regions());
  std::vector<memory_region> from;
  for (std::size_t i = 0; i < 4; ++i) from.push_back({said.get() + i * bytes / 4, bytes / 4});
  EXPECT_EQ(send(*a, b->address(), {1, 1}, 0, from)->next(), "");
  EXPECT_TRUE(to.all(2));
}

// Regions of two memories in one message, and of one that is not shared: none of it is mapped, all of it arrives.
TEST(FabricMapped, RegionsOfSeveralMemoriesArriveInOneSend) {
  const auto pages = std::make_shared<shared_pages>();
  block_memory first(3, 50'000, 0, {}, pages), second(3, 50'000, 0, {}, pages), own(3, 50'000), to(9, 50'000);
  first.scribble(1);
  second.scribble(2);
  own.scribble(3);
  ucx::settings options;
  options.shared_memory = [pages](const std::byte* address) { return pages->find(address); };
  const auto a = ucx::make_fabric(options), b = ucx::make_fabric();
  post(*b, {1, 1}, to.regions());
  std::vector<memory_region> from;
  for (std::size_t i = 0; i < 3; ++i)
    for (const auto* memory : {&first, &own, &second}) from.push_back(memory->regions()[i]);
  EXPECT_EQ(send(*a, b->address(), {1, 1}, 0, from)->next(), "");
  for (std::size_t i = 0; i < from.size(); ++i)
    EXPECT_EQ(std::memcmp(from[i].address, to.regions()[i].address, 50'000), 0) << i;
}

} // namespace
} // namespace godwit::transport::testing
