#include "main/profile_serving.hpp"

#include "main/load_generator.hpp"
#include "main/logging.hpp"
#include "main/settings.hpp"
#include "main/tracing.hpp"

#include <godwit/protocols/workload/workload.hpp>

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <utility>

namespace godwit::main {

using clock = std::chrono::steady_clock;
namespace workload = protocols::workload;

namespace {

constexpr double load_share = 0.6;
constexpr std::size_t requests_least = 12;
constexpr double settling_share = 0.1; ///< of the steps, when everything is used for the first time

double us_between(clock::time_point from, clock::time_point to) {
  return std::chrono::duration<double, std::micro>(to - from).count();
}

step_shape shape_of(const protocols::step_input& input) {
  step_shape out;
  for (const auto& slice : input.slices)
    out.parts.push_back({1, slice.first_position, static_cast<std::uint32_t>(slice.tokens.size()), slice.samples});
  return out;
}

/// One instance's steps.
class step_notes {
public:
  void begun(const protocols::step_input& input) {
    const std::lock_guard lock(mutex_);
    const auto now = clock::now();
    // A sequence that goes on was there when the step before ended, so nothing else was waited for.
    const bool goes_on = std::ranges::any_of(input.slices, [](const auto& slice) { return slice.first_position > 0; });
    if (goes_on && running_) steps_.back().pause_us = us_between(ended_, now);
    steps_.push_back({shape_of(input), 0, {}});
    running_ = true;
    begun_ = now;
  }
  void ended() {
    const std::lock_guard lock(mutex_);
    ended_ = clock::now();
    steps_.back().us = us_between(begun_, ended_);
  }
  [[nodiscard]] std::vector<served_step> take() {
    const std::lock_guard lock(mutex_);
    running_ = false;
    return std::exchange(steps_, {});
  }

private:
  std::mutex mutex_;
  clock::time_point begun_, ended_;
  bool running_ = false; ///< there was a step
  std::vector<served_step> steps_;
};

class watched_forward final : public gpu::forward {
public:
  watched_forward(std::unique_ptr<gpu::forward> inner, std::shared_ptr<step_notes> notes)
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
  std::shared_ptr<step_notes> notes_;
};

class watched_executor final : public gpu::executor {
public:
  watched_executor(std::shared_ptr<gpu::executor> inner, std::shared_ptr<step_notes> notes)
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
  std::shared_ptr<step_notes> notes_;
};

/// A virtual machine finds memory when it is first touched, and what is measured is a server that has run for a while.
/// A GPU's is filled as it is taken, and not for the host to touch.
void touch_pool(gpu::executor& of) {
  const auto& info = of.info();
  for (std::uint32_t block = 0; block < info.blocks; ++block)
    for (std::uint32_t layer = 0; layer < info.layers; ++layer)
      for (const auto& region :
           {of.key_region(layer, protocols::block_id(block)), of.value_region(layer, protocols::block_id(block))})
        if (region.kind != protocols::memory_kind::device) std::memset(region.address, 0, region.bytes);
}

serve_settings settings_of(const served_load& load, std::uint32_t context, std::uint64_t token_bytes) {
  // More than the load has in flight, and not as much as there is memory: all of it is touched before it is used. On
  // GPUs, which several instances may share, what a server gives each.
  constexpr std::uint64_t pool_tokens = 16 * 1024;
  serve_settings out;
  out.instances.count = load.instances;
  out.instances.device = load.cuda ? device_choice::cuda : device_choice::cpu;
  out.instances.deterministic = load.deterministic;
  out.instances.threads = load.threads;
  if (!load.cuda) out.instances.kv_bytes = pool_tokens * token_bytes;
  out.llumlet.step_tokens_max = load.step_tokens_max;
  out.llumlet.sequences_max = load.sequences_max;
  out.llumlet.prefix_caching = false;
  out.speculation.tokens_max = out.speculation.prediction_max = 0;
  out.model.context_max = context;
  out.scheduler.migration = protocols::migration_policy::none;
  out.http.listen = "127.0.0.1:0";
  out.control.listen.clear();
  out.fabric.backend = fabric_choice::none;
  out.log.levels = "off";
  out.priorities.profile = false; // its steps are no requests'
  return out;
}

struct lengths {
  std::uint32_t prompt_max, answer_max;
  [[nodiscard]] workload::length_spec spec() const {
    const auto up_to = [](std::uint32_t most) { return workload::uniform_length{std::max(1U, most / 8), most}; };
    return {"", up_to(prompt_max), up_to(answer_max)};
  }
};

} // namespace

double carried_rate(const gpu::sim::latency_model& device, std::uint32_t prompt_tokens, std::uint32_t answer_tokens,
                    std::uint32_t sequences) {
  const auto together = std::clamp(sequences, 1U, 8U);
  const auto prefill_us = predicted_us(device, {{{1, 0, prompt_tokens, true}}});
  const auto decode_us = predicted_us(device, {{{together, prompt_tokens + answer_tokens / 2, 1, true}}});
  return 1e6 / (prefill_us + decode_us * answer_tokens / together);
}

std::vector<std::vector<served_step>> serve_and_watch(const gpu::model::model_directory& model, const served_load& load,
                                                      const gpu::sim::latency_model& device,
                                                      const device_watch& behind) {
  const auto& c = model.configuration;
  constexpr std::uint32_t longest = 2048;
  const auto context = std::min({load.context_max == 0 ? longest : load.context_max, c.positions_max, longest});
  const lengths most{std::clamp(context / 2, 1U, 512U), std::clamp(context / 4, 1U, 64U)};
  const auto rate =
      load_share * load.instances *
      carried_rate(device, most.prompt_max * 9 / 16 + 1, most.answer_max * 9 / 16 + 1, load.sequences_max);
  const auto seconds = std::chrono::duration<double>(load.time).count();
  workload::workload_spec spec;
  spec.requests = std::max(requests_least * load.instances, static_cast<std::size_t>(rate * seconds));
  spec.arrivals = {rate, 1.0};
  spec.lengths = most.spec();
  spec.seed = 11; // not one that anybody would choose for what is compared

  std::mutex mutex;
  std::vector<std::shared_ptr<step_notes>> notes;
  const auto watch = [&](std::shared_ptr<gpu::executor> made) -> std::shared_ptr<gpu::executor> {
    touch_pool(*made);
    if (behind) made = behind(std::move(made));
    const std::lock_guard lock(mutex);
    notes.push_back(std::make_shared<step_notes>());
    return std::make_shared<watched_executor>(std::move(made), notes.back());
  };
  const auto token_bytes = std::uint64_t{4} * 2 * c.layers * c.kv_heads * c.head_size; // in f32, the wider of the two
  const auto settings = settings_of(load, context, token_bytes);
  auto log = open_log(settings);
  if (!log) throw std::runtime_error(log.error());
  tracing records(settings, {"profile", "profile", ""}, log->component("trace")); // as a server has
  auto started = serving::start(settings, model, *log, &records, {}, load.cuda, watch);
  if (!started) throw std::runtime_error(started.error().line);
  const auto& node = *started;
  if (const auto error = node->wait_ready([] { return false; })) throw std::runtime_error(error->line);

  load_generator::settings client;
  client.url = node->url() + "/v1/completions";
  client.concurrency = 64 * load.instances; // where the rate was too high after all
  client.client.total_timeout = client.client.idle_timeout = std::chrono::minutes(10);
  prompt_writer::settings prompts;
  prompts.model = node->model_name();
  prompts.seed = spec.seed;
  prompts.temperature = load.temperature;
  const runtime::steady_clock time;
  load_generator generator(client, prompt_writer(prompts), time);
  const auto answers = generator.run(workload::make_workload(spec), [](const load_progress&) { return true; });
  for (const auto& one : answers)
    if (one.outcome != bench_outcome::answered)
      throw std::runtime_error("a request of the measurement failed: " + one.error_kind + ": " + one.error_message);

  std::vector<std::vector<served_step>> out;
  const std::lock_guard lock(mutex);
  for (const auto& one : notes) {
    auto steps = one->take();
    steps.erase(steps.begin(),
                steps.begin() + static_cast<std::ptrdiff_t>(settling_share * static_cast<double>(steps.size())));
    out.push_back(std::move(steps));
  }
  return out;
}

} // namespace godwit::main
