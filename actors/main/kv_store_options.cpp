#include "main/kv_store_options.hpp"
#include "main/scheduling_settings.hpp"

#include <godwit/gpu/cpu/cpu_device.hpp>
#include <godwit/protocols/kv/chunk_name.hpp>
#include <godwit/transport/files/disk.hpp>

#include <linux/magic.h>
#include <sys/vfs.h>

#include <algorithm>
#include <exception>
#include <string>

namespace godwit::main {

using protocols::expected;
using protocols::unexpected;

namespace {

constexpr double lookup_max_ms = 1000; // less than a front end waits for an admission

std::optional<std::string> wrong_with_kv_store(const serve_settings& s) {
  if (s.kv_store.disk_bytes > 0 && s.kv_store.bytes == 0)
    return "kv_store.disk_bytes: the disk is below a shard's memory, and there is none; set kv_store.bytes "
           "(--kv-store-bytes)";
  if (s.kv_store.disk_bytes == 0 && !s.kv_store.disk_directory.empty())
    return "kv_store.disk_directory: nothing is kept there without kv_store.disk_bytes (--kv-store-disk-bytes)";
  if (s.kv_store.bytes == 0) return std::nullopt;
  if (s.instances.count == 0) return "kv_store.bytes: a process without instances has no shard of the KV store";
  if (s.fabric.backend == fabric_choice::none)
    return "kv_store.bytes: with fabric.backend none no KV gets to a store, nor from it";
  if (!s.llumlet.prefix_caching)
    return "kv_store.bytes: without llumlet.prefix_caching nothing is looked up, in a store neither";
  if (s.llumlet.batching == protocols::batching_mode::static_batch)
    return "kv_store.bytes: llumlet.batching static computes every prompt; continuous can load KV";
  return std::nullopt;
}

start_error too_small(const std::string& setting, std::uint64_t chunk, std::uint64_t bytes) {
  return start_error{setting + ": a chunk of " + std::to_string(protocols::tokens_per_chunk) + " tokens has " +
                         std::to_string(chunk) + " bytes with this model, more than " + std::to_string(bytes),
                     2};
}

bool is_in_memory(const std::string& directory) {
  struct statfs found {};
  return ::statfs(directory.c_str(), &found) == 0 && found.f_type == TMPFS_MAGIC;
}

} // namespace

void declare_kv_store(runtime::config::registry& r, serve_settings& s) {
  r.add("kv_store.bytes", s.kv_store.bytes,
        {.doc =
             "Memory of this machine for a shard of the KV store, in which all instances of the cluster keep what "
             "they have computed of prompts and answers, and find what others have. It is taken as it fills. 0: this "
             "process has none; its instances use those of others.",
         .unit = "bytes",
         .min = 0,
         .flag = "--kv-store-bytes"});
  r.add("kv_store.disk_bytes", s.kv_store.disk_bytes,
        {.doc =
             "Of a disk of this machine, for what the shard's memory has no room for: what was used longest ago goes "
             "there, and is read again for whoever looks for it. 0: none, and it is forgotten.",
         .unit = "bytes",
         .min = 0,
         .flag = "--kv-store-disk-bytes"});
  r.add("kv_store.disk_directory", s.kv_store.disk_directory,
        {.doc =
             "Directory on that disk. A file without a name takes all of kv_store.disk_bytes there at the start, and "
             "is gone when the process ends, however it ends.",
         .flag = "--kv-store-disk-dir"});
  r.add("kv_store.load_min", s.kv_store.load_min,
        {.doc = "Tokens that a request has to gain over its instance's own prefix cache for its KV to be loaded from "
                "the store. Where computing is fast and the network slow, more than a chunk of 64.",
         .unit = "tokens",
         .min = 1,
         .max = 10'000'000});
  r.add("kv_store.lookup_timeout", s.kv_store.lookup_timeout,
        {.doc =
             "How long a request waits for a shard's word on what it has. One that is silent for so long is not asked "
             "for a second.",
         .unit = "ms",
         .min = 1,
         .max = lookup_max_ms});
  r.add("kv_store.load_timeout", s.kv_store.load_timeout,
        {.doc = "How long a request waits for KV that is loaded; then it computes what has not come.",
         .unit = "ms",
         .min = 1,
         .max = hour_ms});
  r.add("kv_store.put_timeout", s.kv_store.put_timeout,
        {.doc = "Longest time of bringing the KV of one request to the store; what has not gone by then stays away. As "
                "all of kv_store but bytes and the disk, the same in all processes of a cluster.",
         .unit = "ms",
         .min = 1,
         .max = hour_ms});
  r.add("kv_store.puts_max", s.kv_store.puts_max,
        {.doc = "Requests whose KV an instance brings to the store at a time. Paced as bulk copies of migrations are "
                "(migration.copy_share). 0: none, so that it only reads.",
         .unit = "requests",
         .min = 0,
         .max = 1024});
  r.relate([&s] { return wrong_with_kv_store(s); });
}

disk_shape kv_store_disk_shape(const serve_settings& settings, const actors::model_identity& identity) {
  const auto& from = settings.kv_store;
  const auto chunk = identity.kv_block_bytes * protocols::blocks_per_chunk;
  if (from.bytes == 0 || from.disk_bytes == 0 || chunk == 0) return {};
  return {static_cast<std::uint32_t>(
              std::min<std::uint64_t>(from.disk_bytes / chunk, actors::kv_store_settings::chunks_max)),
          chunk};
}

expected<std::shared_ptr<transport::disk>, start_error> make_kv_store_disk(const serve_settings& settings,
                                                                           const actors::model_identity& identity,
                                                                           const runtime::log::logger& log) {
  const auto& from = settings.kv_store;
  if (from.bytes == 0 || from.disk_bytes == 0) return std::shared_ptr<transport::disk>{};
  if (from.disk_directory.empty())
    return unexpected(start_error{"kv_store.disk_bytes: on which disk? Give a directory of it with "
                                  "kv_store.disk_directory (--kv-store-disk-dir)",
                                  2});
  const auto shape = kv_store_disk_shape(settings, identity);
  if (shape.slots == 0) return unexpected(too_small("kv_store.disk_bytes", shape.slot_bytes, from.disk_bytes));
  transport::files::disk_settings disk;
  disk.directory = from.disk_directory;
  disk.slots = shape.slots;
  disk.slot_bytes = shape.slot_bytes;
  try {
    auto made = transport::files::make_disk(disk);
    if (is_in_memory(disk.directory))
      log.component("node").warning("kv_store.disk_directory: {} is in memory, and no disk", disk.directory);
    return made;
  } catch (const std::exception& failure) {
    return unexpected(start_error{"kv_store.disk_directory: " + std::string(failure.what()) + " (for " +
                                      std::to_string(disk.slots * disk.slot_bytes) +
                                      " bytes); name a directory that can be written, or give kv_store.disk_bytes less",
                                  2});
  }
}

std::optional<start_error> check_kv_store(const serve_settings& settings, const actors::model_identity& identity) {
  const auto bytes = settings.kv_store.bytes;
  if (bytes == 0) return std::nullopt;
  if (const auto chunk = identity.kv_block_bytes * protocols::blocks_per_chunk; bytes < chunk)
    return too_small("kv_store.bytes", chunk, bytes);
  if (const auto available = gpu::cpu::available_memory_bytes(); bytes > available)
    return start_error{"kv_store.bytes: " + std::to_string(bytes) +
                           " bytes are more than this machine has available (" + std::to_string(available) +
                           "); give it less, and leave room for the KV caches",
                       2};
  return std::nullopt;
}

actors::kv_store_settings make_kv_store(const serve_settings& settings) {
  const auto& from = settings.kv_store;
  actors::kv_store_settings out;
  out.bytes = from.bytes;
  out.load_min = from.load_min;
  out.lookup_timeout = from.lookup_timeout;
  out.load_timeout = from.load_timeout;
  out.put_timeout = from.put_timeout;
  out.puts_max = from.puts_max;
  return out;
}

} // namespace godwit::main
