#include <godwit/gpu/sim/sim_executor.hpp>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace godwit::gpu::sim {

namespace {

using protocols::step_input;
using protocols::step_output;
using protocols::step_slice;
using protocols::tokens_per_block;

constexpr std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  // splitmix64's finaliser over a combination of both
  auto z = a * 0x9e3779b97f4a7c15ULL + b + 0x632be59bd9b4e019ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

/// For each slot of each block, a hash of all tokens up to and including that position.
class hash_pool {
public:
  explicit hash_pool(std::uint32_t blocks) : slots_(std::size_t{blocks} * tokens_per_block, 0) {}
  [[nodiscard]] std::uint64_t& at(const step_slice& slice, std::uint32_t position) {
    const auto block = slice.blocks[position / tokens_per_block].value();
    return slots_[std::size_t{block} * tokens_per_block + position % tokens_per_block];
  }
  void copy(const protocols::block_copy& order) {
    const auto from = std::size_t{order.from.value()} * tokens_per_block;
    const auto to = std::size_t{order.to.value()} * tokens_per_block;
    std::copy_n(slots_.begin() + static_cast<std::ptrdiff_t>(from), tokens_per_block,
                slots_.begin() + static_cast<std::ptrdiff_t>(to));
  }

  /// A block's slots; empty outside the pool.
  [[nodiscard]] protocols::memory_region region(protocols::block_id block) {
    const auto first = std::size_t{block.value()} * tokens_per_block;
    if (first >= slots_.size()) return {};
    return {reinterpret_cast<std::byte*>(slots_.data() + first), tokens_per_block * sizeof(std::uint64_t),
            protocols::memory_kind::host};
  }

private:
  std::vector<std::uint64_t> slots_;
};

void check(const step_input& input, const executor_info& info) {
  const auto require = [](bool holds, const char* what) {
    if (!holds) throw std::invalid_argument(what);
  };
  for (const auto& copy : input.copies)
    require(copy.from.value() < info.blocks && copy.to.value() < info.blocks, "a copied block is outside the pool");
  for (const auto& slice : input.slices) {
    const auto end = slice.first_position + slice.tokens.size();
    require(!slice.tokens.empty(), "a slice has no tokens");
    require(end <= info.positions_max, "a position is beyond the model's context");
    require(slice.blocks.size() * tokens_per_block >= end, "a block table is too short");
    for (const auto block : slice.blocks) require(block.value() < info.blocks, "a block is outside the pool");
    for (const auto token : slice.tokens)
      require(token >= 0 && static_cast<std::uint32_t>(token) < info.vocabulary, "a token is outside the vocabulary");
  }
}

class sim_executor final : public executor {
public:
  sim_executor(executor_info info, latency_model latency, runtime::async::timer_source& timers, sim_model model)
      : info_(std::move(info)), latency_(latency), timers_(timers), model_(std::move(model)), pool_(info_.blocks) {
    info_.kv_layout = "sim/v1";
    if (info_.layers == 0 || info_.vocabulary == 0)
      throw std::invalid_argument("a simulated model has layers and a vocabulary");
  }

  [[nodiscard]] const executor_info& info() const noexcept override { return info_; }
  [[nodiscard]] std::unique_ptr<forward> begin(step_input input) override;
  [[nodiscard]] protocols::memory_region key_region(std::uint32_t layer, protocols::block_id block) override {
    return layer == 0 ? pool_.region(block) : protocols::memory_region{};
  }
  [[nodiscard]] protocols::memory_region value_region(std::uint32_t, protocols::block_id) override { return {}; }

  [[nodiscard]] step_output run(const step_input& input) {
    step_output out;
    out.step = input.step;
    for (const auto& copy : input.copies) pool_.copy(copy);
    for (const auto& slice : input.slices) {
      std::uint64_t chain = slice.first_position == 0 ? 0 : pool_.at(slice, slice.first_position - 1);
      auto position = slice.first_position;
      for (const auto token : slice.tokens)
        pool_.at(slice, position++) = chain = mix(chain, static_cast<std::uint64_t>(token) + 1);
      if (slice.samples) out.tokens.push_back(draw(slice, position));
    }
    return out;
  }

  executor_info info_;
  const latency_model latency_;
  runtime::async::timer_source& timers_;

private:
  /// Reads the last slot of every block, as attention reads all of them.
  [[nodiscard]] protocols::sampled_token draw(const step_slice& slice, std::uint32_t end) {
    std::uint64_t state = 0;
    for (std::uint32_t position = tokens_per_block - 1; position < end; position += tokens_per_block)
      state = mix(state, pool_.at(slice, position));
    state = mix(state, pool_.at(slice, end - 1));
    state = mix(state, slice.sampling.greedy() ? 0 : slice.sampling.seed);
    state = mix(state, slice.sample_index);
    const auto allowed = [&](protocols::token_id id) {
      return std::find(slice.forbidden.begin(), slice.forbidden.end(), id) == slice.forbidden.end();
    };
    const double share = static_cast<double>(mix(state, 1) >> 11) * 0x1.0p-53;
    if (!model_.eos.empty() && share < model_.eos_share && allowed(model_.eos.front()))
      return protocols::sampled_token{model_.eos.front()};
    auto id = static_cast<protocols::token_id>(state % info_.vocabulary);
    const auto plain = [&](protocols::token_id t) {
      return allowed(t) && std::find(model_.eos.begin(), model_.eos.end(), t) == model_.eos.end();
    };
    for (std::uint32_t tries = 0; !plain(id); ++tries) {
      if (tries == info_.vocabulary) return protocols::sampled_token{protocols::no_token};
      id = static_cast<protocols::token_id>((static_cast<std::uint32_t>(id) + 1) % info_.vocabulary);
    }
    return protocols::sampled_token{id};
  }

  sim_model model_;
  hash_pool pool_;
};

class sim_forward final : public forward {
public:
  sim_forward(sim_executor& owner, step_input input)
      : owner_(owner), input_(std::move(input)), time_(owner.latency_.step_time(input_)) {}
  ~sim_forward() override {
    if (timer_ != 0) owner_.timers_.cancel(timer_);
  }

  [[nodiscard]] std::uint32_t layers() const noexcept override { return owner_.info_.layers; }

  void advance(std::uint32_t upto, completion done) override {
    if (upto <= at_ || upto > layers() || timer_ != 0)
      throw std::invalid_argument("layers advance one after the other");
    const auto delay = time_ * (upto - at_) / layers();
    timer_ = owner_.timers_.call_after(delay, [this, upto, done = std::move(done)] {
      timer_ = 0;
      at_ = upto;
      std::string error;
      if (at_ == layers()) {
        try {
          output_ = owner_.run(input_);
          output_.duration_ns = time_.count();
        } catch (const std::exception& failure) {
          error = failure.what();
        }
      }
      // The caller may destroy this forward in `done`.
      auto tell = done;
      tell(std::move(error));
    });
  }

  [[nodiscard]] step_output take() override { return std::move(output_); }

private:
  sim_executor& owner_;
  step_input input_;
  std::chrono::nanoseconds time_;
  std::uint32_t at_ = 0;
  runtime::async::timer_source::timer_id timer_ = 0;
  step_output output_;
};

std::unique_ptr<forward> sim_executor::begin(step_input input) {
  check(input, info_);
  return std::make_unique<sim_forward>(*this, std::move(input));
}

} // namespace

std::chrono::nanoseconds latency_model::step_time(const step_input& input) const {
  double us = base_us;
  for (const auto& slice : input.slices) {
    const auto tokens = static_cast<double>(slice.tokens.size());
    us += slice.tokens.size() == 1 ? per_decode_us : per_prefill_token_us * tokens;
    us += per_kv_token_us * (static_cast<double>(slice.first_position) + tokens);
  }
  return std::chrono::nanoseconds(static_cast<std::int64_t>(us * 1000));
}

std::unique_ptr<executor> make_sim_executor(executor_info info, latency_model latency,
                                            runtime::async::timer_source& timers, sim_model model) {
  return std::make_unique<sim_executor>(std::move(info), latency, timers, std::move(model));
}

} // namespace godwit::gpu::sim
