// The CUDA device against what the GPU can do: decoding against copying memory, prefilling against cuBLASLt's products,
// steps against their launches, KV on its way against the bus.
#include "gpu/repeated_weights.hpp"
#include "gpu/timed_steps.hpp"
#include "support/bench.hpp"

#include <godwit/gpu/cuda/cuda_plugin.hpp>
#include <godwit/gpu/event.hpp>
#include <godwit/gpu/model/random_model.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace godwit;
using namespace godwit::gpu;
using bench::figure;
using bench::step_times;

constexpr std::uint64_t copied_bytes = std::uint64_t{1} << 30U;

/// GB/s of a copy within the device: bytes read and written.
double device_copy(cuda::cuda_probe& probe) {
  return 2.0 * static_cast<double>(copied_bytes) / probe.copy(cuda::copy_route::within_device, copied_bytes, 5) / 1e9;
}

double values_per_layer(const model::config& c) {
  const double q = c.heads * c.head_size, kv = c.kv_heads * c.head_size, hidden = c.hidden;
  return hidden * (q + 2 * kv) + q * hidden + 3 * hidden * c.intermediate;
}

/// The device has no room for what is to be measured: no failure of the measured.
struct no_room : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// For steps and the driver, beside weights and KV.
constexpr std::uint64_t step_bytes = std::uint64_t{3} << 30U;

void require_room(cuda::cuda_backend& on, const std::string& what, std::uint64_t bytes) {
  const auto free = on.devices().front().free_bytes;
  if (bytes + step_bytes > free)
    throw no_room(what + ": " + std::to_string((bytes + step_bytes) >> 20U) + " MiB are wanted, " +
                  std::to_string(free >> 20U) + " MiB are free");
}

/// A model of a shape on the device, and executors of it.
struct subject {
  model::config config;
  std::string name;
  std::shared_ptr<const cuda::cuda_model> uploaded;

  /// `trials`: as `godwit serve` does by default.
  std::unique_ptr<executor> make(cuda::cuda_backend& on, bool deterministic, bool graphs, std::uint32_t blocks,
                                 bool trials = true) const {
    cuda::cuda_executor_settings settings;
    settings.blocks = blocks;
    settings.trials = trials;
    settings.tell = [this](const std::string& line) { std::fprintf(stderr, "%s: %s\n", name.c_str(), line.c_str()); };
    settings.deterministic = deterministic;
    settings.graphs = graphs;
    require_room(on, "the KV cache of " + name,
                 std::uint64_t{blocks} * config.layers * config.kv_heads * config.head_size * 16 * 2 * 2);
    return on.make_executor(uploaded, settings);
  }
  /// Bytes that a step reads: the weights but the embeddings' table, and the requests' KV.
  [[nodiscard]] double bytes_per_step(std::uint32_t batch, std::uint32_t context) const {
    const double weights = config.layers * values_per_layer(config) + double{1} * config.vocabulary * config.hidden;
    const double kv = 2.0 * config.layers * config.kv_heads * config.head_size * context * batch;
    return 2 * (weights + kv);
  }
};

subject open_subject(cuda::cuda_backend& on, const std::string& name) {
  const auto* shape = model::find_random_model(name);
  if (shape == nullptr) throw std::runtime_error("no model of the shape " + name);
  subject out{shape->configuration, name, nullptr};
  out.config.positions_max = 34'000; // for the long contexts; the weights do not depend on it
  const bench::repeated_weights weights(out.config);
  require_room(on, "the weights of " + name, weights.total_bytes());
  out.uploaded = on.upload(0, out.config, weights);
  return out;
}

constexpr std::uint32_t blocks_for(std::uint32_t batch, std::uint32_t positions) {
  return batch * ((positions + 15) / 16);
}

/// The device's median time of some steps behind two others: a graph is captured in the second one.
double device_seconds(const std::function<step_times()>& step, int count = 5) {
  for (int i = 0; i < 2; ++i) (void)step();
  std::vector<double> all;
  for (int i = 0; i < count; ++i) all.push_back(step().device);
  return bench::median(all);
}

void decode(bench::session& session, cuda::cuda_backend& on, cuda::cuda_probe& probe, const subject& what,
            std::uint32_t batch, std::uint32_t context) {
  const auto name =
      "gpu/decode_" + what.name + "_batch_" + std::to_string(batch) + "_behind_" + std::to_string(context);
  if (!session.wants(name)) return;
  const auto runner = what.make(on, false, true, blocks_for(batch, context + 1));
  bench::timed_steps steps(*runner);
  const auto result = bench::interleave(
      session.repetitions(),
      [&] {
        return what.bytes_per_step(batch, context) / device_seconds([&] { return steps.run(batch, context, 1); }) / 1e9;
      },
      [&] { return device_copy(probe); });
  session.add(bench::compare(name, result, "GB/s", figure::direction::at_least, 0.80));
}

void attention(bench::session& session, cuda::cuda_probe& probe, std::uint32_t batch, std::uint32_t context) {
  const auto name = "gpu/attention_batch_" + std::to_string(batch) + "_behind_" + std::to_string(context);
  if (!session.wants(name)) return;
  const cuda::attention_shape shape{batch, context, 32, 8, 128, false};
  const double bytes = 2.0 * 2 * shape.kv_heads * shape.head_size * context * batch;
  const auto result = bench::interleave(
      session.repetitions(), [&] { return bytes / probe.attention(shape, 20) / 1e9; },
      [&] { return device_copy(probe); });
  auto f = bench::compare(name, result, "GB/s", figure::direction::at_least, 0.85);
  // What is over in some microseconds is a matter of its launches, which a step has in a graph.
  if (bytes < 100e6) f.goal.reset();
  session.add(f);
}

/// TFLOP/s of a prompt's chunk, all of it, against those of its products alone.
void prefill(bench::session& session, cuda::cuda_backend& on, cuda::cuda_probe& probe, const subject& what,
             std::uint32_t tokens) {
  const auto name = "gpu/prefill_" + what.name + "_" + std::to_string(tokens);
  if (!session.wants(name)) return;
  const auto& c = what.config;
  const auto runner = what.make(on, false, true, blocks_for(1, tokens));
  bench::timed_steps steps(*runner);
  const double flops = 2.0 * tokens * c.layers * values_per_layer(c);
  const std::uint32_t q = c.heads * c.head_size, kv = c.kv_heads * c.head_size;
  const auto result = bench::interleave(
      session.repetitions(), [&] { return flops / device_seconds([&] { return steps.run(1, 0, tokens); }, 3) / 1e12; },
      [&] {
        // As in a step: f32 only for what goes onto the residual stream.
        constexpr auto bf16 = model::data_type::bf16, f32 = model::data_type::f32;
        const double products = probe.product({tokens, q + 2 * kv, c.hidden, bf16}, 5) +
                                probe.product({tokens, c.hidden, q, f32}, 5) +
                                probe.product({tokens, 2 * c.intermediate, c.hidden, bf16}, 5) +
                                probe.product({tokens, c.hidden, c.intermediate, f32}, 5);
        return flops / (c.layers * products) / 1e12;
      });
  session.add(bench::compare(name, result, "TFLOP/s", figure::direction::at_least, 0.70));
}

/// Products of few rows, which decoding is made of: GB/s of weights by the kernel of deterministic mode and by
/// cuBLASLt. The weights of one are larger than any cache.
void few_rows(bench::session& session, cuda::cuda_probe& probe, std::uint32_t rows) {
  const auto name = "gpu/product_of_" + std::to_string(rows) + "_rows";
  if (!session.wants(name)) return;
  constexpr std::uint32_t columns = 2 * 14'336, depth = 4096;
  const auto rate = [&](bool fixed) {
    return 2.0 * columns * depth / probe.product({rows, columns, depth, model::data_type::f32, fixed}, 20) / 1e9;
  };
  const auto result = bench::interleave(
      session.repetitions(), [&] { return rate(true); }, [&] { return rate(false); });
  session.add(told(name, result, "GB/s"));
}

/// What a decode step takes, from its caller's call to its completion, beyond its kernels, as part of the step. The
/// kernels' time is that of the step's graphs launched again and again, without anything between them: the time between
/// the step's own first and last work would have the pauses in it that are to be found.
void launches(bench::session& session, cuda::cuda_backend& on, const subject& what, bool graphs) {
  const auto name = "gpu/launch_" + what.name + (graphs ? "_graphs" : "_plain");
  if (!session.wants(name)) return;
  const auto runner = what.make(on, false, graphs, blocks_for(1, 1024));
  const auto captured = what.make(on, false, true, blocks_for(1, 1024));
  bench::timed_steps steps(*runner), graph_steps(*captured);
  for (int i = 0; i < 4; ++i) {
    (void)steps.run(1, 512, 1);
    (void)graph_steps.run(1, 562, 1);
  }
  std::vector<double> shares;
  for (int i = 0; i < session.repetitions(); ++i) {
    const double kernels = on.time_graphs(*captured, 20);
    std::vector<double> calls;
    for (std::uint32_t position = 513; position < 613; position += 10)
      calls.push_back(steps.run(1, position, 1).caller);
    const double call = bench::median(calls);
    shares.push_back(100 * (call - kernels) / call);
  }
  figure f;
  f.name = name;
  f.value = bench::median(shares);
  f.unit = "% of a step";
  if (graphs) f.goal = {figure::direction::at_most, 5.0, f.value};
  session.add(f);
}

/// What --deterministic costs: times of steps with it and without.
void price(bench::session& session, cuda::cuda_backend& on, const subject& what, std::uint32_t batch,
           std::uint32_t position, std::uint32_t tokens, const std::string& which) {
  const auto name = "gpu/deterministic_" + which + "_" + what.name;
  if (!session.wants(name)) return;
  const auto blocks = blocks_for(batch, position + tokens);
  const auto fixed = what.make(on, true, true, blocks), fast = what.make(on, false, true, blocks);
  bench::timed_steps with(*fixed), without(*fast);
  const auto result = bench::interleave(
      session.repetitions(), [&] { return 1e3 * device_seconds([&] { return with.run(batch, position, tokens); }, 3); },
      [&] { return 1e3 * device_seconds([&] { return without.run(batch, position, tokens); }, 3); });
  session.add(told(name, result, "ms"));
}

/// What it brings to have tried how products of few rows are fastest: times of decode steps with it and without.
void trials(bench::session& session, cuda::cuda_backend& on, const subject& what, std::uint32_t batch) {
  const auto name = "gpu/trials_" + what.name + "_batch_" + std::to_string(batch);
  if (!session.wants(name)) return;
  const auto blocks = blocks_for(batch, 513);
  const auto tried = what.make(on, false, true, blocks), proposed = what.make(on, false, true, blocks, false);
  bench::timed_steps with(*tried), without(*proposed);
  const auto result = bench::interleave(
      session.repetitions(), [&] { return 1e3 * device_seconds([&] { return with.run(batch, 512, 1); }, 3); },
      [&] { return 1e3 * device_seconds([&] { return without.run(batch, 512, 1); }, 3); });
  session.add(told(name, result, "ms"));
}

/// What draws cost: times of decode steps whose requests draw from the most probable tokens, and of greedy ones.
void draws(bench::session& session, cuda::cuda_backend& on, const subject& what, std::uint32_t batch) {
  const auto name = "gpu/sampled_" + what.name + "_batch_" + std::to_string(batch);
  if (!session.wants(name)) return;
  const auto runner = what.make(on, false, true, blocks_for(batch, 513));
  bench::timed_steps drawn(*runner, 0.8F, 0.95F), greedy(*runner);
  const auto result = bench::interleave(
      session.repetitions(), [&] { return 1e3 * device_seconds([&] { return drawn.run(batch, 512, 1); }, 3); },
      [&] { return 1e3 * device_seconds([&] { return greedy.run(batch, 512, 1); }, 3); });
  session.add(told(name, result, "ms"));
}

/// What drafts cost where all are wrong: steps of requests with some, which go without a graph, and decode steps.
void drafts(bench::session& session, cuda::cuda_backend& on, const subject& what, std::uint32_t batch,
            std::uint32_t position, std::uint32_t drafted) {
  const auto name = "gpu/drafts_" + std::to_string(drafted) + "_" + what.name + "_batch_" + std::to_string(batch) +
                    "_behind_" + std::to_string(position);
  if (!session.wants(name)) return;
  const auto runner = what.make(on, false, true, blocks_for(batch, position + 1 + drafted));
  bench::timed_steps steps(*runner);
  const auto result = bench::interleave(
      session.repetitions(),
      [&] { return 1e3 * device_seconds([&] { return steps.run(batch, position, 1 + drafted, drafted); }, 3); },
      [&] { return 1e3 * device_seconds([&] { return steps.run(batch, position, 1); }, 3); });
  session.add(told(name, result, "ms"));
}

/// GB/s of blocks on their way out of the pool or into it, against one large copy of page-locked memory: all of them in
/// one copy, or `each` in copies one behind the other, as the fabric's pieces, whose ends are told one by one. By the
/// copiers of `copies`, whatever they do by default, or by engines for comparison.
void blocks_on_their_way(bench::session& session, cuda::cuda_backend& on, cuda::cuda_probe& probe, const subject& what,
                         bool out, std::size_t each, cuda::cuda_backend& copies) {
  const bool by_engines = &copies != &on;
  const std::string name = std::string(each == 0 ? "gpu/blocks" : "gpu/pieces") +
                           (out ? "_from_device" : "_to_device") + (by_engines ? "_by_engines" : "");
  if (!session.wants(name)) return;
  constexpr std::uint32_t blocks = 64;
  const auto runner = what.make(on, false, true, blocks);
  const auto copier = copies.make_copier(0);
  std::vector<protocols::memory_region> regions;
  std::size_t bytes = 0;
  for (std::uint32_t block = 0; block < blocks; ++block)
    for (std::uint32_t layer = 0; layer < what.config.layers; ++layer) {
      auto region = runner->key_region(layer, protocols::block_id((block * 37) % blocks));
      region.bytes *= 2; // V lies behind K
      bytes += region.bytes;
      regions.push_back(region);
    }
  const auto pinned = copier->allocate_pinned(bytes);
  if (!pinned) throw std::runtime_error("no page-locked memory");
  if (each == 0) each = regions.size();
  const auto result = bench::interleave(
      session.repetitions(),
      [&] {
        const auto begun = std::chrono::steady_clock::now();
        const event ran;
        std::mutex mutex;
        std::string error;
        std::size_t open = (regions.size() + each - 1) / each;
        const auto done = [&](std::string what_failed) {
          const std::lock_guard lock(mutex);
          if (!what_failed.empty()) error = std::move(what_failed);
          if (--open == 0) ran.set();
        };
        std::size_t at = 0;
        for (std::size_t first = 0; first < regions.size(); first += each) {
          const std::vector some(regions.begin() + static_cast<std::ptrdiff_t>(first),
                                 regions.begin() + static_cast<std::ptrdiff_t>(std::min(first + each, regions.size())));
          std::size_t some_bytes = 0;
          for (const auto& region : some) some_bytes += region.bytes;
          const protocols::memory_region host{pinned.get() + at, some_bytes, protocols::memory_kind::pinned};
          at += some_bytes;
          if (out)
            copier->gather(some, host, protocols::copy_urgency::bulk, done);
          else
            copier->scatter(host, some, protocols::copy_urgency::bulk, done);
        }
        ran.wait();
        const std::lock_guard lock(mutex); // the last reaction has left
        if (!error.empty()) throw std::runtime_error(error);
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
        return static_cast<double>(bytes) / took.count() / 1e9;
      },
      [&] {
        const auto route = out ? cuda::copy_route::from_device : cuda::copy_route::to_device;
        return static_cast<double>(bytes) / probe.copy(route, bytes, 5) / 1e9;
      });
  auto f = bench::compare(name, result, "GB/s", figure::direction::at_least, 0.90);
  if (by_engines) f.goal.reset();
  session.add(f);
}

/// How long after the device's end of a short step its caller hears of it, by each way.
void notifications(bench::session& session, const std::vector<std::filesystem::path>& files, bool polling) {
  const std::string name = polling ? "gpu/notify_polling" : "gpu/notify_callback";
  if (!session.wants(name)) return;
  cuda::cuda_options options;
  options.notify = polling ? cuda::notify_by::polling : cuda::notify_by::callback;
  const auto loaded = cuda::load_cuda(files, options);
  if (!loaded.backend) throw std::runtime_error(loaded.why_not);
  model::config small;
  small.vocabulary = 1024;
  small.hidden = 256;
  small.intermediate = 512;
  small.layers = 2;
  small.heads = 4;
  small.kv_heads = 2;
  small.head_size = 64;
  small.positions_max = 1024;
  const subject what{small, "small", loaded.backend->upload(0, small, bench::repeated_weights(small))};
  const auto runner = what.make(*loaded.backend, false, true, 64);
  bench::timed_steps steps(*runner);
  std::vector<double> late;
  for (int i = 0; i < 20 * session.repetitions(); ++i) {
    const auto times = steps.run(1, 16 + static_cast<std::uint32_t>(i % 200), 1);
    late.push_back(1e6 * (times.caller - times.device));
  }
  figure f;
  f.name = name;
  f.value = bench::median(late);
  f.unit = "us beyond the device's time";
  session.add(f);
}

/// All figures, those with goals first, for where time runs out. One that cannot be measured leaves the others alone.
class benchmark {
public:
  benchmark(bench::session& session, cuda::cuda_backend& on, std::vector<std::filesystem::path> files)
      : session_(session), on_(on), files_(std::move(files)), probe_(on.make_probe(0)) {}

  /// Whether all could be measured, or had no room. One model at a time is on the device.
  bool run() {
    for (const std::uint32_t batch : {1U, 8U, 32U}) attention_behind(batch, 32'768);
    for (const std::uint32_t batch : {8U, 32U}) attention_behind(batch, 8192);
    attempt([&] { held_to_goals(open_subject(on_, "1b")); });
    attempt([&] {
      const auto what = open_subject(on_, "8b");
      held_to_goals(what);
      all_blocks(what, on_);
      for_orientation(what);
      attempt([&] { blocks_by_engines(what); });
    });
    attempt([&] { for_orientation(open_subject(on_, "1b")); });
    attention_behind(1, 8192);
    for (const std::uint32_t rows : {1U, 4U, 16U, 64U}) attempt([&] { few_rows(session_, *probe_, rows); });
    for (const bool polling : {false, true}) attempt([&] { notifications(session_, files_, polling); });
    return !failed_;
  }

private:
  template <class F> void attempt(F measure) {
    try {
      measure();
    } catch (const no_room& reason) {
      std::fprintf(stderr, "bench_gpu: skipped: %s\n", reason.what());
    } catch (const std::exception& failure) {
      std::fprintf(stderr, "bench_gpu: %s\n", failure.what());
      failed_ = true;
    }
  }
  void attention_behind(std::uint32_t batch, std::uint32_t context) {
    attempt([&] { attention(session_, *probe_, batch, context); });
  }
  void held_to_goals(const subject& what) {
    attempt([&] { decode(session_, on_, *probe_, what, 1, 512); });
    attempt([&] { decode(session_, on_, *probe_, what, 1, 32'000); });
    attempt([&] { decode(session_, on_, *probe_, what, 32, 2048); });
    attempt([&] { prefill(session_, on_, *probe_, what, 512); });
    attempt([&] { prefill(session_, on_, *probe_, what, 2048); });
    attempt([&] { launches(session_, on_, what, true); });
  }
  /// Without goals.
  void for_orientation(const subject& what) {
    attempt([&] { launches(session_, on_, what, false); });
    for (const std::uint32_t batch : {1U, 32U}) attempt([&] { draws(session_, on_, what, batch); });
    for (const std::uint32_t drafted : {1U, 4U, 16U}) attempt([&] { drafts(session_, on_, what, 1, 512, drafted); });
    attempt([&] { drafts(session_, on_, what, 8, 8192, 4); });
    for (const std::uint32_t batch : {1U, 8U, 32U}) attempt([&] { trials(session_, on_, what, batch); });
    attempt([&] { price(session_, on_, what, 1, 512, 1, "decode"); });
    attempt([&] { price(session_, on_, what, 32, 2048, 1, "batch_decode"); });
    attempt([&] { price(session_, on_, what, 1, 0, 2048, "prefill"); });
  }
  void all_blocks(const subject& what, cuda::cuda_backend& copies) {
    for (const std::size_t each : {0U, 16U}) // of 64 KiB, a piece of the fabric's 1 MiB
      for (const bool out : {true, false})
        attempt([&] { blocks_on_their_way(session_, on_, *probe_, what, out, each, copies); });
  }
  void blocks_by_engines(const subject& what) {
    cuda::cuda_options engines;
    engines.small_pieces = cuda::copy_by::engines;
    const auto other = cuda::load_cuda(files_, engines);
    if (!other.backend) throw std::runtime_error(other.why_not);
    all_blocks(what, *other.backend);
  }

  bench::session& session_;
  cuda::cuda_backend& on_;
  std::vector<std::filesystem::path> files_;
  std::unique_ptr<cuda::cuda_probe> probe_;
  bool failed_ = false;
};

} // namespace

int main(int argc, char** argv) {
  bench::session session(argc, argv, 7);
  const std::vector<std::filesystem::path> files{std::filesystem::read_symlink("/proc/self/exe").parent_path() /
                                                 cuda::plugin_name};
  const auto loaded = cuda::load_cuda(files);
  if (!loaded.backend) {
    std::string reason;
    for (const char c : loaded.why_not) reason += c == '"' || c == '\\' ? '\'' : c;
    std::printf("{\"skipped\": \"%s\", \"bench\": \"gpu\"}\n", reason.c_str());
    return 0;
  }
  const auto device = loaded.backend->devices().front();
  std::fprintf(stderr, "bench_gpu: %s, %llu MiB free\n", device.name.c_str(),
               static_cast<unsigned long long>(device.free_bytes >> 20U));
  const bool measured = benchmark(session, *loaded.backend, files).run();
  return measured ? session.result() : 1;
}
