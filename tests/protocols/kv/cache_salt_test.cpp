#include <godwit/protocols/kv/cache_salt.hpp>

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace godwit::protocols {
namespace {

// The first vectors of the reference implementation: key 00 01 .. 0f, messages of 0, 1, 2, ... bytes 00 01 02 ...
TEST(CacheSalt, IsSipHash) {
  const salt_key key{0x0706050403020100ULL, 0x0f0e0d0c0b0a0908ULL};
  const std::uint64_t expected[] = {0x726fdb47dd0e0e31ULL, 0x74f839c593dc67fdULL, 0x0d6c8009d9a94f5aULL,
                                    0x85676696d7fb7e2dULL, 0xcf2794e0277187b7ULL, 0x18765564cd99a68dULL,
                                    0xcbc9466e58fee3ceULL, 0xab0200f58b01d137ULL, 0x93f5f5799a932462ULL};
  std::string message;
  for (const auto value : expected) {
    EXPECT_EQ(salt_of_tenant(message, key), value) << message.size() << " bytes";
    message += static_cast<char>(message.size());
  }
}

TEST(CacheSalt, DiffersByTenantAndByKey) {
  std::set<std::uint64_t> salts;
  for (const char* name : {"", "a", "b", "tenant-1", "tenant-2"})
    for (std::uint64_t key = 0; key < 4; ++key) salts.insert(salt_of_tenant(name, {key, 1}));
  EXPECT_EQ(salts.size(), 20U);
}

} // namespace
} // namespace godwit::protocols
