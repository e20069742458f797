#pragma once

#include <godwit/gpu/cpu/cpu_executor.hpp>
#include <godwit/gpu/event.hpp>
#include <godwit/gpu/model/adapter.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace godwit::gpu::pipeline::testing {

/// An executor of a model or its parts, and an adapter beside it that is there as long as this is.
struct adapted_executor {
  adapted_executor(const std::vector<std::shared_ptr<const cpu::packed_model>>& models,
                   const std::shared_ptr<const model::adapter_directory>& directory,
                   const protocols::adapter_ref& which, std::uint32_t threads, std::uint32_t blocks) {
    const auto store = std::make_shared<cpu::cpu_adapters>(directory, 1U << 24U);
    store->serve(models);
    const event came;
    const auto asker = std::make_shared<const bool>(true);
    store->load(which, asker, [&](adapter_outcome outcome) {
      EXPECT_EQ(outcome.error, "");
      held = std::move(outcome.held);
      came.set();
    });
    came.wait();
    cpu::cpu_executor_settings settings;
    settings.threads = threads;
    settings.blocks = blocks;
    settings.adapters = store;
    of = cpu::make_cpu_executor(models, settings);
  }

  std::shared_ptr<const void> held;
  std::unique_ptr<executor> of;
};

} // namespace godwit::gpu::pipeline::testing
