#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace godwit::gpu::model::unicode {

/// Unicode's normalization forms (annex 15).
enum class form : std::uint8_t { nfc, nfd, nfkc, nfkd };

/// Whether form C leaves `text` (valid UTF-8) surely as it is. False: it may not.
[[nodiscard]] bool surely_nfc(std::string_view text);

/// `text` (valid UTF-8) in a form. Time n log n, at most 18 characters for one.
[[nodiscard]] std::string normalized(std::string_view text, form which);

} // namespace godwit::gpu::model::unicode
