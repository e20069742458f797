#include <godwit/protocols/kv/cache_salt.hpp>

#include "kv/sip_hash.hpp"

#include <cstddef>

namespace godwit::protocols {

std::uint64_t salt_of_tenant(std::string_view name, const salt_key& key) noexcept {
  sip_hash hash(key.low, key.high, sip_hash::width::bits64);
  std::uint64_t word = 0;
  std::size_t at = 0;
  for (const char c : name) {
    word |= std::uint64_t{static_cast<unsigned char>(c)} << (8 * (at % 8));
    if (++at % 8 != 0) continue;
    hash.take(word);
    word = 0;
  }
  hash.take(word | std::uint64_t{name.size()} << 56U);
  const auto salt = hash.first();
  return salt == 0 ? 1 : salt;
}

std::uint64_t salt_with(std::uint64_t salt, const adapter_ref& adapter) noexcept {
  if (!adapter) return salt;
  sip_hash hash(salt, adapter.id, sip_hash::width::bits64);
  hash.take(salt);
  const auto own = hash.first();
  return own == 0 ? 1 : own;
}

} // namespace godwit::protocols
