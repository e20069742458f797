#include <godwit/protocols/kv/cache_salt.hpp>

#include <array>
#include <bit>
#include <cstddef>

namespace godwit::protocols {

namespace {

struct sip_state {
  std::array<std::uint64_t, 4> v;

  void round() noexcept {
    v[0] += v[1];
    v[2] += v[3];
    v[1] = std::rotl(v[1], 13) ^ v[0];
    v[3] = std::rotl(v[3], 16) ^ v[2];
    v[0] = std::rotl(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = std::rotl(v[1], 17) ^ v[2];
    v[3] = std::rotl(v[3], 21) ^ v[0];
    v[2] = std::rotl(v[2], 32);
  }
  void take(std::uint64_t word) noexcept {
    v[3] ^= word;
    round();
    round();
    v[0] ^= word;
  }
};

} // namespace

std::uint64_t salt_of_tenant(std::string_view name, const salt_key& key) noexcept {
  sip_state state{{key.low ^ 0x736f6d6570736575ULL, key.high ^ 0x646f72616e646f6dULL, key.low ^ 0x6c7967656e657261ULL,
                   key.high ^ 0x7465646279746573ULL}};
  std::uint64_t word = 0;
  std::size_t at = 0;
  for (const char c : name) {
    word |= std::uint64_t{static_cast<unsigned char>(c)} << (8 * (at % 8));
    if (++at % 8 != 0) continue;
    state.take(word);
    word = 0;
  }
  state.take(word | std::uint64_t{name.size()} << 56U);
  state.v[2] ^= 0xff;
  for (int i = 0; i < 4; ++i) state.round();
  const auto salt = state.v[0] ^ state.v[1] ^ state.v[2] ^ state.v[3];
  return salt == 0 ? 1 : salt;
}

} // namespace godwit::protocols
