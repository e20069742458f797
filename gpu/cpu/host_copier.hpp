#pragma once

#include <godwit/protocols/messages/memory_copier.hpp>

#include <memory>

namespace godwit::gpu::cpu {

/// Copies host memory on a thread of its own, one copy after the other, for what would else stand behind the steps of a
/// device of this process's threads. Its memory is the system's.
[[nodiscard]] std::shared_ptr<protocols::memory_copier> make_host_copier();

} // namespace godwit::gpu::cpu
