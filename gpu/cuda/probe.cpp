#include "cuda/probe.hpp"

#include "cuda/kernels.hpp"
#include "cuda/step_shape.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <utility>

namespace godwit::gpu::cuda {

namespace {

class device_probe final : public cuda_probe {
public:
  explicit device_probe(std::shared_ptr<driver> of)
      : driver_(std::move(of)), stream_(driver_->make_stream(stream_priority::high)) {}

  [[nodiscard]] double copy(copy_route route, std::uint64_t bytes, std::uint32_t runs) override {
    const auto first = numbers(bytes);
    const auto second = route == copy_route::within_device ? driver_->allocate(bytes, "a copy's memory")
                                                           : driver_->allocate_pinned(bytes, "a copy's memory");
    const bool in = route == copy_route::to_device;
    return time(runs, 1,
                [&] { stream_->copy(in ? first.data() : second.data(), in ? second.data() : first.data(), bytes); });
  }

  [[nodiscard]] double product(const product_shape& shape, std::uint32_t runs) override {
    const auto x = numbers(std::uint64_t{shape.rows} * shape.depth * 2),
               w = numbers(std::uint64_t{shape.columns} * shape.depth * 2),
               y = numbers(std::uint64_t{shape.rows} * shape.columns * model::bytes_of(shape.y_type));
    gemm_job job;
    job.y_type = shape.y_type;
    job.x = x.data();
    job.w = w.data();
    job.y = y.data();
    job.rows = shape.rows;
    job.columns = shape.columns;
    job.depth = shape.depth;
    return time(runs, 1, [&] {
      if (shape.fixed)
        launch_fixed(*stream_, job);
      else
        stream_->gemm(job);
    });
  }

  [[nodiscard]] double attention(const attention_shape& shape, std::uint32_t runs) override {
    const std::uint32_t blocks_each = (shape.context + block_tokens - 1) / block_tokens;
    const std::uint32_t blocks = blocks_each * shape.batch;
    const std::uint64_t row = std::uint64_t{shape.heads} * shape.head_size;
    const std::uint64_t bytes = block_bytes(shape.kv_heads, shape.head_size) * blocks;
    const auto caches = static_cast<std::uint32_t>(1 + 4 * driver_->properties().l2_bytes / bytes);
    const auto pool = numbers(bytes * caches);
    const auto queries = numbers(shape.batch * row * 2), out = numbers(shape.batch * row * 2);
    const auto table = upload(shuffled(blocks * caches));
    std::vector<attention_slice> slices;
    for (std::uint32_t i = 0; i < shape.batch; ++i) slices.push_back({i, 1, shape.context - 1, i * blocks_each});
    const auto placed = upload(slices);

    attention_job job;
    job.queries = queries.data();
    job.kv = {pool.data(), block_bytes(shape.kv_heads, shape.head_size), shape.kv_heads, shape.head_size};
    job.block_table = reinterpret_cast<const std::uint32_t*>(table.data());
    job.slices = reinterpret_cast<const attention_slice*>(placed.data());
    job.slices_count = shape.batch;
    job.positions_max = shape.context;
    job.heads = shape.heads;
    job.scale = 1 / std::sqrt(static_cast<float>(shape.head_size));
    job.out = out.data();
    job.split = decode_split({shape.batch, shape.context, shape.heads, shape.kv_heads,
                              decode_places(driver_->properties(), shape.head_size),
                              shape.deterministic ? fixed_part_tokens(shape.context) : 0});
    const auto scratch = driver_->allocate(std::max<std::uint64_t>(attention_scratch_bytes(job), 16), "attention");
    job.scratch = reinterpret_cast<float*>(scratch.data());
    const auto* tables = job.block_table;
    std::uint32_t next = 0;
    return time(runs, 5, [&] {
      job.block_table = tables + std::uint64_t{next++ % caches} * blocks;
      launch_decode(*stream_, job);
    });
  }

private:
  /// The median of groups of `together` runs that go back to back, so that the time between events counts little.
  template <class Work> double time(std::uint32_t runs, std::uint32_t together, const Work& work) {
    work();
    std::vector<std::unique_ptr<driver_event>> marks;
    const auto mark = [&] {
      marks.push_back(driver_->make_event(true));
      stream_->record(*marks.back());
    };
    mark();
    for (std::uint32_t group = 0; group < std::max(1U, runs / together); ++group) {
      for (std::uint32_t i = 0; i < together; ++i) work();
      mark();
    }
    marks.back()->synchronize();
    std::vector<double> seconds;
    for (std::size_t i = 1; i < marks.size(); ++i)
      seconds.push_back(marks[i]->milliseconds_since(*marks[i - 1]) / 1e3 / together);
    const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
    std::nth_element(seconds.begin(), middle, seconds.end());
    return *middle;
  }

  /// Small random numbers of both signs: what zeros take is less, in power and so in time.
  [[nodiscard]] allocation numbers(std::uint64_t bytes) {
    constexpr std::uint64_t some_bytes = std::uint64_t{16} << 20U;
    if (some_.bytes() == 0) {
      some_ = driver_->allocate_pinned(some_bytes, "a benchmark");
      auto* values = reinterpret_cast<std::uint16_t*>(some_.data());
      std::mt19937 random(1);
      for (std::uint64_t i = 0; i < some_bytes / 2; ++i)
        values[i] = static_cast<std::uint16_t>(0x3C00U + random() % 0x80U + (random() % 2 << 15U));
    }
    auto memory = driver_->allocate(bytes, "a benchmark");
    for (std::uint64_t at = 0; at < bytes; at += some_bytes)
      stream_->copy(memory.data() + at, some_.data(), std::min(some_bytes, bytes - at));
    stream_->synchronize();
    return memory;
  }

  template <class Value> [[nodiscard]] allocation upload(const std::vector<Value>& values) {
    const std::uint64_t bytes = values.size() * sizeof(Value);
    auto memory = driver_->allocate(bytes, "a benchmark");
    const auto pinned = driver_->allocate_pinned(bytes, "a benchmark");
    std::memcpy(pinned.data(), values.data(), bytes);
    stream_->copy(memory.data(), pinned.data(), bytes);
    stream_->synchronize();
    return memory;
  }

  /// 0 .. count - 1 in an order that no prefetcher guesses, the same every time.
  [[nodiscard]] static std::vector<std::uint32_t> shuffled(std::uint32_t count) {
    std::vector<std::uint32_t> all(count);
    std::iota(all.begin(), all.end(), 0U);
    std::uint64_t state = 1;
    for (std::uint32_t i = count; i > 1; --i) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      std::swap(all[i - 1], all[(state >> 33U) % i]);
    }
    return all;
  }

  std::shared_ptr<driver> driver_;
  allocation some_; ///< page-locked numbers that others are copies of
  std::unique_ptr<driver_stream> stream_;
};

} // namespace

std::unique_ptr<cuda_probe> make_device_probe(std::shared_ptr<driver> of) {
  return std::make_unique<device_probe>(std::move(of));
}

} // namespace godwit::gpu::cuda
