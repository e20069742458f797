#include "main/lora_options.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

namespace godwit::main {

namespace {

constexpr std::uint64_t adapter_bytes_least = 1U << 20U;
constexpr std::uint64_t adapter_bytes_most = std::uint64_t{1} << 50U;

} // namespace

void declare_lora(runtime::config::registry& r, serve_settings& s) {
  r.add("lora.directory", s.lora.directory,
        {.doc = "Directory of low-rank adapters (LoRA) of the model, each a directory as PEFT writes it. Clients name "
                "an adapter as the model. It is loaded when it is first asked for; adapters may be added and removed "
                "at any time. Every process that is to serve them has such a directory. Empty: no adapters.",
         .flag = "--lora-dir"});
  r.add("lora.bytes_max", s.lora.bytes_max,
        {.doc = "Memory that the adapters of this process take at most. Those that no request uses make room for "
                "others, whoever was used longest ago first; a request whose adapter finds no room waits.",
         .unit = "bytes",
         .min = static_cast<double>(adapter_bytes_least),
         .max = static_cast<double>(adapter_bytes_most),
         .flag = "--lora-bytes-max"});
  r.relate([&s]() -> std::optional<std::string> {
    if (!s.lora.directory.empty() && s.instances.device == device_choice::cuda)
      return "lora.directory: adapters are computed on the CPU only, as yet; give --device cpu, or no --lora-dir";
    return std::nullopt;
  });
}

std::optional<start_error> check_lora(const serve_settings& settings) {
  const auto& path = settings.lora.directory;
  if (path.empty()) return std::nullopt;
  std::error_code error;
  if (!std::filesystem::is_directory(path, error))
    return start_error{"lora.directory: '" + path + "' is no directory" + (error ? ": " + error.message() : ""), 2};
  if (std::filesystem::exists(std::filesystem::path(path) / "adapter_config.json", error))
    return start_error{"lora.directory: '" + path + "' is an adapter itself; name the directory that it lies in", 2};
  (void)std::filesystem::directory_iterator(path, error);
  if (error) return start_error{"lora.directory: '" + path + "' cannot be listed: " + error.message(), 2};
  return std::nullopt;
}

std::vector<runtime::metrics::registry::registration>
add_adapter_metrics(runtime::metrics::registry& metrics, std::shared_ptr<const gpu::adapter_store> store) {
  const auto read = [store = std::move(store)](std::uint64_t gpu::adapter_counts::*what) {
    return [store, what] { return store ? static_cast<double>(store->counts().*what) : 0.0; };
  };
  using counts = gpu::adapter_counts;
  std::vector<runtime::metrics::registry::registration> all;
  all.push_back(metrics.add_callback_gauge("godwit_adapters", "Low-rank adapters in this process's memory.",
                                           read(&counts::adapters)));
  all.push_back(metrics.add_callback_gauge("godwit_adapter_bytes", "Memory that they take.", read(&counts::bytes)));
  all.push_back(metrics.add_callback_gauge("godwit_adapter_bytes_max", "Memory that they may take (lora.bytes_max).",
                                           read(&counts::bytes_max)));
  all.push_back(metrics.add_callback_counter("godwit_adapter_loads_total", "Adapters that were loaded.",
                                             read(&counts::loads_total)));
  all.push_back(metrics.add_callback_counter("godwit_adapter_evictions_total", "Adapters that made room for others.",
                                             read(&counts::evictions_total)));
  all.push_back(metrics.add_callback_counter("godwit_adapter_failures_total", "Loads that came to nothing.",
                                             read(&counts::failures_total)));
  return all;
}

std::shared_ptr<const gpu::model::adapter_directory> make_adapters(const serve_settings& settings) {
  if (settings.lora.directory.empty()) return nullptr;
  return std::make_shared<const gpu::model::adapter_directory>(settings.lora.directory);
}

} // namespace godwit::main
