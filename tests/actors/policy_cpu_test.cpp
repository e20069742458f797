// Defragmentation on the real engine: the CPU device, the default model, real time.
#include "actors/support/cpu_model.hpp"
#include "actors/support/waiting_sink.hpp"

#include <godwit/actors/cluster.hpp>
#include <godwit/runtime/actor_system.hpp>
#include <godwit/transport/in_process/fabric.hpp>

#include <gtest/gtest.h>

#include <atomic>

namespace godwit::test {

using namespace std::chrono_literals;

namespace {

struct long_prompt_run {
  bool before_anybody_ended = false; ///< the long prompt's first token came
  std::vector<std::vector<protocols::token_id>> answers;
  std::uint64_t moves = 0;
};

/// Two requests of 10 blocks that grow to 26 on each of four instances of 56 blocks, then one that needs 40.
long_prompt_run run_long_prompt(protocols::migration_policy policy) {
  runtime::actor_system system;
  actors::node_options o;
  o.version = "test";
  o.model = "default";
  o.instances = 4;
  o.instance.make_executor = [](protocols::instance_id, const std::function<void(actors::executor_outcome)>& done) {
    gpu::cpu::cpu_executor_settings settings;
    settings.threads = 1;
    settings.blocks = 56;
    done({gpu::cpu::make_cpu_executor(embedded_cpu_model().packed, settings), {}});
  };
  o.llumlet.planner.context_length = 1024;
  o.llumlet.migration.fabric = transport::in_process::make_fabric(transport::in_process::make_hub());
  o.llumlet.migration.settings.copy_share = 1;
  o.scheduler.policies.dispatch = "round_robin"; // two on each
  o.scheduler.policies.migration = policy;
  o.scheduler.migration_interval = 3ms;
  actors::cluster cluster(system, std::move(o));
  EXPECT_TRUE(cluster.gate()->wait_ready(4, 30s));

  const auto all = std::make_shared<waiting_sink::group>();
  std::vector<std::shared_ptr<waiting_sink>> sinks;
  const auto submit = [&](std::uint32_t number, std::uint32_t prompt, std::uint32_t answer) {
    auto one = std::make_shared<actors::submission>();
    for (std::uint32_t i = 0; i < prompt; ++i)
      one->request.prompt.push_back(static_cast<protocols::token_id>(300 + (number * 7919 + i * 31) % 1000));
    one->request.stop.max_tokens = answer;
    one->request.stop.ignore_eos = true;
    one->seeded = true;
    sinks.push_back(std::make_shared<waiting_sink>(all));
    one->sink = sinks.back();
    EXPECT_TRUE(cluster.gate()->submit({std::move(one)}));
  };
  long_prompt_run out;
  std::unique_lock lock(all->mutex);
  const auto started = [&](std::size_t count) {
    return [&sinks, count] {
      for (std::size_t i = 0; i < count; ++i)
        if (sinks[i]->record.tokens.empty()) return false;
      return true;
    };
  };
  lock.unlock();
  for (std::uint32_t i = 0; i < 8; ++i) submit(i, 150, 260);
  lock.lock();
  EXPECT_TRUE(all->changed.wait_for(lock, 60s, started(8)));
  lock.unlock();
  submit(8, 620, 10);
  lock.lock();
  EXPECT_TRUE(all->changed.wait_for(lock, 60s, [&] { return !sinks[8]->record.tokens.empty(); }));
  out.before_anybody_ended = all->ended == 0;
  EXPECT_TRUE(all->changed.wait_for(lock, 120s, [&] { return all->ended == sinks.size(); }));
  for (const auto& sink : sinks) {
    EXPECT_FALSE(sink->record.failed);
    out.answers.push_back(sink->record.tokens);
  }
  lock.unlock();
  if (const auto status = cluster.status()) out.moves = status->moves_total;
  return out;
}

} // namespace

TEST(PolicyCpu, ALongPromptThatFitsNowhereIsAdmittedAfterDefragmentation) {
  if (!embedded_cpu_model().packed) GTEST_SKIP() << "built without the embedded model";
  const auto without = run_long_prompt(protocols::migration_policy::none);
  EXPECT_FALSE(without.before_anybody_ended) << "it fits nowhere";
  // The others live for half a second only: on a machine that is busy with something else they may end first.
  bool before_anybody_ended = false;
  for (int attempt = 0; attempt < 6 && !before_anybody_ended; ++attempt) {
    const auto with = run_long_prompt(protocols::migration_policy::defrag);
    EXPECT_EQ(with.answers, without.answers);
    before_anybody_ended = with.before_anybody_ended && with.moves > 0;
  }
  EXPECT_TRUE(before_anybody_ended);
}

} // namespace godwit::test
