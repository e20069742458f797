#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace godwit::protocols::jinja {

/// strftime in English and UTC: %Y %y %m %d %e %b %B %a %A %H %I %M %S %p %j %F %T %D %R %c %x %X %%, numbers also
/// without padding (%-d); %Z and %z are nothing, as for Python's datetime.now(). Others stay as they are.
[[nodiscard]] std::string time_text(std::int64_t unix_time_s, std::string_view format);

} // namespace godwit::protocols::jinja
