#include "main/swap_options.hpp"

#include <godwit/gpu/cpu/cpu_device.hpp>

#include <algorithm>
#include <string>

namespace godwit::main {

namespace {

using protocols::preemption_mode;

std::optional<std::string> wrong_with_swap(const serve_settings& s) {
  if (s.llumlet.preemption == preemption_mode::swap && s.llumlet.swap_bytes == 0)
    return "llumlet.preemption: swap needs memory of the host; set llumlet.swap_bytes (--swap-bytes)";
  if (s.llumlet.swap_bytes > 0 && s.llumlet.batching == protocols::batching_mode::static_batch)
    return "llumlet.swap_bytes: llumlet.batching static preempts nobody; continuous can swap";
  return std::nullopt;
}

} // namespace

void declare_swap(runtime::config::registry& r, serve_settings& s) {
  r.add("llumlet.preemption", s.llumlet.preemption,
        {{"adaptive", preemption_mode::adaptive},
         {"recompute", preemption_mode::recompute},
         {"swap", preemption_mode::swap}},
        {.doc =
             "What becomes of the KV of a request that loses its blocks to others: recompute forgets it and computes "
             "it again; swap takes it to the host's memory and brings it back (llumlet.swap_bytes); adaptive does "
             "whichever is expected to take less, as the instance's own steps and copies were.",
         .flag = "--preemption"});
  r.add("llumlet.swap_bytes", s.llumlet.swap_bytes,
        {.doc = "Memory of the host, for each instance, in which the KV of preempted requests waits; of a GPU's, page-"
                "locked. 0: none, and all is recomputed. Of no use to a CPU's instances, whose KV cache is in the same "
                "memory: give them a larger one.",
         .unit = "bytes",
         .min = 0,
         .flag = "--swap-bytes"});
  r.relate([&s] { return wrong_with_swap(s); });
}

std::uint64_t swap_bytes_of(const serve_settings& settings) {
  return settings.llumlet.preemption == preemption_mode::recompute ? 0 : settings.llumlet.swap_bytes;
}

std::optional<start_error> check_swap(const serve_settings& settings, const actors::model_identity& identity) {
  const auto bytes = swap_bytes_of(settings);
  if (bytes == 0 || settings.instances.count == 0) return std::nullopt;
  const auto given = "llumlet.swap_bytes: " + std::to_string(bytes);
  if (bytes < identity.kv_block_bytes)
    return start_error{given + " is less than a block of KV, which has " + std::to_string(identity.kv_block_bytes) +
                           " bytes with this model; give it more (as in --swap-bytes 4GiB), or 0",
                       2};
  // A CPU's KV caches lie in the same memory, and so does a shard of the KV store.
  const auto count = std::uint64_t{settings.instances.count};
  const auto kv = settings.instances.device == device_choice::cuda ? 0 : settings.instances.kv_bytes;
  const auto available = gpu::cpu::available_memory_bytes();
  const auto store = std::min<std::uint64_t>(settings.kv_store.bytes, available);
  const auto each = (available - store) / count;
  if (const auto room = each > kv ? each - kv : 0; bytes > room)
    return start_error{given + " for each of " + std::to_string(count) +
                           " instances is more than this machine has available for each of them beside its KV cache (" +
                           std::to_string(room) + " bytes); give it less",
                       2};
  return std::nullopt;
}

} // namespace godwit::main
