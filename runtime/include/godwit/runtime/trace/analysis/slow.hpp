#pragma once

#include <godwit/runtime/trace/analysis/index.hpp>
#include <godwit/runtime/trace/analysis/requests.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace godwit::runtime::trace::analysis {

/// What a request's time went into.
enum class spent : std::uint8_t {
  handling, ///< an actor handled a message of the path
  queueing, ///< a message of the path lay in a mailbox
  network,  ///< ... was on its way to another process
  device,   ///< a device ran a step
  transfer, ///< blocks were copied
  timer,    ///< an actor slept
  held,     ///< an actor had the request and was waiting for something else: for steps that others had a place in
  http,     ///< reading the HTTP request, and writing the rest of its answer
  other     ///< between a message and its effect, and nothing recorded says what
};
inline constexpr std::size_t spent_kinds = 9;
[[nodiscard]] std::string_view to_string(spent what) noexcept;

struct path_step {
  position what = nowhere; ///< the message, or the span, that the time was spent on
  spent how = spent::other;
  std::int64_t begin_ns = 0; ///< on the first process's clock
  std::int64_t end_ns = 0;
  [[nodiscard]] std::int64_t duration_ns() const noexcept { return end_ns - begin_ns; }
};

/// From a request's beginning to its end without a hole: each step begins where the one before it ended.
///
/// Found backwards, from the last message that brought it tokens, along causes. A step of a device that serves several
/// requests is caused by the step before it, and so by whoever woke the engine: there the path goes over to the last
/// message about this request that the same actor had handled until then.
struct request_path {
  model_request request;
  std::vector<path_step> steps; ///< by time, none of them empty
  std::vector<position> events; ///< the messages of the path, first to last
  std::array<std::int64_t, spent_kinds> sums{};
  bool whole = true; ///< false: causes are missing, the time before them counts as `other`
  [[nodiscard]] std::int64_t sum(spent what) const noexcept { return sums[static_cast<std::size_t>(what)]; }
};

[[nodiscard]] request_path critical_path(const index& of, const model_request& request);

/// The requests that took longest, the longest first.
[[nodiscard]] std::vector<model_request> slowest(std::vector<model_request> all, std::size_t count);

/// Steps of one type and kind, summed up; the most time first.
struct path_part {
  std::string name; ///< qualified
  spent how = spent::other;
  std::size_t count = 0;
  std::int64_t ns = 0;
};
[[nodiscard]] std::vector<path_part> parts_of(const index& of, const request_path& path);

} // namespace godwit::runtime::trace::analysis
