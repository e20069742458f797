// Instances on one, two and four CPU devices: real arithmetic, real KV, the production actors on threads.
#include "actors/support/cpu_model.hpp"
#include "actors/support/waiting_sink.hpp"
#include "migration/kv_memory.hpp"

#include <godwit/actors/cluster.hpp>
#include <godwit/gpu/event.hpp>
#include <godwit/gpu/model/random_model.hpp>
#include <godwit/runtime/actor_system.hpp>
#include <godwit/transport/in_process/fabric.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <thread>

namespace godwit::test {

using namespace std::chrono_literals;

namespace {

using parts = std::vector<std::shared_ptr<const gpu::cpu::packed_model>>;
using tokens = std::vector<protocols::token_id>;

/// Random weights as f32: sums over devices round them so little that greedy answers are the same for all degrees.
class wide_weights final : public gpu::model::weights {
public:
  explicit wide_weights(std::shared_ptr<const gpu::model::weights> narrow) : narrow_(std::move(narrow)) {}
  [[nodiscard]] const gpu::model::tensor_view* find(std::string_view name) const noexcept override {
    const auto* from = narrow_->find(name);
    if (from == nullptr) return nullptr;
    auto& to = wide_[std::string(name)];
    if (to.values.empty()) {
      for (std::size_t i = 0; i < from->bytes; i += 2) {
        std::uint16_t half = 0;
        std::memcpy(&half, from->data + i, 2);
        to.values.push_back(std::bit_cast<float>(std::uint32_t{half} << 16));
      }
      to.view = {gpu::model::data_type::f32, from->shape, reinterpret_cast<const std::byte*>(to.values.data()),
                 to.values.size() * sizeof(float)};
    }
    return &to.view;
  }
  [[nodiscard]] std::uint64_t total_bytes() const noexcept override { return 2 * narrow_->total_bytes(); }

private:
  struct tensor {
    std::vector<float> values;
    gpu::model::tensor_view view;
  };
  std::shared_ptr<const gpu::model::weights> narrow_;
  mutable std::map<std::string, tensor> wide_; // used by one thread
};

gpu::model::config four_kv_heads() {
  auto c = gpu::model::find_random_model("tiny")->configuration;
  c.heads = 8;
  c.kv_heads = 4;
  c.head_size = 16;
  c.layers = 3;
  c.vocabulary = 300;
  c.intermediate = 200;
  return c;
}
/// The model, divided among so many devices.
const parts& divided(std::uint32_t degree) {
  static std::map<std::uint32_t, parts> all;
  auto& out = all[degree];
  if (out.empty()) {
    const auto c = four_kv_heads();
    out = gpu::cpu::pack_shards(c, wide_weights(gpu::model::random_weights(c, 3)), degree, 1);
  }
  return out;
}
std::shared_ptr<gpu::executor> device(std::uint32_t degree, std::uint32_t blocks) {
  gpu::cpu::cpu_executor_settings settings;
  settings.threads = degree;
  settings.blocks = blocks;
  return gpu::cpu::make_cpu_executor(divided(degree), settings, 20s);
}

tokens prompt_of(std::uint32_t number, std::uint32_t length) {
  tokens out;
  for (std::uint32_t i = 0; i < length; ++i)
    out.push_back(static_cast<protocols::token_id>((number * 7919 + i * i * 31 + 5) % 300));
  return out;
}

/// A cluster of instances of these degrees, and one request after the other.
class degrees {
public:
  explicit degrees(std::vector<std::uint32_t> list) : list_(std::move(list)) {
    actors::node_options o;
    o.version = "test";
    o.model = "random";
    o.instances = static_cast<std::uint32_t>(list_.size());
    o.backoff_min = 1ms;
    o.instance.on_shards = [this](protocols::instance_id id, const auto& shards) {
      const std::lock_guard lock(mutex_);
      shards_[id.value()] = shards;
    };
    o.instance.make_executor = [list = list_](protocols::instance_id id,
                                              const std::function<void(actors::executor_outcome)>& done) {
      done({device(list[id.value()], 80), {}});
    };
    o.llumlet.planner.context_length = 512;
    o.llumlet.migration.fabric = transport::in_process::make_fabric(transport::in_process::make_hub());
    o.llumlet.migration.settings.copy_share = 1;
    o.scheduler.policies.migration = protocols::migration_policy::none;
    o.scheduler.policies.dispatch = "round_robin";
    cluster = std::make_unique<actors::cluster>(system, std::move(o));
    EXPECT_TRUE(cluster->gate()->wait_ready(static_cast<std::uint32_t>(list_.size()), 30s));
  }
  ~degrees() {
    cluster.reset();
    const std::lock_guard lock(mutex_);
    shards_.clear();
  }

  std::shared_ptr<waiting_sink> submit(std::uint32_t number, std::uint32_t answer) {
    auto one = std::make_shared<actors::submission>();
    one->request.prompt = prompt_of(number, 40 + number % 50);
    one->request.sampling.temperature = 0;
    one->request.stop.max_tokens = answer;
    one->request.stop.ignore_eos = true;
    one->seeded = true;
    auto sink = std::make_shared<waiting_sink>(all);
    one->sink = sink;
    EXPECT_TRUE(cluster->gate()->submit({std::move(one)}));
    return sink;
  }
  /// Until that many requests have ended in all.
  void wait_ended(std::size_t count) {
    std::unique_lock lock(all->mutex);
    EXPECT_TRUE(all->changed.wait_for(lock, 60s, [&] { return all->ended >= count; }));
  }
  /// The answers to requests 0 .. count - 1, alone.
  std::vector<tokens> answers(std::uint32_t count, std::uint32_t length) {
    std::vector<tokens> out;
    for (std::uint32_t i = 0; i < count; ++i) {
      const auto sink = submit(i, length);
      wait_ended(i + 1);
      const std::lock_guard lock(all->mutex);
      out.push_back(sink->record.tokens);
    }
    return out;
  }
  /// The only request's place, while it decodes.
  std::optional<std::pair<protocols::request_id, std::uint32_t>> find() {
    const auto status = cluster->status(true);
    if (!status) return std::nullopt;
    for (const auto& instance : status->instances)
      for (const auto& request : instance.requests)
        if (request.answer_tokens > 0) return std::pair{request.request, instance.instance.value()};
    return std::nullopt;
  }
  /// Ends the actor of one device.
  void end_device(std::uint32_t instance, std::size_t rank) {
    const std::lock_guard lock(mutex_);
    system.stop(shards_.at(instance).at(rank), runtime::stop_reason::killed);
  }

  runtime::actor_system system;
  std::unique_ptr<actors::cluster> cluster;
  std::shared_ptr<waiting_sink::group> all = std::make_shared<waiting_sink::group>();

private:
  std::vector<std::uint32_t> list_;
  std::mutex mutex_;
  std::map<std::uint32_t, std::vector<runtime::handle<actors::shard_interface>>> shards_;
};

constexpr std::uint32_t long_answer = 400;

/// The answer was complete before the order came, or while the request moved; then its home may be the first to know.
bool it_ended(protocols::migration_reason why) {
  using protocols::migration_reason;
  return why == migration_reason::request_finished || why == migration_reason::request_unknown ||
         why == migration_reason::request_cancelled || why == migration_reason::home_refused;
}

const std::vector<tokens>& of_one_device() {
  static const auto run = degrees({1}).answers(4, long_answer);
  return run;
}

std::string run_step(gpu::executor& on, protocols::step_input input, protocols::step_output& out) {
  const auto step = on.begin(std::move(input));
  const gpu::event ran;
  std::string error;
  step->advance(step->layers(), [&](std::string what) {
    error = std::move(what);
    ran.set();
  });
  ran.wait();
  if (error.empty()) out = step->take();
  return error;
}

} // namespace

TEST(TensorParallelCpu, GreedyAnswersAreThoseOfOneDeviceWhereTheModelIsSure) {
  for (const auto& answer : of_one_device()) EXPECT_EQ(answer.size(), long_answer);
  EXPECT_NE(of_one_device()[0], of_one_device()[1]);
  EXPECT_EQ(degrees({2}).answers(4, long_answer), of_one_device());
  EXPECT_EQ(degrees({4}).answers(4, long_answer), of_one_device());
}

TEST(TensorParallelCpu, ARequestGoesFromOneDeviceToTwoToFourAndBackWhileItDecodes) {
  std::set<std::pair<std::uint32_t, std::uint32_t>> ways; // by degree
  const std::vector<std::uint32_t> list{1, 2, 4};
  std::size_t ended = 0;
  degrees d(list);
  for (std::uint32_t round = 0; round < 30 && (ways.size() < 6 || round < 3) && !HasFailure(); ++round) {
    const auto number = round % 4;
    const auto sink = d.submit(number, long_answer);
    for (std::uint32_t hop = 0; hop < 40; ++hop) {
      std::optional<std::pair<protocols::request_id, std::uint32_t>> here;
      const auto over = [&] {
        const std::lock_guard lock(d.all->mutex);
        return d.all->ended > ended;
      };
      const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
      while (!over() && !(here = d.find())) {
        ASSERT_LT(std::chrono::steady_clock::now(), until) << "a request that is nowhere and does not end";
        std::this_thread::yield();
      }
      if (!here) break;
      const auto to = (here->second + 1 + round % 2) % 3;
      const auto report = d.cluster->migrate(here->first, protocols::instance_id{to});
      if (report && report->committed()) {
        ways.emplace(list[here->second], list[to]);
        EXPECT_GT(report->bytes, 0U);
      } else if (report) {
        EXPECT_TRUE(it_ended(report->reason)) << to_string(report->reason);
      }
    }
    d.wait_ended(++ended);
    const std::lock_guard lock(d.all->mutex);
    EXPECT_EQ(sink->record.endings, 1);
    EXPECT_EQ(sink->record.tokens, of_one_device()[number]) << "none lost, none twice, the text goes on";
  }
  EXPECT_EQ(ways.size(), 6U) << "each degree to each other";
}

TEST(TensorParallelCpu, ADeviceWhoseActorDiesCostsNoRequest) {
  for (const std::size_t rank : {0U, 1U, 3U}) {
    degrees d({4, 2});
    std::vector<std::shared_ptr<waiting_sink>> sinks;
    d.all->tokens_awaited = 50;
    d.all->on_tokens = [&d, rank] { d.end_device(0, rank); };
    for (std::uint32_t i = 0; i < 4; ++i) sinks.push_back(d.submit(i, long_answer));
    d.wait_ended(4);
    for (std::uint32_t i = 0; i < 4; ++i) {
      const std::lock_guard lock(d.all->mutex);
      EXPECT_FALSE(sinks[i]->record.failed);
      EXPECT_EQ(sinks[i]->record.tokens, of_one_device()[i]);
    }
    EXPECT_TRUE(d.cluster->gate()->wait_ready(2, 30s)) << "it comes back";
    const auto status = d.cluster->status();
    ASSERT_TRUE(status);
    EXPECT_GT(status->redispatches_total, 0U);
    EXPECT_EQ(status->instances[0].restarts, 1U);
    EXPECT_EQ(status->instances[0].device.substr(0, 8), "4 x cpu ");
  }
}

// What the coordinators of a migration do, without them: the very bytes.
TEST(TensorParallelCpu, KvThatGoesRoundTheDegreesComesBackAsItWas) {
  using actors::kv_memory;
  const auto fabric = transport::in_process::make_fabric(transport::in_process::make_hub());
  constexpr std::uint32_t blocks = 6;
  const auto text = prompt_of(2, 90);
  const auto table = [](std::uint32_t first) {
    std::vector<protocols::block_id> out;
    for (std::uint32_t i = 0; i < blocks; ++i) out.emplace_back((first + i * 5) % 31);
    return out;
  };
  const auto slice = [&](std::uint32_t first, std::uint32_t count, std::uint32_t where) {
    protocols::step_input input;
    auto& s = input.slices.emplace_back();
    s.first_position = first;
    s.tokens.assign(text.begin() + first, text.begin() + first + count);
    s.blocks = table(where);
    s.samples = true;
    s.sampling.temperature = 0;
    s.sampling.logprobs = 5;
    return input;
  };
  const auto contents = [](const std::vector<protocols::memory_region>& regions) {
    std::vector<std::byte> out;
    for (const auto& r : regions) out.insert(out.end(), r.address, r.address + r.bytes);
    return out;
  };
  std::map<std::uint32_t, std::shared_ptr<gpu::executor>> devices;
  for (const std::uint32_t degree : {1U, 2U, 4U}) devices[degree] = device(degree, 31);
  protocols::step_output out;
  ASSERT_EQ(run_step(*devices[1], slice(0, 89, 1), out), "");
  const auto before = contents(kv_memory(devices[1]).regions(table(1)));
  protocols::step_output expected;
  ASSERT_EQ(run_step(*devices[1], slice(89, 1, 1), expected), "");
  // The last token's KV was written anew, with the same bytes but for what was not there.
  const auto whole = contents(kv_memory(devices[1]).regions(table(1)));
  std::uint64_t key = 0;
  std::uint32_t from = 1, at = 1;
  for (const std::uint32_t to : {2U, 4U, 1U, 4U, 2U, 1U}) {
    const auto source = kv_memory(devices[from]).common_with(to), place = kv_memory(devices[to]).common_with(from);
    const auto there = (at + 7) % 31;
    const gpu::event landed, sent;
    const auto regions = place->regions(table(there));
    fabric->post({++key, 0}, regions, nullptr, [&, count = regions.size()](const transport::landing& news) {
      EXPECT_EQ(news.error, "");
      if (news.regions == count) landed.set();
    });
    fabric->send(fabric->address(), {key, 0}, 0, source->regions(table(at)), transport::transfer_priority::bulk, 10s,
                 nullptr, [&](const std::string& error) {
                   EXPECT_EQ(error, "");
                   sent.set();
                 });
    sent.wait();
    landed.wait();
    EXPECT_EQ(contents(kv_memory(devices[to]).regions(table(there))), whole) << from << " to " << to;
    // And it goes on there as here.
    ASSERT_EQ(run_step(*devices[to], slice(89, 1, there), out), "");
    EXPECT_EQ(out.tokens[0].id, expected.tokens[0].id);
    for (std::size_t i = 0; i < 5; ++i)
      EXPECT_NEAR(out.tokens[0].top[i].logprob, expected.tokens[0].top[i].logprob, 1e-4);
    if (to == 1) {
      EXPECT_EQ(out.tokens[0], expected.tokens[0]) << "to the last bit";
    }
    // What this step has written may differ in the last bits: the journey goes on with the first one's.
    const auto restored = kv_memory(devices[to]).regions(table(there));
    std::size_t offset = 0;
    for (const auto& region : restored) {
      std::memcpy(region.address, whole.data() + offset, region.bytes);
      offset += region.bytes;
    }
    from = to;
    at = there;
  }
  EXPECT_NE(before, whole);
}

// Within one degree nothing depends on the batch, the chunks, a restart or a move.
TEST(TensorParallelCpu, TheDefaultModelOnTwoDevicesSaysTheSameInAnyCompany) {
  const auto& model = embedded_cpu_model();
  if (!model.packed) GTEST_SKIP() << "built without the embedded model";
  const auto shards = gpu::cpu::pack_shards(model.directory.configuration, *model.directory.tensors, 2, 1);
  const auto play = [&](bool together, std::uint32_t step_tokens, std::uint32_t instances) {
    runtime::actor_system system;
    actors::node_options o;
    o.version = "test";
    o.model = "default";
    o.instances = instances;
    o.backoff_min = 1ms;
    o.instance.make_executor = [&](protocols::instance_id, const std::function<void(actors::executor_outcome)>& done) {
      gpu::cpu::cpu_executor_settings settings;
      settings.threads = 2;
      settings.blocks = 300;
      settings.tokens = model.directory.tokens;
      done({gpu::cpu::make_cpu_executor(shards, settings), {}});
    };
    o.llumlet.planner.context_length = 512;
    o.llumlet.planner.step_tokens_max = step_tokens;
    o.llumlet.planner.running_max = 8;
    o.llumlet.migration.fabric = transport::in_process::make_fabric(transport::in_process::make_hub());
    o.scheduler.policies.migration = protocols::migration_policy::none;
    actors::cluster cluster(system, std::move(o));
    EXPECT_TRUE(cluster.gate()->wait_ready(instances, 30s));
    const auto all = std::make_shared<waiting_sink::group>();
    std::vector<std::shared_ptr<waiting_sink>> sinks;
    for (std::uint32_t i = 0; i < 8; ++i) {
      auto one = std::make_shared<actors::submission>();
      one->request.prompt = model.directory.tokens->encode(
          i % 2 == 0 ? "A hacker is" : "The Jargon File is a collection of slang terms used by", false);
      one->request.sampling.temperature = i % 3 == 0 ? 0.0F : 0.9F;
      one->request.sampling.seed = 50 + i;
      one->request.stop.max_tokens = 50;
      one->request.stop.ignore_eos = true;
      if (i == 7) one->request.sampling.json_schema = R"({"type":"array","minItems":4,"items":{"type":"integer"}})";
      one->seeded = true;
      sinks.push_back(std::make_shared<waiting_sink>(all));
      one->sink = sinks.back();
      EXPECT_TRUE(cluster.gate()->submit({std::move(one)}));
      std::unique_lock lock(all->mutex);
      if (!together) {
        EXPECT_TRUE(all->changed.wait_for(lock, 60s, [&] { return all->ended == sinks.size(); }));
      }
    }
    if (instances > 1) // every request to the other instance, wherever it is
      for (int round = 0; round < 3; ++round)
        if (const auto status = cluster.status(true))
          for (const auto& instance : status->instances)
            for (const auto& request : instance.requests)
              (void)cluster.migrate(request.request, protocols::instance_id{1 - instance.instance.value()});
    std::unique_lock lock(all->mutex);
    EXPECT_TRUE(all->changed.wait_for(lock, 60s, [&] { return all->ended == sinks.size(); }));
    std::vector<tokens> out;
    for (const auto& sink : sinks) {
      EXPECT_FALSE(sink->record.failed);
      out.push_back(sink->record.tokens);
    }
    return out;
  };
  const auto alone = play(false, 256, 1);
  EXPECT_NE(alone[1], alone[3]) << "same prompt, other seed";
  EXPECT_EQ(play(true, 256, 1), alone);
  EXPECT_EQ(play(true, 9, 1), alone);
  EXPECT_EQ(play(true, 64, 2), alone);
}

} // namespace godwit::test
