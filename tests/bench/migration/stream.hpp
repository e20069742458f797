#pragma once

#include "migration/world.hpp"

#include <godwit/actors/answer_sink.hpp>
#include <godwit/protocols/messages/migration.hpp>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace godwit::bench {

using moment = std::chrono::steady_clock::time_point;
[[nodiscard]] inline moment now() noexcept { return std::chrono::steady_clock::now(); }
[[nodiscard]] inline double seconds_between(moment a, moment b) noexcept {
  return std::chrono::duration<double>(b - a).count();
}

/// Notes when the tokens of one request come in.
class token_clock final : public actors::answer_sink {
public:
  [[nodiscard]] bool on_tokens(std::span<const protocols::sampled_token> tokens, bool) override;
  void on_finished(protocols::finish_reason, const actors::answer_usage&) override { fail("it ended"); }
  void on_failed(const actors::answer_failure& failure) override { fail(failure.message); }

  /// Tokens so far.
  [[nodiscard]] std::size_t count() const;
  /// Waits until there are so many; throws where they do not come.
  void wait_for(std::size_t tokens) const;
  /// Moments from token `first` on.
  [[nodiscard]] std::vector<moment> from(std::size_t first) const;

private:
  void fail(const std::string& why);
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::vector<moment> moments_;
  std::string failure_;
};

/// Seconds between neighbours.
[[nodiscard]] std::vector<double> gaps_of(const std::vector<moment>& moments);

/// One request that decodes on and on, from a prompt of its own. Withdrawn with the object.
class stream {
public:
  /// Returns when the first token is there.
  stream(world& where, std::uint32_t prompt_tokens);
  ~stream();
  stream(const stream&) = delete;
  stream& operator=(const stream&) = delete;

  /// From the submission to the first token, in seconds.
  [[nodiscard]] double first_token() const noexcept { return first_token_; }
  [[nodiscard]] const token_clock& clock() const noexcept { return *clock_; }
  [[nodiscard]] protocols::instance_id instance() const noexcept { return instance_; }
  [[nodiscard]] std::uint32_t length() const { return prompt_ + static_cast<std::uint32_t>(clock_->count()); }
  /// Throws where it is not moved. One that is there already is left alone.
  protocols::migration_report move(protocols::instance_id to);

private:
  [[nodiscard]] bool find();
  world& world_;
  std::uint32_t prompt_;
  std::shared_ptr<token_clock> clock_ = std::make_shared<token_clock>();
  double first_token_ = 0;
  protocols::request_id request_;
  protocols::instance_id instance_;
};

} // namespace godwit::bench
