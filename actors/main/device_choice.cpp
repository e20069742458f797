#include "main/device_choice.hpp"

#include "main/cuda_loader.hpp"

#include <filesystem>
#include <string>
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

/// Instances may be started here beyond those that this process begins with: autoscaling can be switched on at any
/// time.
bool may_grow(const serve_settings& settings) {
  const auto& scaling = settings.scaling;
  return scaling.provisioner == provisioner_choice::in_process &&
         (settings.instances.count > 0 || scaling.mode == protocols::scaling_mode::on);
}

/// Where NVIDIA's driver is, there is a GPU, and whoever has one wants to know why it has nothing to do.
bool driver_is_there() {
  std::error_code ignored;
  return std::filesystem::exists("/dev/nvidiactl", ignored);
}

chosen_device the_cpu(const std::string& why, bool of_interest, const runtime::log::logger& log) {
  if (of_interest)
    log.info("the CPU serves: {}", why);
  else
    log.debug("the CPU serves: {}", why);
  return {};
}

} // namespace

gpu::cuda::loaded_backend use_devices(std::shared_ptr<gpu::cuda::cuda_backend> found, const instance_devices& each,
                                      std::uint32_t instances, const runtime::log::logger& log) {
  const auto devices = found->devices();
  for (const auto& device : devices)
    log.info("GPU {}: {}, compute capability {}.{}, {} of {} MiB free", device.index, device.name, device.major,
             device.minor, device.free_bytes >> 20U, device.memory_bytes >> 20U);
  for (const auto& line : found->skipped()) log.warning("{}", line);
  if (auto wrong = refuse_devices(devices.size(), each); !wrong.empty()) return {nullptr, std::move(wrong), false};
  if (const auto spare = devices.size() % each.count; spare > 0)
    log.warning("{} {}: {} of the {} GPUs have no instance", each.flag(), each.count, spare, devices.size());
  if (const auto shared = shared_devices(devices.size(), each, instances); !shared.empty()) log.warning("{}", shared);
  return {std::move(found), {}, false};
}

std::string lacking_on_gpus(const gpu::model::config& model) {
  const bool lacking = model.kind == gpu::model::family::gemma3 || model.kind == gpu::model::family::gpt_oss;
  return lacking ? model.architecture : "";
}

protocols::expected<chosen_device, start_error>
choose_device_for(const gpu::model::config& model, serve_settings& settings, const runtime::log::logger& log) {
  const auto lacking = lacking_on_gpus(model);
  if (lacking.empty() || settings.instances.device == device_choice::cpu) return choose_device(settings, log);
  if (settings.instances.device == device_choice::automatic)
    return the_cpu("the CUDA kernels have no " + lacking, driver_is_there(), log);
  return protocols::unexpected(
      start_error{"--device cuda: the CUDA kernels have no " + lacking + "; --device cpu serves this model", 2});
}

protocols::expected<chosen_device, start_error> choose_device(serve_settings& settings,
                                                              const runtime::log::logger& log) {
  auto& wanted = settings.instances.device;
  if (wanted == device_choice::cpu) return chosen_device{};
  // A head whose members bring the instances starts no GPU, which would take memory of it. It says of its model's KV
  // what they say of theirs, so that `automatic` still asks whether there is one.
  const bool runs_none = settings.instances.count == 0 && !may_grow(settings);
  if (runs_none && wanted == device_choice::cuda) return chosen_device{};
  for (const auto& [type, name] : {std::pair{kv_choice::f32, "f32"}, std::pair{kv_choice::fp8, "fp8"}})
    if (wanted == device_choice::automatic && settings.instances.kv_type == type)
      return the_cpu(std::string("instances.kv_type is ") + name + ", and GPUs keep KV as the weights",
                     driver_is_there(), log);
  if (wanted == device_choice::automatic && !settings.lora.directory.empty())
    return the_cpu("lora.directory is given, and adapters are computed on the CPU only", driver_is_there(), log);
  gpu::cuda::cuda_options options;
  if (!may_grow(settings)) options.devices_max = settings.instances.count * devices_of(settings).count;
  options.notify = settings.instances.cuda_notify == notify_choice::polling ? gpu::cuda::notify_by::polling
                                                                            : gpu::cuda::notify_by::callback;
  options.small_pieces = settings.instances.cuda_copies == copies_choice::engines ? gpu::cuda::copy_by::engines
                                                                                  : gpu::cuda::copy_by::kernel;
  auto found = gpu::cuda::load_cuda(plugin_files(settings), options);
  if (runs_none) {
    if (found.backend) wanted = device_choice::cuda;
    return chosen_device{};
  }
  const auto& instances = settings.instances;
  if (found.backend) found = use_devices(std::move(found.backend), devices_of(settings), instances.count, log);
  if (found.backend) {
    wanted = device_choice::cuda;
    return std::move(found.backend);
  }
  if (wanted == device_choice::cuda)
    return protocols::unexpected(start_error{"--device cuda: " + found.why_not + "; --device cpu does without"});
  if (!found.plugin_missing && driver_is_there()) {
    log.warning("the CPU serves, beside a GPU: {}", found.why_not);
    return chosen_device{};
  }
  return the_cpu(found.why_not, !found.plugin_missing || driver_is_there(), log);
}

} // namespace godwit::main
