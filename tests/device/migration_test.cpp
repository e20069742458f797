// Whole migrations between CUDA devices: weights, steps, KV and copies are the device's, on the emulated GPU with every
// build, and on a real one (ctest -L gpu). In deterministic mode what a client sees is what an undisturbed run gives.
#include "actors/support/two_hosts.hpp"
#include "gpu/cpu/tiny_model.hpp"
#include "gpu/cuda/cuda_support.hpp"

#include <godwit/transport/in_process/fabric.hpp>
#include <godwit/transport/ucx/fabric.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace godwit::test {

namespace {

using gpu::cuda::testing::find_backend;
using gpu::cuda::testing::small_config;

/// A host with a GPU of its own, where they are emulated.
struct cuda_host {
  std::shared_ptr<gpu::cuda::cuda_backend> backend = find_backend().backend;

  [[nodiscard]] kv_host make(place where) const {
    transport::device_memory memory;
    memory.copier = backend->make_copier(0);
    memory.pieces = 4;
    memory.urgent_pieces = 1;
    memory.bytes_per_piece = 1 << 14; // many pieces even for a small model's blocks
    kv_host out;
    if (where == place::one_fabric) {
      out.llumlet.migration.fabric =
          transport::in_process::make_fabric(transport::in_process::make_hub({.device = memory}));
    } else {
      transport::ucx::settings settings;
      settings.cross_memory = where == place::cross_memory || where == place::two_processes;
      settings.streams = where == place::streams;
      settings.device = memory;
      out.llumlet.migration.fabric = transport::ucx::make_fabric(settings);
    }
    out.llumlet.planner.context_length = 512;
    out.llumlet.planner.step_tokens_max = 64;
    out.llumlet.planner.running_max = 8;
    out.llumlet.planner.prefix_caching =
        false; // or what comes back has little to copy, and copies are what this is about
    out.llumlet.migration.settings.limits.last_blocks_max = 1; // more than one stage
    const gpu::cpu::testing::memory_weights weights(small_config(), gpu::model::data_type::bf16, 11);
    out.factory = [on = backend, model = backend->upload(0, small_config(), weights)](
                      protocols::instance_id, const std::function<void(actors::executor_outcome)>& done) {
      gpu::cuda::cuda_executor_settings settings;
      settings.blocks = 64;
      settings.step_tokens = 64;
      settings.deterministic = true;
      done({on->make_executor(model, settings), {}});
    };
    return out;
  }
};

[[maybe_unused]] const auto* const registered = ::testing::AddGlobalTestEnvironment(new second_process([](place where) {
  static const cuda_host mine;
  return mine.make(where);
}));

std::vector<protocols::generate_request> requests() {
  std::vector<protocols::generate_request> out;
  for (std::uint32_t i = 0; i < 3; ++i) {
    protocols::generate_request r;
    r.prompt = gpu::cpu::testing::some_tokens(20 + 17 * i, small_config().vocabulary, i);
    r.sampling.temperature = i % 2 == 0 ? 0.0F : 0.9F;
    r.sampling.seed = 100 + i;
    r.stop.max_tokens = 60 + 10 * i;
    r.stop.ignore_eos = true;
    out.push_back(std::move(r));
  }
  return out;
}

} // namespace

class CudaMigration : public ::testing::TestWithParam<place> {};

TEST_P(CudaMigration, RequestsThatMoveAllTheTimeGiveTheSameTokens) {
  if (const auto found = find_backend(); !found.backend) GTEST_SKIP() << found.why_not;
  const cuda_host first, second;
  bool made = false;
  const auto make = [&](place where) { return (std::exchange(made, true) ? second : first).make(where); };
  expect_moves_change_nothing(GetParam(), make, requests(), 3);
}

INSTANTIATE_TEST_SUITE_P(All, CudaMigration,
                         ::testing::Values(place::one_fabric, place::cross_memory, place::streams, place::messages,
                                           place::two_processes),
                         [](const auto& each) { return to_string(each.param); });

} // namespace godwit::test
