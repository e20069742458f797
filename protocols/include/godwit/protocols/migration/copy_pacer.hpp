#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace godwit::protocols {

/// How long a bulk copy rests after each portion, so that it takes its share of the link and no more.
///
/// Problem: the copy of a portion takes as long as the bytes need, and as long as its threads wait for a core, which on
/// a machine where all cores decode is most of it. Who rests a multiple of all that time copies the more slowly the
/// less it gets.
///
/// Contract: a portion costs what its bytes would have cost at the best pace of the last `remembered` portions (a
/// minimum over a window, as congestion control estimates a path without its queues); it rests so long that this is
/// `share` of cost and rest together, and never more than `rest_max`. What a portion waited beyond its cost counts as
/// rest already taken.
///
/// Where what is to be spared is not the link (cores that copy, and a slow network between them), a share of the link
/// is too little: `bytes_per_second` are then granted even where they are more than `share`, as long as they are at
/// most `share_max`.
///
/// However little that grants: all rests of a stretch (the bytes of a stage) take at most `stretch_max`, and none is
/// longer than `rest_max`, within which the other side has to hear something.
class copy_pacer {
public:
  static constexpr std::size_t remembered = 8;

  struct pace {
    double share = 1;            ///< 0 < share <= 1; 1: no rest
    double bytes_per_second = 0; ///< granted anyway ...
    double share_max = 1;        ///< ... up to this share
    std::chrono::nanoseconds stretch_max = std::chrono::minutes(1);
    std::chrono::nanoseconds rest_max = std::chrono::minutes(1);
  };

  explicit copy_pacer(pace granted) noexcept : granted_(granted) {}

  /// A portion of `bytes`, of a stretch of `stretch` bytes, has taken so long. The rest after it, never negative.
  [[nodiscard]] std::chrono::nanoseconds rest(std::uint64_t bytes, std::uint64_t stretch,
                                              std::chrono::nanoseconds took) noexcept;

private:
  pace granted_;
  std::array<double, remembered> paces_{}; ///< ns for a byte, of the last portions, in a ring
  std::size_t count_ = 0;
};

} // namespace godwit::protocols
