#pragma once

#include <godwit/protocols/provisioning/provisioning.hpp>

#include <string>

namespace godwit::protocols {

/// An instance as the log calls it.
inline std::string numbered(instance_id id) { return "instance " + std::to_string(id.value()); }

} // namespace godwit::protocols
