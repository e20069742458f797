#include "main/kv_store_options.hpp"

#include <godwit/gpu/cpu/cpu_device.hpp>
#include <godwit/protocols/kv/chunk_name.hpp>

#include <string>

namespace godwit::main {

namespace {

constexpr double hour_ms = 3'600'000;
constexpr double lookup_max_ms = 1000; // less than a front end waits for an admission

std::optional<std::string> wrong_with_kv_store(const serve_settings& s) {
  if (s.kv_store.bytes == 0) return std::nullopt;
  if (s.instances.count == 0) return "kv_store.bytes: a process without instances has no shard of the KV store";
  if (s.fabric.backend == fabric_choice::none)
    return "kv_store.bytes: with fabric.backend none no KV gets to a store, nor from it";
  if (!s.llumlet.prefix_caching)
    return "kv_store.bytes: without llumlet.prefix_caching nothing is looked up, in a store neither";
  if (s.llumlet.batching == batching_choice::fixed)
    return "kv_store.bytes: llumlet.batching static computes every prompt; continuous can load KV";
  return std::nullopt;
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
                "all of kv_store but bytes, the same in all processes of a cluster.",
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

std::optional<start_error> check_kv_store(const serve_settings& settings, const actors::model_identity& identity) {
  const auto bytes = settings.kv_store.bytes;
  if (bytes == 0) return std::nullopt;
  if (const auto chunk = identity.kv_block_bytes * protocols::blocks_per_chunk; bytes < chunk)
    return start_error{"kv_store.bytes: a chunk of " + std::to_string(protocols::tokens_per_chunk) + " tokens has " +
                           std::to_string(chunk) + " bytes with this model, more than " + std::to_string(bytes),
                       2};
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
