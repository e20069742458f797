// What single kernels take on this machine's GPU: one JSON object a line, medians of CUDA events around launches that
// find nothing of their input in the caches. `--repetitions N` (default 21).
#include "cuda/kernels.hpp"

#include "gpu/cuda/kernels_inline_stream.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace godwit::gpu::cuda {

namespace {

void check(cudaError_t status) {
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}

/// Device memory with small random numbers as bf16 pairs (which f32 reads as small random numbers, too).
class memory {
public:
  explicit memory(std::size_t bytes) : bytes_((bytes + 255) / 256 * 256) {
    check(cudaMalloc(&data_, bytes_));
    std::mt19937 random(1);
    std::vector<std::uint32_t> some(std::min(bytes_, std::size_t{64} << 20U) / 4);
    for (auto& word : some) word = (0x3C003C00U + (random() & 0x01FF01FFU)) | (random() & 0x80008000U);
    for (std::size_t at = 0; at < bytes_; at += some.size() * 4)
      check(cudaMemcpy(static_cast<std::byte*>(data_) + at, some.data(), std::min(some.size() * 4, bytes_ - at),
                       cudaMemcpyHostToDevice));
  }
  template <class Element> explicit memory(const std::vector<Element>& from) : bytes_(from.size() * sizeof(Element)) {
    check(cudaMalloc(&data_, bytes_));
    check(cudaMemcpy(data_, from.data(), bytes_, cudaMemcpyHostToDevice));
  }
  ~memory() { cudaFree(data_); }
  memory(const memory&) = delete;
  memory& operator=(const memory&) = delete;
  template <class Element> [[nodiscard]] Element* as() const { return static_cast<Element*>(data_); }
  [[nodiscard]] void* at(std::size_t offset) const { return static_cast<std::byte*>(data_) + offset; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

private:
  void* data_ = nullptr;
  std::size_t bytes_;
};

class bench {
public:
  explicit bench(int repetitions)
      : repetitions_(repetitions), cold_(std::size_t{cold_columns} * cold_depth * 2), cold_x_(cold_depth * 2),
        cold_y_(cold_columns * 4) {
    check(cudaGetDeviceProperties(&properties_, 0));
    check(cudaEventCreate(&start_));
    check(cudaEventCreate(&end_));
    stream_.set_shared_bytes_max(static_cast<std::uint32_t>(properties_.sharedMemPerBlockOptin));
    std::printf("{\"device\": \"%s\", \"multiprocessors\": %d}\n", properties_.name, properties_.multiProcessorCount);
  }

  void run() {
    copies();
    decoding();
    prefilling();
    products();
    rows();
    sampling();
    moving();
  }

private:
  /// Fills the caches with what no kernel here reads: 256 MiB, by reading. What is written would stand in the cache and
  /// go to memory while the next kernel is timed.
  void flush() {
    gemm_job job;
    job.x = cold_x_.as<void>();
    job.w = cold_.as<void>();
    job.y = cold_y_.as<void>();
    job.rows = 1;
    job.columns = cold_columns;
    job.depth = cold_depth;
    launch_fixed(stream_, job);
  }
  /// Milliseconds, the median.
  double time(const std::function<void()>& launch_one) {
    std::vector<float> all;
    for (int i = 0; i < repetitions_ + 2; ++i) {
      flush();
      check(cudaEventRecord(start_));
      launch_one();
      check(cudaEventRecord(end_));
      check(cudaEventSynchronize(end_));
      float ms = 0;
      check(cudaEventElapsedTime(&ms, start_, end_));
      if (i >= 2) all.push_back(ms);
    }
    std::sort(all.begin(), all.end());
    return double{all[all.size() / 2]};
  }
  void tell(const std::string& name, double ms, double bytes, double operations) const {
    std::printf("{\"kernel\": \"%s\", \"microseconds\": %.2f, \"gigabytes_per_second\": %.1f, \"of_copy\": %.3f, "
                "\"teraflops\": %.2f}\n",
                name.c_str(), ms * 1e3, bytes / ms / 1e6, copy_rate_ > 0 ? bytes / ms / 1e6 / copy_rate_ : 0.0,
                operations / ms / 1e9);
    std::fflush(stdout);
  }

  void copies() {
    const std::size_t bytes = std::size_t{1} << 30U;
    const memory from(bytes), to(bytes);
    const double ms =
        time([&] { check(cudaMemcpyAsync(to.as<void>(), from.as<void>(), bytes, cudaMemcpyDeviceToDevice)); });
    copy_rate_ = 2.0 * static_cast<double>(bytes) / ms / 1e6;
    tell("device copy, read and written", ms, 2.0 * static_cast<double>(bytes), 0);
  }

  /// Slices of one request each, with blocks of their own in a shuffled pool.
  struct paged {
    paged(std::uint32_t batch, std::uint32_t context, std::uint32_t chunk, std::uint32_t heads, std::uint32_t kv_heads)
        : pool(std::size_t{batch} * (context / 16) * block_bytes(kv_heads, 128)),
          queries(std::size_t{batch} * chunk * heads * 128 * 2), out(queries.bytes()),
          table(make_table(batch * context / 16)), slices(make_slices(batch, context, chunk)) {
      job.queries = queries.as<void>();
      job.kv = {pool.as<void>(), block_bytes(kv_heads, 128), kv_heads, 128};
      job.block_table = table.as<std::uint32_t>();
      job.slices = slices.as<attention_slice>();
      job.slices_count = batch;
      job.slice_rows_max = chunk;
      job.positions_max = context;
      job.heads = heads;
      job.scale = 0.088388F;
      job.out = out.as<void>();
    }
    static std::vector<std::uint32_t> make_table(std::uint32_t blocks) {
      std::vector<std::uint32_t> ids(blocks);
      for (std::uint32_t i = 0; i < blocks; ++i) ids[i] = i;
      std::shuffle(ids.begin(), ids.end(), std::mt19937(2));
      return ids;
    }
    static std::vector<attention_slice> make_slices(std::uint32_t batch, std::uint32_t context, std::uint32_t chunk) {
      std::vector<attention_slice> all;
      for (std::uint32_t i = 0; i < batch; ++i) all.push_back({i * chunk, chunk, context - chunk, i * (context / 16)});
      return all;
    }
    memory pool, queries, out, table, slices;
    attention_job job;
  };

  void decoding() {
    for (const std::uint32_t batch : {1U, 8U, 32U})
      for (const std::uint32_t context : {1024U, 8192U, 32768U}) {
        paged world(batch, context, 1, 32, 8);
        const auto processors = static_cast<std::uint32_t>(properties_.multiProcessorCount);
        const std::uint32_t parts = std::clamp(4 * processors / (batch * 8), 1U, context / 256);
        for (const auto split : {attention_split{parts, 0}, {(context + 511) / 512, 512}, {1, 512}}) {
          world.job.split = split;
          const memory scratch(attention_scratch_bytes(world.job) + 256);
          world.job.scratch = scratch.as<float>();
          const double ms = time([&] { launch_decode(stream_, world.job); });
          tell("decode, batch " + std::to_string(batch) + ", context " + std::to_string(context) + ", parts " +
                   std::to_string(split.parts) + (split.tokens != 0 ? ", fixed" : ""),
               ms, static_cast<double>(world.pool.bytes()), 0);
        }
      }
  }

  void prefilling() {
    for (const std::uint32_t context : {2048U, 8192U, 32768U}) {
      const std::uint32_t chunk = 2048;
      paged world(1, context, chunk, 32, 8);
      const double pairs = static_cast<double>(chunk) * (context - chunk / 2);
      const std::string name = "prefill of 2048 of " + std::to_string(context);
      tell(name, time([&] { launch_prefill(stream_, world.job); }), 0, pairs * 4 * 128 * 32);
      world.job.split = {1, 512};
      tell(name + ", fixed", time([&] { launch_decode(stream_, world.job); }), 0, pairs * 4 * 128 * 32);
    }
  }

  void products() {
    struct shape {
      std::uint32_t columns, depth;
    };
    for (const auto [columns, depth] : {shape{6144, 4096}, {4096, 4096}, {28672, 4096}, {4096, 14336}, {128256, 4096}})
      for (const std::uint32_t many : {1U, 8U, 32U, 64U, 128U, 512U, 2048U}) {
        const std::size_t weights = std::size_t{columns} * depth * 2;
        const memory w(weights), x(std::size_t{many} * depth * 2), y(std::size_t{many} * columns * 4);
        gemm_job job;
        job.x = x.as<void>();
        job.w = w.as<void>();
        job.y = y.as<void>();
        job.rows = many;
        job.columns = columns;
        job.depth = depth;
        tell("fixed product " + std::to_string(many) + " x " + std::to_string(columns) + " x " + std::to_string(depth),
             time([&] { launch_fixed(stream_, job); }), static_cast<double>(weights),
             2.0 * many * static_cast<double>(columns) * depth);
      }
  }

  void rows() {
    const std::uint32_t hidden = 4096;
    for (const std::uint32_t many : {1U, 64U, 2048U}) {
      const memory x(std::size_t{many} * hidden * 4), weight(hidden * 2), out(std::size_t{many} * hidden * 2);
      norm_job job;
      job.x = x.as<float>();
      job.weight = weight.as<void>();
      job.epsilon = 1e-5F;
      job.out = out.as<void>();
      job.rows = many;
      job.hidden = hidden;
      tell("norm of " + std::to_string(many) + " x 4096", time([&] { launch(stream_, job); }), 6.0 * many * hidden, 0);
    }
  }

  void sampling() {
    const std::uint32_t vocabulary = 128256;
    for (const std::uint32_t many : {1U, 32U}) {
      const memory scratch(many * sampling_scratch_bytes(vocabulary)), sampled(many * sizeof(sampled_row)),
          top(many * 20 * sizeof(top_entry));
      std::mt19937 random(3);
      std::normal_distribution<float> normal(0, 2.5F);
      std::vector<float> logits(std::size_t{many} * vocabulary);
      for (auto& logit : logits) logit = normal(random);
      const memory device_logits(logits);
      for (const std::string kind :
           {"greedy", "drawn from all", "top-k 50", "top-p 0.9", "greedy with 5 log-probabilities"}) {
        std::vector<sampling_row> list(many);
        for (std::uint32_t i = 0; i < many; ++i) {
          list[i].logits_row = i;
          list[i].seed = i;
          if (kind[0] == 'g') list[i].temperature = 0;
          if (kind == "top-k 50") list[i].top_k = 50;
          if (kind == "top-p 0.9") list[i].top_p = 0.9F;
          if (kind.find("log") != std::string::npos) list[i].logprobs = 5;
        }
        const memory device_list(list);
        sampling_job job;
        job.logits = device_logits.as<float>();
        job.logits_stride = vocabulary;
        job.vocabulary = vocabulary;
        job.rows = device_list.as<sampling_row>();
        job.count = many;
        job.sampled = sampled.as<sampled_row>();
        job.top = top.as<top_entry>();
        job.top_stride = 20;
        job.rows_at_once = many;
        job.scratch = scratch.as<void>();
        tell("sampling " + std::to_string(many) + " x 128256, " + kind, time([&] { launch(stream_, job); }),
             4.0 * many * vocabulary, 0);
      }
    }
  }

  void moving() {
    const std::uint32_t count = 4096;
    const std::uint64_t bytes = block_bytes(8, 128);
    const memory from(count * bytes), to(count * bytes);
    std::vector<move_piece> list;
    const auto order = paged::make_table(count);
    for (std::uint32_t i = 0; i < count; ++i) list.push_back({from.at(order[i] * bytes), to.at(i * bytes)});
    const memory pieces(list);
    for (const std::uint32_t blocks : {8U, 16U, 32U, 64U, 128U, 264U}) {
      move_job job;
      job.pieces = pieces.as<move_piece>();
      job.count = count;
      job.bytes = bytes;
      job.thread_blocks = blocks;
      tell("move of 64 KiB pieces by " + std::to_string(blocks) + " blocks", time([&] { launch(stream_, job); }),
           2.0 * count * static_cast<double>(bytes), 0);
    }
  }

  static constexpr std::uint32_t cold_columns = 32768, cold_depth = 4096;
  int repetitions_;
  memory cold_, cold_x_, cold_y_;
  cudaDeviceProp properties_{};
  cudaEvent_t start_ = nullptr, end_ = nullptr;
  double copy_rate_ = 0;
  testing::inline_stream stream_;
};

} // namespace

} // namespace godwit::gpu::cuda

int main(int count, char** words) {
  int repetitions = 21;
  if (count == 3 && std::strcmp(words[1], "--repetitions") == 0) repetitions = std::atoi(words[2]);
  if ((count != 1 && count != 3) || repetitions < 1) {
    std::fprintf(stderr, "usage: %s [--repetitions N]\n", words[0]);
    return 2;
  }
  int devices = 0;
  if (const auto status = cudaGetDeviceCount(&devices); status != cudaSuccess || devices == 0) {
    std::printf("{\"skipped\": \"no GPU: %s\"}\n",
                status != cudaSuccess ? cudaGetErrorString(status) : "none is there");
    return 0;
  }
  try {
    godwit::gpu::cuda::bench(repetitions).run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
