#include "fabric/peer.hpp"

#include <godwit/gpu/cpu/cpu_device.hpp>
#include <godwit/gpu/shared_memory.hpp>
#include <godwit/transport/ucx/fabric.hpp>

#include <algorithm>
#include <cstring>
#include <iostream>
#include <random>
#include <sstream>
#include <stdexcept>

#include <sys/mman.h>

namespace godwit::bench {

namespace {
constexpr std::size_t memory_bytes = std::size_t{128} << 20;
constexpr std::size_t huge_page = std::size_t{2} << 20;
} // namespace

std::shared_ptr<transport::fabric> make_bench_fabric(bool shared_memory) {
  transport::ucx::settings options;
  options.cross_memory = shared_memory;
  options.shared_memory = gpu::find_shared_memory;
  return transport::ucx::make_fabric(options);
}

bench_memory::bench_memory(bool shared_memory, bool written) {
  if (shared_memory) {
    device_ = gpu::cpu::make_cpu_device({.threads = 1});
    pool_ = device_->memory().allocate_shared(memory_bytes, "what is sent");
    start_ = pool_.data();
  } else {
    mapping_ = ::mmap(nullptr, memory_bytes + huge_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping_ == MAP_FAILED) throw std::runtime_error("no memory");
    start_ = static_cast<std::byte*>(mapping_) + (huge_page - reinterpret_cast<std::uintptr_t>(mapping_) % huge_page);
    // Where the kernel does not know the advice, there are no huge pages for the reference either.
    (void)::madvise(mapping_, memory_bytes + huge_page, MADV_HUGEPAGE);
  }
  if (written) std::memset(start_, 1, memory_bytes);
}

bench_memory::~bench_memory() {
  if (mapping_ != nullptr) ::munmap(mapping_, memory_bytes + huge_page);
}

std::vector<protocols::memory_region> bench_memory::scattered(std::size_t total, std::size_t bytes_per_region) const {
  std::vector<protocols::memory_region> out;
  const auto distance = bytes_per_region == total ? total : 2 * bytes_per_region;
  for (std::size_t i = 0; i < total / bytes_per_region; ++i) out.push_back({start_ + i * distance, bytes_per_region});
  std::shuffle(out.begin(), out.end(), std::mt19937(1));
  return out;
}

fabric_peer::fabric_peer(bool shared_memory)
    : process_({"/proc/self/exe", "--peer", shared_memory ? "shm" : "tcp"}), address_(process_.hear()) {}

void fabric_peer::post(std::uint64_t first, std::uint32_t count, std::size_t total, std::size_t bytes_per_region) {
  process_.tell("post " + std::to_string(first) + " " + std::to_string(count) + " " + std::to_string(total) + " " +
                std::to_string(bytes_per_region));
  (void)process_.hear();
}

void fabric_peer::withdraw(std::uint64_t first, std::uint32_t count) {
  process_.tell("withdraw " + std::to_string(first) + " " + std::to_string(count));
  (void)process_.hear();
}

int serve_as_peer(bool shared_memory) {
  const auto fabric = make_bench_fabric(shared_memory);
  const bench_memory memory(shared_memory, true);
  std::cout << fabric->address() << std::endl;
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::string verb;
    std::uint64_t first = 0;
    std::uint32_t count = 0;
    std::size_t total = 0, bytes_per_region = 0;
    words >> verb >> first >> count >> total >> bytes_per_region;
    if (verb == "post") {
      const auto regions = memory.scattered(total, bytes_per_region);
      for (std::uint32_t i = 0; i < count; ++i)
        fabric->post({first + i, 1}, regions, {}, [](const transport::landing&) {});
    } else {
      for (std::uint32_t i = 0; i < count; ++i) fabric->withdraw({first + i, 1}, [] {});
    }
    std::cout << "done" << std::endl;
  }
  return 0;
}

} // namespace godwit::bench
