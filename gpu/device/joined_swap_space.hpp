#pragma once

#include <godwit/gpu/swap_space.hpp>

#include <memory>
#include <vector>

namespace godwit::gpu {

/// The swap spaces of pools that have a part of each block each, as one: a slot is the same one in all. Null where one
/// of them is.
[[nodiscard]] std::shared_ptr<swap_space> join_swap_spaces(std::vector<std::shared_ptr<swap_space>> parts);

} // namespace godwit::gpu
