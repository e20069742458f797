#pragma once

#include <godwit/protocols/messages/adapter.hpp>

#include <cstdint>
#include <string_view>

namespace godwit::protocols {

/// What only the home knows, drawn anew with each start of it.
struct salt_key {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
};

/// The salt of a tenant's KV (`cache_salt` of a request; empty: of those who name none).
///
/// Problem: whoever can choose texts whose block hashes are equal can push another's prefixes out of the cache, and
/// whoever can find another tenant's salt can learn from the time of an answer what that one asked. So salts, by which
/// all block hashes are made, are a keyed hash (SipHash-2-4, Aumasson and Bernstein 2012): equal names have equal
/// salts, and without the key nothing more is known of them. Never 0, which is for requests that come by no home.
[[nodiscard]] std::uint64_t salt_of_tenant(std::string_view name, const salt_key& key) noexcept;

/// Of a tenant's KV that an adapter has its part in, which is another for each adapter; without one the salt itself.
[[nodiscard]] std::uint64_t salt_with(std::uint64_t salt, const adapter_ref& adapter) noexcept;

} // namespace godwit::protocols
