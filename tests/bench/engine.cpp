// The CPU engine against what the machine can do: decoding against reading memory, prefilling against oneDNN's
// products.
#include "support/bench.hpp"
#include "support/engine_step.hpp"

#include <godwit/gpu/cpu/cpu_executor.hpp>
#include <godwit/gpu/event.hpp>
#include <godwit/gpu/model/adapter.hpp>
#include <godwit/gpu/model/quantize.hpp>
#include <godwit/gpu/model/random_model.hpp>

#include <oneapi/dnnl/dnnl.hpp>

#include <dlfcn.h>
#include <immintrin.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include <unistd.h>

namespace {

using namespace godwit;
using namespace godwit::gpu;

using bench::seconds;
using bench::seconds_of;

// ---- the reader ----------------------------------------------------------------------------------------------------

/// Reads memory as fast as this machine lets it be read: eight streams a thread, prefetched, huge pages.
class reader {
public:
  static constexpr std::size_t bytes = std::size_t{1} << 30, huge_page = std::size_t{2} << 20;

  reader()
      : mapped_(static_cast<std::byte*>(
            ::mmap(nullptr, bytes + huge_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    if (mapped_ == MAP_FAILED) throw std::runtime_error("no memory for the reader");
    const auto address = reinterpret_cast<std::uintptr_t>(mapped_);
    data_ = mapped_ + (huge_page - address % huge_page) % huge_page;
    ::madvise(data_, bytes, MADV_HUGEPAGE);
    std::memset(data_, 1, bytes);
  }
  ~reader() { ::munmap(mapped_, bytes + huge_page); }
  reader(const reader&) = delete;
  reader& operator=(const reader&) = delete;

  /// GB/s of one pass.
  double pass(unsigned threads) {
    std::vector<std::thread> helpers;
    const double start = seconds();
    for (unsigned i = 1; i < threads; ++i) helpers.emplace_back([=, this] { read(i, threads); });
    read(0, threads);
    for (auto& helper : helpers) helper.join();
    return static_cast<double>(bytes) / (seconds() - start) / 1e9;
  }

private:
  void read(unsigned index, unsigned threads) {
    const std::size_t share = bytes / threads / 8 / 256 * 256;
    const std::byte* from = data_ + index * (bytes / threads);
    sum_ += __builtin_cpu_supports("avx512f") ? read_wide(from, share) : read_narrow(from, share);
  }

  __attribute__((target("avx512f"))) static std::uint64_t read_wide(const std::byte* from, std::size_t share) {
    __m512i a = _mm512_setzero_si512(), b = a, c = a, d = a;
    for (std::size_t i = 0; i < share; i += 256)
      for (std::size_t stream = 0; stream < 8; ++stream) {
        const std::byte* p = from + stream * share + i;
        for (int line = 0; line < 256; line += 64) _mm_prefetch(p + prefetch + line, _MM_HINT_T0);
        a = _mm512_add_epi64(a, _mm512_loadu_si512(p));
        b = _mm512_add_epi64(b, _mm512_loadu_si512(p + 64));
        c = _mm512_add_epi64(c, _mm512_loadu_si512(p + 128));
        d = _mm512_add_epi64(d, _mm512_loadu_si512(p + 192));
      }
    a = _mm512_add_epi64(_mm512_add_epi64(a, b), _mm512_add_epi64(c, d));
    alignas(64) std::uint64_t parts[8];
    _mm512_store_si512(parts, a);
    std::uint64_t sum = 0;
    for (const auto part : parts) sum += part;
    return sum;
  }

  __attribute__((target("avx2"))) static std::uint64_t read_narrow(const std::byte* from, std::size_t share) {
    __m256i a = _mm256_setzero_si256(), b = a;
    for (std::size_t i = 0; i < share; i += 256)
      for (std::size_t stream = 0; stream < 8; ++stream) {
        const std::byte* p = from + stream * share + i;
        for (int line = 0; line < 256; line += 64) {
          _mm_prefetch(p + prefetch + line, _MM_HINT_T0);
          a = _mm256_add_epi64(a, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + line)));
          b = _mm256_add_epi64(b, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + line + 32)));
        }
      }
    alignas(32) std::uint64_t parts[4];
    _mm256_store_si256(reinterpret_cast<__m256i*>(parts), _mm256_add_epi64(a, b));
    return parts[0] + parts[1] + parts[2] + parts[3];
  }

  static constexpr std::size_t prefetch = 2048;
  std::byte* mapped_;
  std::byte* data_ = nullptr;
  std::atomic<std::uint64_t> sum_{0};
};

// ---- our engine ----------------------------------------------------------------------------------------------------

/// Values of the matrices of all layers.
double layer_values(const model::config& c) {
  const double q = c.heads * c.head_size, kv = c.kv_heads * c.head_size, hidden = c.hidden;
  return c.layers * (hidden * (q + 2 * kv) + q * hidden + 3 * hidden * c.intermediate);
}

/// Decoding one request behind `prompt` tokens. What lies in the KV cache does not matter for the time.
void decode(bench::session& session, const std::shared_ptr<const cpu::packed_model>& model, unsigned threads,
            std::uint32_t prompt, const std::string& name) {
  if (!session.wants(name)) return;
  const auto& c = cpu::config_of(*model);
  const auto runner = cpu::make_cpu_executor(model, {.threads = threads, .blocks = prompt / 16 + 1});
  constexpr std::uint32_t tokens = 8;
  const double weights = 2 * (layer_values(c) + static_cast<double>(c.vocabulary) * c.hidden);
  const double kv = 2.0 * 2 * c.layers * c.kv_heads * c.head_size * (prompt + tokens / 2.0);
  reader memory;
  const auto result = bench::interleave(
      session.repetitions(),
      [&] {
        double spent = 0;
        for (std::uint32_t i = 0; i < tokens; ++i) spent += seconds_of(*runner, {.before = prompt + i});
        return tokens * (weights + kv) / spent / 1e9;
      },
      [&] { return memory.pass(threads); });
  session.add(bench::compare(name, result, "GB/s", bench::figure::direction::at_least, 0.80));
}

/// A step with drafts against one without: what speculation costs where every draft is wrong. Where all are right the
/// step brings 1 + drafts tokens.
void drafts(bench::session& session, const std::shared_ptr<const cpu::packed_model>& model, unsigned threads,
            std::uint32_t drafted, const std::string& name) {
  if (!session.wants(name)) return;
  constexpr std::uint32_t prompt = 512, steps = 4;
  const auto runner = cpu::make_cpu_executor(model, {.threads = threads, .blocks = (prompt + 64) / 16 + 1});
  const auto milliseconds_of = [&](std::uint32_t more) {
    double spent = 0;
    for (std::uint32_t i = 0; i < steps; ++i)
      spent += seconds_of(*runner, {.before = prompt, .tokens = 1 + more, .drafted = more});
    return spent / steps * 1e3;
  };
  const auto result = bench::interleave(
      session.repetitions(), [&] { return milliseconds_of(drafted); }, [&] { return milliseconds_of(0); });
  auto figure = bench::compare(name, result, "ms", bench::figure::direction::at_most, 1.0);
  figure.goal.reset(); // it depends on the machine's memory and its cores
  session.add(figure);
}

/// The same with a draft model: its passes, one for each draft and one for the KV of the last, and then the step.
void drafts_of_a_model(bench::session& session, const std::shared_ptr<const cpu::packed_model>& model,
                       const std::shared_ptr<const cpu::packed_model>& small, unsigned threads, std::uint32_t drafted,
                       const std::string& name) {
  if (!session.wants(name)) return;
  constexpr std::uint32_t prompt = 512, steps = 4;
  const cpu::cpu_executor_settings settings{.threads = threads, .blocks = (prompt + 64) / 16 + 1};
  const auto runner = cpu::make_cpu_executor(model, settings), beside = cpu::make_cpu_executor(small, settings);
  const auto result = bench::interleave(
      session.repetitions(),
      [&] {
        double spent = 0;
        for (std::uint32_t i = 0; i < steps; ++i) {
          for (std::uint32_t pass = 0; pass <= drafted; ++pass)
            spent += seconds_of(*beside, {.before = prompt + pass, .draws = pass < drafted});
          spent += seconds_of(*runner, {.before = prompt, .tokens = 1 + drafted, .drafted = drafted});
        }
        return spent / steps * 1e3;
      },
      [&] {
        double spent = 0;
        for (std::uint32_t i = 0; i < steps; ++i) spent += seconds_of(*runner, {.before = prompt});
        return spent / steps * 1e3;
      });
  auto figure = bench::compare(name, result, "ms", bench::figure::direction::at_most, 1.0);
  figure.goal.reset(); // as above
  session.add(figure);
}

/// What adapters cost: a step of requests that have some, against the same step without. `adapters`: how many different
/// ones; the requests take them in turn.
void adapters(bench::session& session, const std::shared_ptr<const cpu::packed_model>& model, unsigned threads,
              std::uint32_t requests, std::uint32_t tokens, std::uint32_t count, const std::string& name) {
  if (!session.wants(name)) return;
  constexpr std::uint32_t rank = 16, first = 512;
  const std::uint32_t steps = tokens == 1 ? 3 : 1;
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("godwit-bench-adapters-" + std::to_string(::getpid()));
  const auto directory = std::make_shared<model::adapter_directory>(folder);
  const auto store = std::make_shared<cpu::cpu_adapters>(directory, std::uint64_t{8} << 30U);
  store->serve({model});
  std::vector<std::shared_ptr<const void>> held;
  std::vector<std::uint64_t> ids;
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto own = std::to_string(i);
    model::write_random_adapter(cpu::config_of(*model), rank, i, folder / own);
    ids.push_back(directory->find(own)->id);
    const event came;
    const auto asker = std::make_shared<const bool>(true);
    store->load({own, ids.back()}, asker, [&](adapter_outcome outcome) {
      if (!outcome.error.empty()) std::fprintf(stderr, "bench_engine: %s\n", outcome.error.c_str());
      held.push_back(std::move(outcome.held));
      came.set();
    });
    came.wait();
  }
  std::filesystem::remove_all(folder);
  const std::uint32_t blocks = (first + tokens) / protocols::tokens_per_block + 1;
  const auto runner =
      cpu::make_cpu_executor(model, {.threads = threads, .blocks = requests * blocks, .adapters = store});
  const auto milliseconds_of = [&](bool adapted) {
    double spent = 0;
    for (std::uint32_t step = 0; step < steps; ++step)
      spent += seconds_of(*runner, {.requests = requests,
                                    .before = first,
                                    .tokens = tokens,
                                    .adapters = adapted ? ids : std::vector<std::uint64_t>{}});
    return spent / steps * 1e3;
  };
  const auto result = bench::interleave(
      session.repetitions(), [&] { return milliseconds_of(true); }, [&] { return milliseconds_of(false); });
  auto figure = bench::compare(name, result, "ms", bench::figure::direction::at_most, 1.0);
  figure.goal.reset(); // it depends on the machine's memory and its cores
  session.add(figure);
}

/// A step on an executor against the same on another one. `requests`: rows that decode; `tokens`: of a prompt, where
/// there is no request but one; each behind `before` others.
void beside(bench::session& session, executor& ours, executor& reference, std::uint32_t requests, std::uint32_t tokens,
            std::uint32_t before, const std::string& name) {
  const auto milliseconds_of = [&](executor& runner) {
    const std::uint32_t steps = tokens == 1 ? 4 : 1;
    double spent = 0;
    for (std::uint32_t step = 0; step < steps; ++step)
      spent += seconds_of(runner, {.requests = requests, .before = before, .tokens = tokens});
    return spent / steps * 1e3;
  };
  const auto result = bench::interleave(
      session.repetitions(), [&] { return milliseconds_of(ours); }, [&] { return milliseconds_of(reference); });
  auto figure = bench::compare(name, result, "ms", bench::figure::direction::at_most, 1.0);
  figure.goal.reset(); // it depends on the machine's memory and its cores
  session.add(figure);
}

/// Weights in codes against those that they mean, and KV of eight bits against bf16.
void in_fewer_bits(bench::session& session, const model::config& config,
                   const std::shared_ptr<const cpu::packed_model>& plain) {
  const auto settings_for = [](unsigned threads, std::uint32_t requests, std::uint32_t all) {
    return cpu::cpu_executor_settings{.threads = threads, .blocks = requests * (all / protocols::tokens_per_block + 1)};
  };
  for (const auto& [to, word] : {std::pair{model::rounding::int8, "int8"}, std::pair{model::rounding::int4, "int4"},
                                 std::pair{model::rounding::q8_0, "q8_0"}, std::pair{model::rounding::q4_0, "q4_0"}}) {
    std::shared_ptr<const cpu::packed_model> coded; // where it is asked for
    for (const unsigned threads : {1U, 2U})
      for (const std::uint32_t requests : {1U, 4U, 16U, 0U}) {
        const auto what = requests == 0 ? std::string("prefill_256") : "decode_" + std::to_string(requests);
        const auto name = std::string("engine/quantized_") + word + "_" + what + "_" + std::to_string(threads) + "t";
        if (!session.wants(name)) continue;
        if (!coded) coded = cpu::pack_model(config, *model::quantize(model::random_weights(config), config, to));
        const std::uint32_t rows = std::max(1U, requests), tokens = requests == 0 ? 256 : 1, before = 128;
        const auto settings = settings_for(threads, rows, before + tokens);
        const auto ours = cpu::make_cpu_executor(coded, settings), reference = cpu::make_cpu_executor(plain, settings);
        beside(session, *ours, *reference, rows, tokens, before, name);
      }
  }
  for (const unsigned threads : {1U, 2U})
    for (const std::uint32_t tokens : {1U, 256U}) {
      constexpr std::uint32_t before = 8192;
      const auto name = std::string("engine/kv_fp8_") + (tokens == 1 ? "decode" : "prefill_256") + "_behind_8192_" +
                        std::to_string(threads) + "t";
      if (!session.wants(name)) continue;
      auto settings = settings_for(threads, 1, before + tokens);
      const auto reference = cpu::make_cpu_executor(plain, settings);
      settings.kv = cpu::kv_precision::fp8;
      const auto ours = cpu::make_cpu_executor(plain, settings);
      beside(session, *ours, *reference, 1, tokens, before, name);
    }
}

// ---- oneDNN --------------------------------------------------------------------------------------------------------

/// y = x W^T in bf16 with weights in the layout that oneDNN asks for.
class packed_product {
public:
  packed_product(dnnl::engine& engine, dnnl::stream& stream, std::int64_t rows, std::int64_t depth,
                 std::int64_t columns)
      : stream_(stream), flops_(2.0 * static_cast<double>(rows * depth * columns)) {
    using type = dnnl::memory::data_type;
    using tag = dnnl::memory::format_tag;
    const dnnl::memory::desc x({rows, depth}, type::bf16, tag::ab), y({rows, columns}, type::f32, tag::ab),
        any({depth, columns}, type::bf16, tag::any), plain({depth, columns}, type::bf16, tag::ba);
    const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(x, any, y), engine);
    dnnl::memory source(plain, engine), packed(description.weights_desc(), engine), input(x, engine), output(y, engine);
    fill(source, depth * columns);
    fill(input, rows * depth);
    dnnl::reorder(source, packed).execute(stream, source, packed);
    stream.wait();
    product_ = dnnl::matmul(description);
    arguments_ = {{DNNL_ARG_SRC, input}, {DNNL_ARG_WEIGHTS, packed}, {DNNL_ARG_DST, output}};
  }
  void run() {
    product_.execute(stream_, arguments_);
    stream_.wait();
  }
  [[nodiscard]] double flops() const { return flops_; }

private:
  static void fill(const dnnl::memory& memory, std::int64_t count) {
    auto* values = static_cast<std::uint16_t*>(memory.get_data_handle());
    for (std::int64_t i = 0; i < count; ++i)
      values[i] = static_cast<std::uint16_t>(0x3c00 + i * 2654435761U % 512 + (i % 3 == 0 ? 0x8000 : 0));
  }
  dnnl::stream& stream_;
  double flops_;
  dnnl::matmul product_;
  std::unordered_map<int, dnnl::memory> arguments_;
};

/// Debian's oneDNN takes its threads from OpenMP.
void set_threads_of_onednn(unsigned threads) {
  auto* set = reinterpret_cast<void (*)(int)>(::dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  if (set == nullptr) throw std::runtime_error("this oneDNN does not use OpenMP");
  set(static_cast<int>(threads));
}

/// A chunk of 512 tokens behind `before` others.
void prefill(bench::session& session, const std::shared_ptr<const cpu::packed_model>& model, unsigned threads,
             std::uint32_t before, const std::string& name) {
  if (!session.wants(name)) return;
  constexpr std::uint32_t tokens = 512, reference_layers = 3;
  const auto& c = cpu::config_of(*model);
  const auto runner = cpu::make_cpu_executor(model, {.threads = threads, .blocks = (before + tokens) / 16});
  // Attention counts only where it is a large part of the work.
  const double attention = before == 0 ? 0 : 4.0 * tokens * (before + tokens / 2.0) * c.heads * c.head_size * c.layers;
  set_threads_of_onednn(threads);
  dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  const std::int64_t hidden = c.hidden, q = c.heads * c.head_size, kv = c.kv_heads * c.head_size;
  // Several layers of weights, so that they come from memory as they do in a model.
  std::vector<packed_product> products;
  for (std::uint32_t layer = 0; layer < reference_layers; ++layer) {
    products.emplace_back(engine, stream, tokens, hidden, q + 2 * kv);
    products.emplace_back(engine, stream, tokens, q, hidden);
    products.emplace_back(engine, stream, tokens, hidden, 2 * c.intermediate);
    products.emplace_back(engine, stream, tokens, c.intermediate, hidden);
  }
  const auto result = bench::interleave(
      session.repetitions(),
      // The time of the whole step, all of it.
      [&] {
        return (2.0 * tokens * layer_values(c) + attention) /
               seconds_of(*runner, {.before = before, .tokens = tokens}) / 1e9;
      },
      [&] {
        const double start = seconds();
        double flops = 0;
        for (auto& product : products) {
          product.run();
          flops += product.flops();
        }
        const double spent = seconds() - start;
        // OpenMP's threads watch for work for a while; let them go to sleep.
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        return flops / spent / 1e9;
      });
  auto figure = bench::compare(name, result, "GFLOP/s", bench::figure::direction::at_least, 0.70);
  if (before != 0) figure.goal.reset(); // much of it is attention, which oneDNN's products do not have
  session.add(figure);
}

} // namespace

int main(int argc, char** argv) {
  bench::session session(argc, argv, 9);
  try {
    const auto* shape = model::find_random_model("1b");
    if (shape == nullptr) throw std::runtime_error("no model of the 1b shape");
    auto config = shape->configuration;
    config.positions_max = 16384; // for the long contexts; the weights do not depend on it
    const auto model = cpu::pack_model(config, *model::random_weights(config));
    const auto* small_shape = model::find_random_model("160m"); // with the same vocabulary
    if (small_shape == nullptr) throw std::runtime_error("no model of the 160m shape");
    const auto small = cpu::pack_model(small_shape->configuration, *model::random_weights(small_shape->configuration));
    in_fewer_bits(session, config, model);
    for (const unsigned threads : {1U, 2U}) {
      const std::string suffix = "_" + std::to_string(threads) + "t";
      decode(session, model, threads, 128, "engine/decode" + suffix);
      decode(session, model, threads, 8192, "engine/decode_behind_8192" + suffix);
      for (const std::uint32_t drafted : {1U, 4U, 8U, 16U})
        drafts(session, model, threads, drafted, "engine/drafts_" + std::to_string(drafted) + suffix);
      for (const std::uint32_t drafted : {1U, 2U, 4U, 8U})
        drafts_of_a_model(session, model, small, threads, drafted,
                          "engine/draft_model_" + std::to_string(drafted) + suffix);
      adapters(session, model, threads, 1, 1, 1, "engine/adapters_decode_1" + suffix);
      adapters(session, model, threads, 8, 1, 1, "engine/adapters_decode_8_of_one" + suffix);
      adapters(session, model, threads, 8, 1, 8, "engine/adapters_decode_8_of_8" + suffix);
      adapters(session, model, threads, 1, 256, 1, "engine/adapters_prefill_256" + suffix);
      // oneDNN multiplies bf16 on AVX-512 only; elsewhere there is no reference, and the other figures go on.
      try {
        prefill(session, model, threads, 0, "engine/prefill" + suffix);
        prefill(session, model, threads, 7680, "engine/prefill_behind_7680" + suffix);
      } catch (const std::exception& failure) {
        std::fprintf(stderr, "bench_engine: no prefill figures: %s\n", failure.what());
      }
    }
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "bench_engine: %s\n", failure.what());
    return 1;
  }
  return session.result();
}
