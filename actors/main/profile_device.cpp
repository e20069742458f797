#include "main/profile_device.hpp"

#include "main/cuda_loader.hpp"
#include "main/loader.hpp"
#include "main/profile_measure.hpp"

#include <godwit/gpu/cpu/cpu_executor.hpp>
#include <godwit/gpu/cpu/packed_model.hpp>

#include <algorithm>
#include <optional>
#include <utility>

namespace godwit::main {

namespace {

class profiled_cpu final : public profiled_device {
public:
  profiled_cpu(gpu::model::model_directory model, const serve_settings& settings)
      : model_(std::move(model)), threads_(threads_per_instance(settings)), instances_(settings.instances.count) {}

  [[nodiscard]] std::string short_name() const override { return "cpu"; }

  [[nodiscard]] std::shared_ptr<gpu::executor> make_executor() override {
    if (!packed_) packed_ = gpu::cpu::pack_model(model_.configuration, *model_.tensors, threads_ * instances_);
    gpu::cpu::cpu_executor_settings settings;
    settings.threads = threads_;
    return gpu::cpu::make_cpu_executor(packed_, settings);
  }

  [[nodiscard]] copy_rates measure_copies(std::shared_ptr<gpu::executor> last) override {
    const auto rate = measure_block_copies(*last);
    return {rate, rate, rate,
            "instances share this machine: KV moves at the rate of copying it in memory, without latency"};
  }

private:
  gpu::model::model_directory model_;
  std::uint32_t threads_, instances_;
  std::shared_ptr<const gpu::cpu::packed_model> packed_;
};

/// "NVIDIA A100-SXM4-40GB": "nvidia-a100-sxm4-40gb".
std::string short_name_of(const std::string& device) {
  std::string out;
  for (const char c : device) {
    const bool upper = c >= 'A' && c <= 'Z';
    if (upper || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'))
      out += upper ? static_cast<char>(c - 'A' + 'a') : c;
    else if (!out.empty() && out.back() != '-')
      out += '-';
  }
  while (out.ends_with('-')) out.pop_back();
  return out.empty() ? "cuda" : out;
}

class profiled_gpus final : public profiled_device {
public:
  profiled_gpus(chosen_device gpus, gpu::model::model_directory model, const serve_settings& settings,
                const runtime::log::logger& log)
      : gpus_(std::move(gpus)), first_(gpus_->devices().front()),
        shared_(settings.instances.count > gpus_->devices().size()),
        loader_(std::in_place, gpus_, std::move(model), settings, log) {}

  [[nodiscard]] std::string short_name() const override { return short_name_of(first_.name); }

  [[nodiscard]] std::shared_ptr<gpu::executor> make_executor() override {
    return loader_->make(protocols::instance_id(made_++));
  }

  [[nodiscard]] copy_rates measure_copies(std::shared_ptr<gpu::executor> last) override {
    // They have nearly all of the memory.
    last.reset();
    loader_.reset();
    // More than caches hold, and little of a small device.
    const auto bytes = std::min(first_.memory_bytes / 64 / 16 * 16, std::uint64_t{256} << 20U);
    return measure_device_copies(*gpus_->make_probe(0), bytes, shared_);
  }

private:
  chosen_device gpus_;
  gpu::cuda::cuda_device_info first_;
  bool shared_;
  std::optional<cuda_loader> loader_;
  std::uint32_t made_ = 0;
};

} // namespace

std::unique_ptr<profiled_device> profile_cpu(gpu::model::model_directory model, const serve_settings& settings) {
  return std::make_unique<profiled_cpu>(std::move(model), settings);
}

std::unique_ptr<profiled_device> profile_gpus(chosen_device gpus, gpu::model::model_directory model,
                                              const serve_settings& settings, const runtime::log::logger& log) {
  return std::make_unique<profiled_gpus>(std::move(gpus), std::move(model), settings, log);
}

copy_rates measure_device_copies(gpu::cuda::cuda_probe& on, std::uint64_t bytes, bool shared) {
  constexpr std::uint32_t runs = 9;
  using route = gpu::cuda::copy_route;
  const auto rate = [&](route way) { return static_cast<double>(bytes) / on.copy(way, bytes, runs); };
  const auto within = rate(route::within_device);
  const auto host = std::min(rate(route::from_device), rate(route::to_device));
  if (shared)
    return {within, within, host,
            "instances share a GPU: KV moves at the rate of a copy in its memory, without latency"};
  return {within, host, host,
          "each instance has a GPU of its own: KV moves at the rate between it and page-locked memory, without "
          "latency"};
}

} // namespace godwit::main
