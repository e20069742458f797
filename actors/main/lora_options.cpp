#include "main/lora_options.hpp"

#include <filesystem>
#include <system_error>

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

std::shared_ptr<const gpu::model::adapter_directory> make_adapters(const serve_settings& settings) {
  if (settings.lora.directory.empty()) return nullptr;
  return std::make_shared<const gpu::model::adapter_directory>(settings.lora.directory);
}

} // namespace godwit::main
