#include "main/profile_actors.hpp"

#include "main/migration_parts.hpp"
#include "main/parts.hpp"
#include "main/settings.hpp"

#include <godwit/actors/cluster.hpp>
#include <godwit/gpu/event.hpp>
#include <godwit/runtime/actor_system.hpp>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

namespace godwit::main {

using clock = std::chrono::steady_clock;

namespace {

/// Writes down the pauses between steps in which the same number of requests decode.
class pauses {
public:
  void begun(const protocols::step_input& step) {
    const std::lock_guard lock(mutex_);
    const bool decodes = std::ranges::all_of(step.slices, [](const auto& slice) { return slice.tokens.size() == 1; });
    // After a prefill comes an answer's first token, and after a pause without requests nothing can be told.
    if (decodes && step.slices.size() == sequences_ && step.step == step_ + 1)
      us_[sequences_].push_back(std::chrono::duration<double, std::micro>(clock::now() - ended_).count());
    step_ = step.step;
    sequences_ = decodes ? step.slices.size() : 0;
  }
  void ended() {
    const std::lock_guard lock(mutex_);
    ended_ = clock::now();
  }
  /// By the number of requests.
  [[nodiscard]] std::map<std::size_t, std::vector<double>> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(us_, {});
  }

private:
  std::mutex mutex_;
  clock::time_point ended_;
  std::uint64_t step_ = 0;
  std::size_t sequences_ = 0; ///< that decode in the step before; 0: it is no decode step
  std::map<std::size_t, std::vector<double>> us_;
};

class watched_forward final : public gpu::forward {
public:
  watched_forward(std::unique_ptr<gpu::forward> inner, std::shared_ptr<pauses> notes)
      : inner_(std::move(inner)), notes_(std::move(notes)) {}
  [[nodiscard]] std::uint32_t layers() const noexcept override { return inner_->layers(); }
  void advance(std::uint32_t upto, gpu::completion done) override {
    inner_->advance(upto, [notes = notes_, done = std::move(done)](std::string error) {
      notes->ended();
      done(std::move(error));
    });
  }
  [[nodiscard]] protocols::step_output take() override { return inner_->take(); }

private:
  std::unique_ptr<gpu::forward> inner_;
  std::shared_ptr<pauses> notes_;
};

class watched_executor final : public gpu::executor {
public:
  watched_executor(std::shared_ptr<gpu::executor> inner, std::shared_ptr<pauses> notes)
      : inner_(std::move(inner)), notes_(std::move(notes)) {}
  [[nodiscard]] const gpu::executor_info& info() const noexcept override { return inner_->info(); }
  [[nodiscard]] std::unique_ptr<gpu::forward> begin(protocols::step_input input) override {
    notes_->begun(input);
    return std::make_unique<watched_forward>(inner_->begin(std::move(input)), notes_);
  }
  [[nodiscard]] protocols::memory_region key_region(std::uint32_t layer, protocols::block_id block) override {
    return inner_->key_region(layer, block);
  }
  [[nodiscard]] protocols::memory_region value_region(std::uint32_t layer, protocols::block_id block) override {
    return inner_->value_region(layer, block);
  }

private:
  std::shared_ptr<gpu::executor> inner_;
  std::shared_ptr<pauses> notes_;
};

/// All requests of a batch.
struct batch_end {
  std::atomic<std::size_t> open;
  std::atomic<bool> failed{false};
  gpu::event over;
};

class quiet_client final : public actors::answer_sink {
public:
  explicit quiet_client(std::shared_ptr<batch_end> end) : end_(std::move(end)) {}
  bool on_tokens(std::span<const protocols::sampled_token>, bool) override { return true; }
  void on_finished(protocols::finish_reason, const actors::answer_usage&) override { ended(); }
  void on_failed(const actors::answer_failure&) override {
    end_->failed = true;
    ended();
  }

private:
  void ended() {
    if (--end_->open == 0) end_->over.set();
  }
  std::shared_ptr<batch_end> end_;
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// So many requests that decode together.
void serve_batch(actors::cluster& cluster, std::uint32_t requests, std::uint32_t answer_tokens) {
  const auto end = std::make_shared<batch_end>();
  end->open = requests;
  std::vector<std::shared_ptr<actors::submission>> call;
  for (std::uint32_t i = 0; i < requests; ++i) {
    auto one = std::make_shared<actors::submission>();
    one->request.prompt.assign(2, static_cast<protocols::token_id>(i % 8));
    one->request.stop.max_tokens = answer_tokens;
    one->request.stop.ignore_eos = true;
    one->request.sampling.seed = i;
    one->seeded = true;
    one->sink = std::make_shared<quiet_client>(end);
    call.push_back(std::move(one));
  }
  if (!cluster.gate()->submit(std::move(call))) throw std::runtime_error("the front end takes no requests");
  end->over.wait();
  if (end->failed) throw std::runtime_error("a request of the measurement failed");
}

actors::node_options node_of(const std::shared_ptr<gpu::executor>& on) {
  const serve_settings settings;
  actors::node_options n;
  n.version = "profile";
  n.address = "profile";
  n.identity = {"profile", on->info().kv_layout, on->info().block_bytes, on->info().positions_max};
  n.llumlet = make_llumlet_options(settings, on->info().positions_max, {}, make_migration(settings, nullptr, {}), {});
  n.llumlet.profile.enabled = false;
  n.scheduler = make_scheduler_options(settings, {});
  n.instance.make_executor = [on](protocols::instance_id, const std::function<void(actors::executor_outcome)>& done) {
    done({on, {}});
  };
  return n;
}

} // namespace

actor_costs measure_actors(std::shared_ptr<gpu::executor> on, std::chrono::nanoseconds time_max) {
  constexpr std::uint32_t several = 8, steps = 32;
  constexpr int rounds_least = 2, rounds_max = 200;
  const auto answer = std::min(steps, on->info().positions_max / 2);
  const auto notes = std::make_shared<pauses>();
  const auto begun = clock::now();
  runtime::actor_system system(make_system_settings(serve_settings{}, false, {}));
  {
    actors::cluster cluster(system, node_of(std::make_shared<watched_executor>(std::move(on), notes)));
    if (!cluster.gate()->wait_ready(1, std::chrono::seconds(60)))
      throw std::runtime_error("the instance of the measurement does not get ready");
    serve_batch(cluster, several, answer); // what is made at first use
    (void)notes->take();
    for (int round = 0; round < rounds_max && (round < rounds_least || clock::now() - begun < time_max); ++round)
      for (const auto requests : {1U, several}) serve_batch(cluster, requests, answer);
  }
  system.shutdown(std::chrono::seconds(5));
  auto found = notes->take();
  auto &alone = found[1], &together = found[several];
  if (alone.empty() || together.empty()) throw std::runtime_error("no two steps of the measurement are alike");
  actor_costs out;
  out.steps = alone.size() + together.size();
  const auto of_one = median(std::move(alone)), of_several = median(std::move(together));
  out.per_decode_us = std::max(0.0, (of_several - of_one) / (several - 1));
  out.overhead_us = std::max(0.0, of_one - out.per_decode_us);
  return out;
}

} // namespace godwit::main
