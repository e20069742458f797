// Whole migrations between devices: instances whose KV lies where the host cannot touch it, in one process and in two.
// What a client sees is what an undisturbed run gives.
#include "actors/support/cpu_model.hpp"
#include "actors/support/device_pool.hpp"
#include "actors/support/two_hosts.hpp"
#include "ucx/core.hpp"

#include <godwit/gpu/cpu/cpu_executor.hpp>
#include <godwit/gpu/model/model_directory.hpp>
#include <godwit/transport/in_process/fabric.hpp>
#include <godwit/transport/ucx/fabric.hpp>

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace godwit::test {

namespace {

/// A device of its own for each host.
struct device_host {
  explicit device_host(bool reachable = false) : device(std::make_shared<testing::fake_device>(reachable)) {}
  std::shared_ptr<testing::fake_device> device;
  std::shared_ptr<testing::fake_copier> copier =
      std::make_shared<testing::fake_copier>(device, 1, std::chrono::microseconds(100));

  [[nodiscard]] kv_host make(place where) const {
    transport::device_memory memory;
    memory.copier = copier;
    memory.pieces = 4;
    memory.urgent_pieces = 1;
    memory.bytes_per_piece = 1 << 16; // many pieces even for a small model's blocks
    kv_host out;
    if (where == place::one_fabric) {
      out.llumlet.migration.fabric =
          transport::in_process::make_fabric(transport::in_process::make_hub({.device = memory}));
    } else {
      transport::ucx::settings settings;
      settings.cross_memory = where == place::cross_memory || where == place::two_processes;
      settings.streams = where == place::streams;
      settings.device = memory;
      if (where == place::remote_reads) settings.reads = transport::ucx::remote_reading::always;
      const auto broken = std::make_shared<transport::ucx::faults>();
      broken->reads_by_messages = broken->devices_are_hosts = where == place::remote_reads;
      out.llumlet.migration.fabric = std::make_shared<transport::ucx::core>(settings, broken);
    }
    auto& planner = out.llumlet.planner;
    planner.context_length = 512;
    planner.step_tokens_max = 64;
    planner.running_max = 16;
    planner.waiting_max = 100;
    planner.eos = embedded_cpu_model().directory.configuration.eos;
    out.llumlet.migration.settings.limits.last_blocks_max = 1; // more than one stage
    out.factory = [on = device](protocols::instance_id, const std::function<void(actors::executor_outcome)>& done) {
      gpu::cpu::cpu_executor_settings settings;
      settings.threads = 1;
      settings.blocks = 256;
      settings.tokens = embedded_cpu_model().directory.tokens;
      done({std::make_shared<device_pool>(gpu::cpu::make_cpu_executor(embedded_cpu_model().packed, settings), on), {}});
    };
    return out;
  }
};

[[maybe_unused]] const auto* const registered = ::testing::AddGlobalTestEnvironment(new second_process([](place where) {
  static const device_host mine;
  return mine.make(where);
}));

std::vector<protocols::generate_request> requests() {
  const std::vector<std::string> prompts{"A hacker is", "The Jargon File is a collection of", "Unix",
                                         "A glossary entry. It explains the following term to a newcomer: kludge"};
  std::vector<protocols::generate_request> out;
  for (std::uint32_t i = 0; i < 8; ++i) {
    protocols::generate_request r;
    r.prompt = embedded_cpu_model().directory.tokens->encode(prompts[i % prompts.size()], false);
    r.sampling.temperature = i % 2 == 0 ? 0.0F : 0.9F;
    r.sampling.seed = 100 + i;
    r.stop.max_tokens = 160 + 10 * i;
    r.stop.ignore_eos = true;
    out.push_back(std::move(r));
  }
  return out;
}

} // namespace

class DeviceMigration : public ::testing::TestWithParam<place> {};

TEST_P(DeviceMigration, RequestsThatMoveAllTheTimeGiveTheSameTokens) {
  if (!embedded_cpu_model().packed) GTEST_SKIP() << "built without the embedded model";
  const bool read = GetParam() == place::remote_reads;
  const device_host first(read), second(read);
  bool made = false;
  expect_moves_change_nothing(
      GetParam(), [&](place where) { return (std::exchange(made, true) ? second : first).make(where); }, requests(), 4);
  if (GetParam() == place::one_fabric) {
    EXPECT_GT(first.copier->copied, 0U);
    EXPECT_EQ(first.copier->gathered, 0U) << "no way by the host";
  } else if (read) {
    EXPECT_EQ(first.copier->gathered, 0U) << "no way by page-locked memory";
    EXPECT_EQ(first.copier->scattered, 0U);
  } else {
    EXPECT_GT(first.copier->gathered, 0U);
    EXPECT_GT(first.copier->scattered, 0U);
  }
}

INSTANTIATE_TEST_SUITE_P(All, DeviceMigration,
                         ::testing::Values(place::one_fabric, place::cross_memory, place::streams, place::messages,
                                           place::two_processes, place::remote_reads),
                         [](const auto& each) { return to_string(each.param); });

} // namespace godwit::test
