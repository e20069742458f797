#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <tuple>

/// Identifiers that travel in messages.
///
/// Each is a class of its own, so that an instance id cannot be passed for a block id. All have a constructor (an
/// aggregate temporary inside a `co_await` expression is miscompiled by g++ 12, docs/design/coroutines.md) and
/// `fields()`, by which the runtime serialises every message.
namespace godwit::protocols {

template <class Tag, class Rep> class basic_id {
public:
  using rep = Rep;
  constexpr basic_id() noexcept = default;
  constexpr explicit basic_id(Rep value) noexcept : value_(value) {}
  [[nodiscard]] constexpr Rep value() const noexcept { return value_; }
  friend constexpr auto operator<=>(const basic_id&, const basic_id&) noexcept = default;
  auto fields() { return std::tie(value_); }

private:
  Rep value_ = 0;
};

/// A request, unique within its home front end: the home's number in the upper 16 bits, a counter below.
using request_id = basic_id<struct request_id_tag, std::uint64_t>;
/// A model instance of the cluster. Kept over restarts of its actors.
using instance_id = basic_id<struct instance_id_tag, std::uint32_t>;
/// Raised by the home with every change of a request's owner (docs/ARCHITECTURE.md, 4). 0: never dispatched.
using epoch = basic_id<struct epoch_tag, std::uint32_t>;
/// A KV block of one instance's pool, 0 .. pool size - 1.
using block_id = basic_id<struct block_id_tag, std::uint32_t>;
/// Room for one block in the host's memory, beside an instance's pool (kv/swap_ledger.hpp).
using swap_slot = basic_id<struct swap_slot_tag, std::uint32_t>;

/// A vocabulary entry. Plain, since kernels and files hold arrays of it.
using token_id = std::int32_t;

/// The number of the front end that accepted the request; its updates go there.
[[nodiscard]] constexpr std::uint16_t home_of(request_id id) noexcept {
  return static_cast<std::uint16_t>(id.value() >> 48U);
}
[[nodiscard]] constexpr request_id make_request_id(std::uint16_t home, std::uint64_t counter) noexcept {
  return request_id{(std::uint64_t{home} << 48U) | (counter & 0xFFFF'FFFF'FFFFULL)};
}

/// Of requests that nobody has sent: the steps by which an instance measures itself.
inline constexpr std::uint16_t nobodys_home = 0xFFFF;

/// Tokens per KV block, everywhere.
inline constexpr std::uint32_t tokens_per_block = 16;

} // namespace godwit::protocols

template <class Tag, class Rep> struct std::hash<godwit::protocols::basic_id<Tag, Rep>> {
  std::size_t operator()(const godwit::protocols::basic_id<Tag, Rep>& id) const noexcept {
    return std::hash<Rep>{}(id.value());
  }
};
