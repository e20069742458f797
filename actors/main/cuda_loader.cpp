#include "main/cuda_loader.hpp"

#include "main/device_hold.hpp"
#include "main/swap_options.hpp"

#include <godwit/gpu/cuda/kv_geometry.hpp>
#include <godwit/gpu/drafted_executor.hpp>
#include <godwit/gpu/model/constraints.hpp>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <utility>

namespace godwit::main {

std::string refuse_devices(std::size_t there, const instance_devices& wanted) {
  if (wanted.count <= there) return {};
  const auto count = std::to_string(wanted.count);
  return std::string(wanted.flag()) + " " + count + " takes " + count + " GPUs for an instance; this process has " +
         std::to_string(there);
}

std::string shared_devices(std::size_t there, const instance_devices& devices, std::uint32_t instances) {
  const auto degree = devices.count;
  const auto groups = there / degree;
  if (devices.staged || degree == 1 || instances <= groups) return {};
  return "--tensor-parallel " + std::to_string(degree) + ": " + std::to_string(instances) + " instances share " +
         std::to_string(groups * degree) +
         " GPUs, where they may wait for each other in vain (NCCL); there is room for " + std::to_string(groups);
}

std::uint32_t choose_group(std::span<const group_use> groups, std::optional<std::uint32_t> former) {
  const auto room = [](const group_use& g) {
    const auto left = std::int64_t{g.share} - g.living;
    return g.hung ? std::min<std::int64_t>(left, 0) : left;
  };
  if (former && room(groups[*former]) > 0) return *former;
  const auto best = std::max_element(groups.begin(), groups.end(), [&](const group_use& a, const group_use& b) {
    return room(a) != room(b) ? room(a) < room(b) : a.living > b.living;
  });
  return static_cast<std::uint32_t>(best - groups.begin());
}

cuda_loader::cuda_loader(std::shared_ptr<gpu::cuda::cuda_backend> backend, gpu::model::model_directory model,
                         const serve_settings& settings, runtime::log::logger log,
                         std::chrono::milliseconds memory_wait)
    : backend_(std::move(backend)), model_(std::move(model)), settings_(settings), log_(std::move(log)),
      memory_wait_(memory_wait) {
  const auto devices = backend_->devices().size();
  if (auto wrong = refuse_devices(devices, devices_of(settings_)); !wrong.empty()) throw std::runtime_error(wrong);
  const auto groups = devices / devices_of(settings_).count;
  uploaded_.resize(groups);
  uploaded_drafts_.resize(groups);
  blocks_.resize(groups);
  marks_.resize(groups);
  // One for all instances: what one has found out about a schema serves the others.
  const auto schemas = std::make_shared<gpu::model::constraints>(*model_.tokens, model_.configuration.eos,
                                                                 model_.configuration.vocabulary);
  allowed_ = [schemas](const protocols::step_slice& slice) { return schemas->allowed(slice); };
}

// Instances go round the groups, the first ones get what does not divide.
std::uint32_t cuda_loader::share_of(std::uint32_t group) const {
  const auto groups = static_cast<std::uint32_t>(uploaded_.size());
  const auto count = settings_.instances.count;
  return std::max(1U, count / groups + (group < count % groups ? 1 : 0));
}

std::uint32_t cuda_loader::group_for(protocols::instance_id instance) const {
  std::vector<group_use> groups;
  for (std::uint32_t group = 0; group < uploaded_.size(); ++group) {
    group_use use{share_of(group), 0, false};
    for (const auto& one : marks_[group]) {
      if (one.taken.expired()) continue;
      ++use.living;
      use.hung = use.hung || one.waited_for;
    }
    groups.push_back(use);
  }
  const auto before = places_.find(instance);
  return choose_group(groups, before == places_.end() ? std::nullopt : std::optional(before->second));
}

void cuda_loader::forget_what_is_free() {
  for (auto& of_group : marks_) std::erase_if(of_group, [](const mark& one) { return one.taken.expired(); });
  constexpr std::size_t places_max = 1024; // of instances that are gone, unless so many are there
  if (places_.size() < places_max) return;
  std::erase_if(places_, [this](const auto& place) {
    return std::ranges::none_of(marks_[place.second], [&](const mark& one) { return one.instance == place.first; });
  });
}

// A healthy device takes some time for what is large. One that hangs is waited for once.
void cuda_loader::wait_for_memory(std::uint32_t group, protocols::instance_id instance, const std::atomic<bool>* stop) {
  const auto goes = [&](const mark& one) {
    return !one.waited_for && !one.taken.expired() && (one.instance == instance || one.made.expired());
  };
  const auto until = std::chrono::steady_clock::now() + memory_wait_;
  while (std::ranges::any_of(marks_[group], goes)) {
    if (stop != nullptr && *stop) return;
    if (std::chrono::steady_clock::now() >= until) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  for (auto& one : marks_[group]) one.waited_for = one.waited_for || goes(one);
}

gpu::cuda::cuda_executor_settings cuda_loader::settings_for(std::uint32_t group) const {
  const auto& from = settings_.instances;
  gpu::cuda::cuda_executor_settings s;
  s.blocks = blocks_[group]; // as at the first start, whatever else has filled the memory since
  s.kv_bytes = from.kv_bytes;
  s.swap_bytes = swap_bytes_of(settings_);
  s.memory_share = from.memory_share / share_of(group);
  s.step_tokens = settings_.llumlet.step_tokens_max;
  s.deterministic = from.deterministic;
  s.graphs = from.cuda_graphs;
  s.trials = from.cuda_trials;
  s.allowed = allowed_;
  s.warn = [log = log_](const std::string& line) { log.warning("{}", line); };
  s.tell = [log = log_](const std::string& line) { log.info("{}", line); };
  return s;
}

const cuda_loader::parts& cuda_loader::uploaded_to(std::uint32_t group) {
  if (!uploaded_[group].empty()) return uploaded_[group];
  const auto devices = devices_of(settings_);
  parts all;
  const auto upload = [&](std::uint32_t device, gpu::tensor_parallel::place part, gpu::pipeline::stage stage) {
    all.push_back(backend_->upload(group * devices.count + device, model_.configuration, *model_.tensors, part, stage));
  };
  if (devices.staged)
    for (const auto& stage : stages_of(settings_, model_.configuration)) upload(stage.index, {}, stage);
  else
    for (std::uint32_t rank = 0; rank < devices.count; ++rank) upload(rank, {rank, devices.count}, {});
  return uploaded_[group] = std::move(all);
}

std::unique_ptr<gpu::executor> cuda_loader::executor_on(std::uint32_t group, std::shared_ptr<void> keep) {
  auto settings = settings_for(group);
  settings.keep = std::move(keep);
  settings.waited = std::make_shared<std::atomic<std::int64_t>>(0); // a draft model's goes with the model's
  // A device that waits for another one gives up before anybody takes the instance for hung.
  const auto wait_max = settings_.instances.step_timeout / 2;
  if (!model_.draft) return backend_->make_executor(uploaded_to(group), settings, wait_max);
  const auto block_of = [](const gpu::model::model_directory& which) {
    return gpu::cuda::kv_geometry_of(which.configuration, *which.tensors).block_bytes;
  };
  const auto block = block_of(model_), beside = block_of(*model_.draft);
  auto& draft = uploaded_drafts_[group]; // first, since the model's upload looks at what is left for KV
  if (!draft)
    draft = backend_->upload(group * devices_of(settings_).count, model_.draft->configuration, *model_.draft->tensors);
  settings.kv_bytes = gpu::share_beside_draft(settings.kv_bytes, block, beside);
  settings.swap_bytes = gpu::share_beside_draft(settings.swap_bytes, block, beside);
  // On the group's first device, which has its share of the model's KV and all of the draft model's.
  const auto layers = stages_of(settings_, model_.configuration).front().layers_of(model_.configuration.layers);
  const auto of_first = block / settings_.instances.tensor_parallel / model_.configuration.layers * layers;
  settings.memory_share_first =
      settings.memory_share * static_cast<double>(of_first) / static_cast<double>(of_first + beside);
  std::shared_ptr<gpu::executor> model = backend_->make_executor(uploaded_to(group), settings, wait_max);
  settings.blocks = model->info().blocks;
  settings.swap_bytes = model->swap() ? model->swap()->slots() * beside : 0;
  settings.allowed = {};
  settings.trials = false;
  settings.memory_share_first = {};
  return gpu::make_drafted_executor(std::move(model), backend_->make_executor({draft}, settings, wait_max));
}

std::shared_ptr<gpu::executor> cuda_loader::make(protocols::instance_id instance, const std::atomic<bool>* stop) {
  forget_what_is_free();
  if (const auto before = places_.find(instance); before != places_.end())
    wait_for_memory(before->second, instance, stop);
  const auto group = group_for(instance);
  wait_for_memory(group, instance, stop);
  const auto taken = std::make_shared<device_hold>();
  // Stays where the executor cannot be made and some of it does not go.
  marks_[group].push_back({instance, taken, {}});
  std::shared_ptr<gpu::executor> made = executor_on(group, taken);
  marks_[group].back().made = made;
  places_[instance] = group;
  blocks_[group] = made->info().blocks;
  return made;
}

} // namespace godwit::main
