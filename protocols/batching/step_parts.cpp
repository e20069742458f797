#include <godwit/protocols/batching/step_parts.hpp>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace godwit::protocols {

std::uint32_t step_parts_for(std::uint32_t rows, std::uint32_t stages, std::uint32_t rows_of_weights) {
  if (stages < 2 || rows_of_weights == 0) return 1;
  const auto most = std::clamp(rows, 1U, step_parts_max);
  const double best = std::sqrt(static_cast<double>(stages - 1) * rows / rows_of_weights);
  const auto below = static_cast<std::uint32_t>(std::clamp(best, 1.0, static_cast<double>(most)));
  const auto above = std::min(below + 1, most);
  const auto time = [&](std::uint32_t parts) {
    return (parts + stages - 1.0) * (rows_of_weights + static_cast<double>(rows) / parts);
  };
  return time(above) < time(below) ? above : below;
}

namespace {

using count = std::uint32_t;

count size_of(const step_slice& slice) { return static_cast<count>(slice.tokens.size()); }

bool may_be_cut(const step_slice& slice) { return slice.drafted == 0 && slice.scored.empty(); }

/// The first `tokens` of a slice, which keeps the rest.
step_slice take_front(step_slice& slice, count tokens) {
  step_slice front;
  front.request = slice.request;
  front.first_position = slice.first_position;
  front.adapter = slice.adapter;
  front.sample_index = slice.sample_index;
  const auto end = slice.tokens.begin() + static_cast<std::ptrdiff_t>(tokens);
  front.tokens.assign(slice.tokens.begin(), end);
  slice.tokens.erase(slice.tokens.begin(), end);
  const auto blocks = (front.first_position + tokens + tokens_per_block - 1) / tokens_per_block;
  front.blocks.assign(slice.blocks.begin(),
                      slice.blocks.begin() + std::min<std::ptrdiff_t>(blocks, std::ssize(slice.blocks)));
  slice.first_position += tokens;
  return front;
}

} // namespace

std::vector<step_input> cut_step(step_input input, std::uint32_t count) {
  std::vector<step_input> parts;
  const auto begin_part = [&] {
    parts.emplace_back();
    parts.back().step = input.step;
  };
  begin_part();
  parts.front().copies = std::move(input.copies);
  std::uint64_t left = 0;
  for (const auto& slice : input.slices) left += slice.tokens.size();
  // What remains is divided anew with each part: one that had to be larger leaves less to the others.
  const auto share = [&] {
    const auto parts_left = std::max<std::uint64_t>(1, count - std::min<std::size_t>(count, parts.size() - 1));
    return (left + parts_left - 1) / parts_left;
  };
  auto room = share();
  for (auto& slice : input.slices) {
    while (true) {
      const auto size = size_of(slice);
      const bool last = parts.size() >= count;
      if (last || size <= room) break;
      if (may_be_cut(slice) && room > 0) {
        parts.back().slices.push_back(take_front(slice, static_cast<std::uint32_t>(room)));
        left -= room;
      } else if (parts.back().slices.empty()) {
        break; // larger than a part, and whole
      }
      begin_part();
      room = share();
    }
    const auto size = size_of(slice);
    left -= size;
    room -= std::min<std::uint64_t>(room, size);
    parts.back().slices.push_back(std::move(slice));
    if (room == 0 && left > 0 && parts.size() < count) {
      begin_part();
      room = share();
    }
  }
  if (parts.back().slices.empty() && parts.size() > 1) parts.pop_back();
  return parts;
}

step_output join_parts(std::vector<step_output> parts) {
  step_output whole;
  const auto append = [](auto& to, auto& from) {
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
  };
  for (auto& part : parts) {
    whole.step = part.step;
    append(whole.tokens, part.tokens);
    append(whole.scores, part.scores);
    append(whole.undrawn, part.undrawn);
  }
  return whole;
}

stage_schedule::stage_schedule(std::uint32_t stages) : stages_(stages) {}

std::uint64_t stage_schedule::add(std::uint32_t parts) {
  const auto first = taken_ + parts_.size();
  parts_.resize(parts_.size() + parts);
  return first;
}

std::vector<stage_schedule::turn> stage_schedule::begin() {
  std::vector<turn> now;
  const auto end = taken_ + parts_.size();
  for (std::uint32_t stage = 0; stage < stages_.size(); ++stage) {
    auto& its = stages_[stage];
    if (its.busy || its.next == end || state_of(its.next).stage != stage) continue;
    if (stage + 1 < stages_.size() && its.next - stages_[stage + 1].next >= step_parts_max) continue;
    its.busy = true;
    now.push_back({stage, its.next});
  }
  return now;
}

void stage_schedule::ended(turn what, std::int64_t duration_ns) {
  auto& stage = stages_[what.stage];
  auto& part = state_of(what.part);
  const auto began = std::max(stage.free_at, part.there_at);
  if (what.stage == 0) part.begun_at = began;
  stage.busy = false;
  ++stage.next;
  ++part.stage;
  stage.free_at = part.there_at = began + duration_ns;
}

std::int64_t stage_schedule::take(std::uint32_t parts) {
  const auto took = state_of(taken_ + parts - 1).there_at - parts_.front().begun_at;
  parts_.erase(parts_.begin(), parts_.begin() + parts);
  taken_ += parts;
  if (parts_.empty()) // the next one finds all stages free
    for (auto& stage : stages_) stage.free_at = 0;
  return took;
}

} // namespace godwit::protocols
