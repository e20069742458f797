#include "processes/support/mover.hpp"

#include "processes/support/child_process.hpp"

#include <algorithm>

namespace godwit::test {

namespace {
/// A migration then has complete blocks to copy while its request decodes.
constexpr std::uint32_t answer_tokens_min = 64;
} // namespace

mover::mover(const std::string& control, std::vector<way> ways)
    : console_(control), ways_(std::move(ways)), thread_([this] { run(); }) {}

mover::~mover() { stop(); }

void mover::stop() {
  stopping_ = true;
  if (thread_.joinable()) thread_.join();
}

void mover::run() {
  while (!stopping_) {
    if (const auto now = console_.status(true))
      move_one_each(*now);
    else
      pause_briefly();
  }
}

void mover::move_one_each(const protocols::cluster_status& now) {
  bool ordered = false;
  for (const auto& each : ways_) {
    const auto called = [&now](const std::string& name) {
      return std::find_if(now.instances.begin(), now.instances.end(),
                          [&](const auto& i) { return i.node == name && i.state == protocols::instance_state::ready; });
    };
    const auto from = called(each.first);
    const auto to = called(each.second);
    if (from == now.instances.end() || to == now.instances.end()) continue;
    for (const auto& request : from->requests) {
      if (stopping_) return;
      if (request.answer_tokens < answer_tokens_min) continue;
      const auto report = console_.migrate(request.request, to->instance);
      ordered = true;
      const std::lock_guard lock(mutex_);
      if (!report) {
        ++outcomes_["no answer"];
        return;
      }
      ++outcomes_[std::string(to_string(report->outcome)) + " (" + std::string(to_string(report->reason)) + ")"];
      if (report->committed()) ++committed_[each];
    }
  }
  if (!ordered) pause_briefly();
}

std::uint64_t mover::committed(const way& which) const {
  const std::lock_guard lock(mutex_);
  const auto found = committed_.find(which);
  return found == committed_.end() ? 0 : found->second;
}

std::uint64_t mover::committed() const {
  const std::lock_guard lock(mutex_);
  std::uint64_t sum = 0;
  for (const auto& [which, count] : committed_) sum += count;
  return sum;
}

std::string mover::summary() const {
  const std::lock_guard lock(mutex_);
  std::string out;
  for (const auto& [outcome, count] : outcomes_)
    out += (out.empty() ? "" : ", ") + outcome + ": " + std::to_string(count);
  return out.empty() ? "nothing ordered" : out;
}

} // namespace godwit::test
