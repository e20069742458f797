#include "cuda/emulated/emulated_group.hpp"

#include "cuda/driver.hpp"
#include "cuda/emulated/emulated_stream.hpp"

#include <godwit/gpu/collective.hpp>

#include <map>
#include <mutex>
#include <span>
#include <string>
#include <utility>

namespace godwit::gpu::cuda::emulated {

namespace {

/// What a group's operations say when they have waited in vain. The streams go on, as a GPU's do.
class group_state {
public:
  void fail(const std::string& why) {
    const std::lock_guard lock(mutex_);
    if (error_.empty()) error_ = why;
  }
  [[nodiscard]] std::string error() const {
    const std::lock_guard lock(mutex_);
    return error_;
  }
  /// Of a rank's operation number `turn`: whether it is from the capture that the others' is from. Ranks are never
  /// further apart than an operation.
  [[nodiscard]] bool as_the_others(std::uint64_t turn, std::uint64_t capture) {
    const std::lock_guard lock(mutex_);
    captures_.erase(captures_.begin(), captures_.lower_bound(turn < 2 ? 0 : turn - 2));
    return captures_.try_emplace(turn, capture).first->second == capture;
  }

private:
  mutable std::mutex mutex_;
  std::string error_;
  std::map<std::uint64_t, std::uint64_t> captures_; ///< by turn; 0: not captured
};

class emulated_end final : public group_end {
public:
  emulated_end(std::shared_ptr<collective::communicator> host, std::shared_ptr<group_state> state)
      : host_(std::move(host)), state_(std::move(state)) {}
  ~emulated_end() override { break_with("rank " + std::to_string(rank()) + " is gone"); }

  [[nodiscard]] std::uint32_t rank() const noexcept override { return host_->rank(); }
  [[nodiscard]] std::uint32_t ranks() const noexcept override { return host_->ranks(); }

  void all_reduce(driver_stream& on, float* values, std::size_t count) override {
    enqueue(on, "sum of devices", [values, count](collective::communicator& host) {
      return host.all_reduce({values, count});
    });
  }
  void all_gather(driver_stream& on, const float* own, float* all, std::size_t count) override {
    enqueue(on, "gathering of devices", [own, all, count](collective::communicator& host) {
      return host.all_gather({own, count}, {all, count * host.ranks()});
    });
  }
  void bound(driver_stream&) override {} // each operation's wait has its bound

  void abort(const std::string& why) override { break_with(why.empty() ? "aborted" : why); }
  [[nodiscard]] std::string error() const override { return state_->error(); }

private:
  template <class Operation> void enqueue(driver_stream& on, const char* name, const Operation& operation) {
    if (const auto why = error(); !why.empty()) throw driver_error(why);
    const std::uint64_t capture = dynamic_cast<emulated_stream&>(on).captures() ? ++captured_ : 0;
    on.run(name, [host = host_, state = state_, turn = turn_, capture, operation] {
      auto wrong = state->as_the_others((*turn)++, capture)
                       ? operation(*host)
                       : "rank " + std::to_string(host->rank()) + " launches what was not captured with the others'";
      if (wrong.empty()) return;
      state->fail(wrong);
      host->abort(wrong);
    });
  }
  /// Told before it is done: whoever is woken by it has a reason.
  void break_with(const std::string& why) const {
    state_->fail(why);
    host_->abort(why);
  }

  std::shared_ptr<collective::communicator> host_;
  std::shared_ptr<group_state> state_;
  std::shared_ptr<std::uint64_t> turn_ = std::make_shared<std::uint64_t>(0); ///< the stream's thread's
  std::uint64_t captured_ = 0;
};

} // namespace

std::vector<std::shared_ptr<group_end>> make_emulated_group(std::uint32_t ranks, std::chrono::nanoseconds wait_max) {
  const auto state = std::make_shared<group_state>();
  std::vector<std::shared_ptr<group_end>> ends;
  for (auto& host : collective::make_host_group(ranks, wait_max))
    ends.push_back(std::make_shared<emulated_end>(std::move(host), state));
  return ends;
}

} // namespace godwit::gpu::cuda::emulated
