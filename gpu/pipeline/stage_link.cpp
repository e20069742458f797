#include <godwit/gpu/pipeline.hpp>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace godwit::gpu::pipeline {

namespace {

/// More than the parts of any step (protocols::step_parts_max).
constexpr std::size_t waiting_max = 256;

} // namespace

std::shared_ptr<hidden_rows> stage_link::empty(std::uint64_t bytes) {
  std::unique_ptr<hidden_rows> rows;
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.size() >= waiting_max) throw std::runtime_error("a stage takes none of what the one before computes");
    const auto fits = std::ranges::find_if(free_, [bytes](const auto& one) { return one->memory.bytes() >= bytes; });
    if (fits != free_.end()) {
      rows = std::move(*fits);
      free_.erase(fits);
    } else {
      free_.clear(); // too small for what comes now
    }
  }
  if (!rows) {
    rows = std::make_unique<hidden_rows>();
    rows->memory = from_(bytes);
  }
  return {rows.release(), [link = weak_from_this()](hidden_rows* done) {
            std::unique_ptr<hidden_rows> own(done);
            if (const auto still = link.lock()) {
              const std::lock_guard lock(still->mutex_);
              still->free_.push_back(std::move(own));
            }
          }};
}

void stage_link::put(std::shared_ptr<hidden_rows> rows) {
  const std::lock_guard lock(mutex_);
  waiting_.push_back(std::move(rows));
}

std::shared_ptr<hidden_rows> stage_link::take(std::uint64_t step, std::uint32_t rows) {
  const std::lock_guard lock(mutex_);
  if (waiting_.empty()) throw std::runtime_error("a stage began before the one in front of it had ended");
  if (waiting_.front()->step != step || waiting_.front()->rows != rows)
    throw std::runtime_error("a stage was given other rows than those of its step");
  auto out = std::move(waiting_.front());
  waiting_.pop_front();
  return out;
}

} // namespace godwit::gpu::pipeline
