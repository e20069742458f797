#pragma once

#include <godwit/actors/instance.hpp>
#include <godwit/gpu/tensor_parallel.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace godwit::test {

/// A simulated device that takes part in steps and has no KV to show: the hashes that stand for it cannot be divided
/// by heads, so rank 0 has them all.
class device_without_kv final : public gpu::executor {
public:
  explicit device_without_kv(std::shared_ptr<gpu::executor> inner) : inner_(std::move(inner)) {}
  [[nodiscard]] const gpu::executor_info& info() const noexcept override { return inner_->info(); }
  [[nodiscard]] std::unique_ptr<gpu::forward> begin(protocols::step_input input) override {
    return inner_->begin(std::move(input));
  }
  [[nodiscard]] protocols::memory_region key_region(std::uint32_t, protocols::block_id) override { return {}; }
  [[nodiscard]] protocols::memory_region value_region(std::uint32_t, protocols::block_id) override { return {}; }

private:
  std::shared_ptr<gpu::executor> inner_;
};

/// In place of `make`, which answers at once: replicas like those that it makes, each on as many devices as the
/// instance's place in the list says. `wrap` may put something around each device.
[[nodiscard]] inline actors::executor_factory
divide(actors::executor_factory make, std::vector<std::uint32_t> degrees,
       std::function<std::shared_ptr<gpu::executor>(protocols::instance_id, std::uint32_t rank,
                                                    std::shared_ptr<gpu::executor>)>
           wrap = {}) {
  return [make = std::move(make), degrees = std::move(degrees), wrap = std::move(wrap)](
             protocols::instance_id id, const std::function<void(actors::executor_outcome)>& done) {
    std::vector<std::shared_ptr<gpu::executor>> ranks;
    const auto degree = degrees.at(id.value() % degrees.size());
    for (std::uint32_t rank = 0; rank < degree; ++rank)
      make(id, [&](actors::executor_outcome out) {
        auto device = rank == 0 ? std::move(out.made) : std::make_shared<device_without_kv>(std::move(out.made));
        ranks.push_back(wrap ? wrap(id, rank, std::move(device)) : std::move(device));
      });
    if (degree == 1) return done({ranks.front(), {}});
    auto whole = ranks.front()->info();
    whole.device = std::to_string(degree) + " x " + whole.device;
    done({gpu::tensor_parallel::join_ranks(std::move(whole), std::move(ranks)), {}});
  };
}

} // namespace godwit::test
