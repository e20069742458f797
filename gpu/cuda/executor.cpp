#include "cuda/executor.hpp"

#include "cuda/device_copier.hpp"
#include "cuda/engine.hpp"
#include "device/copied_swap_space.hpp"

#include <godwit/gpu/event.hpp>
#include <godwit/gpu/tensor_parallel.hpp>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <utility>

namespace godwit::gpu::cuda {

namespace {

/// What outlives a forward: its completions, and what the host thread has of it, may still be under way when it goes.
struct forward_state {
  explicit forward_state(prepared_step prepared) : step(std::move(prepared)) {
    // Slices are referred to by address, which a move of the plan may have kept or not.
    for (std::size_t i = 0; i < step.plan.slices.size(); ++i) step.plan.slices[i].slice = &step.plan.input.slices[i];
  }

  prepared_step step;
  std::mutex mutex; ///< held while a completion runs, so that none runs once the forward is gone
  std::atomic<bool> cancelled{false};
  bool finished = false;
  bool failed = false;
  std::size_t told = 0;          ///< parts of the step that have ended
  std::vector<completion> parts; ///< of the step; empty once told

  void tell(std::size_t part, const std::string& error, bool last) {
    const std::lock_guard lock(mutex);
    ++told;
    if (cancelled) return;
    if (!error.empty()) failed = true;
    if (last && !failed) finished = true;
    if (const auto done = std::exchange(parts[part], nullptr)) done(error);
  }
};

class device_forward final : public forward {
public:
  device_forward(std::shared_ptr<engine> owner, prepared_step step)
      : engine_(std::move(owner)), state_(std::make_shared<forward_state>(std::move(step))) {}

  ~device_forward() override {
    const auto [idle_already, finished] = cancel();
    if (!finished) engine_->abandon(); // it may be where it waits for other devices, or they for it
    if (idle_already) {
      engine_->end();
      return;
    }
    const event idle;
    engine_->thread().post([on = engine_.get(), idle] {
      on->drain();
      idle.set();
    });
    if (idle.wait_for(engine_->how_it_goes()->wait_max()))
      engine_->end();
    else
      engine::leave(std::move(engine_), idle);
  }

  [[nodiscard]] std::uint32_t layers() const noexcept override { return engine_->info().layers; }

  void advance(std::uint32_t upto, completion done) override {
    if (upto <= requested_ || upto > layers())
      throw std::invalid_argument("advance to layer " + std::to_string(upto) + " after " + std::to_string(requested_) +
                                  " of " + std::to_string(layers()));
    const std::uint32_t first = std::exchange(requested_, upto);
    std::size_t part = 0;
    {
      const std::lock_guard lock(state_->mutex);
      part = state_->parts.size();
      state_->parts.push_back(std::move(done));
    }
    engine_->thread().post(
        [on = engine_.get(), state = state_, part, first, upto] { run(*on, state, part, first, upto); });
  }

  [[nodiscard]] protocols::step_output take() override {
    {
      const std::lock_guard lock(state_->mutex);
      if (!state_->finished) throw std::logic_error("take before the step has run");
    }
    return engine_->collect(state_->step);
  }

private:
  struct found {
    bool idle;     ///< nothing of the step is under way, neither on the device nor on its way there
    bool finished; ///< all of it has gone well
  };
  found cancel() {
    std::vector<completion> untold; // go without the lock
    const std::lock_guard lock(state_->mutex);
    state_->cancelled = true;
    const bool idle = state_->told == state_->parts.size() && !state_->failed;
    untold.swap(state_->parts);
    return {idle, state_->finished};
  }

  /// On the host thread, which the engine outlives and the forward need not.
  static void run(engine& on, const std::shared_ptr<forward_state>& state, std::size_t part, std::uint32_t first,
                  std::uint32_t upto) {
    if (state->cancelled) return;
    const bool last = upto == on.info().layers;
    try {
      on.advance(state->step, first, upto, state->cancelled);
      on.notify([state, part, last](const std::string& error) { state->tell(part, error, last); });
    } catch (const std::exception& failure) {
      on.failed(failure.what());
      on.drain(); // what was enqueued before
      state->tell(part, failure.what(), last);
    }
  }

  std::shared_ptr<engine> engine_;
  std::shared_ptr<forward_state> state_;
  std::uint32_t requested_ = 0; ///< layers
};

class device_executor final : public executor {
public:
  device_executor(std::shared_ptr<engine> shared, std::shared_ptr<swap_space> swap)
      : engine_(std::move(shared)), swap_(std::move(swap)) {}
  [[nodiscard]] const executor_info& info() const noexcept override { return engine_->info(); }
  [[nodiscard]] std::unique_ptr<forward> begin(protocols::step_input input) override {
    auto step = engine_->begin(std::move(input));
    return std::make_unique<device_forward>(engine_, std::move(step));
  }
  [[nodiscard]] protocols::memory_region key_region(std::uint32_t layer, protocols::block_id block) override {
    return engine_->kv().keys(layer, block.value());
  }
  [[nodiscard]] protocols::memory_region value_region(std::uint32_t layer, protocols::block_id block) override {
    return engine_->kv().values(layer, block.value());
  }

  [[nodiscard]] std::shared_ptr<swap_space> swap() const override { return swap_; }

  [[nodiscard]] double time_graphs(std::uint32_t launches) { return engine_->time_graphs(launches); }

private:
  std::shared_ptr<engine> engine_;
  std::shared_ptr<swap_space> swap_; ///< null: none
};

/// On streams of its own, beside the steps. `bytes`: of this device.
std::shared_ptr<swap_space> make_swap_space(const std::shared_ptr<engine>& of, const std::shared_ptr<driver>& device,
                                            std::uint64_t bytes, copy_by small_pieces) {
  if (bytes == 0) return nullptr;
  const auto regions = [of](protocols::block_id block) {
    std::vector<protocols::memory_region> out;
    for (std::uint32_t layer = 0; layer < of->info().layers; ++layer) { // K and V lie together
      auto both = of->kv().keys(layer, block.value());
      both.bytes += of->kv().values(layer, block.value()).bytes;
      out.push_back(both);
    }
    return out;
  };
  return make_copied_swap_space(make_device_copier(device, small_pieces), regions, of->info().block_bytes, bytes,
                                of->how_it_goes());
}

/// Devices whose steps have the same launches: those that are captured together have to.
bool alike(const std::vector<std::shared_ptr<driver>>& devices) {
  const auto& first = devices.front()->properties();
  return std::ranges::all_of(devices, [&](const auto& device) {
    const auto& other = device->properties();
    return other.multiprocessors == first.multiprocessors && other.major == first.major && other.minor == first.minor;
  });
}

/// Over the host's memory, which every device copies from and to.
std::shared_ptr<pipeline::stage_link> pinned_link(const std::shared_ptr<driver>& from) {
  return std::make_shared<pipeline::stage_link>(
      [from](std::uint64_t bytes) { return from->allocate_pinned(bytes, "what goes from stage to stage"); });
}

} // namespace

double time_graphs(executor& of, std::uint32_t launches) {
  auto* one = dynamic_cast<device_executor*>(&of);
  if (one == nullptr) throw std::logic_error("the graphs of one device are timed");
  return one->time_graphs(launches);
}

std::unique_ptr<executor> make_device_executor(const std::vector<std::shared_ptr<const device_model>>& parts,
                                               const cuda_executor_settings& settings,
                                               std::chrono::nanoseconds wait_max, copy_by small_pieces) {
  const auto degree = parts.size();
  if (degree == 0) throw std::invalid_argument("an executor of no devices");
  std::vector<std::shared_ptr<driver>> devices;
  for (const auto& part : parts) {
    devices.push_back(part->driver);
    // Whatever it is asked may wait as long.
    const auto refuse = [&](const std::string& what) {
      throw driver_error("cuda " + std::to_string(part->driver->properties().index) + " has not " + what +
                         "; nothing new begins there before it has");
    };
    if (part->driver->any_left(left_part::work)) refuse("ended a step or a copy that was given up");
    if (part->driver->any_left(left_part::memory)) refuse("given back an executor's memory");
  }
  auto own = settings;
  if (!own.waited) own.waited = std::make_shared<std::atomic<std::int64_t>>(0);
  own.graphs = settings.graphs && (parts.front()->stage.stages > 1 || alike(devices));
  // Before what takes the rest of the memory: its buffers come with it.
  std::vector<std::shared_ptr<group_end>> ends(degree);
  const bool staged = parts.front()->stage.stages > 1;
  if (staged && parts.front()->stage.stages != degree) throw std::invalid_argument("not all stages of a model");
  if (degree > 1 && !staged) ends = devices.front()->make_group(devices, wait_max, settings.warn);
  std::vector<std::shared_ptr<engine>> engines;
  for (const auto& part : parts) {
    auto its = own;
    if (engines.empty()) its.memory_share = settings.memory_share_first.value_or(settings.memory_share);
    engines.push_back(share_engine(part, its));
  }
  std::uint32_t blocks = ~0U;
  for (const auto& one : engines) blocks = std::min(blocks, one->blocks_wanted());
  std::shared_ptr<pipeline::stage_link> before, after;
  for (std::size_t rank = 0; rank < degree; ++rank) {
    before = std::exchange(after, staged && rank + 1 < degree ? pinned_link(devices[rank]) : nullptr);
    engines[rank]->open(blocks, ends[rank], before, after);
  }
  std::uint64_t block_bytes = 0;
  for (const auto& one : engines) block_bytes += one->info().block_bytes;
  const auto executor_of = [&](std::size_t rank) {
    const auto& one = engines[rank];
    const auto swap_bytes = settings.swap_bytes / block_bytes * one->info().block_bytes;
    return std::make_unique<device_executor>(one, make_swap_space(one, devices[rank], swap_bytes, small_pieces));
  };
  if (degree == 1) return executor_of(0);

  auto info = engines.front()->info();
  std::string indices;
  for (const auto& device : devices)
    indices += (indices.empty() ? "" : ", ") + std::to_string(device->properties().index);
  info.device =
      std::to_string(degree) + (staged ? " stages of cuda " : " x cuda ") + indices + " " + engines.front()->kind();
  info.weight_bytes = 0;
  info.block_bytes = block_bytes;
  std::vector<std::shared_ptr<executor>> ranks;
  for (std::size_t rank = 0; rank < degree; ++rank) {
    info.weight_bytes += engines[rank]->info().weight_bytes;
    ranks.push_back(executor_of(rank));
  }
  info.layers = parts.front()->whole.layers;
  if (staged) return pipeline::join_stages(std::move(info), std::move(ranks));
  return tensor_parallel::join_ranks(std::move(info), std::move(ranks));
}

} // namespace godwit::gpu::cuda
