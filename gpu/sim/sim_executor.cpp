#include <godwit/gpu/sim/sim_executor.hpp>

#include "sim/sim_swap_space.hpp"
#include "sim/token_source.hpp"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <utility>

namespace godwit::gpu::sim {

namespace {

using protocols::step_input;
using protocols::step_output;

class sim_executor final : public executor {
public:
  sim_executor(executor_info info, std::shared_ptr<const latency_model> latency, runtime::async::timer_source& timers,
               sim_model model)
      : info_(std::move(info)), latency_(std::move(latency)), factors_(latency_->spread, model.seed), timers_(timers) {
    if (info_.layers == 0 || info_.vocabulary == 0)
      throw std::invalid_argument("a simulated model has layers and a vocabulary");
    if (info_.eos.empty()) info_.eos = model.eos;
    info_.kv_layout = model.memory == sim_memory::hashes ? "sim/v1" : "sim/none";
    copies_ = std::move(model.copies);
    central_ = std::move(model.central);
    books_ = std::move(model.books);
    counts_steps_ = model.counts_steps;
    step_time_ = std::move(model.step_time);
    adapters_ = std::move(model.adapters);
    auto swap = std::move(model.swap);
    tokens_ = make_token_source(info_, std::move(model));
    swap_ = make_sim_swap_space(std::move(swap), tokens_, timers);
  }

  [[nodiscard]] const executor_info& info() const noexcept override { return info_; }
  [[nodiscard]] std::unique_ptr<forward> begin(step_input input) override;
  [[nodiscard]] protocols::memory_region key_region(std::uint32_t layer, protocols::block_id block) override {
    return layer == 0 ? tokens_->region(block) : protocols::memory_region{};
  }
  [[nodiscard]] protocols::memory_region value_region(std::uint32_t, protocols::block_id) override { return {}; }
  [[nodiscard]] std::shared_ptr<adapter_store> adapters() const override { return adapters_; }
  [[nodiscard]] std::shared_ptr<swap_space> swap() const override { return swap_; }

  executor_info info_;
  /// How long a step takes that begins now.
  [[nodiscard]] std::chrono::nanoseconds time_of(const step_input& input) {
    auto usual = latency_->step_time(input);
    if (step_time_) usual = std::max(step_time_(input, usual), std::chrono::nanoseconds{0});
    const auto factor = factors_.next();
    if (factor == 1) return usual; // to the nanosecond
    return std::chrono::nanoseconds(static_cast<std::int64_t>(static_cast<double>(usual.count()) * factor));
  }

  const std::shared_ptr<const latency_model> latency_;
  /// What a step of so many requests waits for that wants to begin now.
  [[nodiscard]] std::chrono::nanoseconds stall_of(const step_input& input) const {
    return central_ ? central_->plan(timers_.now(), input.slices.size()) : std::chrono::nanoseconds{0};
  }

  std::shared_ptr<copy_load> copies_;          ///< null: they take nothing
  std::shared_ptr<central_scheduler> central_; ///< null: plans take no time
  std::shared_ptr<step_books> books_;          ///< null: nobody counts
  bool counts_steps_ = true;
  std::function<std::chrono::nanoseconds(const step_input&, std::chrono::nanoseconds)> step_time_; ///< may be empty
  std::shared_ptr<sim_adapters> adapters_;
  step_factors factors_;
  runtime::async::timer_source& timers_;
  std::shared_ptr<token_source> tokens_;
  std::shared_ptr<swap_space> swap_; ///< null: none
};

class sim_forward final : public forward {
public:
  sim_forward(sim_executor& owner, step_input input)
      : owner_(owner), copies_(owner.copies_.get()), remembers_(owner.tokens_->remembers()),
        decodes_(copies_ &&
                 std::ranges::all_of(input.slices, [](const auto& s) { return s.tokens.size() - s.drafted == 1; })),
        layers_(owner.info_.layers), requests_(static_cast<std::uint32_t>(input.slices.size())),
        tokens_(input.tokens()), time_(owner.time_of(input)), stall_(owner.stall_of(input)),
        copied_before_(taken_by_copies()), input_(std::move(input)) {
    if (!remembers_) run(); // what comes of it is known now, and so many steps are under way
  }
  ~sim_forward() override {
    if (timer_ != 0) owner_.timers_.cancel(timer_);
  }

  [[nodiscard]] std::uint32_t layers() const noexcept override { return layers_; }

  void advance(std::uint32_t upto, completion done) override {
    if (upto <= at_ || upto > layers() || timer_ != 0)
      throw std::invalid_argument("layers advance one after the other");
    if (stall_.count() > 0) { // the device stands still
      timer_ = owner_.timers_.call_after(std::exchange(stall_, std::chrono::nanoseconds{0}),
                                         [this, upto, done = std::move(done)]() mutable {
                                           timer_ = 0;
                                           copied_before_ = taken_by_copies();
                                           advance(upto, std::move(done));
                                         });
      return;
    }
    const auto delay = time_ * (upto - at_) / layers();
    timer_ = owner_.timers_.call_after(delay, [this, upto, done = std::move(done)]() mutable {
      const auto more = upto == layers_ ? taken_by_copies() - copied_before_ : std::chrono::nanoseconds{0};
      if (more.count() <= 0) return arrive(upto, std::move(done));
      copies_->slowed(time_, more, decodes_);
      time_ += more;
      output_.duration_ns = time_.count(); // where it is known already
      timer_ = owner_.timers_.call_after(
          more, [this, upto, done = std::move(done)]() mutable { arrive(upto, std::move(done)); });
    });
  }

  [[nodiscard]] step_output take() override { return std::move(output_); }

private:
  // The caller may destroy this forward, and with it the timer's function, in `done`.
  void arrive(std::uint32_t upto, completion done) {
    timer_ = 0;
    at_ = upto;
    if (at_ == layers_ && remembers_) run();
    if (at_ == layers_ && owner_.books_) count(*owner_.books_);
    done(at_ == layers_ ? std::move(error_) : std::string());
  }
  void count(step_books& books) const {
    books.busy += time_;
    if (!owner_.counts_steps_) return;
    ++books.steps;
    books.requests += requests_;
    books.tokens += tokens_;
  }
  void run() {
    const auto input = std::exchange(input_, {});
    try {
      output_ = owner_.tokens_->run(input);
      output_.duration_ns = time_.count();
    } catch (const std::exception& failure) {
      error_ = failure.what();
    }
  }

  [[nodiscard]] std::chrono::nanoseconds taken_by_copies() const {
    return copies_ != nullptr ? copies_->taken() : std::chrono::nanoseconds{0};
  }

  // What an end of a step reads, side by side: among a thousand devices nothing of one is in the caches then.
  sim_executor& owner_;
  copy_load* const copies_; ///< the owner's; null: they take nothing
  const bool remembers_;
  const bool decodes_; ///< only; asked for where copies count
  std::uint32_t at_ = 0;
  const std::uint32_t layers_;
  const std::uint32_t requests_, tokens_;
  runtime::async::timer_source::timer_id timer_ = 0;
  std::chrono::nanoseconds time_;
  std::chrono::nanoseconds stall_; ///< before its first layer
  std::chrono::nanoseconds copied_before_;
  std::string error_;
  step_output output_;
  step_input input_;
};

std::unique_ptr<forward> sim_executor::begin(step_input input) {
  tokens_->check(input);
  for (const auto& slice : input.slices)
    if (slice.adapter != 0 && (!adapters_ || !adapters_->held(slice.adapter)))
      throw std::invalid_argument("a step names an adapter that nobody holds");
  return std::make_unique<sim_forward>(*this, std::move(input));
}

} // namespace

std::unique_ptr<executor> make_sim_executor(executor_info info, latency_model latency,
                                            runtime::async::timer_source& timers, sim_model model) {
  return make_sim_replica(std::move(info), std::make_shared<const latency_model>(std::move(latency)), timers,
                          std::move(model));
}

std::unique_ptr<executor> make_sim_replica(executor_info info, std::shared_ptr<const latency_model> latency,
                                           runtime::async::timer_source& timers, sim_model model) {
  return std::make_unique<sim_executor>(std::move(info), std::move(latency), timers, std::move(model));
}

std::unique_ptr<executor> make_sim_executor(const profile& device, runtime::async::timer_source& timers,
                                            sim_model model) {
  return make_sim_executor(executor_info_of(device), latency_model(device), timers, std::move(model));
}

} // namespace godwit::gpu::sim
