#pragma once

#include <godwit/runtime/trace/page_json.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace godwit::runtime::trace {

/// Which events go to the page.
struct page_selection {
  std::vector<std::size_t> indexes; ///< into recording::events, rising
  std::int64_t origin_ns = 0;       ///< when the earliest of them was queued or began
  std::size_t older = 0;            ///< left out for page_json_options::events_max
  std::size_t others = 0;           ///< left out as nothing that page_json_options::requests asks for

  /// The position in `indexes` of an event.
  [[nodiscard]] std::optional<std::size_t> find(event_id id) const;

  std::vector<std::pair<event_id, std::size_t>> positions; ///< by id
};

[[nodiscard]] page_selection choose(const recording& from, const page_json_options& options);

} // namespace godwit::runtime::trace
