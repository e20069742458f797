#pragma once

#include <godwit/protocols/batching/queue_order.hpp>
#include <godwit/protocols/policy/expected_latency.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace godwit::protocols {

/// Who was sent to an instance lately, as a picture of who will be: where a queue is not first come, first served, some
/// of those that come later start before one that waits (queue_order.hpp), and what is expected of it has to count
/// them.
///
/// The next ones are taken to come as the last ones did. By arrivals alone, without a clock. O(1) a request, and none
/// where all of them have been of one priority in a queue by arrival.
class recent_arrivals {
public:
  static constexpr std::size_t kept_max = 32;

  void add(const queue_rule& rule, const queued_request& r, const expected_work& work);
  void clear() noexcept;

  /// What comes within so many nanoseconds of this request's arrival and starts before it. Nothing while few are known.
  [[nodiscard]] expected_work overtaking(const queue_rule& rule, const queued_request& r,
                                         double within_ns) const noexcept;

private:
  struct one {
    queued_request who;
    expected_work work;
  };
  std::vector<one> kept_; ///< in a ring, once it is full
  std::size_t oldest_ = 0;
};

} // namespace godwit::protocols
