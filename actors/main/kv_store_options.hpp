#pragma once

#include "main/settings.hpp"
#include "main/start_error.hpp"

#include <godwit/actors/kv_store_settings.hpp>
#include <godwit/actors/membership.hpp>
#include <godwit/protocols/expected.hpp>
#include <godwit/runtime/log/logger.hpp>
#include <godwit/transport/disk.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

/// What the settings say about the KV store.
namespace godwit::main {

void declare_kv_store(runtime::config::registry& registry, serve_settings& settings);

/// What this machine and this model make wrong of kv_store.bytes.
[[nodiscard]] std::optional<start_error> check_kv_store(const serve_settings& settings,
                                                        const actors::model_identity& identity);

/// How the disk below this process's shard is cut: a chunk a slot. No slots: there is none.
struct disk_shape {
  std::uint32_t slots = 0;
  std::size_t slot_bytes = 0;
};
[[nodiscard]] disk_shape kv_store_disk_shape(const serve_settings& settings, const actors::model_identity& identity);

/// The disk below this process's shard. Null: it has none.
[[nodiscard]] protocols::expected<std::shared_ptr<transport::disk>, start_error>
make_kv_store_disk(const serve_settings& settings, const actors::model_identity& identity,
                   const runtime::log::logger& log);

[[nodiscard]] actors::kv_store_settings make_kv_store(const serve_settings& settings);

} // namespace godwit::main
