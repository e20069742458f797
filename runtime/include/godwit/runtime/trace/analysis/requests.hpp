#pragma once

#include <godwit/runtime/trace/analysis/index.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace godwit::runtime::trace::analysis {

/// A model request that a recording tells of.
struct model_request {
  std::uint64_t id = 0;
  std::string client_id;   ///< as its client sees it (`cmpl-...`); empty: not recorded
  std::string target;      ///< of its HTTP request
  std::string outcome;     ///< its HTTP status, `abandoned`, or without HTTP what its home noted at its end
  position http = nowhere; ///< its HTTP request's span
  position first = nowhere;
  position last = nowhere;
  std::int64_t begin_ns = 0; ///< of the HTTP request, or of the first event about it
  std::int64_t end_ns = 0;
  std::size_t events = 0; ///< about it alone
  [[nodiscard]] std::int64_t duration_ns() const noexcept { return end_ns - begin_ns; }
};

/// By their beginning.
[[nodiscard]] std::vector<model_request> model_requests(const index& of);

/// Which one somebody means: a number, what its client calls it, `last` (begun last) or `slowest`.
[[nodiscard]] std::optional<model_request> find_request(const std::vector<model_request>& all, std::string_view text);

/// What is about it, what came of its HTTP request before it had a number, the device's steps that name it, and the
/// messages around these, which may be about others too. By time.
[[nodiscard]] std::vector<position> events_of(const index& of, std::uint64_t request);

/// An event and all that followed from it, by time. An engine's steps follow from each other for as long as it has
/// work, and so are reached from the request that woke it.
[[nodiscard]] std::vector<position> reachable(const index& of, position root);

/// Numbers in an attribute: `3`, `3 4`, `3,4`.
[[nodiscard]] std::vector<std::uint64_t> numbers_in(std::string_view text);

} // namespace godwit::runtime::trace::analysis
