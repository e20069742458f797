#pragma once

#include <string>
#include <string_view>

namespace godwit::main {

/// The page that shows a recording: HTML with its script and style inside, made of trace_page/ while building. It asks
/// for `recording.json` beside it, unless it holds a recording itself.
[[nodiscard]] std::string_view trace_page() noexcept;

/// The page with a recording inside; `json` as page_json gives it, without '<'.
[[nodiscard]] std::string trace_page_with(std::string_view json);

} // namespace godwit::main
