#include "cuda/memory_words.hpp"

#include "cpu/host_memory.hpp"

namespace godwit::gpu::cuda {

std::string does_not_fit(const std::string& device, const std::string& purpose, std::uint64_t bytes,
                         memory_state memory) {
  return purpose + " takes " + cpu::in_words(bytes) + "; " + device + " has " + cpu::in_words(memory.free_bytes) +
         " free of " + cpu::in_words(memory.total_bytes);
}

} // namespace godwit::gpu::cuda
