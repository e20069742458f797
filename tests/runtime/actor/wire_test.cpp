#include <godwit/protocols/batching/step.hpp>
#include <godwit/runtime/async/counter_random.hpp>
#include <godwit/runtime/message.hpp>

#include <gtest/gtest.h>

namespace godwit::runtime {
namespace {

enum class colour : std::uint8_t { red, green };
struct inner {
  std::string text;
  colour c = colour::red;
  inner() = default;
  inner(std::string t, colour x) : text(std::move(t)), c(x) {}
  friend bool operator==(const inner&, const inner&) = default;
  auto fields() { return std::tie(text, c); }
};
struct outer {
  std::vector<inner> many;
  std::map<std::string, std::optional<std::int32_t>> table;
  std::variant<std::monostate, double, inner> either;
  std::array<std::uint16_t, 3> three{};
  std::vector<bool> bits;
  std::chrono::milliseconds delay{0};
  protocols::request_id id;
  bool flag = false;
  outer() = default;
  friend bool operator==(const outer&, const outer&) = default;
  auto fields() { return std::tie(many, table, either, three, bits, delay, id, flag); }
};

outer example() {
  outer x;
  x.many = {{"a", colour::green}, {"", colour::red}};
  x.table = {{"one", 1}, {"none", std::nullopt}};
  x.either = inner{"v", colour::green};
  x.three = {1, 2, 65535};
  x.bits = {true, false, true};
  x.delay = std::chrono::milliseconds{-5};
  x.id = protocols::request_id{1ULL << 50};
  x.flag = true;
  return x;
}

std::vector<std::byte> bytes_of(const outer& x) {
  wire_writer out;
  wire_write(out, x);
  return out.bytes;
}

TEST(Wire, GivesBackWhatWasWritten) {
  const auto bytes = bytes_of(example());
  wire_reader in{bytes, {}};
  outer x;
  wire_read(in, x);
  EXPECT_TRUE(in.ok());
  EXPECT_EQ(in.left(), 0U);
  EXPECT_EQ(x, example());
}

TEST(Wire, EveryTruncationIsNoticed) {
  const auto bytes = bytes_of(example());
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    wire_reader in{std::span{bytes}.first(n), {}};
    outer x;
    wire_read(in, x);
    EXPECT_FALSE(in.ok()) << n;
  }
}

// Lengths come from the peer: a small message must not make us allocate a large one.
TEST(Wire, RandomDamageNeverReadsBeyondTheBytesNorAllocatesMore) {
  async::counter_random random{5};
  for (int round = 0; round < 20'000; ++round) {
    auto bytes = bytes_of(example());
    for (std::uint64_t n = random.below(4) + 1; n > 0; --n)
      bytes[random.below(bytes.size())] = static_cast<std::byte>(random.next());
    wire_reader in{bytes, {}};
    outer x;
    wire_read(in, x);
    EXPECT_LE(x.many.size(), bytes.size());
  }
}

TEST(Wire, AHandleThatWasNotSentAlongIsAnError) {
  wire_writer out;
  wire_write(out, std::uint32_t{3});
  wire_reader in{out.bytes, {}};
  actor_ref ref;
  wire_read(in, ref);
  EXPECT_FALSE(in.ok());
}

TEST(MessageType, IsNamedAsInTheSource) {
  EXPECT_EQ(message_type_of<protocols::step_input>.name, "godwit::protocols::step_input");
  EXPECT_NE(message_type_of<protocols::step_input>.id, message_type_of<protocols::step_output>.id);
  EXPECT_EQ(message_type_of<local<int>>.write, nullptr);
}

TEST(MessageType, IsOneThoughTwoSharedObjectsDescribeItUnlessTheNameIsOfAnUnnamedNamespace) {
  auto other = message_type_of<protocols::step_input>;
  EXPECT_FALSE(detail::two_types(message_type_of<protocols::step_input>, other));
  ++other.size;
  EXPECT_TRUE(detail::two_types(message_type_of<protocols::step_input>, other));
  const auto unnamed = message_type_of<inner>;
  EXPECT_TRUE(detail::two_types(message_type_of<inner>, unnamed));
  EXPECT_FALSE(detail::two_types(message_type_of<inner>, message_type_of<inner>));
}

// g++ 12 frees aggregate temporaries of a co_await expression twice; asks and tells refuse them.
TEST(MessageType, AggregatesAreUnsafe) {
  struct aggregate {
    std::string text;
  };
  EXPECT_TRUE(is_unsafe_message<aggregate>);
  EXPECT_FALSE(is_unsafe_message<inner>);
}

} // namespace
} // namespace godwit::runtime
