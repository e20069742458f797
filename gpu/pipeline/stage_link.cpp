#include <godwit/gpu/pipeline.hpp>

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <utility>

namespace godwit::gpu::pipeline {

namespace {

/// More than may wait between two stages (protocols::step_parts_max).
constexpr std::size_t waiting_max = 256;
constexpr std::uint64_t bytes_min = 1U << 12U;
/// Of what was out at once: buffers of all smaller sizes together take no more than those of the largest.
constexpr std::uint64_t slack = 2;

} // namespace

std::shared_ptr<hidden_rows> stage_link::empty(std::uint64_t bytes) {
  const auto size = std::bit_ceil(std::max(bytes, bytes_min));
  std::unique_ptr<hidden_rows> rows;
  std::vector<std::unique_ptr<hidden_rows>> too_many; // end without the lock
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.size() >= waiting_max) throw std::runtime_error("a stage takes none of what the one before computes");
    const auto fits = std::ranges::find_if(free_, [size](const auto& one) { return one->size == size; });
    if (fits != free_.end()) {
      rows = std::move(*fits);
      free_.erase(fits);
      free_bytes_ -= size;
    }
    const auto most = slack * std::max(out_bytes_max_, out_bytes_ + size);
    while (!free_.empty() && free_bytes_ + out_bytes_ + size > most) {
      free_bytes_ -= free_.back()->size;
      too_many.push_back(std::move(free_.back()));
      free_.pop_back();
    }
  }
  too_many.clear();
  if (!rows) {
    rows = std::make_unique<hidden_rows>();
    rows->memory = from_(size);
    rows->size = size;
  }
  {
    const std::lock_guard lock(mutex_);
    free_.reserve(free_.size() + ++out_ + 1); // so that what comes back has its place
    out_bytes_ += size;
    out_bytes_max_ = std::max(out_bytes_max_, out_bytes_);
  }
  return {rows.release(), [link = weak_from_this()](hidden_rows* done) {
            std::unique_ptr<hidden_rows> own(done);
            if (const auto still = link.lock()) still->give_back(std::move(own));
          }};
}

void stage_link::give_back(std::unique_ptr<hidden_rows> rows) {
  const std::lock_guard lock(mutex_);
  --out_;
  out_bytes_ -= rows->size;
  free_bytes_ += rows->size;
  free_.push_back(std::move(rows));
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
