#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace godwit::protocols::jinja {

/// strftime in English and UTC: %Y %y %m %d %e %b %B %a %A %H %I %M %S %p %j %F %T %%; others stay as they are.
[[nodiscard]] std::string time_text(std::int64_t unix_time_s, std::string_view format);

} // namespace godwit::protocols::jinja
