#pragma once

#include <string>

namespace godwit::transport {

/// 16 hexadecimal digits that no other fabric has, in this process or another: not even one that got the same process
/// id and port.
[[nodiscard]] std::string random_identity();

} // namespace godwit::transport
