#include "migration/stream.hpp"

#include <atomic>
#include <stdexcept>
#include <thread>
#include <utility>

namespace godwit::bench {

using namespace std::chrono_literals;

bool token_clock::on_tokens(std::span<const protocols::sampled_token> tokens, bool) {
  const auto at = now();
  const std::lock_guard lock(mutex_);
  moments_.insert(moments_.end(), tokens.size(), at);
  changed_.notify_all();
  return true;
}

void token_clock::fail(const std::string& why) {
  const std::lock_guard lock(mutex_);
  failure_ = why;
  changed_.notify_all();
}

std::size_t token_clock::count() const {
  const std::lock_guard lock(mutex_);
  return moments_.size();
}

void token_clock::wait_for(std::size_t tokens) const {
  std::unique_lock lock(mutex_);
  const bool there = changed_.wait_for(lock, 300s, [&] { return moments_.size() >= tokens || !failure_.empty(); });
  if (!failure_.empty()) throw std::runtime_error("a request failed: " + failure_);
  if (!there) throw std::runtime_error("a request stands still");
}

std::vector<moment> token_clock::from(std::size_t first) const {
  const std::lock_guard lock(mutex_);
  if (first >= moments_.size()) return {};
  return {moments_.begin() + static_cast<std::ptrdiff_t>(first), moments_.end()};
}

std::vector<double> gaps_of(const std::vector<moment>& moments) {
  std::vector<double> out;
  for (std::size_t i = 1; i < moments.size(); ++i) out.push_back(seconds_between(moments[i - 1], moments[i]));
  return out;
}

stream::stream(world& where, std::uint32_t prompt_tokens) : world_(where), prompt_(prompt_tokens) {
  // Prompts differ from their first token on, so that no two share blocks.
  static std::atomic<std::uint32_t> prompts{0};
  const auto number = ++prompts;
  auto what = std::make_shared<actors::submission>();
  auto& request = what->request;
  for (std::uint32_t i = 0; i < prompt_tokens; ++i)
    request.prompt.push_back(static_cast<protocols::token_id>((std::uint64_t{i + 1} * 7919U + number * 104729U) %
                                                              world_.model().vocabulary()));
  request.sampling.temperature = 0;
  request.stop.max_tokens = 1'000'000;
  request.stop.ignore_eos = true;
  what->seeded = true;
  what->sink = clock_;
  const auto start = now();
  if (!world_.cluster().gate()->submit({std::move(what)})) throw std::runtime_error("nobody takes requests");
  clock_->wait_for(1);
  first_token_ = seconds_between(start, clock_->from(0).front());
  for (int i = 0; !find(); ++i) {
    if (i == 100) throw std::runtime_error("a request is nowhere to be found");
    std::this_thread::sleep_for(20ms);
  }
}

stream::~stream() {
  world_.cluster().gate()->withdraw(clock_);
  // Its blocks are free when no instance has it any more.
  for (int i = 0; i < 250 && find(); ++i) std::this_thread::sleep_for(20ms);
}

// The newest request, or where this one is: ids count up.
bool stream::find() {
  const auto status = world_.cluster().status(true);
  if (!status) return false;
  bool found = false;
  const bool known = request_ != protocols::request_id{};
  auto newest = request_;
  for (const auto& instance : status->instances)
    for (const auto& request : instance.requests) {
      if (known ? request.request != request_ : request.request < newest) continue;
      newest = request.request;
      instance_ = instance.instance;
      found = true;
    }
  request_ = newest;
  return found;
}

protocols::migration_report stream::move(protocols::instance_id to) {
  if (to == instance_) return {};
  auto report = world_.cluster().migrate(request_, to);
  if (!report) throw std::runtime_error("no migration: " + report.error().message);
  if (!report->committed())
    throw std::runtime_error("a migration was not committed: " + std::string(to_string(report->outcome)) + " (" +
                             std::string(to_string(report->reason)) + ")");
  instance_ = to;
  return std::move(*report);
}

} // namespace godwit::bench
