// A pipeline of devices against one of them: a prompt in parts, which the stages compute at once, and requests that
// decode, all in one step or in two that are under way at once. Each device is a thread of the CPU; what goes from
// stage to stage is copied.
#include "support/bench.hpp"

#include <godwit/gpu/cpu/cpu_executor.hpp>
#include <godwit/gpu/event.hpp>
#include <godwit/gpu/model/random_model.hpp>
#include <godwit/protocols/batching/step_parts.hpp>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace godwit;
using namespace godwit::gpu;

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

constexpr std::uint32_t prompt = 512;
constexpr std::uint32_t requests = 16; ///< that decode

protocols::step_input step_of(std::uint32_t first, std::uint32_t tokens, std::uint32_t vocabulary) {
  protocols::step_input input;
  auto& slice = input.slices.emplace_back();
  slice.first_position = first;
  for (std::uint32_t i = 0; i < tokens; ++i)
    slice.tokens.push_back(static_cast<protocols::token_id>((first + i) * 7919U % vocabulary));
  for (std::uint32_t i = 0; i <= (first + tokens - 1) / protocols::tokens_per_block; ++i) slice.blocks.emplace_back(i);
  slice.samples = true;
  slice.sampling.temperature = 0;
  return input;
}

/// Requests that decode behind a prompt each, numbered from `first`; the prompt is one for all.
protocols::step_input decodes_of(std::uint32_t first, std::uint32_t count, std::uint32_t vocabulary) {
  protocols::step_input input;
  for (std::uint32_t i = first; i < first + count; ++i) {
    auto one = step_of(prompt, 1, vocabulary).slices.front();
    one.tokens.front() = static_cast<protocols::token_id>(i % vocabulary);
    one.blocks.back() = protocols::block_id{prompt / protocols::tokens_per_block + i};
    input.slices.push_back(std::move(one));
  }
  return input;
}

double run_whole(executor& on, protocols::step_input input) {
  const double start = seconds();
  const auto pass = on.begin(std::move(input));
  const event ran;
  pass->advance(pass->layers(), [&](const std::string&) { ran.set(); });
  ran.wait();
  (void)pass->take();
  return seconds() - start;
}

/// Each of these steps, in `count` parts, as often as `rounds` says: again when it has ended, while the others are
/// under way. Each turn ends on its device's thread; the next ones begin here, as they do at an instance's actor.
double run_in_parts(executor& on, const std::vector<protocols::step_input>& steps, std::uint32_t count,
                    std::uint32_t rounds = 1) {
  const auto stages = on.stages();
  const double start = seconds();
  protocols::stage_schedule schedule(static_cast<std::uint32_t>(stages.size()));
  std::vector<protocols::step_input> parts;
  std::deque<std::uint32_t> inside; // the oldest step's parts first
  std::uint64_t ended_parts = 0, added = 0;
  const auto add = [&] {
    auto step = steps[added % steps.size()];
    step.step = ++added;
    auto some = protocols::cut_step(std::move(step), count);
    (void)schedule.add(static_cast<std::uint32_t>(some.size()));
    inside.push_back(static_cast<std::uint32_t>(some.size()));
    for (auto& part : some) parts.push_back(std::move(part));
  };
  for (std::size_t i = 0; i < steps.size(); ++i) add();
  struct turn_under_way {
    protocols::stage_schedule::turn what;
    std::unique_ptr<forward> step;
  };
  std::vector<std::unique_ptr<turn_under_way>> running;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<turn_under_way*> ended;
  while (!inside.empty()) {
    for (const auto what : schedule.begin()) {
      running.push_back(std::make_unique<turn_under_way>());
      auto* const one = running.back().get();
      one->what = what;
      one->step = stages[what.stage]->begin(parts[what.part]);
      one->step->advance(one->step->layers(), [&, one](const std::string& error) {
        if (!error.empty()) std::fprintf(stderr, "%s\n", error.c_str());
        const std::lock_guard lock(mutex);
        ended.push_back(one);
        changed.notify_one();
      });
    }
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return !ended.empty(); });
    for (auto* const one : std::exchange(ended, {})) {
      lock.unlock();
      const auto output = one->step->take();
      one->step.reset(); // its device is free
      schedule.ended(one->what, output.duration_ns);
      if (schedule.done() == ended_parts + inside.front()) {
        ended_parts += inside.front();
        schedule.take(inside.front());
        inside.pop_front();
        if (added < std::uint64_t{rounds} * steps.size()) add();
      }
      lock.lock();
    }
  }
  return seconds() - start;
}

} // namespace

int main(int argc, char** argv) {
  bench::session session(argc, argv, 9);
  try {
    const auto* shape = model::find_random_model("160m");
    if (shape == nullptr) throw std::runtime_error("no model of the 160m shape");
    const auto& config = shape->configuration;
    const auto weights = model::random_weights(config);
    cpu::cpu_executor_settings settings{.threads = 1, .blocks = prompt / 16 + requests};
    const auto one = cpu::make_cpu_executor(cpu::pack_model(config, *weights), settings);
    settings.threads = 2;
    const auto two =
        cpu::make_cpu_executor(cpu::pack_stages(config, *weights, pipeline::cut_layers(config.layers, 2)), settings);
    const auto compare = [&](const std::string& name, const auto& ours, const auto& reference) {
      if (!session.wants(name)) return;
      auto figure = bench::compare(name, bench::interleave(session.repetitions(), ours, reference), "ms",
                                   bench::figure::direction::at_most, 1.0);
      figure.goal.reset(); // it depends on whether the machine has two cores to give
      session.add(figure);
    };
    for (const std::uint32_t parts : {1U, 2U, 4U, 8U})
      compare(
          "pipeline/prefill_" + std::to_string(parts) + "_parts",
          [&] { return run_in_parts(*two, {step_of(0, prompt, config.vocabulary)}, parts) * 1e3; },
          [&] { return run_whole(*one, step_of(0, prompt, config.vocabulary)) * 1e3; });
    compare(
        "pipeline/decode", [&] { return run_in_parts(*two, {step_of(prompt, 1, config.vocabulary)}, 1) * 1e3; },
        [&] { return run_whole(*one, step_of(prompt, 1, config.vocabulary)) * 1e3; });
    // A token for each of these requests, of which both of two steps have half.
    const auto batches = [&](std::uint32_t count) {
      std::vector<protocols::step_input> out;
      for (std::uint32_t i = 0; i < count; ++i)
        out.push_back(decodes_of(i * requests / count, requests / count, config.vocabulary));
      return out;
    };
    constexpr std::uint32_t rounds = 8;
    for (const std::uint32_t count : {1U, 2U})
      compare(
          "pipeline/decode_" + std::to_string(count) + "_steps",
          [&] { return run_in_parts(*two, batches(count), 1, rounds) * 1e3 / rounds; },
          [&] {
            double sum = 0;
            for (std::uint32_t i = 0; i < rounds; ++i) sum += run_whole(*one, batches(1).front());
            return sum * 1e3 / rounds;
          });
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "bench_pipeline: %s\n", failure.what());
    return 1;
  }
  return session.result();
}
