#include "sim/token_source.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <stdexcept>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

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

void require(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(what);
}

struct shape {
  std::uint32_t vocabulary;
  std::uint32_t positions_max;
  std::uint32_t blocks;
};

// What holds of every slice, whoever looks at its blocks and tokens.
void check_length(const step_slice& slice, const shape& info) {
  const auto end = slice.first_position + slice.tokens.size();
  require(!slice.tokens.empty(), "a slice has no tokens");
  require(slice.drafted < slice.tokens.size() && (slice.drafted == 0 || slice.samples), "drafts follow no token");
  require(slice.drafts_wanted == 0, "drafts are wanted of a device");
  require(end <= info.positions_max, "a position is beyond the model's context");
  require(slice.blocks.size() * tokens_per_block >= end, "a block table is too short");
}

protocols::sampled_token draw(std::uint64_t state, const step_slice& slice, std::uint32_t index, const sim_model& model,
                              std::uint32_t vocabulary) {
  state = mix(state, slice.sampling.greedy() ? 0 : slice.sampling.seed);
  state = mix(state, index);
  const auto allowed = [&](protocols::token_id id) {
    return std::find(slice.forbidden.begin(), slice.forbidden.end(), id) == slice.forbidden.end();
  };
  const auto share_of = [state](std::uint64_t what) { return static_cast<double>(mix(state, what) >> 11) * 0x1.0p-53; };
  const double share = share_of(1);
  // Of a draft model that guesses wrong.
  const bool wrong = model.right < 1 && share_of(4) >= model.right;
  const auto said = [&](protocols::token_id token) {
    return protocols::sampled_token{
        wrong ? static_cast<protocols::token_id>((static_cast<std::uint32_t>(token) + 1) % vocabulary) : token};
  };
  if (!model.eos.empty() && share < model.eos_share && allowed(model.eos.front())) return said(model.eos.front());
  const bool refrain = model.refrain > 0 && share_of(2) < model.refrain;
  auto id = static_cast<protocols::token_id>((refrain ? mix(3, index % sim_refrain_tokens) : state) % vocabulary);
  const auto plain = [&](protocols::token_id t) {
    return allowed(t) && std::find(model.eos.begin(), model.eos.end(), t) == model.eos.end();
  };
  for (std::uint32_t tries = 0; !plain(id); ++tries) {
    if (tries == vocabulary) return protocols::sampled_token{protocols::no_token};
    id = static_cast<protocols::token_id>((static_cast<std::uint32_t>(id) + 1) % vocabulary);
  }
  return said(id);
}

/// Of a source that remembers nothing: it knows nothing of probabilities, as of those of drawn tokens.
void score(const step_slice& slice, step_output& out) {
  if (slice.scored.empty()) return;
  auto& list = out.scores.emplace_back();
  for (const auto id : slice.scored) list.emplace_back(id);
}

/// Any of a message's fields, one after the other.
template <class Value> std::uint64_t mix_in(std::uint64_t state, Value& value) {
  if constexpr (std::is_floating_point_v<Value>) {
    return mix(state, std::bit_cast<std::uint32_t>(static_cast<float>(value)));
  } else if constexpr (std::is_integral_v<std::remove_const_t<Value>>) {
    return mix(state, static_cast<std::uint64_t>(value));
  } else if constexpr (std::is_enum_v<Value>) { // its usual value leaves tokens as they were
    return value == Value{} ? state : mix(state, static_cast<std::uint64_t>(value));
  } else if constexpr (requires { value.fields(); }) {
    return std::apply([state](auto&... all) mutable { return ((state = mix_in(state, all)), ...); }, value.fields());
  } else { // a list
    state = mix(state, value.size());
    for (auto& one : value) state = mix_in(state, one);
    return state;
  }
}

/// What a slice says about how its token is drawn, besides what `draw` goes by: whoever loses some of it, a penalty or
/// the tokens that it counts, gets other tokens, as from a real model. Log-probabilities that are asked for change
/// none.
std::uint64_t manner_of(const step_slice& slice) {
  auto how = slice.sampling;
  how.seed = 0;
  how.logprobs = how.prompt_logprobs = -1;
  return mix_in(mix_in(mix_in(0, how), slice.prompt), slice.generated);
}

/// The token with its log-probability and those of so many most probable ones: made up, but out of `state`, so that no
/// other state gives them.
protocols::sampled_token scored(std::uint64_t state, protocols::sampled_token token, std::int32_t most_probable,
                                std::uint32_t vocabulary) {
  const auto logprob = [](std::uint64_t of) { return -static_cast<float>(of >> 48) / 4096; };
  token.logprob = logprob(mix(state, static_cast<std::uint64_t>(token.id)));
  for (std::int32_t i = 0; i < most_probable; ++i) {
    const auto one = mix(state, ~static_cast<std::uint64_t>(i));
    auto& told = token.top.emplace_back();
    told.id = static_cast<protocols::token_id>(one % vocabulary);
    told.logprob = logprob(one);
  }
  std::sort(token.top.begin(), token.top.end(), [](const auto& a, const auto& b) { return a.logprob > b.logprob; });
  return token;
}

/// For each slot of each block, a hash of all tokens up to and including that position.
class hash_source final : public token_source {
public:
  hash_source(shape info, sim_model model)
      : info_(info), model_(std::move(model)), slots_(std::size_t{info.blocks} * tokens_per_block, 0) {}

  void check(const step_input& input) const override {
    for (const auto& copy : input.copies)
      require(copy.from.value() < info_.blocks && copy.to.value() < info_.blocks, "a copied block is outside the pool");
    for (const auto& slice : input.slices) {
      check_length(slice, info_);
      for (const auto block : slice.blocks) require(block.value() < info_.blocks, "a block is outside the pool");
      for (const auto token : slice.tokens)
        require(token >= 0 && static_cast<std::uint32_t>(token) < info_.vocabulary,
                "a token is outside the vocabulary");
    }
  }

  step_output run(const step_input& input) override {
    step_output out;
    out.step = input.step;
    for (const auto& order : input.copies)
      std::copy_n(slots_.begin() + first_slot(order.from), tokens_per_block, slots_.begin() + first_slot(order.to));
    for (const auto& slice : input.slices) {
      std::uint64_t chain = slice.first_position == 0 ? 0 : at(slice, slice.first_position - 1);
      auto position = slice.first_position;
      for (const auto token : slice.tokens)
        at(slice, position++) = chain =
            mix(slice.adapter == 0 ? chain : mix(chain, slice.adapter), static_cast<std::uint64_t>(token) + 1);
      for (std::uint32_t i = 0; i < slice.draws(); ++i) {
        const auto end = position - slice.drafted + i;
        out.tokens.push_back(i == 0 ? sample(read(slice, end), slice) : sample(read(slice, end), slice.drawn_at(i)));
      }
      if (!slice.scored.empty()) out.scores.push_back(scores(slice));
    }
    return out;
  }

  [[nodiscard]] bool remembers() const noexcept override { return true; }

  protocols::memory_region region(protocols::block_id block) override {
    if (block.value() >= info_.blocks) return {};
    return {reinterpret_cast<std::byte*>(slots_.data() + first_slot(block)), sim_block_bytes,
            protocols::memory_kind::host};
  }

private:
  [[nodiscard]] protocols::sampled_token sample(std::uint64_t state, const step_slice& slice) const {
    auto token = draw(mix(state, manner_of(slice)), slice, slice.sample_index, model_, info_.vocabulary);
    const auto wanted = slice.sampling.logprobs;
    if (wanted < 0 || token.id == protocols::no_token) return token;
    return scored(state, std::move(token), wanted, info_.vocabulary);
  }
  /// Of tokens that the prompt has, each out of what is known up to the one before.
  [[nodiscard]] std::vector<protocols::sampled_token> scores(const step_slice& slice) {
    std::vector<protocols::sampled_token> out;
    auto position = slice.first_position;
    for (const auto id : slice.scored)
      out.push_back(scored(at(slice, position++), protocols::sampled_token{id}, slice.scores_top, info_.vocabulary));
    return out;
  }
  static std::ptrdiff_t first_slot(protocols::block_id block) {
    return static_cast<std::ptrdiff_t>(std::size_t{block.value()} * tokens_per_block);
  }
  std::uint64_t& at(const step_slice& slice, std::uint32_t position) {
    const auto block = slice.blocks[position / tokens_per_block].value();
    return slots_[std::size_t{block} * tokens_per_block + position % tokens_per_block];
  }
  /// Reads the last slot of every block, as attention reads all of them.
  std::uint64_t read(const step_slice& slice, std::uint32_t end) {
    std::uint64_t state = 0;
    for (std::uint32_t position = tokens_per_block - 1; position < end; position += tokens_per_block)
      state = mix(state, at(slice, position));
    return mix(state, at(slice, end - 1));
  }

  shape info_;
  sim_model model_;
  std::vector<std::uint64_t> slots_;
};

/// Remembers nothing.
class id_source final : public token_source {
public:
  id_source(shape info, sim_model model) : info_(info), model_(std::move(model)) {}

  void check(const step_input& input) const override {
    for (const auto& slice : input.slices) check_length(slice, info_);
  }

  step_output run(const step_input& input) override {
    step_output out;
    out.step = input.step;
    for (const auto& slice : input.slices) {
      for (std::uint32_t i = 0; i < slice.draws(); ++i)
        out.tokens.push_back(
            draw(mix(0, slice.request.value()), slice, slice.sample_index + i, model_, info_.vocabulary));
      score(slice, out);
    }
    return out;
  }

  [[nodiscard]] bool remembers() const noexcept override { return false; }

  // All blocks are one, and what lands there is not read.
  protocols::memory_region region(protocols::block_id block) override {
    if (block.value() >= info_.blocks) return {};
    return {reinterpret_cast<std::byte*>(scratch_.data()), sim_block_bytes, protocols::memory_kind::host};
  }

private:
  shape info_;
  sim_model model_;
  std::array<std::uint64_t, tokens_per_block> scratch_{};
};

} // namespace

std::unique_ptr<token_source> make_token_source(const executor_info& info, sim_model model) {
  const shape known{info.vocabulary, info.positions_max, info.blocks};
  if (model.memory == sim_memory::none) return std::make_unique<id_source>(known, std::move(model));
  return std::make_unique<hash_source>(known, std::move(model));
}

} // namespace godwit::gpu::sim
