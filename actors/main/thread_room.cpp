#include "main/thread_room.hpp"

#include "main/loader.hpp"
#include "main/parts.hpp"

#include <latch>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

namespace godwit::main {

std::size_t threads_of(const serve_settings& settings) {
  constexpr std::size_t others = 16; // of connections, fabric, files, traces, timers, signals; a server has some 14
  constexpr std::size_t beside = 2;  // what leads a device, and copies for it
  const std::size_t computing = settings.instances.device == device_choice::cuda ? 2 : threads_per_instance(settings);
  return actor_threads(settings) + settings.instances.count * (computing + beside) + others;
}

std::optional<start_error> check_threads(std::size_t count) {
  std::latch all_there(1);
  std::vector<std::thread> threads;
  threads.reserve(count);
  std::optional<start_error> out;
  try {
    while (threads.size() < count) threads.emplace_back([&] { all_there.wait(); });
  } catch (const std::system_error& failure) {
    out = start_error{"this process gets " + std::to_string(threads.size()) + " threads and wants " +
                      std::to_string(count) + ": " + failure.code().message() +
                      "; raise the limit (ulimit -u, TasksMax, pids.max of its container), or lower --threads and "
                      "--runtime-worker-threads"};
  }
  all_there.count_down();
  for (auto& thread : threads) thread.join();
  return out;
}

} // namespace godwit::main
