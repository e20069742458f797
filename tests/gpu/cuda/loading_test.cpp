#include "cuda/backend.hpp"
#include "cuda/emulated/emulated_driver.hpp"
#include "gpu/cuda/device_test.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

// A real driver loads code when it is first used, and all streams of the device may wait for that.
namespace godwit::gpu::cuda::testing {
namespace {

struct watched_devices {
  std::vector<emulated::emulated_settings> each;
  std::shared_ptr<cuda_backend> backend;
  std::vector<std::shared_ptr<emulated::used_code>> used;

  watched_devices(std::size_t count, bool loads_late) : each(count) {
    for (auto& one : each) {
      one.multiprocessors = 16; // so that a lone request is divided
      one.loads_late = loads_late;
      used.push_back(one.used = std::make_shared<emulated::used_code>());
    }
    backend = make_backend(emulated::make_emulated_drivers(each));
  }
};

/// Prompts of all lengths that one step takes, one that is copied from, and decodes near the model's end.
void serve(executor& on) {
  const auto tokens = some_tokens(1024, 101, 3);
  std::uint64_t step = 0;
  const auto run = [&](std::size_t first, std::size_t count, std::vector<protocols::block_copy> copies = {}) {
    auto slice = slice_of(tokens, first, count, first_blocks(64));
    slice.sampling.temperature = 0.8F;
    slice.sampling.top_p = 0.95F;
    slice.sampling.logprobs = 3;
    run_step(on, ++step, {slice}, std::move(copies));
  };
  for (std::size_t count = 1; count <= 100; count += 7)
    run(0, count, {protocols::block_copy(protocols::block_id(1), protocols::block_id(65))});
  for (std::size_t done = 0; done < 900; done += 100) run(done, 100);
  for (std::size_t at = 900; at < 904; ++at) run(at, 1);
  std::vector<protocols::step_slice> batch;
  for (std::uint32_t i = 0; i < 66; ++i) batch.push_back(slice_of(tokens, 3, 1, blocks{i}));
  run_step(on, ++step, batch);
}

cuda_executor_settings settings_of(bool deterministic) {
  cuda_executor_settings settings;
  settings.blocks = 66;
  settings.step_tokens = 100;
  settings.deterministic = deterministic;
  return settings;
}

TEST(CudaLoading, NoStepIsTheFirstToUseAKernelOrAProductOfItsSize) {
  for (const bool deterministic : {false, true})
    for (const bool biased : {false, true}) {
      auto config = small_config();
      config.qkv_bias = config.output_bias = config.mlp_bias = biased;
      const memory_weights weights(config, model::data_type::bf16, 11);
      const watched_devices devices(1, true);
      const auto executor =
          devices.backend->make_executor(devices.backend->upload(0, config, weights), settings_of(deterministic));
      const auto loaded = devices.used.front()->names();
      EXPECT_FALSE(loaded.empty());
      serve(*executor);
      EXPECT_EQ(devices.used.front()->names(), loaded) << deterministic << biased;
    }
}

TEST(CudaLoading, NothingRunsBeforeTheFirstStepWhereCodeIsThereFromTheStart) {
  const auto config = small_config();
  const memory_weights weights(config, model::data_type::bf16, 11);
  const watched_devices devices(1, false);
  const auto executor = devices.backend->make_executor(devices.backend->upload(0, config, weights), settings_of(false));
  EXPECT_TRUE(devices.used.front()->names().empty());
}

// Ranks load one after the other, so nothing that they do together may be among it.
TEST(CudaLoading, OfDevicesThatShareAModelIsDoneByEachAlone) {
  for (const bool deterministic : {false, true}) {
    const auto config = four_kv_heads();
    const memory_weights weights(config, model::data_type::bf16, 11);
    const watched_devices devices(2, true);
    const auto executor = devices.backend->make_executor(upload_parts(*devices.backend, config, weights, 2),
                                                         settings_of(deterministic), std::chrono::seconds(60));
    std::vector<std::set<std::string>> loaded;
    for (const auto& one : devices.used) {
      loaded.push_back(one->names());
      loaded.back().insert({"sum of devices", "gathering of devices"});
    }
    serve(*executor);
    for (std::size_t rank = 0; rank < 2; ++rank)
      for (const auto& name : devices.used[rank]->names())
        EXPECT_TRUE(loaded[rank].contains(name)) << name << " on rank " << rank << (deterministic ? ", fixed" : "");
  }
}

} // namespace
} // namespace godwit::gpu::cuda::testing
