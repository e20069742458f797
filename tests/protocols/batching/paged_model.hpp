#pragma once

#include <godwit/protocols/batching/drafting.hpp>
#include <godwit/protocols/batching/planner.hpp>
#include <godwit/protocols/ensure.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace godwit::protocols::testing_support {

/// Stands for a model in tests of the planner. It keeps "KV" in a pool of blocks and sees earlier tokens only through
/// block tables: a wrong table, a block shared wrongly, freed too early or not copied changes the answer.
class paged_model {
public:
  static constexpr token_id vocabulary = 40;

  explicit paged_model(std::uint32_t blocks) : pool_(blocks) {}

  /// The pure definition: what must come out, whatever was planned.
  static std::vector<token_id> answer_of(const std::vector<token_id>& prompt, const stop_params& stop,
                                         const std::vector<token_id>& eos, std::uint32_t context_length,
                                         finish_reason& end) {
    auto tokens = prompt;
    const auto among = [](const std::vector<token_id>& ids, token_id id) {
      return std::ranges::find(ids, id) != ids.end();
    };
    for (std::uint32_t index = 0;; ++index) {
      std::uint64_t seen = 0;
      std::uint64_t state = 0;
      for (const auto token : tokens) seen = attend(seen, state = kv_of(token, seen));
      std::vector<token_id> forbidden;
      if (index < stop.min_tokens) {
        forbidden = eos;
        forbidden.insert(forbidden.end(), stop.stop_token_ids.begin(), stop.stop_token_ids.end());
      }
      tokens.push_back(draw(seen, index, forbidden));
      end = finish_reason::stop;
      if ((!stop.ignore_eos && among(eos, tokens.back())) || among(stop.stop_token_ids, tokens.back())) break;
      end = finish_reason::length;
      if (index + 1 == stop.max_tokens || tokens.size() >= context_length) break;
    }
    return {tokens.begin() + static_cast<std::ptrdiff_t>(prompt.size()), tokens.end()};
  }

  /// What is told of the prompt's tokens, from the second on.
  static std::vector<sampled_token> scores_of(const std::vector<token_id>& prompt) {
    std::vector<sampled_token> scores;
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i + 1 < prompt.size(); ++i) {
      seen = attend(seen, kv_of(prompt[i], seen));
      scores.push_back(score(seen, prompt[i + 1]));
    }
    return scores;
  }

  step_output run(const step_input& input) {
    for (const auto& copy : input.copies) pool_.at(copy.to.value()) = pool_.at(copy.from.value());
    step_output output;
    output.step = input.step;
    for (const auto& slice : input.slices) {
      ensure(slice.blocks.size() * tokens_per_block >= slice.first_position + slice.tokens.size(),
             "the table is too short");
      std::uint64_t seen = 0;
      for (std::uint32_t i = 0; i < slice.first_position; ++i) seen = attend(seen, at(slice, i));
      if (!slice.scored.empty()) output.scores.emplace_back();
      for (std::uint32_t i = 0; i < slice.tokens.size(); ++i) {
        auto& place = at(slice, slice.first_position + i);
        place = kv_of(slice.tokens[i], seen);
        seen = attend(seen, place);
        const auto draw_number =
            static_cast<std::int64_t>(i) + 1 + slice.drafted - static_cast<std::int64_t>(slice.tokens.size());
        if (slice.samples && draw_number >= 0)
          output.tokens.emplace_back(
              draw(seen, slice.sample_index + static_cast<std::uint32_t>(draw_number), slice.forbidden));
        if (i < slice.scored.size()) output.scores.back().push_back(score(seen, slice.scored[i]));
      }
    }
    return output;
  }

  /// What the fabric does in a migration.
  void bring(const paged_model& from, block_id source, block_id destination) {
    pool_.at(destination.value()) = from.pool_.at(source.value());
  }

  /// What a store does: the KV of [first, upto) of these tokens into blocks that begin at `first`.
  void fill(const std::vector<token_id>& tokens, std::uint32_t upto, std::uint32_t first,
            const std::vector<block_id>& blocks) {
    std::uint64_t seen = 0;
    for (std::uint32_t i = 0; i < upto; ++i) {
      const auto kv = kv_of(tokens[i], seen);
      seen = attend(seen, kv);
      if (i >= first) pool_.at(blocks.at((i - first) / tokens_per_block).value())[(i - first) % tokens_per_block] = kv;
    }
  }

  void swap_out(block_id block, swap_slot slot) { host_[slot.value()] = pool_.at(block.value()); }
  void swap_in(swap_slot slot, block_id block) { pool_.at(block.value()) = host_.at(slot.value()); }

  /// What a reused block may hold.
  void spoil(block_id block) { pool_.at(block.value()).fill(0xDEADULL); }

private:
  static sampled_token score(std::uint64_t seen, token_id token) {
    sampled_token told{token};
    told.logprob = -static_cast<float>(mix(seen + static_cast<std::uint64_t>(token)) % 1000);
    return told;
  }
  static std::uint64_t mix(std::uint64_t x) noexcept {
    x = (x ^ (x >> 31U)) * 0x9E3779B97F4A7C15ULL;
    return x ^ (x >> 29U);
  }
  static std::uint64_t kv_of(token_id token, std::uint64_t seen) noexcept {
    return mix(seen + static_cast<std::uint64_t>(token) + 1);
  }
  static std::uint64_t attend(std::uint64_t seen, std::uint64_t kv) noexcept { return mix(seen ^ kv) + 1; }
  static token_id draw(std::uint64_t seen, std::uint32_t index, const std::vector<token_id>& forbidden) {
    for (std::uint64_t attempt = 0;; ++attempt) {
      const auto number = mix(seen + index * 31ULL + attempt * 7919);
      const bool says_again = attempt == 0 && number / vocabulary % 4 != 0; // so that drafts may be right
      const auto id = static_cast<token_id>(says_again ? index % 5 + 20 : number % vocabulary);
      if (std::ranges::find(forbidden, id) == forbidden.end()) return id;
    }
  }
  std::uint64_t& at(const step_slice& slice, std::uint32_t position) {
    return pool_.at(slice.blocks[position / tokens_per_block].value())[position % tokens_per_block];
  }
  std::vector<std::array<std::uint64_t, tokens_per_block>> pool_;
  std::map<std::uint32_t, std::array<std::uint64_t, tokens_per_block>> host_; ///< by slot
};

/// A model with a draft model that is the same once more, with a pool of its own: whatever is done to a block of one is
/// done to that of the other. It guesses wrong only where it is made to, now and then, or where its KV is not the
/// model's, which is a failure of the test.
class drafted_model {
public:
  explicit drafted_model(std::uint32_t blocks) : model_(blocks), draft_(blocks) {}

  /// As an instance runs a step (actors/instance.cpp). `random`: what the draft model is made to guess.
  step_output run(step_input step, std::mt19937& random) {
    std::set<request_id> wanting;
    for (const auto& slice : step.slices)
      if (slice.drafts_wanted > 0) wanting.insert(slice.request);
    asked_ += wanting.size();
    drafting passes(std::move(step), paged_model::vocabulary, paged_model::vocabulary);
    std::vector<token_id> first; // as it was guessed
    for (bool begun = false; auto pass = passes.next(); begun = true) {
      auto drawn = draft_.run(*pass);
      for (auto& token : drawn.tokens) {
        if (!begun) first.push_back(token.id);
        if (random() % 3 == 0) token.id = static_cast<token_id>(random() % (paged_model::vocabulary + 2)) - 1;
      }
      passes.drew(drawn);
    }
    const auto drafts = passes.drafts();
    const auto whole = std::move(passes).step();
    auto output = model_.run(whole);
    output.drafts = drafts;
    if (!wanting.empty())
      output.drafting_ns = random() % 4 == 0 ? static_cast<std::int64_t>(random() % 2'000)
                                             : 10 * static_cast<std::int64_t>(drafts.size() + 1);
    output.duration_ns = 1'000 + 10 * whole.tokens() + output.drafting_ns;
    std::size_t place = 0, guess = 0;
    for (const auto& slice : whole.slices) {
      if (wanting.contains(slice.request)) {
        EXPECT_EQ(output.tokens.at(place).id, first.at(guess++)) << "the draft model has other KV";
      }
      place += slice.draws();
    }
    EXPECT_EQ(guess, first.size());
    return output;
  }
  /// Requests that drafts were wanted for, in all steps.
  [[nodiscard]] std::uint64_t asked() const noexcept { return asked_; }

  void bring(const drafted_model& from, block_id source, block_id destination) {
    model_.bring(from.model_, source, destination);
    draft_.bring(from.draft_, source, destination);
  }
  void fill(const std::vector<token_id>& tokens, std::uint32_t upto, std::uint32_t first,
            const std::vector<block_id>& blocks) {
    for (auto* one : {&model_, &draft_}) one->fill(tokens, upto, first, blocks);
  }
  void swap_out(block_id block, swap_slot slot) {
    for (auto* one : {&model_, &draft_}) one->swap_out(block, slot);
  }
  void swap_in(swap_slot slot, block_id block) {
    for (auto* one : {&model_, &draft_}) one->swap_in(slot, block);
  }
  void spoil(block_id block) {
    for (auto* one : {&model_, &draft_}) one->spoil(block);
  }

private:
  paged_model model_, draft_;
  std::uint64_t asked_ = 0;
};

} // namespace godwit::protocols::testing_support
