#include "fabric/peer.hpp"

#include <godwit/transport/ucx/fabric.hpp>

#include <algorithm>
#include <iostream>
#include <random>
#include <sstream>

namespace godwit::bench {

namespace {
constexpr std::size_t memory_bytes = std::size_t{130} << 20;
}

std::shared_ptr<transport::fabric> make_bench_fabric(bool shared_memory) {
  transport::ucx::settings options;
  options.cross_memory = shared_memory;
  return transport::ucx::make_fabric(options);
}

std::vector<std::byte> bench_memory() { return std::vector<std::byte>(memory_bytes, std::byte{1}); }

std::vector<protocols::memory_region> scattered(std::vector<std::byte>& memory, std::size_t total,
                                                std::size_t bytes_per_region) {
  std::vector<protocols::memory_region> out;
  const auto distance = bytes_per_region == total ? total : 2 * bytes_per_region;
  for (std::size_t i = 0; i < total / bytes_per_region; ++i)
    out.push_back({memory.data() + i * distance, bytes_per_region});
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
  auto memory = bench_memory();
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
      const auto regions = scattered(memory, total, bytes_per_region);
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
