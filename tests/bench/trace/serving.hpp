#pragma once

namespace godwit::bench {

/// Seconds for which `godwit demo`'s requests keep a server busy, over HTTP, on the built-in model.
[[nodiscard]] double serve_requests(bool flight_recorder);

} // namespace godwit::bench
