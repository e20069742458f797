#include "main/device_choice.hpp"

#include <godwit/gpu/cuda/cuda_plugin.hpp>

#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

namespace godwit::main {

namespace {

std::vector<std::filesystem::path> plugin_files(const serve_settings& settings) {
  if (!settings.instances.cuda_plugin.empty()) return {settings.instances.cuda_plugin};
  std::error_code ignored;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  return {program / gpu::cuda::plugin_name, program.parent_path() / "lib" / "godwit" / gpu::cuda::plugin_name};
}

} // namespace

protocols::expected<chosen_device, start_error> choose_device(serve_settings& settings,
                                                              const runtime::log::logger& log) {
  auto& wanted = settings.instances.device;
  if (wanted == device_choice::cpu) return chosen_device{};
  // What GPUs do not do yet, and a KV type that they do not have: they keep KV as the weights.
  if (wanted == device_choice::automatic &&
      (settings.instances.kv_type == kv_choice::f32 || settings.instances.tensor_parallel > 1))
    return chosen_device{};
  gpu::cuda::cuda_options options;
  options.notify = settings.instances.cuda_notify == notify_choice::polling ? gpu::cuda::notify_by::polling
                                                                            : gpu::cuda::notify_by::callback;
  auto found = gpu::cuda::load_cuda(plugin_files(settings), options);
  if (found.backend) {
    for (const auto& device : found.backend->devices())
      log.info("GPU {}: {}, compute capability {}.{}, {} of {} MiB free", device.index, device.name, device.major,
               device.minor, device.free_bytes >> 20U, device.memory_bytes >> 20U);
    for (const auto& line : found.backend->skipped()) log.warning("{}", line);
    wanted = device_choice::cuda;
    return std::move(found.backend);
  }
  if (wanted == device_choice::cuda)
    return protocols::unexpected(start_error{"--device cuda: " + found.why_not + "; --device cpu does without"});
  if (found.plugin_missing)
    log.debug("the CPU serves: {}", found.why_not);
  else
    log.info("the CPU serves: {}", found.why_not);
  return chosen_device{};
}

} // namespace godwit::main
