#include <godwit/actors/interfaces.hpp>

#include <gtest/gtest.h>

#include <utility>

namespace godwit::actors {
namespace {

using protocols::instance_id;

topology of_two() {
  topology news;
  news.version = 3;
  news.instances = instance_list::entries{{instance_id{0}, 1, true, {}}, {instance_id{4}, 2, false, {}}};
  return news;
}

// A thousand members of one process keep a topology of a thousand entries each.
TEST(Topology, CopiesShareTheirEntries) {
  const auto news = of_two();
  const auto copy = news;
  EXPECT_EQ(&copy.instances[0], &news.instances[0]);
}

TEST(Topology, WhoChangesItsEntriesHasItsOwn) {
  const auto news = of_two();
  auto copy = news;
  copy.instances.edit()[1].draining = true;
  EXPECT_TRUE(copy.find(instance_id{4})->draining);
  EXPECT_FALSE(news.find(instance_id{4})->draining);
}

TEST(Topology, IsOnTheWireWhatItWouldBeWithAVector) {
  const auto news = of_two();
  runtime::wire_writer list, vector;
  runtime::wire_write(list, news.instances);
  runtime::wire_write(vector, news.instances.all());
  EXPECT_EQ(list.bytes, vector.bytes);

  runtime::wire_writer out;
  runtime::wire_write(out, news);
  runtime::wire_reader in{out.bytes, out.actors};
  topology read;
  runtime::wire_read(in, read);
  EXPECT_TRUE(in.ok());
  EXPECT_EQ(read.version, 3U);
  ASSERT_EQ(read.instances.size(), 2U);
  EXPECT_EQ(read.find(instance_id{4})->generation, 2U);
}

} // namespace
} // namespace godwit::actors
