#include "scheduler/central.hpp"

#include <godwit/protocols/batching/planner.hpp>

#include <chrono>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace godwit::bench {

namespace {

using namespace protocols;

// As in figure 16 of docs/evaluation.md: 3 requests/s for each instance, of 64 tokens in and 64 out at 45 ms a step.
constexpr std::uint32_t running = 9;
constexpr std::uint32_t prompt_tokens = 64;
constexpr std::uint32_t answer_tokens = 64;
constexpr int planner_steps = 20'000; ///< of a run, all instances together

/// What is computed for an instance from the end of a step to the begin of the next one. A request that has ended is
/// followed by another.
class scheduled_instance {
public:
  scheduled_instance() : planner_(settings()) {
    for (std::uint32_t i = 0; i < running; ++i) admit(1 + i * answer_tokens / running);
    input_ = planner_.plan();
  }
  void between_steps() {
    step_output output;
    output.step = input_->step;
    for (const auto& slice : input_->slices)
      if (slice.samples) output.tokens.emplace_back(token_id{7});
    const auto effects = planner_.complete(output);
    for (std::size_t i = 0; i < effects.gone.size(); ++i) admit(answer_tokens);
    (void)planner_.take_effects();
    input_ = planner_.plan();
    if (!input_ || input_->slices.size() != running) std::abort(); // it would measure something else
  }

private:
  static planner_settings settings() {
    planner_settings s;
    s.blocks = 851; // 13,616 tokens
    s.context_length = 4096;
    s.step_tokens_max = 1024; // the prompts of all at once
    return s;
  }
  void admit(std::uint32_t answers) {
    generate_request request;
    request.request = request_id{++last_};
    request.epoch = epoch{1};
    request.prompt.assign(prompt_tokens, static_cast<token_id>(last_));
    request.stop.max_tokens = answers;
    if (!planner_.admit(std::move(request)).accepted()) std::abort();
  }
  planner planner_;
  std::optional<step_input> input_;
  std::uint64_t last_ = 0;
};

/// Milliseconds between two steps that all of them take together.
double round_ms(std::vector<scheduled_instance>& all) {
  const auto rounds = planner_steps / static_cast<int>(all.size());
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < rounds; ++i)
    for (auto& one : all) one.between_steps();
  const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - begin;
  return elapsed.count() / rounds;
}

} // namespace

void measure_central(session& out) {
  for (const std::size_t count : {16, 64, 256, 1024}) {
    const auto name = "scheduler/central_" + std::to_string(count);
    if (!out.wants(name)) continue;
    std::vector<scheduled_instance> all(count);
    std::vector<scheduled_instance> one(1);
    const auto c = interleave(
        out.repetitions(), [&] { return round_ms(all); }, [&] { return round_ms(one); });
    out.add(told(name, c, "ms")); // it is not how godwit works
  }
}

} // namespace godwit::bench
