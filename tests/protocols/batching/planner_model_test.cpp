#include "protocols/batching/paged_model.hpp"

#include <godwit/protocols/kv/chunk_name.hpp>

#include <algorithm>
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <random>
#include <set>
#include <utility>

namespace godwit::protocols {
namespace {

using testing_support::drafted_model;
using testing_support::paged_model;

/// Drives one planner at random and holds it to what it promises.
class random_run {
public:
  random_run(unsigned seed, planner_settings settings)
      : random_(seed), settings_(std::move(settings)), planner_(settings_), model_(settings_.blocks) {}

  void run(int operations) {
    for (int i = 0; i < operations && !::testing::Test::HasFatalFailure(); ++i) act();
    const auto bound = steps_ + 40'000;
    while (!::testing::Test::HasFatalFailure() && !planner_.idle()) {
      ASSERT_LT(steps_, bound) << "livelock";
      if (planner_.steps_in_flight() == settings_.steps_max) {
        complete();
        continue;
      }
      if (!loads_.empty()) end_load();
      if (!swaps_.empty()) go_on_swapping();
      const auto requests = planner_.requests().size(), steps = flying_.size();
      plan();
      if (flying_.size() == steps && steps > 0) {
        complete();
        continue;
      }
      ASSERT_TRUE(!flying_.empty() || planner_.requests().size() < requests || !loads_.empty() || !swaps_.empty())
          << "requests are there and nothing runs";
    }
    if (::testing::Test::HasFatalFailure()) return;
    while (!swaps_.empty()) go_on_swapping();
    while (!loads_.empty()) end_load();
    planner_.check();
    EXPECT_EQ(planner_.load().swap_blocks_used, 0U);
    EXPECT_EQ(planner_.ledger().used(), 0U);
    for (const auto& [id, known] : known_) ASSERT_NE(known.end, finish_reason::none) << "request " << id << " was lost";
  }
  [[nodiscard]] load_report load() const { return planner_.load(); }
  [[nodiscard]] std::uint64_t loads_begun() const { return loads_begun_; }
  [[nodiscard]] std::uint64_t asked() const { return model_.asked(); }
  [[nodiscard]] std::size_t at_once() const { return at_once_; }
  [[nodiscard]] std::uint64_t chunks_at_once() const { return chunks_at_once_; }

private:
  struct tracked {
    generate_request request;
    std::uint64_t order = 0; ///< of admission
    std::vector<token_id> answer;
    finish_reason end = finish_reason::none;
    bool started = false; ///< ran before, under this owner
  };

  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(random_() % n); }

  void act() {
    if (!loads_.empty() && below(3) == 0) end_load();
    if (!swaps_.empty() && below(2) == 0) go_on_swapping();
    switch (below(10)) {
    case 0:
    case 1:
      admit();
      break;
    case 2:
      if (below(3) == 0) cancel();
      break;
    case 3:
      if (below(3) == 0) redispatch();
      break;
    default:
      if (!planner_.step_in_flight() || (planner_.steps_in_flight() < settings_.steps_max && below(2) == 0))
        plan();
      else
        complete();
    }
    take(planner_.take_effects());
    planner_.check(held());
    check_blocks();
  }

  [[nodiscard]] std::vector<block_id> held() const {
    std::vector<block_id> all;
    for (const auto& order : loads_) all.insert(all.end(), order.blocks.begin(), order.blocks.end());
    return all;
  }

  /// A portion is copied, or nothing more comes of it.
  void go_on_swapping() {
    const auto which = swaps_.begin() + below(static_cast<std::uint32_t>(swaps_.size()));
    auto& [order, left] = *which;
    const auto ends = below(8);
    if (ends == 0) {
      planner_.swap_failed(order.number);
      swaps_.erase(which);
      return;
    }
    const bool wanted = planner_.swap_wanted(order.number);
    const auto until = wanted ? below(left) : 0;
    for (; wanted && left > until; --left) model_.swap_out(order.blocks.at(left - 1), order.slots.at(left - 1));
    left = until;
    planner_.swapped_out(order.number, left, below(4) == 0 ? below(200'000) : below(500)); // slow now and then
    if (left == 0) swaps_.erase(which);
  }

  void end_swap_in(const load_order& order) {
    const auto count = static_cast<std::uint32_t>(order.blocks.size());
    ASSERT_EQ(order.slots.size(), count);
    ASSERT_EQ(order.upto - order.first, count * tokens_per_block);
    const auto came = below(4) == 0 ? below(count + 1) : count;
    for (std::uint32_t i = 0; i < came; ++i) model_.swap_in(order.slots[i], order.blocks[i]);
    for (const auto block : order.blocks) planner_.ledger().release(block);
    planner_.loaded(order, order.first + came * tokens_per_block, below(4) == 0 ? below(200'000) : below(500));
    take(planner_.take_effects());
  }

  /// All that the store said it has comes, or a beginning of it; whoever wanted it may be gone.
  void end_load() {
    const auto order = std::move(loads_.front());
    loads_.erase(loads_.begin());
    if (order.swap != 0) return end_swap_in(order);
    const auto chunks = (order.upto - order.first) / tokens_per_chunk;
    const auto upto = order.first + (below(3) == 0 ? below(chunks + 1) : chunks) * tokens_per_chunk;
    model_.fill(order.tokens, upto, order.first, order.blocks);
    for (const auto block : order.blocks) planner_.ledger().release(block);
    planner_.loaded(order, upto);
    take(planner_.take_effects());
  }

  void admit() {
    tracked t;
    t.request.request = request_id{next_id_++};
    t.request.epoch = epoch{1};
    t.request.priority = static_cast<std::int32_t>(below(3));
    t.request.arrival_ns = below(4);
    t.request.cache_salt = below(8) == 0 ? 1 : 0;
    const auto size = 1 + below(below(4) == 0 ? settings_.blocks * 12 : 40);
    const auto family = static_cast<token_id>(below(3)); // prompts begin alike
    const auto shared = below(size + 1);
    for (std::uint32_t i = 0; i < size; ++i)
      t.request.prompt.push_back(i < shared ? family : static_cast<token_id>(below(paged_model::vocabulary)));
    t.request.stop.max_tokens = 1 + below(60);
    if (below(4) == 0) t.request.stop.min_tokens = below(t.request.stop.max_tokens + 1);
    if (below(4) == 0) t.request.stop.stop_token_ids = {5};
    t.request.stop.ignore_eos = below(4) == 0;
    if (below(6) == 0) t.request.sampling.prompt_logprobs = 0;
    if (const auto* first = below(3) == 0 ? any_open() : nullptr; first != nullptr) { // another sample of its prompt
      t.request.sibling = first->request.request;
      t.request.prompt = first->request.prompt;
      t.request.cache_salt = first->request.cache_salt;
      if (below(4) > 0) t.request.priority = first->request.priority;
    }
    if (settings_.queue.order != queue_order::fcfs) {
      t.request.expected_tokens = below(60);
      t.request.ttft_ns = below(100);
    }
    t.order = order_++;
    submit(std::move(t));
  }

  void submit(tracked t) {
    const auto result = planner_.admit(t.request, settings_.store && below(2) == 0 ? below(8) * tokens_per_chunk : 0);
    if (result.accepted()) {
      known_[t.request.request.value()] = std::move(t);
      return;
    }
    known_.erase(t.request.request.value());
    if (result.reason == refusal::too_long) {
      ASSERT_GE(t.request.prompt.size(), settings_.context_length);
    } else if (result.reason == refusal::never_fits) {
      ASSERT_GT(blocks_for(t.request.prompt.size() + t.request.answer.size()), settings_.blocks);
    } else {
      ASSERT_EQ(result.reason, refusal::queue_full);
      ASSERT_GE(planner_.load().waiting, settings_.waiting_max);
    }
  }

  tracked* any_open() {
    std::vector<tracked*> open;
    for (auto& [id, known] : known_)
      if (known.end == finish_reason::none) open.push_back(&known);
    return open.empty() ? nullptr : open[below(static_cast<std::uint32_t>(open.size()))];
  }

  void cancel() {
    auto* t = any_open();
    if (t == nullptr) return;
    const auto done = planner_.cancel({t->request.request, t->request.epoch});
    ASSERT_NE(done, planner::cancellation::unknown);
    t->end = finish_reason::cancelled;
    if (done == planner::cancellation::freed_after_step) leaving_.insert(t->request.request.value());
  }

  /// The home thought us dead, and chose us again.
  void redispatch() {
    auto* t = any_open();
    if (t == nullptr) return;
    auto again = *t;
    again.request.epoch = epoch{again.request.epoch.value() + 1};
    again.request.answer = again.answer;
    again.order = order_++;
    again.started = false;
    submit(std::move(again));
  }

  /// Places in line, first one first.
  auto place_of(request_id id) const {
    const auto& t = known_.at(id.value());
    const auto& r = t.request;
    return place_in_queue(settings_.queue, {r.priority, r.arrival_ns, t.order, t.started || !r.answer.empty(),
                                            static_cast<std::uint32_t>(r.prompt.size()), r.expected_tokens, r.ttft_ns});
  }

  std::set<std::uint64_t> running() const {
    std::set<std::uint64_t> ids;
    for (const auto& r : planner_.requests())
      if (r.state == request_state::running) ids.insert(r.request.value());
    return ids;
  }

  void plan() {
    for (std::uint32_t i = 0; i < settings_.blocks; ++i)
      if (const block_id block{i}; planner_.ledger().references(block) == 0 && !planner_.ledger().sealed(block))
        model_.spoil(block);
    const auto before = running();
    const auto preempted_before = planner_.load().preemptions_total;
    auto step = planner_.plan();
    auto effects = planner_.take_effects();
    const auto begun = std::exchange(effects.begun, {});
    take(effects);
    if (::testing::Test::HasFatalFailure()) return;
    const auto after = running();
    ASSERT_LE(after.size(), settings_.running_max);
    if (planner_.load().preemptions_total == preempted_before) {
      for (const auto& waits : planner_.requests())
        for (const auto started : after)
          if (waits.state != request_state::running && !before.contains(started)) {
            ASSERT_LT(place_of(request_id{started}), place_of(waits.request)) << "overtaken";
          }
    }
    for (const auto id : begun) known_.at(id.value()).started = true;
    // A batch whose last member ended while the step was planned (it outgrew the pool) makes room for the next one.
    const bool goes_on = std::any_of(before.begin(), before.end(), [&](auto id) { return after.contains(id); });
    if (settings_.mode == batching_mode::static_batch && goes_on) {
      for (const auto id : after) ASSERT_TRUE(before.contains(id)) << "a batch was joined";
    }
    if (!step) return;
    std::uint32_t tokens = step->tokens();
    for (const auto& slice : step->slices) tokens += slice.drafts_wanted;
    ASSERT_LE(tokens, settings_.step_tokens_max);
    ASSERT_FALSE(step->slices.empty());
    std::map<owned, std::uint32_t> mine;
    for (const auto& slice : step->slices) {
      // An earlier owner's part may be under way yet.
      const owned who{slice.request.value(), known_.at(slice.request.value()).request.epoch.value()};
      auto ends_at = slice.first_position;
      for (const auto& others : owners_)
        if (const auto same = others.find(who); same != others.end()) {
          ASSERT_NE(same->second, 0U) << "in two steps at once, and the first one draws";
          ASSERT_LE(same->second, slice.first_position) << "the next chunk of its prompt";
          ends_at = same->second;
          ++chunks_at_once_;
        }
      ASSERT_EQ(ends_at, slice.first_position) << "nothing between its chunks";
      ASSERT_TRUE(
          mine.emplace(who, slice.samples ? 0 : slice.first_position + static_cast<std::uint32_t>(slice.tokens.size()))
              .second);
      ASSERT_EQ(slice.blocks.size(), blocks_for(slice.first_position + slice.tokens.size() + slice.drafts_wanted));
      if (slice.samples) {
        ASSERT_EQ(slice.sample_index, known_.at(slice.request.value()).answer.size());
      }
    }
    ++steps_;
    at_once_ = std::max(at_once_, flying_.size() + 1);
    flying_.push_back(std::move(*step));
    owners_.push_back(std::move(mine));
  }

  void complete() {
    auto step = std::move(flying_.front());
    flying_.pop_front();
    owners_.pop_front();
    std::vector<std::uint64_t> ran;
    for (const auto& slice : step.slices) ran.push_back(slice.request.value());
    const auto output = model_.run(std::move(step), random_);
    const auto effects = planner_.complete(output);
    for (const auto id : effects.gone) leaving_.erase(id.value());
    for (const auto id : ran) {
      const bool flies = std::ranges::any_of(flying_, [&](const step_input& other) {
        return std::ranges::any_of(other.slices, [&](const auto& slice) { return slice.request.value() == id; });
      });
      ASSERT_TRUE(!leaving_.contains(id) || flies) << "cancelled requests leave with their last step";
    }
    take(effects);
  }

  void take(const step_effects& effects) {
    for (const auto& order : effects.loads) {
      for (const auto block : order.blocks) planner_.ledger().share(block);
      loads_.push_back(order);
      ++loads_begun_;
    }
    for (const auto& order : effects.swaps) {
      ASSERT_EQ(order.blocks.size(), order.slots.size());
      swaps_.push_back({order, static_cast<std::uint32_t>(order.blocks.size())});
    }
    for (const auto& news : effects.computed)
      ASSERT_EQ(planner_.ledger().known_prefix(news.tokens, news.cache_salt) * tokens_per_block, news.tokens.size());
    for (const auto& update : effects.updates) {
      auto& t = known_.at(update.request.value());
      ASSERT_EQ(t.end, finish_reason::none) << "after its end";
      ASSERT_EQ(update.epoch, t.request.epoch) << "of an owner that is none any more";
      ASSERT_EQ(update.first_index, t.answer.size()) << "a gap or a repeat";
      if (update.first_index == 0 && !update.tokens.empty() && t.request.sampling.prompt_logprobs >= 0) {
        ASSERT_EQ(update.prompt_scores, paged_model::scores_of(t.request.prompt));
      } else {
        ASSERT_TRUE(update.prompt_scores.empty());
      }
      for (const auto& token : update.tokens) t.answer.push_back(token.id);
      t.end = update.finish;
      if (update.finished()) check_answer(t);
    }
  }

  void check_answer(const tracked& t) {
    finish_reason end{};
    auto expected =
        paged_model::answer_of(t.request.prompt, t.request.stop, settings_.eos, settings_.context_length, end);
    if (t.end == finish_reason::error) { // outgrew the pool
      ASSERT_GT(t.request.prompt.size() + t.answer.size(), std::size_t{settings_.blocks} * tokens_per_block);
      expected.resize(t.answer.size());
    } else {
      ASSERT_EQ(t.end, end);
    }
    ASSERT_EQ(t.answer, expected);
  }

  void check_blocks() {
    if (planner_.step_in_flight()) return;
    std::uint32_t held = 0;
    for (const auto& r : planner_.requests()) held += r.blocks;
    for (const auto& order : loads_) held += static_cast<std::uint32_t>(order.blocks.size());
    for (const auto& [order, left] : swaps_) held += blocks_for(order.first) + left;
    ASSERT_LE(planner_.ledger().used(), held) << "blocks nobody holds";
  }

  struct swapping {
    swap_order order;
    std::uint32_t left = 0; ///< blocks to copy
  };

  std::mt19937 random_;
  planner_settings settings_;
  planner planner_;
  drafted_model model_;
  std::deque<step_input> flying_;                        ///< steps, the oldest first
  using owned = std::pair<std::uint64_t, std::uint32_t>; ///< request, epoch
  std::deque<std::map<owned, std::uint32_t>> owners_;    ///< of these, and where each one's chunk ends; 0: it draws
  std::uint64_t chunks_at_once_ = 0;
  std::size_t at_once_ = 0; ///< of these, at most
  std::map<std::uint64_t, tracked> known_;
  std::set<std::uint64_t> leaving_;
  std::vector<load_order> loads_; ///< with references to their blocks
  std::vector<swapping> swaps_;
  std::uint64_t loads_begun_ = 0;
  std::uint64_t next_id_ = 1;
  std::uint64_t order_ = 0;
  std::uint64_t steps_ = 0;
};

struct mode {
  const char* name;
  batching_mode batching;
  bool prefix_caching;
  bool store = false;
  bool speculates = false;
  bool swaps = false;
  queue_order order = queue_order::fcfs;
  bool drafts = false; ///< with a draft model
  std::uint32_t steps = 1;
};

class PlannerModel : public ::testing::TestWithParam<mode> {};

// Answers equal those of a model that knows nothing of pools, budgets, preemptions, prefix hits, failures and changes
// of owner.
TEST_P(PlannerModel, KeepsItsPromisesOverManyRandomRuns) {
  std::uint64_t preemptions = 0, hits = 0, tokens = 0, loads = 0, accepted = 0, wrong = 0;
  std::uint64_t swaps = 0, swapped_in = 0, asked = 0;
  std::size_t at_once = 0;
  std::uint64_t chunks_at_once = 0;
  for (unsigned seed = 0; seed < 250 && !HasFatalFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random{seed * 7919 + 1};
    planner_settings settings;
    settings.mode = GetParam().batching;
    settings.prefix_caching = GetParam().prefix_caching;
    settings.store = GetParam().store;
    settings.blocks = static_cast<std::uint32_t>(2 + random() % (settings.store ? 60 : 24));
    settings.context_length = static_cast<std::uint32_t>(20 + random() % (settings.store ? 500 : 200));
    settings.running_max = static_cast<std::uint32_t>(1 + random() % 6);
    settings.step_tokens_max = static_cast<std::uint32_t>(settings.running_max + random() % 40);
    settings.waiting_max = static_cast<std::uint32_t>(1 + random() % 12);
    settings.steps_max = GetParam().steps;
    settings.vocabulary = paged_model::vocabulary;
    settings.eos = {1, 3};
    if (GetParam().speculates)
      settings.speculation = {static_cast<std::uint32_t>(1 + random() % 20), 1, 3, settings.running_max};
    if (GetParam().drafts) {
      if (!GetParam().speculates) settings.speculation = {0, 1, 3, settings.running_max};
      settings.speculation.model_max = static_cast<std::uint32_t>(1 + random() % 12);
    }
    if (GetParam().swaps) {
      settings.swap_slots = static_cast<std::uint32_t>(1 + random() % 40);
      settings.preemption = random() % 3 == 0 ? preemption_mode::swap : preemption_mode::adaptive;
    }
    settings.queue.order = GetParam().order;
    if (GetParam().order != queue_order::fcfs) settings.queue.aging_ns = random() % 3;
    random_run run{seed, settings};
    run.run(500);
    swaps += run.load().swaps_total;
    swapped_in += run.load().swapped_in_tokens_total;
    preemptions += run.load().preemptions_total;
    hits += run.load().prefix_hit_tokens_total;
    tokens += run.load().generated_tokens_total;
    loads += run.loads_begun();
    asked += run.asked();
    at_once = std::max(at_once, run.at_once());
    chunks_at_once += run.chunks_at_once();
    accepted += run.load().accepted_tokens_total;
    wrong += run.load().draft_tokens_total - run.load().accepted_tokens_total;
  }
  EXPECT_EQ(loads > 100, GetParam().store || GetParam().swaps) << loads;
  EXPECT_EQ(swaps > 100, GetParam().swaps) << swaps;
  EXPECT_EQ(swapped_in > 500, GetParam().swaps) << swapped_in;
  EXPECT_GT(tokens, 10'000U);
  EXPECT_EQ(accepted > 1000, GetParam().speculates || GetParam().drafts) << accepted;
  EXPECT_EQ(wrong > 1000, GetParam().speculates || GetParam().drafts) << wrong;
  EXPECT_EQ(asked > 1000, GetParam().drafts) << asked;
  if (GetParam().batching != batching_mode::static_batch) {
    EXPECT_GT(preemptions, 100U) << "the runs do not reach what they are for";
  }
  EXPECT_EQ(hits > 0, GetParam().prefix_caching);
  EXPECT_EQ(at_once, GetParam().steps);
  EXPECT_EQ(chunks_at_once > 100, GetParam().steps > 1) << chunks_at_once;
}

INSTANTIATE_TEST_SUITE_P(
    Modes, PlannerModel,
    ::testing::Values(
        mode{"continuous_with_prefix_cache", batching_mode::continuous, true},
        mode{"continuous_with_a_store", batching_mode::continuous, true, true},
        mode{"continuous_that_speculates", batching_mode::continuous, true, true, true},
        mode{"continuous_with_a_draft_model", batching_mode::continuous, true, true, false, false, queue_order::fcfs,
             true},
        mode{"continuous_with_all_and_a_draft_model", batching_mode::continuous, true, true, true, true,
             queue_order::fcfs, true},
        mode{"static_with_a_draft_model", batching_mode::static_batch, true, false, false, false, queue_order::fcfs,
             true},
        mode{"continuous_that_swaps", batching_mode::continuous, true, false, false, true},
        mode{"continuous_that_swaps_without_prefix_cache", batching_mode::continuous, false, false, false, true},
        mode{"continuous_that_swaps_beside_a_store", batching_mode::continuous, true, true, false, true},
        mode{"continuous_with_all", batching_mode::continuous, true, true, true, true},
        mode{"continuous_with_all_shortest_first", batching_mode::continuous, true, true, true, true, queue_order::sjf},
        mode{"continuous_longest_first", batching_mode::continuous, true, false, false, false, queue_order::ljf},
        mode{"continuous_by_deadline", batching_mode::continuous, true, false, false, false, queue_order::edf},
        mode{"static_shortest_first", batching_mode::static_batch, true, false, false, false, queue_order::sjf},
        mode{"static_that_speculates", batching_mode::static_batch, true, false, true},
        mode{"continuous_without", batching_mode::continuous, false},
        mode{"continuous_in_a_pipeline", batching_mode::continuous, true, false, false, false, queue_order::fcfs, false,
             2},
        mode{"continuous_with_all_in_a_pipeline", batching_mode::continuous, true, true, true, true, queue_order::sjf,
             false, 3},
        mode{"static_in_a_pipeline", batching_mode::static_batch, true, false, false, false, queue_order::fcfs, false,
             3},
        mode{"prefill_first_with_prefix_cache", batching_mode::prefill_first, true},
        mode{"prefill_first_with_all", batching_mode::prefill_first, true, true, true, true},
        mode{"prefill_first_in_a_pipeline", batching_mode::prefill_first, true, false, false, false, queue_order::fcfs,
             false, 2},
        mode{"static_with_prefix_cache", batching_mode::static_batch, true},
        mode{"static_without", batching_mode::static_batch, false}),
    [](const auto& of) { return std::string{of.param.name}; });

} // namespace
} // namespace godwit::protocols
