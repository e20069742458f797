#include "main/cuda_loader.hpp"

#include <godwit/gpu/model/constraints.hpp>

#include <algorithm>
#include <utility>

namespace godwit::main {

cuda_loader::cuda_loader(std::shared_ptr<gpu::cuda::cuda_backend> backend, gpu::model::model_directory model,
                         const serve_settings& settings)
    : backend_(std::move(backend)), model_(std::move(model)), settings_(settings) {
  const auto devices = backend_->devices().size();
  uploaded_.resize(devices);
  blocks_.resize(devices);
  // One for all instances: what one has found out about a schema serves the others.
  const auto schemas = std::make_shared<gpu::model::constraints>(*model_.tokens, model_.configuration.eos,
                                                                 model_.configuration.vocabulary);
  allowed_ = [schemas](const protocols::step_slice& slice) { return schemas->allowed(slice); };
}

gpu::cuda::cuda_executor_settings cuda_loader::settings_for(std::uint32_t device) const {
  const auto devices = static_cast<std::uint32_t>(uploaded_.size());
  const auto& from = settings_.instances;
  // Instances go round the devices, the first ones get what does not divide.
  const std::uint32_t beside = from.count / devices + (device < from.count % devices ? 1 : 0);
  gpu::cuda::cuda_executor_settings s;
  s.blocks = blocks_[device]; // as at the first start, whatever else has filled the memory since
  s.kv_bytes = from.kv_bytes;
  s.memory_share = from.memory_share / std::max(1U, beside);
  s.step_tokens = settings_.llumlet.step_tokens_max;
  s.deterministic = from.deterministic;
  s.graphs = from.cuda_graphs;
  s.allowed = allowed_;
  return s;
}

std::unique_ptr<gpu::executor> cuda_loader::make(protocols::instance_id instance) {
  const auto next = static_cast<std::uint32_t>(device_of_.size() % uploaded_.size());
  const auto device = device_of_.try_emplace(instance, next).first->second;
  if (!uploaded_[device]) uploaded_[device] = backend_->upload(device, model_.configuration, *model_.tensors);
  auto made = backend_->make_executor(uploaded_[device], settings_for(device));
  blocks_[device] = made->info().blocks;
  return made;
}

} // namespace godwit::main
