#pragma once

#include "cuda/driver.hpp"

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <tuple>
#include <utility>

namespace godwit::gpu::cuda {

/// What a graph is for: a part of a step, and the sizes that its launches have.
struct graph_key {
  enum class part : std::uint8_t { layers, logits };
  part which = part::layers;
  std::uint32_t rows = 0;
  std::uint32_t positions = 0;
  friend bool operator==(const graph_key&, const graph_key&) = default;
};

/// Graphs of steps that come again and again; the longest unused goes. What cannot be captured runs as it is; after
/// three tries it is not tried again until memory has moved, and the first time that this happens is told. One thread.
class graph_cache {
public:
  /// `alone`: no other device has to capture the same for this one's graphs to run.
  graph_cache(std::size_t graphs_max, bool alone, std::function<void(const std::string&)> warn = {})
      : graphs_max_(graphs_max), alone_(alone), warn_(std::move(warn)) {}

  /// Runs `work`: as it is when its key is new (it may load code, which a capture cannot), captured and launched the
  /// second time, launched from then on. A graph of another `version` of the memory is thrown away; nothing of it may
  /// be under way then.
  void run(driver_stream& stream, const graph_key& key, std::uint64_t version,
           const std::function<void(driver_stream&)>& work);

  /// Launches the graphs run last, `count` of them, once more and in the same order. False, and nothing is launched,
  /// where that many have not been captured.
  [[nodiscard]] bool launch_again(driver_stream& stream, std::size_t count);

  [[nodiscard]] std::uint64_t launches() const noexcept { return launches_; }
  /// Why the last one could not be captured; empty where it could.
  [[nodiscard]] const std::string& why_not() const noexcept { return why_not_; }

private:
  struct entry {
    graph_key key;
    std::uint64_t version = 0;
    std::unique_ptr<driver_graph> graph;
    std::uint32_t failures = 0; ///< to make one of this version
  };
  /// False, and nothing was launched: it cannot be.
  [[nodiscard]] bool write(driver_stream& stream, entry& one, const std::function<void(driver_stream&)>& work);

  std::size_t graphs_max_;
  bool alone_;
  std::function<void(const std::string&)> warn_; ///< empty once it was called
  std::list<entry> entries_;                     ///< the last used first
  std::uint64_t launches_ = 0;
  std::string why_not_;
};

} // namespace godwit::gpu::cuda
