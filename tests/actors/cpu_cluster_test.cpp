// The production actors on threads with the CPU device and the default model: an answer's tokens depend on its prompt,
// parameters and seed only, whatever else runs, however it is cut into steps, wherever it runs.
#include "actors/support/cpu_model.hpp"
#include "actors/support/made_adapters.hpp"
#include "actors/support/waiting_sink.hpp"

#include <godwit/actors/cluster.hpp>
#include <godwit/gpu/cpu/cpu_executor.hpp>
#include <godwit/gpu/drafted_executor.hpp>
#include <godwit/gpu/model/constraints.hpp>
#include <godwit/gpu/model/model_directory.hpp>
#include <godwit/gpu/model/sampler.hpp>
#include <godwit/protocols/grammar/automaton.hpp>
#include <godwit/protocols/grammar/json_schema.hpp>
#include <godwit/runtime/actor_system.hpp>
#include <godwit/transport/in_process/fabric.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <limits>
#include <map>
#include <mutex>
#include <thread>

namespace godwit::test {

using namespace std::chrono_literals;

namespace {

struct scene {
  std::uint32_t instances = 1;
  std::uint32_t threads = 1;
  std::uint32_t blocks = 512;
  std::uint32_t swap_blocks = 0;
  std::uint32_t step_tokens_max = 256;
  std::uint32_t running_max = 16;
  bool prefix_caching = true;
  bool kill = false; ///< an instance, in the middle of it all:
  std::uint32_t killed = 0;
  std::size_t kill_after = 40; ///< tokens of all
  std::uint32_t layers_per_advance = 0;
  std::uint32_t draft_layers = 0; ///< of the model, which are its draft model; 0: it has none
  bool adapters = true;           ///< some requests have one
  bool drain = false;             ///< that one
  std::function<void(actors::node_options&)> adjust = {};
  std::uint32_t movers = 0; ///< threads that migrate requests all the time, around the instances, either way around
};

struct outcome {
  std::vector<std::vector<protocols::token_id>> tokens;
  std::vector<std::vector<protocols::sampled_token>> sampled; ///< the same with log-probabilities where asked for
  std::vector<std::vector<protocols::sampled_token>> prompts; ///< theirs, where asked for
  protocols::cluster_status status;
  std::uint32_t migrations = 0; ///< that were committed
};

class CpuCluster : public ::testing::Test {
protected:
  void SetUp() override {
    if (!embedded_cpu_model().packed) GTEST_SKIP() << "built without the embedded model";
  }

  static std::vector<protocols::generate_request> requests() {
    const std::vector<std::string> prompts{"A hacker is", "The Jargon File is a collection of", "Unix",
                                           "In the early days of computing, programmers would often say that the"};
    std::vector<protocols::generate_request> out;
    for (std::uint32_t i = 0; i < 16; ++i) {
      protocols::generate_request r;
      std::string text = prompts[i % prompts.size()];
      if (i % 5 == 4) // longer than a block, so that prefixes are shared
        text = "A glossary entry. It explains the following term to a newcomer in plain words, at some length. " + text;
      r.prompt = embedded_cpu_model().directory.tokens->encode(text, false);
      r.sampling.temperature = i % 2 == 0 ? 0.0F : 0.9F;
      r.sampling.top_p = i % 4 == 1 ? 0.9F : 1.0F;
      r.sampling.top_k = i % 4 == 3 ? 40 : 0;
      r.sampling.seed = 100 + i;
      if (i % 8 == 5) r.sampling.frequency_penalty = 0.5F;
      if (i % 8 == 3) r.sampling.presence_penalty = 0.6F;
      if (i % 8 == 1) r.sampling.repetition_penalty = 1.2F;
      if (i % 4 == 2) r.sampling.logit_bias = {{5, -3.0F}, {static_cast<protocols::token_id>(20 + i), 2.5F}};
      if (i % 5 == 1) r.sampling.prompt_logprobs = 1;
      if (i % 8 == 0 || i % 8 == 3) r.stop.min_tokens = 30;
      if (i % 4 == 0) r.stop.stop_token_ids = {static_cast<protocols::token_id>(7 + i), 11};
      if (i % 3 == 2) r.sampling.logprobs = 2;
      r.stop.max_tokens = 60 + 2 * i;
      r.stop.ignore_eos = i % 4 < 3;    // long enough to be interrupted
      if (i == 7 || i == 11 || i == 15) // within a schema, long enough, too
        r.sampling.json_schema = R"({"type":"array","minItems":8,"items":{"type":"object","required":["name","n"],)"
                                 R"("properties":{"name":{"type":"string","minLength":6},"n":{"type":"integer"}}}})";
      if (i % 5 == 2 || i == 9) r.adapter = made_adapters().named(i % 2 == 0 ? "one" : "two");
      if (i == 7) r.sampling.reasoning = protocols::reasoning_start::thinking;
      if (i == 15) r.sampling.reasoning = protocols::reasoning_start::answer;
      out.push_back(std::move(r));
    }
    return out;
  }

  /// The small model never comes to an end of what it thinks: it is made to after some tokens.
  static constexpr std::size_t thought_tokens = 14;
  static gpu::cpu::draw_function made_to_think(std::shared_ptr<gpu::model::constraints> schemas) {
    const auto& words = *embedded_cpu_model().directory.tokens;
    return [own = std::make_shared<gpu::model::sampler>(), schemas = std::move(schemas),
            closing = words.encode("</think>", false)](std::span<float> logits, const protocols::step_slice& slice) {
      if (!slice.sampling.constrained()) return own->draw(logits, slice);
      const auto allowed = schemas->allowed(slice);
      if (slice.sampling.reasoning == protocols::reasoning_start::thinking && slice.sample_index >= thought_tokens &&
          slice.sample_index < thought_tokens + closing.size())
        for (std::size_t id = 0; id < logits.size(); ++id)
          if (id != static_cast<std::size_t>(closing[slice.sample_index - thought_tokens]))
            logits[id] = -std::numeric_limits<float>::infinity();
      return own->draw(logits, slice, allowed.get());
    };
  }

  static std::uint64_t block_bytes() {
    static const auto bytes = gpu::cpu::make_cpu_executor(embedded_cpu_model().packed, {.threads = 1, .blocks = 1});
    return bytes->info().block_bytes;
  }

  /// The model without its last layers: as if it had to say what it thinks half-way.
  static std::shared_ptr<const gpu::cpu::packed_model> leading_layers(std::uint32_t count) {
    static std::map<std::uint32_t, std::shared_ptr<const gpu::cpu::packed_model>> made;
    const auto& model = embedded_cpu_model().directory;
    auto config = model.configuration;
    config.layers = count;
    auto& packed = made[count];
    if (!packed) packed = gpu::cpu::pack_model(config, *model.tensors);
    return packed;
  }

  static outcome play(const scene& s, bool one_by_one = false) {
    const auto draft = s.draft_layers > 0 ? leading_layers(s.draft_layers) : nullptr;
    runtime::actor_system system;
    actors::node_options o;
    o.version = "test";
    o.model = "default";
    o.instances = s.instances;
    o.backoff_min = 1ms;
    o.instance.layers_per_advance = s.layers_per_advance;
    o.instance.make_executor = [s, draft](protocols::instance_id, std::function<void(actors::executor_outcome)> done) {
      gpu::cpu::cpu_executor_settings settings;
      settings.threads = s.threads;
      settings.blocks = s.blocks;
      settings.swap_bytes = s.swap_blocks * block_bytes();
      const auto& model = embedded_cpu_model().directory;
      const auto schemas = std::make_shared<gpu::model::constraints>(*model.tokens, model.configuration.eos,
                                                                     model.configuration.vocabulary);
      settings.make_sampler = [schemas] { return made_to_think(schemas); };
      auto beside = settings;
      settings.adapters = made_adapters().store;
      std::shared_ptr<gpu::executor> made = gpu::cpu::make_cpu_executor(embedded_cpu_model().packed, settings);
      if (draft) made = gpu::make_drafted_executor(std::move(made), gpu::cpu::make_cpu_executor(draft, beside));
      done({std::move(made), {}});
    };
    auto& p = o.llumlet.planner;
    p.context_length = 512;
    p.step_tokens_max = s.step_tokens_max;
    p.running_max = s.running_max;
    p.waiting_max = 100;
    p.prefix_caching = s.prefix_caching;
    p.eos = embedded_cpu_model().directory.configuration.eos;
    o.scheduler.policies.migration = protocols::migration_policy::none;
    // An instance that has not reported yet may get none of a burst; in turn each has its part.
    if (s.kill) o.scheduler.policies.dispatch = "round_robin";
    if (s.movers > 0 || s.adjust)
      o.llumlet.migration.fabric = transport::in_process::make_fabric(transport::in_process::make_hub());
    if (s.adjust) s.adjust(o);
    actors::cluster cluster(system, std::move(o));
    EXPECT_TRUE(cluster.gate()->wait_ready(s.instances, 30s));

    const auto all = std::make_shared<waiting_sink::group>();
    if (s.kill) { // the first request is on instance 0 and has more tokens to come than all have together by then
      all->tokens_awaited = s.kill_after;
      all->on_tokens = [&cluster, id = protocols::instance_id{s.killed}] { cluster.kill(id); };
    }
    std::vector<std::shared_ptr<waiting_sink>> sinks;
    for (auto& request : requests()) {
      if (!s.adapters) request.adapter = {};
      auto one = std::make_shared<actors::submission>();
      one->request = std::move(request);
      one->seeded = true;
      sinks.push_back(std::make_shared<waiting_sink>(all));
      one->sink = sinks.back();
      EXPECT_TRUE(cluster.gate()->submit({std::move(one)}));
      std::unique_lock lock(all->mutex);
      if (one_by_one) {
        EXPECT_TRUE(all->changed.wait_for(lock, 60s, [&] { return all->ended == sinks.size(); }));
      }
    }
    outcome out;
    std::atomic<bool> over{false};
    std::atomic<std::uint32_t> migrations{0};
    std::vector<std::thread> movers;
    for (std::uint32_t i = 0; i < s.movers; ++i)
      movers.emplace_back([&, step = i % 2 == 0 ? 1 : s.instances - 1] {
        while (!over) migrations += move_everything(cluster, s.instances, step, over);
      });
    std::unique_lock lock(all->mutex);
    if (s.drain) {
      EXPECT_TRUE(all->changed.wait_for(lock, 60s, [&] { return all->tokens > 100; }));
      const auto begun = system.ask(cluster.node(), 5s, actors::drain_instance{protocols::instance_id{0}, true});
      EXPECT_TRUE(begun && begun->error.empty());
    }
    EXPECT_TRUE(all->changed.wait_for(lock, 60s, [&] { return all->ended == sinks.size(); }));
    lock.unlock();
    over = true;
    for (auto& mover : movers) mover.join();
    lock.lock();
    out.migrations = migrations;
    for (const auto& sink : sinks) {
      EXPECT_FALSE(sink->record.failed) << sink->record.failed->message;
      EXPECT_EQ(sink->record.endings, 1);
      out.tokens.push_back(sink->record.tokens);
      out.sampled.push_back(sink->record.sampled);
      out.prompts.push_back(sink->record.prompt_scores);
    }
    lock.unlock();
    // Aborted migrations give their blocks back a moment later.
    const auto deadline = std::chrono::steady_clock::now() + 10s;
    do {
      if (auto status = cluster.status()) out.status = *status;
    } while ((s.movers > 0 || s.adjust) && blocks_used(out.status) > 0 && std::chrono::steady_clock::now() < deadline);
    return out;
  }

  static std::uint32_t blocks_used(const protocols::cluster_status& status) {
    std::uint32_t sum = 0;
    for (const auto& instance : status.instances) sum += instance.load.blocks_used;
    return sum;
  }

  /// Every request to the instance `step` further.
  static std::uint32_t move_everything(actors::cluster& cluster, std::uint32_t instances, std::uint32_t step,
                                       const std::atomic<bool>& over) {
    std::uint32_t committed = 0;
    const auto status = cluster.status(true);
    if (!status) return 0;
    for (const auto& instance : status->instances)
      for (const auto& request : instance.requests) {
        if (over) return committed;
        const auto to = protocols::instance_id{(instance.instance.value() + step) % instances};
        const auto report = cluster.migrate(request.request, to);
        if (report && report->committed()) ++committed;
      }
    return committed;
  }

  static const outcome& calm() {
    static const auto run = play({.step_tokens_max = 64, .prefix_caching = false}, true);
    return run;
  }
  static const std::vector<std::vector<protocols::token_id>>& alone() { return calm().tokens; }

  /// Plays until more than so many migrations were committed in all, and checks every play: how many one has time for
  /// depends on the machine.
  static void play_until(std::uint32_t migrations, const scene& s, const std::function<void(const outcome&)>& check) {
    std::uint32_t sum = 0;
    for (int run = 0; run < 20 && sum <= migrations; ++run) {
      const auto moved = play(s);
      check(moved);
      sum += moved.migrations;
    }
    EXPECT_GT(sum, migrations);
  }

  /// Where those that have an adapter otherwise had none.
  static void expect_plain_requests_undisturbed(const outcome& moved) {
    const auto asked = requests();
    std::size_t plain = 0;
    for (std::size_t i = 0; i < asked.size(); ++i) {
      if (asked[i].adapter) continue;
      EXPECT_EQ(moved.tokens.at(i), calm().tokens.at(i)) << i;
      EXPECT_TRUE(moved.sampled.at(i) == calm().sampled.at(i)) << i;
      ++plain;
    }
    EXPECT_GT(plain, 8U);
  }

  static void expect_nothing_happened(const outcome& moved) {
    EXPECT_EQ(moved.tokens, calm().tokens);
    EXPECT_TRUE(moved.sampled == calm().sampled) << "log-probabilities travel with the tail";
    EXPECT_TRUE(moved.prompts == calm().prompts) << "and those of the prompt, before the first token";
    for (const auto& instance : moved.status.instances) {
      EXPECT_EQ(instance.load.blocks_used, 0U);
      EXPECT_TRUE(instance.migrations.empty());
    }
  }
};

} // namespace

TEST_F(CpuCluster, AnswersAreNotAllAlike) {
  std::size_t long_enough = 0;
  for (const auto& tokens : alone())
    if (tokens.size() > 20) ++long_enough;
  EXPECT_GT(long_enough, 8U) << "otherwise the other tests compare nothing";
  EXPECT_FALSE(calm().prompts[1].empty());
  EXPECT_TRUE(calm().prompts[0].empty()) << "not asked for";
  EXPECT_NE(alone()[1], alone()[5]) << "same prompt, other seed";
  EXPECT_NE(alone()[0], alone()[12]) << "same prompt, both greedy, and one has an adapter";
}

TEST_F(CpuCluster, ARequestAloneAndInACrowdGivesTheSameTokens) { EXPECT_EQ(play({}).tokens, alone()); }

TEST_F(CpuCluster, RequestsThatShareBlocksOfTheirPromptsGiveTheSameTokens) {
  const auto shared = play({}, true);
  EXPECT_EQ(shared.tokens, alone());
  ASSERT_FALSE(shared.status.instances.empty());
  EXPECT_GT(shared.status.instances[0].load.prefix_hit_tokens_total, 0U);
}

TEST_F(CpuCluster, PromptsCutIntoSmallChunksGiveTheSameTokens) {
  EXPECT_EQ(play({.step_tokens_max = 17, .running_max = 16, .prefix_caching = false}).tokens, alone());
}

TEST_F(CpuCluster, TwoThreadsAndReturnsOfControlBetweenLayersGiveTheSameTokens) {
  EXPECT_EQ(play({.threads = 2, .layers_per_advance = 1}).tokens, alone());
}

TEST_F(CpuCluster, PreemptedAndRecomputedRequestsGiveTheSameTokens) {
  const auto pressed = play({.blocks = 24});
  EXPECT_EQ(pressed.tokens, alone());
  ASSERT_FALSE(pressed.status.instances.empty());
  EXPECT_GT(pressed.status.instances[0].load.preemptions_total, 0U);
}

TEST_F(CpuCluster, RequestsThatWaitInTheHostsMemoryGiveTheSameTokens) {
  const auto prefers_to_swap = [](actors::node_options& o) {
    o.llumlet.planner.preemption = protocols::preemption_mode::swap;
  };
  const auto swapped = play({.blocks = 24, .swap_blocks = 64, .prefix_caching = false, .adjust = prefers_to_swap});
  EXPECT_EQ(swapped.tokens, alone());
  ASSERT_FALSE(swapped.status.instances.empty());
  const auto& load = swapped.status.instances[0].load;
  EXPECT_GT(load.swaps_total, 0U);
  EXPECT_GT(load.swapped_in_tokens_total, 0U);
  EXPECT_EQ(load.swap_blocks, 64U);
  EXPECT_EQ(load.swap_blocks_used, 0U);
  EXPECT_EQ(load.blocks_used, 0U);
}

TEST_F(CpuCluster, RequestsOfAKilledInstanceGiveTheSameTokensElsewhere) {
  const auto disturbed = play({.instances = 2, .kill = true});
  EXPECT_EQ(disturbed.tokens, alone());
  EXPECT_GT(disturbed.status.redispatches_total, 0U);
}

TEST_F(CpuCluster, AnswersThatThinkAreBoundByTheirSchemaBehindIt) {
  for (const std::size_t i : {7U, 15U}) {
    const auto text = embedded_cpu_model().directory.tokens->decode(alone()[i], false);
    std::size_t from = 0; // request 15 may think, and has no token to begin with
    if (i == 7) {
      const auto closed = text.find("</think>");
      ASSERT_NE(closed, std::string::npos) << text;
      EXPECT_GT(closed, 10U) << "free text: " << text;
      from = closed + 8;
    }
    protocols::grammar::automaton run(*protocols::grammar::compile_schema(requests()[i].sampling.json_schema));
    EXPECT_GT(text.size(), from + 30) << text;
    EXPECT_NE(run.advance(run.start(), std::string_view(text).substr(from)), protocols::grammar::dead) << text;
  }
}

TEST_F(CpuCluster, AnswersOfAKilledInstanceThatThinkAndThatHaveThoughtGoOnElsewhere) {
  // Those that think are on instance 1: after some two tokens each, and after some thirty.
  for (const std::size_t tokens : {40, 480}) {
    const auto disturbed = play({.instances = 2, .kill = true, .killed = 1, .kill_after = tokens});
    EXPECT_EQ(disturbed.tokens, alone()) << tokens;
    EXPECT_GT(disturbed.status.redispatches_total, 0U) << tokens;
  }
}

TEST_F(CpuCluster, RequestsThatMigrateAllTheTimeGiveTheSameTokens) {
  play_until(10, {.instances = 2, .movers = 1}, [](const outcome& moved) {
    expect_nothing_happened(moved);
    EXPECT_EQ(moved.status.moves_total, moved.migrations);
    EXPECT_EQ(moved.status.redispatches_total, 0U);
  });
}

TEST_F(CpuCluster, RequestsThatMigrateInChainsAndBothWaysAtOnceGiveTheSameTokens) {
  play_until(20, {.instances = 3, .movers = 3}, [](const outcome& moved) {
    expect_nothing_happened(moved);
    EXPECT_EQ(moved.status.redispatches_total, 0U);
  });
}

TEST_F(CpuCluster, RequestsThatMigrateBetweenLayersGiveTheSameTokens) {
  play_until(0, {.instances = 2, .threads = 2, .layers_per_advance = 1, .movers = 2}, expect_nothing_happened);
}

TEST_F(CpuCluster, RequestsThatMigrateUnderMemoryPressureGiveTheSameTokens) {
  play_until(0, {.instances = 2, .blocks = 24, .movers = 2}, expect_nothing_happened);
}

TEST_F(CpuCluster, RequestsThatMigrateWhileAnInstanceIsKilledGiveTheSameTokens) {
  std::uint64_t migrations = 0, redispatches = 0;
  for (int run = 0; run < 20 && (migrations == 0 || redispatches == 0); ++run) {
    const auto moved = play({.instances = 3, .kill = true, .movers = 2});
    EXPECT_EQ(moved.tokens, alone());
    migrations += moved.migrations;
    redispatches += moved.status.redispatches_total;
  }
  EXPECT_GT(migrations, 0U);
  EXPECT_GT(redispatches, 0U);
}

namespace {

/// Rounds that fit the small model's requests, which live for a fraction of a second.
void quick_rounds(actors::node_options& o) {
  o.scheduler.policies.migration = protocols::migration_policy::freeness;
  o.scheduler.migration_interval = 3ms;
  o.llumlet.report_gap = 1ms;
  o.llumlet.selection.cooldown_ns = 10'000'000;
}

} // namespace

TEST_F(CpuCluster, RequestsThatTheSchedulerMovesGiveTheSameTokens) {
  std::uint64_t moves = 0;
  for (int run = 0; run < 3 || (moves == 0 && run < 20); ++run) {
    const auto moved = play({.instances = 3, .blocks = 24, .adjust = quick_rounds});
    expect_nothing_happened(moved);
    EXPECT_EQ(moved.status.redispatches_total, 0U);
    moves += moved.status.moves_total;
  }
  EXPECT_GT(moves, 0U);
}

namespace {

void speculate(actors::node_options& o) { o.llumlet.planner.speculation = {8, 1, 3, 16}; }

protocols::load_report sum_of(const outcome& played) {
  protocols::load_report sum;
  for (const auto& instance : played.status.instances) {
    sum.steps_total += instance.load.steps_total;
    sum.generated_tokens_total += instance.load.generated_tokens_total;
    sum.draft_tokens_total += instance.load.draft_tokens_total;
    sum.accepted_tokens_total += instance.load.accepted_tokens_total;
  }
  return sum;
}

} // namespace

TEST_F(CpuCluster, RequestsThatSpeculateGiveTheSameTokens) {
  const auto guessed = play({.step_tokens_max = 64, .adjust = speculate}, true);
  expect_nothing_happened(guessed);
  const auto sum = sum_of(guessed);
  EXPECT_GT(sum.accepted_tokens_total, 50U);
  EXPECT_GT(sum.draft_tokens_total, sum.accepted_tokens_total) << "some are wrong";
  EXPECT_LT(sum.steps_total, sum.generated_tokens_total) << "one by one each step would draw one";
  EXPECT_EQ(sum_of(calm()).draft_tokens_total, 0U);
}

TEST_F(CpuCluster, RequestsThatSpeculateInACrowdGiveTheSameTokens) {
  for (const std::uint32_t blocks : {512U, 24U}) {
    const auto guessed = play({.threads = 2, .blocks = blocks, .layers_per_advance = 1, .adjust = speculate});
    expect_nothing_happened(guessed);
    EXPECT_GT(sum_of(guessed).accepted_tokens_total, 0U);
  }
}

TEST_F(CpuCluster, RequestsThatSpeculateWhileTheyMigrateGiveTheSameTokens) {
  std::uint64_t accepted = 0;
  play_until(20, {.instances = 3, .adjust = speculate, .movers = 3}, [&](const outcome& moved) {
    expect_nothing_happened(moved);
    accepted += sum_of(moved).accepted_tokens_total;
  });
  EXPECT_GT(accepted, 0U);
}

TEST_F(CpuCluster, RequestsThatSpeculateOnAKilledInstanceGiveTheSameTokensElsewhere) {
  const auto disturbed = play({.instances = 2, .kill = true, .adjust = speculate});
  EXPECT_EQ(disturbed.tokens, alone());
  EXPECT_GT(disturbed.status.redispatches_total, 0U);
}

namespace {

/// How often a draft model that is the model itself is right, by the same random numbers: wrong it is behind an
/// answer's end, and where a request's KV came without its own.
constexpr double right_share_least = 0.85;

void ask_draft_model(actors::node_options& o) { o.llumlet.planner.speculation.model_max = 5; }

/// How often a draft was right.
double right_share(const protocols::load_report& sum) {
  return static_cast<double>(sum.accepted_tokens_total) / static_cast<double>(sum.draft_tokens_total);
}

} // namespace

TEST_F(CpuCluster, RequestsWithADraftModelGiveTheSameTokens) {
  const auto guessed = play({.step_tokens_max = 64, .draft_layers = 3, .adjust = ask_draft_model}, true);
  expect_nothing_happened(guessed);
  const auto sum = sum_of(guessed);
  EXPECT_GT(sum.accepted_tokens_total, 0U);
  EXPECT_GT(sum.draft_tokens_total, sum.accepted_tokens_total) << "some are wrong";
}

TEST_F(CpuCluster, RequestsWithADraftModelInACrowdGiveTheSameTokens) {
  for (const std::uint32_t blocks : {512U, 24U})
    expect_nothing_happened(
        play({.threads = 2, .blocks = blocks, .layers_per_advance = 1, .draft_layers = 6, .adjust = ask_draft_model}));
}

TEST_F(CpuCluster, ADraftModelThatThinksAlikeIsRight) {
  const auto guessed = play({.draft_layers = 6, .adapters = false, .adjust = ask_draft_model}, true);
  expect_plain_requests_undisturbed(guessed);
  EXPECT_GT(right_share(sum_of(guessed)), right_share_least);
  EXPECT_LT(sum_of(guessed).steps_total, sum_of(guessed).generated_tokens_total);
}

TEST_F(CpuCluster, TheDraftModelsKvIsSharedAndRecomputedWithTheModels) {
  for (const std::uint32_t blocks : {512U, 24U}) {
    const auto guessed = play({.blocks = blocks, .draft_layers = 6, .adapters = false, .adjust = ask_draft_model});
    expect_plain_requests_undisturbed(guessed);
    EXPECT_GT(right_share(sum_of(guessed)), right_share_least) << blocks;
  }
}

TEST_F(CpuCluster, TheDraftModelsKvMovesWithTheModels) {
  std::uint64_t accepted = 0, drafted = 0;
  play_until(20, {.instances = 3, .draft_layers = 6, .adapters = false, .adjust = ask_draft_model, .movers = 3},
             [&](const outcome& moved) {
               expect_plain_requests_undisturbed(moved);
               accepted += sum_of(moved).accepted_tokens_total;
               drafted += sum_of(moved).draft_tokens_total;
             });
  EXPECT_GT(static_cast<double>(accepted), right_share_least * static_cast<double>(drafted));
}

TEST_F(CpuCluster, TheDraftModelsKvWaitsInTheHostsMemoryWithTheModels) {
  const auto prefers_to_swap = [](actors::node_options& o) {
    ask_draft_model(o);
    o.llumlet.planner.preemption = protocols::preemption_mode::swap;
  };
  const auto swapped = play({.blocks = 24,
                             .swap_blocks = 64,
                             .prefix_caching = false,
                             .draft_layers = 6,
                             .adapters = false,
                             .adjust = prefers_to_swap});
  expect_plain_requests_undisturbed(swapped);
  EXPECT_GT(swapped.status.instances.at(0).load.swapped_in_tokens_total, 0U);
  EXPECT_GT(right_share(sum_of(swapped)), right_share_least);
}

TEST_F(CpuCluster, RequestsWithADraftModelOnAKilledInstanceGiveTheSameTokensElsewhere) {
  const auto disturbed = play({.instances = 2, .kill = true, .draft_layers = 3, .adjust = ask_draft_model});
  EXPECT_EQ(disturbed.tokens, alone());
  EXPECT_GT(disturbed.status.redispatches_total, 0U);
}

TEST_F(CpuCluster, AnInstanceThatIsDrainedUnderLoadLosesNothingAndStops) {
  const auto drained = play({.instances = 2, .drain = true, .adjust = quick_rounds});
  expect_nothing_happened(drained);
  EXPECT_EQ(drained.status.redispatches_total, 0U);
  EXPECT_EQ(drained.status.requests_failed_total, 0U);
  EXPECT_EQ(drained.status.instances.size(), 1U) << "one that has stopped is not there";
}

TEST_F(CpuCluster, ALoneInstanceThatIsKilledComesBackAndGoesOn) {
  const auto disturbed = play({.instances = 1, .kill = true});
  EXPECT_EQ(disturbed.tokens, alone());
  EXPECT_GT(disturbed.status.redispatches_total, 0U);
}

} // namespace godwit::test
