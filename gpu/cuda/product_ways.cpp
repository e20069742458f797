#include "cuda/product_ways.hpp"

#include "cuda/kernels.hpp"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <memory>
#include <utility>

namespace godwit::gpu::cuda {

namespace {

constexpr std::uint32_t launches_min = 4, launches_max = 64;
/// Ways are tried in turns: a device that has been idle is slow at first.
constexpr int rounds = 3;
/// An earlier way stays unless another one is faster by so much: what two runs of the same differ by is no reason.
constexpr double worth_it = 0.98;

class stopwatch {
public:
  stopwatch(driver& on, driver_stream& stream)
      : stream_(stream), l2_bytes_(on.properties().l2_bytes), begin_(on.make_event(true)), end_(on.make_event(true)) {}

  /// Some of the product, one after the other. Null: it cannot be had this way.
  std::unique_ptr<driver_graph> prepare(const product_trial& trial, std::uint32_t way) {
    try {
      run(trial, way, 1); // its code is loaded, which a capture cannot do
      // As a graph, which is what decode steps are: by itself each is launched more slowly than a small one takes.
      auto graph = capture(trial, way, launches_for(trial));
      stream_.launch(*graph); // what cannot be launched shows now
      return graph;
    } catch (const driver_error&) {
      stream_.synchronize(); // throws where the device has failed
      return nullptr;
    }
  }
  /// Seconds that it takes.
  double time(driver_graph& graph) {
    stream_.launch(graph); // so that the one that is timed waits for nothing
    stream_.record(*begin_);
    stream_.launch(graph);
    stream_.record(*end_);
    end_->synchronize();
    return end_->milliseconds_since(*begin_) / 1e3;
  }

private:
  /// Enough that the first weights have left the cache when they come again, where they are enough for that.
  [[nodiscard]] std::uint32_t launches_for(const product_trial& trial) const {
    const auto bytes = std::max<std::uint64_t>(1, std::uint64_t{2} * trial.job.columns * trial.job.depth);
    return std::clamp(static_cast<std::uint32_t>(2 * l2_bytes_ / bytes), launches_min, launches_max);
  }
  std::unique_ptr<driver_graph> capture(const product_trial& trial, std::uint32_t way, std::uint32_t count) {
    stream_.begin_capture();
    try {
      run(trial, way, count);
    } catch (const driver_error&) {
      try {
        (void)stream_.end_capture();
      } catch (const driver_error&) { // which is no news
      }
      throw;
    }
    return stream_.end_capture();
  }
  void run(const product_trial& trial, std::uint32_t way, std::uint32_t count) {
    auto job = trial.job;
    for (std::uint32_t i = 0; i < count; ++i) {
      job.w = trial.weights[next_++ % trial.weights.size()];
      if (way == product_ways::fixed_kernel)
        launch_fixed(stream_, job);
      else
        stream_.gemm(job, way);
    }
  }

  driver_stream& stream_;
  std::uint64_t l2_bytes_;
  std::unique_ptr<driver_event> begin_, end_;
  std::size_t next_ = 0;
};

/// Of `proposals` of the library's and the fixed kernel, the fastest; of none that can be had, the first.
std::uint32_t fastest_of(stopwatch& watch, const product_trial& trial, std::uint32_t proposals) {
  struct candidate {
    std::uint32_t way;
    std::unique_ptr<driver_graph> graph;
    double seconds;
  };
  std::vector<candidate> all;
  const auto add = [&](std::uint32_t way) {
    if (auto graph = watch.prepare(trial, way))
      all.push_back({way, std::move(graph), std::numeric_limits<double>::infinity()});
  };
  for (std::uint32_t way = 0; way < proposals; ++way) add(way);
  add(product_ways::fixed_kernel);
  for (int round = 0; round < rounds; ++round)
    for (auto& one : all) one.seconds = std::min(one.seconds, watch.time(*one.graph));
  const candidate* best = nullptr;
  for (const auto& one : all)
    if (best == nullptr || one.seconds < best->seconds * worth_it) best = &one;
  return best != nullptr ? best->way : 0;
}

} // namespace

std::string product_ways::summary::in_words() const {
  char took[32];
  std::snprintf(took, sizeof took, "%.2f s", seconds);
  return "products of up to " + std::to_string(rows_max) + " rows: " + std::to_string(shapes) + " shapes tried in " +
         took + "; " + std::to_string(shapes - others - by_fixed) + " by cuBLASLt's first proposal, " +
         std::to_string(others) + " by another one, " + std::to_string(by_fixed) + " by the kernel of fixed order";
}

void product_ways::try_once(driver& on, driver_stream& stream,
                            const std::function<std::vector<product_trial>()>& trials, const clock& now,
                            const std::function<void(const std::string&)>& tell) {
  std::call_once(once_, [&] {
    const auto found = try_all(on, stream, trials(), now);
    if (tell) tell(found.in_words());
  });
}

product_ways::summary product_ways::try_all(driver& on, driver_stream& stream, std::span<const product_trial> trials,
                                            const clock& now) {
  summary out;
  // Not the device's time alone: code that is loaded, captures and the making of graphs take longer than products do.
  const auto begun = now();
  stopwatch watch(on, stream);
  for (std::uint32_t rows = 1; rows <= rows_max; rows *= 2)
    for (auto trial : trials) {
      if (rows > trial.job.rows || trial.weights.empty()) continue;
      if (now() - begun >= time_max) break;
      trial.job.rows = rows;
      trial.job.w = trial.weights.front();
      const auto chosen = fastest_of(watch, trial, stream.gemm_proposals(trial.job));
      fastest_[shape_of(trial.job)] = chosen;
      ++out.shapes;
      out.by_fixed += chosen == fixed_kernel ? 1 : 0;
      out.others += chosen != fixed_kernel && chosen != 0 ? 1 : 0;
    }
  out.seconds = std::chrono::duration<double>(now() - begun).count();
  return out;
}

product_ways::shape product_ways::shape_of(const gemm_job& job) noexcept {
  return {job.rows, job.columns, job.depth, job.y_type, job.accumulate};
}

std::uint32_t product_ways::of(const gemm_job& job) const noexcept {
  if (job.rows > rows_max) return 0;
  const auto found = fastest_.find(shape_of(job));
  return found == fastest_.end() ? 0 : found->second;
}

} // namespace godwit::gpu::cuda
