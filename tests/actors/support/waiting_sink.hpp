#pragma once

#include "actors/support/recording_sink.hpp"

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

namespace godwit::test {

/// Counts the ends of a set of requests, so that a test can wait for all.
class waiting_sink final : public actors::answer_sink {
public:
  struct group {
    std::mutex mutex;
    std::condition_variable changed;
    std::size_t ended = 0;
    std::size_t tokens = 0;
    /// Called once, as soon as there are more tokens than that, on the home's context: what it does is not late
    /// however late the test's own thread is. Must only post.
    std::size_t tokens_awaited = 0;
    std::function<void()> on_tokens;
  };
  explicit waiting_sink(std::shared_ptr<group> all) : all_(std::move(all)) {}
  bool on_tokens(std::span<const protocols::sampled_token> tokens, bool stopped) override {
    const std::lock_guard lock(all_->mutex);
    all_->tokens += tokens.size();
    all_->changed.notify_all();
    if (all_->on_tokens && all_->tokens > all_->tokens_awaited) std::exchange(all_->on_tokens, nullptr)();
    return record.on_tokens(tokens, stopped);
  }
  void on_prompt_scores(std::vector<protocols::sampled_token> scores) override {
    const std::lock_guard lock(all_->mutex);
    record.on_prompt_scores(std::move(scores));
  }
  void on_finished(protocols::finish_reason reason, const actors::answer_usage& usage) override {
    const std::lock_guard lock(all_->mutex);
    record.on_finished(reason, usage);
    ++all_->ended;
    all_->changed.notify_all();
  }
  void on_failed(const actors::answer_failure& failure) override {
    const std::lock_guard lock(all_->mutex);
    record.on_failed(failure);
    ++all_->ended;
    all_->changed.notify_all();
  }
  recording_sink record;

private:
  std::shared_ptr<group> all_;
};

} // namespace godwit::test
