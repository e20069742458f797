#include "cuda/graph_cache.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace godwit::gpu::cuda {

namespace {

/// What is in the way of one capture (another thread's call, a lack of memory for a moment) may not be in the next
/// one's.
constexpr std::uint32_t tries = 3;

/// Ends a capture that an exception leaves.
class capture {
public:
  explicit capture(driver_stream& stream) : stream_(stream) { stream_.begin_capture(); }
  ~capture() {
    if (ended_) return;
    try {
      (void)stream_.end_capture();
    } catch (const driver_error&) { // the exception under way says more
    }
  }
  capture(const capture&) = delete;
  capture& operator=(const capture&) = delete;
  [[nodiscard]] std::unique_ptr<driver_graph> end() {
    ended_ = true;
    return stream_.end_capture();
  }

private:
  driver_stream& stream_;
  bool ended_ = false;
};

} // namespace

void graph_cache::run(driver_stream& stream, const graph_key& key, std::uint64_t version,
                      const std::function<void(driver_stream&)>& work) {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const entry& one) { return one.key == key; });
  if (found == entries_.end()) {
    work(stream);
    entries_.push_front({key, version, nullptr, 0});
    if (entries_.size() > graphs_max_) entries_.pop_back();
    return;
  }
  entries_.splice(entries_.begin(), entries_, found);
  auto& one = entries_.front();
  if (one.version != version) {
    one.graph.reset();
    one.failures = 0;
    one.version = version;
  }
  if (one.graph == nullptr && (one.failures == tries || !write(stream, one, work))) return work(stream);
  stream.launch(*one.graph);
  ++launches_;
}

bool graph_cache::write(driver_stream& stream, entry& one, const std::function<void(driver_stream&)>& work) {
  try {
    capture written(stream);
    work(stream);
    one.graph = written.end();
    why_not_.clear();
    return true;
  } catch (const driver_error& failure) {
    if (!alone_) throw; // the others would wait for a graph that never comes
    why_not_ = failure.what();
    if (++one.failures == tries && warn_)
      std::exchange(warn_, nullptr)("steps of some sizes are launched without a graph, more slowly: " + why_not_);
    return false;
  }
}

bool graph_cache::launch_again(driver_stream& stream, std::size_t count) {
  if (entries_.size() < count) return false;
  const auto end = std::next(entries_.begin(), static_cast<std::ptrdiff_t>(count));
  if (std::any_of(entries_.begin(), end, [](const entry& one) { return one.graph == nullptr; })) return false;
  for (auto one = end; one != entries_.begin();) stream.launch(*(--one)->graph);
  return true;
}

} // namespace godwit::gpu::cuda
