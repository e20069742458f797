#include "main/profile_command.hpp"

#include "main/device_option.hpp"
#include "main/logging.hpp"
#include "main/number_range.hpp"
#include "main/output_file.hpp"
#include "main/parts.hpp"
#include "main/profile_device.hpp"
#include "main/profile_fit.hpp"
#include "main/profile_measure.hpp"
#include "main/profile_neighbours.hpp"
#include "main/profile_serving.hpp"
#include "main/settings.hpp"

#include <godwit/gpu/cpu/cpu_device.hpp>
#include <godwit/gpu/sim/profile.hpp>

#include <boost/json.hpp>
#include <spdlog/fmt/fmt.h>

#include <array>
#include <fstream>
#include <iostream>
#include <memory>
#include <utility>

namespace godwit::main {

namespace sim = gpu::sim;
namespace json = boost::json;
using clock = std::chrono::steady_clock;

namespace {

constexpr std::array roles{step_role::linear, step_role::logits, step_role::decode, step_role::prefill,
                           step_role::check};

double ms_since(clock::time_point start) {
  return std::chrono::duration<double, std::milli>(clock::now() - start).count();
}

struct measured_device {
  sim::profile profile;
  measured_steps steps;
  served_costs served;
};

// Four significant digits: more would be noise.
double rounded(double value) { return std::stod(fmt::format("{:.4g}", value)); }

sim::step_table rounded(sim::step_table table) {
  for (auto& point : table.points) point.us = rounded(point.us);
  return table;
}

sim::step_spread rounded(sim::step_spread spread) {
  for (auto& factor : spread.factors) factor = rounded(factor);
  spread.kept = rounded(spread.kept);
  return spread;
}

sim::profile profile_of(const profile_options& options, const gpu::model::model_directory& model,
                        const gpu::executor_info& info, const sim::latency_model& fit) {
  const auto& c = model.configuration;
  sim::profile p;
  p.device = info.device;
  p.source = fmt::format("Measured by godwit profile {} on {}: steps of up to {} tokens, drawn with a temperature of "
                         "{:g}.",
                         GODWIT_VERSION, info.device, options.step_tokens_max, options.temperature);
  if (options.instances > 1)
    p.source += fmt::format(" {} more instances on this machine ran meanwhile.", options.instances - 1);
  p.model = model.name;
  p.layers = c.layers;
  p.vocabulary = c.vocabulary;
  p.positions_max = c.positions_max;
  p.weight_bytes = info.weight_bytes;
  p.kv_bytes_per_token = static_cast<double>(info.block_bytes) / protocols::tokens_per_block;
  p.kv_blocks = info.blocks;
  p.linear = rounded(fit.linear);
  p.logits = rounded(fit.logits);
  p.kv_bytes_per_second = rounded(p.kv_bytes_per_token * 1e6 / fit.per_kv_token_us);
  p.kv = rounded(fit.kv);
  p.flops_per_pair = 4.0 * c.heads * c.head_size * c.layers;
  p.flops_per_second = rounded(p.flops_per_pair * 1e6 / fit.per_pair_us);
  p.assumptions = {"the way of a request from its client to the front end, and of its text back, is not in here"};
  if (options.instances > 1)
    p.assumptions.emplace_back("the other instances do as much as when 60 % of what all carry is served");
  return p;
}

/// Without what actors add: for comparisons with steps that ran without them.
sim::latency_model device_of(const sim::profile& p) {
  sim::latency_model out(p);
  out.base_us = out.per_decode_us = 0;
  return out;
}

measured_sizes sizes_of(const profile_options& options, const gpu::executor_info& info) {
  measured_sizes sizes;
  sizes.positions_max = info.positions_max;
  if (options.context_max != 0) sizes.positions_max = std::min(sizes.positions_max, options.context_max);
  sizes.step_tokens_max = std::min(options.step_tokens_max, sizes.positions_max);
  sizes.sequences_max = options.sequences_max;
  sizes.blocks = info.blocks;
  return sizes;
}

// Steps of fixed shapes, without actors.
measured_device measure_steps_alone(const profile_options& options, const gpu::model::model_directory& model,
                                    profiled_device& device, std::chrono::milliseconds time) {
  const auto start = clock::now();
  auto executor = device.make_executor();
  const auto start_ms = ms_since(start);
  std::vector<std::shared_ptr<gpu::executor>> more;
  while (more.size() + 1 < options.instances) more.push_back(device.make_executor());
  busy_neighbours others(std::move(more));

  const auto info = executor->info();
  measured_device out;
  const auto step_time_max = std::max<std::chrono::milliseconds>(time / 50, std::chrono::milliseconds(100));
  out.steps =
      measure_steps(*executor, steps_to_measure(sizes_of(options, info)), time, step_time_max, options.temperature);
  others.end();
  auto copied = device.measure_copies(std::move(executor));
  auto& p = out.profile = profile_of(options, model, info, fit_steps(out.steps.samples));
  p.name = options.name.empty() ? model.name + "-" + device.short_name() : options.name;
  p.start_ms = rounded(start_ms);
  p.per_copy_us = rounded(static_cast<double>(info.block_bytes) / copied.blocks * 1e6);
  p.link.bytes_per_second = rounded(copied.link);
  p.link.host_bytes_per_second = rounded(copied.host);
  p.assumptions.insert(p.assumptions.begin(), std::move(copied.about));
  return out;
}

served_load load_of(const profile_options& options, chosen_device cuda, std::chrono::nanoseconds time) {
  served_load load;
  load.instances = options.instances;
  load.threads = options.threads;
  load.step_tokens_max = options.step_tokens_max;
  load.sequences_max = options.sequences_max;
  load.context_max = options.context_max;
  load.temperature = options.temperature;
  load.time = time;
  load.cuda = std::move(cuda);
  load.deterministic = options.deterministic;
  return load;
}

/// The server whose device is measured, as far as the steps depend on it.
serve_settings settings_of(const profile_options& options) {
  serve_settings out;
  out.instances.device = options.device;
  out.instances.deterministic = options.deterministic;
  out.instances.count = options.instances;
  out.instances.threads = options.threads;
  out.llumlet.step_tokens_max = options.step_tokens_max;
  out.scaling.provisioner = provisioner_choice::process; // so no GPU is started beyond those of the instances
  out.log.levels = "warning";
  return out;
}

measured_device measure(const profile_options& options, const gpu::model::model_directory& model,
                        const serve_settings& settings, const chosen_device& cuda, const runtime::log::logger& log) {
  const auto half = options.time_max / 2;
  auto device = cuda ? profile_gpus(cuda, model, settings, log) : profile_cpu(model, settings);
  auto out = measure_steps_alone(options, model, *device, half);
  device.reset(); // its memory is the server's
  const auto alone = device_of(out.profile);
  const auto serve = [&](std::chrono::nanoseconds time, const sim::latency_model& carries) {
    return fit_served(alone, serve_and_watch(model, load_of(options, cuda, time), carries));
  };
  auto carries = alone;
  if (cuda) { // its steps may be shorter than what lies between them, of which a dozen requests give an idea
    const auto idea = serve({}, alone);
    carries.base_us = idea.overhead_us;
    carries.per_decode_us = idea.per_decode_us;
  }
  out.served = serve(half, carries);
  out.profile.overhead_us = rounded(out.served.overhead_us);
  out.profile.per_decode_us = rounded(out.served.per_decode_us);
  out.profile.spread = rounded(out.served.spread);
  return out;
}

std::string table_of(const measured_device& m) {
  const auto& p = m.profile;
  const auto model = device_of(p);
  auto out = fmt::format("{} on {}\n", p.model, p.device);
  out += fmt::format("start {:.0f} ms; KV cache of {} blocks, {:.3g} bytes a token, copied at {:.3g} GB/s\n",
                     p.start_ms, p.kv_blocks, p.kv_bytes_per_token, p.link.bytes_per_second * 1e-9);
  out +=
      fmt::format("attention: {:.3g} us for each position that a decode reads, {:.3g} us for each pair of a prefill\n",
                  model.per_kv_token_us, model.per_pair_us);
  out += fmt::format("\n{:>10}  {:>12}  {:>12}\n", "tokens", "linear (ms)", "logits (ms)");
  for (const auto& point : p.linear.points)
    out += fmt::format("{:>10}  {:>12.4f}  {:>12.4f}\n", point.count, point.us * 1e-3, p.logits.at(point.count) * 1e-3);
  out += fmt::format("\n{} steps, {} times each; medians against the profile:\n{:<14}  {:>5}  {:>10}  {:>9}  {:>9}\n",
                     m.steps.samples.size(), m.steps.rounds, "", "steps", "mean error", "bias", "largest");
  for (const auto role : roles) {
    const auto e = error_of(model, m.steps.samples, role);
    out += fmt::format("{:<14}  {:>5}  {:>9.1f}%  {:>+8.1f}%  {:>8.1f}%\n", to_string(role), e.steps, 100 * e.mean,
                       100 * e.bias, 100 * e.max);
  }
  out += fmt::format("\nserving: {} steps, {:.1f} us and {:.2f} us for each sequence that decodes until the next one\n",
                     m.served.steps, p.overhead_us, p.per_decode_us);
  if (const auto& all = p.spread.factors; !all.empty())
    out +=
        fmt::format("  they take {:.3f} times what the profile says without its spread, {:.2f} (the shortest {} %) to "
                    "{:.2f} times (the longest); {:.0f} % last into the next step\n",
                    mean_factor(p.spread), all.front(), 100 / all.size(), all.back(), 100 * p.spread.kept);
  if (m.steps.left_out > 0)
    out += fmt::format("{} longer steps were left out; give it more time with --time\n", m.steps.left_out);
  return out;
}

std::string json_of(const measured_device& m) {
  const auto model = device_of(m.profile);
  json::object fit;
  for (const auto role : roles) {
    const auto e = error_of(model, m.steps.samples, role);
    fit[to_string(role)] = {{"steps", e.steps}, {"mean_error", e.mean}, {"bias", e.bias}, {"largest_error", e.max}};
  }
  json::array steps;
  for (const auto& sample : m.steps.samples)
    steps.push_back({{"kind", to_string(sample.role)},
                     {"step", to_string(sample.shape)},
                     {"measured_us", sample.us},
                     {"predicted_us", predicted_us(model, sample.shape)}});
  const json::object out{{"profile", json::parse(to_json(m.profile))},
                         {"rounds", m.steps.rounds},
                         {"left_out", m.steps.left_out},
                         {"served_steps", m.served.steps},
                         {"served_factor", mean_factor(m.profile.spread)},
                         {"fit", std::move(fit)},
                         {"steps", std::move(steps)}};
  return json::serialize(out) + "\n";
}

double step_ms(const sim::latency_model& model, step_shape::part part) {
  part.samples = true;
  return predicted_us(model, step_shape{{part}}) * 1e-3;
}

} // namespace

/// With less there is hardly a step that follows another one.
constexpr std::uint32_t context_least = 64;

int measure_profile(const profile_options& options, std::ostream& out, std::ostream& errors,
                    const device_finder& find) {
  const auto fail = [&](const std::string& why) {
    errors << "godwit: " << why << '\n';
    return 1;
  };
  const auto usage = [&](const std::string& why) {
    fail(why);
    return 2;
  };
  if (!(options.temperature >= 0.0F && options.temperature <= 2.0F))
    return usage("--temperature: expected a number from 0 to 2");
  if (const auto most = gpu::cpu::usable_threads(); options.threads > most)
    return usage(fmt::format("--threads {}: this process may use {}", options.threads, most));
  if (options.context_max != 0 && options.context_max < context_least)
    return usage(fmt::format("--context {}: expected at least {} tokens, or 0 for the model's own", options.context_max,
                             context_least));
  const auto model = open_served_model(options.model, options.quantization);
  if (!model) {
    fail(model.error().line);
    return model.error().exit_code;
  }
  // Before the minute of measuring, not after it.
  if (const auto& file = options.output; !file.empty())
    if (const auto why = why_not_writable(file)) return fail("cannot write " + file + ": " + *why);
  auto settings = settings_of(options);
  const auto log = open_log(settings);
  if (!log) return fail(log.error());
  const auto cuda = find(settings, log->component("device"));
  if (!cuda) return fail(cuda.error().line);
  try {
    const auto measured = measure(options, *model, settings, *cuda, log->component("device"));
    out << (options.json ? json_of(measured) : table_of(measured));
    if (options.output.empty()) return 0;
    std::ofstream file(options.output); // not before: what is there would be lost
    file << to_json(measured.profile);
    file.close();
    if (!file) return fail(options.output + " cannot be written");
    if (!options.json)
      out << '\n' << options.output << " written; simulate it with --profile " << options.output << '\n';
    return 0;
  } catch (const std::exception& failure) {
    return fail(failure.what());
  }
}

void list_profiles(std::ostream& out) {
  const auto names = sim::profile_names();
  std::size_t width = 0;
  for (const auto& name : names) width = std::max(width, name.size());
  out << fmt::format("{:<{}} {:<28} {:>10} {:>12} {:>15}\n", "name", width, "device", "KV tokens", "decode (ms)",
                     "prefill (ms)");
  for (const auto& name : names) {
    const auto opened = sim::open_profile(name);
    if (!opened) continue; // a test opens all of them
    const sim::latency_model model(*opened);
    out << fmt::format("{:<{}} {:<28} {:>10} {:>12.2f} {:>15.2f}\n", name, width, opened->device,
                       std::uint64_t{opened->kv_blocks} * protocols::tokens_per_block,
                       step_ms(model, {8, 999, 1, true}), step_ms(model, {1, 0, 1000, true}));
  }
  out << "decode: a step of 8 sequences of 1,000 tokens; prefill: 1,000 tokens\n";
}

void add_profile_command(CLI::App& app, command_result& result) {
  auto* command = app.add_subcommand("profile", "Measure how long a model's steps take here, for simulations");
  struct flags {
    profile_options options;
    double seconds = 45;
    bool quick = false;
    bool list = false;
  };
  auto f = std::make_shared<flags>();
  command->add_option("MODEL_DIR", f->options.model,
                      "A Hugging Face model directory or a GGUF file; absent: the embedded model");
  add_device_option(*command, f->options.device, "What to measure: auto (a GPU where there is one), cpu or cuda");
  command->add_flag("--deterministic", f->options.deterministic, "On a GPU, form every sum in one order");
  command
      ->add_option("--threads", f->options.threads,
                   "Threads that compute on the CPU; 0: as many as this process may use, divided among the instances")
      ->type_name("N")
      ->check(CLI::Range(0U, 1024U))
      ->capture_default_str();
  command
      ->add_option("--instances", f->options.instances,
                   "Instances on this machine: the others run while one is measured")
      ->type_name("N")
      ->check(CLI::Range(1U, 64U))
      ->capture_default_str();
  command
      ->add_option("--temperature", f->options.temperature,
                   "Tokens are drawn with it; 0: greedy, as godwit bench asks for")
      ->type_name("T")
      ->check(between(0.0, 2.0))
      ->capture_default_str();
  add_quantization_option(*command, f->options.quantization);
  command->add_option("--context", f->options.context_max, "The longest sequence that is measured; 0: the model's")
      ->type_name("TOKENS")
      ->capture_default_str();
  command->add_option("--step-tokens", f->options.step_tokens_max, "The longest step that is measured")
      ->type_name("N")
      ->check(CLI::Range(8U, 65'536U))
      ->capture_default_str();
  command
      ->add_option("--sequences", f->options.sequences_max, "The most sequences that decode in a step that is measured")
      ->type_name("N")
      ->check(CLI::Range(1U, 65'536U))
      ->capture_default_str();
  auto* time = command->add_option("--time", f->seconds, "About how long to measure, in seconds")
                   ->type_name("S")
                   ->check(between(0.1, 86'400.0))
                   ->capture_default_str();
  command->add_flag("--quick", f->quick, "About 4 seconds, with more noise")->excludes(time);
  command->add_option("--name", f->options.name, "The profile's name; absent: MODEL-DEVICE")->type_name("NAME");
  command->add_option("--output", f->options.output, "File to write the profile to")->type_name("FILE");
  command->add_flag("--json", f->options.json, "One JSON object: the profile, and how well it fits");
  command->add_flag("--list", f->list, "Show the profiles that come with godwit");
  command->callback([f, &result] {
    result.run = [f] {
      if (f->list) return list_profiles(std::cout), 0;
      const std::chrono::duration<double> time_max(f->quick ? 4.0 : f->seconds);
      f->options.time_max = std::chrono::duration_cast<std::chrono::milliseconds>(time_max);
      return measure_profile(f->options, std::cout, std::cerr);
    };
  });
}

} // namespace godwit::main
