#pragma once

#include <godwit/protocols/adapters/adapter_shelf.hpp>
#include <godwit/protocols/messages/adapter.hpp>

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <vector>

namespace godwit::protocols {

/// Who waits for which adapter, and which one is to be brought next.
///
/// Problem: requests ask for adapters all the time, some of which are large, or come late, or are wanted by nobody any
/// more, and one must not keep the others waiting. Contract: one order for each adapter, however many ask; orders in
/// the order in which they came, but one that finds no room lets those behind it pass. An order that nobody waits for
/// any more goes, unless it is under way. One adapter is brought at a time.
///
/// Who asks has a number of its own, a ticket. Each that gets an adapter is one of its users, until `release`.
class adapter_orders {
public:
  using ticket = std::uint64_t;

  /// `waiting_max`: tickets that may wait.
  adapter_orders(std::uint64_t bytes_max, std::size_t waiting_max) : shelf_(bytes_max), waiting_max_(waiting_max) {}

  enum class asking : std::uint8_t {
    there,   ///< it lies here, and the asker uses it
    waits,   ///< the ticket will be among those of `brought` or `failed`, unless it leaves
    too_many ///< as many wait as may
  };
  [[nodiscard]] asking ask(const adapter_ref& which, ticket by);
  /// Who waited goes. Nothing where it waits no more.
  void leave(ticket who);

  /// What the caller is to do now, and say how it went before it asks again.
  struct work {
    enum class what : std::uint8_t {
      none,    ///< nothing before somebody asks or lets go
      measure, ///< find out how much it takes
      bring    ///< take the `evicted` away, then bring it
    };
    what kind = what::none;
    adapter_ref which;
    std::vector<std::uint64_t> evicted;
  };
  [[nodiscard]] work next();
  /// After `measure`. Those who waited in vain, where it takes more than there is.
  [[nodiscard]] std::vector<ticket> measured(std::uint64_t bytes);
  /// After `bring`: it lies here. The tickets, each of which uses it now; none where all have left.
  [[nodiscard]] std::vector<ticket> brought();
  /// After either: it cannot be had. Those who waited for it.
  [[nodiscard]] std::vector<ticket> failed();

  void release(std::uint64_t id) { shelf_.release(id); }
  [[nodiscard]] const adapter_shelf& shelf() const noexcept { return shelf_; }
  [[nodiscard]] std::size_t waiting() const noexcept { return waiting_; }

private:
  struct order {
    adapter_ref which;
    std::vector<ticket> by;
    std::optional<std::uint64_t> bytes; ///< once measured
  };
  /// Ends the order under way.
  [[nodiscard]] std::vector<ticket> end();

  adapter_shelf shelf_;
  std::size_t waiting_max_;
  std::size_t waiting_ = 0; ///< tickets
  std::list<order> orders_;
  std::optional<std::list<order>::iterator> under_way_;
};

} // namespace godwit::protocols
