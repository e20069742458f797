#include "protocols/batching/paged_model.hpp"

#include <algorithm>
#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <map>
#include <random>
#include <set>

namespace godwit::protocols {
namespace {

using testing_support::drafted_model;
using testing_support::paged_model;

float logprob_of(token_id token, std::uint32_t index) {
  return -static_cast<float>(token) - 0.001F * static_cast<float>(index);
}

/// Two planners with a pool each, a home that knows nothing of either's books, and requests that move between them
/// while they decode, are parked, go on, are cancelled and lose their updates on the way.
class two_instances {
public:
  two_instances(unsigned seed, const std::array<planner_settings, 2>& settings)
      : random_(seed), engines_{engine{settings[0]}, engine{settings[1]}} {}

  void run(int operations) {
    for (int i = 0; i < operations && !failed(); ++i) {
      act();
      for (int e = 0; e < 2 && !failed(); ++e) check(e);
    }
    while (!moves_.empty() && !failed()) abort_move(moves_.begin()->first);
    for (auto& [id, h] : homes_)
      if (!failed() && h.open() && h.parked) go_on(id);
    for (int e = 0; e < 2 && !failed(); ++e) drain(e);
    if (failed()) return;
    for (const auto& [id, h] : homes_) ASSERT_FALSE(h.open()) << "request " << id << " was lost";
  }

  std::uint64_t moved = 0, moved_waiting = 0, stages = 0, tails = 0, resumed = 0, preempted_moves = 0,
                cancelled_parked = 0, overlapping = 0, known = 0;
  [[nodiscard]] std::uint64_t asked() const { return engines_[0].model.asked() + engines_[1].model.asked(); }

private:
  struct engine {
    explicit engine(const planner_settings& s) : settings(s), planner(s), model(s.blocks) {}
    planner_settings settings;
    protocols::planner planner;
    drafted_model model;
    std::deque<step_input> steps; ///< in flight, the oldest first
  };
  struct home {
    generate_request request;
    int owner = 0;
    std::vector<token_id> answer;
    finish_reason end = finish_reason::none;
    bool ordered = false; ///< to be parked
    bool parked = false;
    bool mute = false; ///< what the owner sends under this epoch is lost
    [[nodiscard]] bool open() const { return end == finish_reason::none; }
  };
  struct move {
    std::vector<block_id> blocks; ///< reserved at the other side
    std::uint32_t brought = 0;    ///< of these, filled
    std::uint32_t preemptions = 0;
  };

  static bool failed() { return ::testing::Test::HasFatalFailure(); }
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(random_() % n); }
  engine& owner_of(const home& h) { return engines_[static_cast<std::size_t>(h.owner)]; }
  engine& other_of(const home& h) { return engines_[static_cast<std::size_t>(1 - h.owner)]; }

  home* any_open(std::uint64_t& id) {
    std::vector<std::uint64_t> open;
    for (const auto& [number, h] : homes_)
      if (h.open()) open.push_back(number);
    if (open.empty()) return nullptr;
    id = open[below(static_cast<std::uint32_t>(open.size()))];
    return &homes_.at(id);
  }

  void act() {
    std::uint64_t id = 0;
    const auto what = below(20);
    if (what < 3) return admit();
    if (what < 10) return advance(static_cast<int>(below(2)));
    auto* h = any_open(id);
    if (h == nullptr) return;
    if (what == 10 && below(4) == 0) return cancel(id);
    if (what == 11 && below(4) == 0) return redispatch(id);
    if (what == 12 && below(3) == 0) return order_to_park(id);
    if (what == 13 && h->parked && !moves_.contains(id)) return go_on(id);
    if (what == 14 && moves_.contains(id) && below(4) == 0) return abort_move(id);
    if (what < 16) return begin_move(id);
    if (moves_.contains(id)) continue_move(id);
  }

  void admit() {
    home h;
    h.owner = static_cast<int>(below(2));
    auto& r = h.request;
    r.request = request_id{next_id_++};
    r.epoch = epoch{1};
    r.priority = static_cast<std::int32_t>(below(3));
    r.arrival_ns = below(4);
    r.cache_salt = below(8) == 0 ? 1 : 0;
    r.sampling.logprobs = below(2) == 0 ? -1 : 0;
    r.sampling.prompt_logprobs = below(3) == 0 ? 0 : -1;
    const auto size = 1 + below(below(4) == 0 ? owner_of(h).settings.blocks * 10 : 40);
    const auto shared = below(size + 1);
    const auto family = static_cast<token_id>(below(2));
    for (std::uint32_t i = 0; i < size; ++i)
      r.prompt.push_back(i < shared ? family : static_cast<token_id>(below(paged_model::vocabulary)));
    r.stop.max_tokens = 1 + below(60);
    r.expected_tokens = r.stop.max_tokens / 2; // a function of what is drawn anyway
    r.ttft_ns = r.stop.max_tokens % 7;
    r.stop.ignore_eos = below(2) == 0;
    if (below(4) == 0) r.stop.min_tokens = below(r.stop.max_tokens + 1);
    const auto id = r.request.value();
    const auto accepted = owner_of(h).planner.admit(r).accepted();
    const auto owner = h.owner;
    if (accepted) homes_.emplace(id, std::move(h));
    take(owner, engines_[static_cast<std::size_t>(owner)].planner.take_effects());
  }

  /// The home gives it a new owner, which may be the old one.
  void redispatch(std::uint64_t id) {
    auto& h = homes_.at(id);
    const auto old_owner = h.owner;
    const auto to = static_cast<int>(below(2));
    auto again = h.request;
    again.epoch = epoch{h.request.epoch.value() + 1};
    again.answer = h.answer;
    drop_move(id);
    h.owner = to;
    h.request = again;
    h.request.answer.clear();
    h.ordered = h.parked = h.mute = false;
    const auto accepted = owner_of(h).planner.admit(again).accepted();
    if (old_owner != to)
      (void)engines_[static_cast<std::size_t>(old_owner)].planner.cancel(
          {request_id{id}, epoch{again.epoch.value() - 1}});
    if (!accepted) h.end = finish_reason::cancelled;
    for (int e = 0; e < 2; ++e) take(e, engines_[static_cast<std::size_t>(e)].planner.take_effects());
  }

  void cancel(std::uint64_t id) {
    auto& h = homes_.at(id);
    const auto done = owner_of(h).planner.cancel({request_id{id}, h.request.epoch});
    ASSERT_NE(done, planner::cancellation::unknown);
    if (h.parked) {
      ASSERT_EQ(done, planner::cancellation::freed);
      ++cancelled_parked;
    }
    drop_move(id);
    h.end = finish_reason::cancelled;
    take(h.owner, owner_of(h).planner.take_effects());
  }

  void advance(int number) {
    auto& e = engines_[static_cast<std::size_t>(number)];
    if (e.steps.empty() || (e.steps.size() < e.settings.steps_max && below(2) == 0)) {
      for (std::uint32_t i = 0; i < e.settings.blocks; ++i)
        if (const block_id b{i}; e.planner.ledger().references(b) == 0 && !e.planner.ledger().sealed(b))
          e.model.spoil(b);
      auto step = e.planner.plan();
      take(number, e.planner.take_effects());
      if (!step) return;
      for (const auto& slice : step->slices) ASSERT_FALSE(homes_.at(slice.request.value()).parked) << "planned";
      e.steps.push_back(std::move(*step));
      if (e.steps.size() > 1) ++overlapping;
      return;
    }
    const auto slices = e.steps.front().slices;
    auto output = e.model.run(std::move(e.steps.front()), random_);
    e.steps.pop_front();
    auto drawn = output.tokens.begin();
    for (const auto& slice : slices)
      for (std::uint32_t i = 0; slice.samples && i <= slice.drafts_wanted; ++i, ++drawn)
        drawn->logprob = logprob_of(drawn->id, slice.sample_index + i);
    take(number, e.planner.complete(output));
  }

  void order_to_park(std::uint64_t id) {
    auto& h = homes_.at(id);
    const auto at_once = !owner_of(h).planner.view(request_id{id}, h.request.epoch)->in_flight;
    const auto done = owner_of(h).planner.park(request_id{id}, h.request.epoch);
    ASSERT_EQ(done, at_once ? planner::parking::parked : planner::parking::parked_after_step);
    h.ordered = true;
    if (below(3) == 0) h.mute = true;
    take(h.owner, owner_of(h).planner.take_effects());
    ASSERT_TRUE(!at_once || h.parked);
  }

  /// Updates may have been lost, so the home gives it a later epoch and is told what it lacks.
  void go_on(std::uint64_t id) {
    auto& h = homes_.at(id);
    auto& p = owner_of(h).planner;
    const auto to = h.mute ? epoch{h.request.epoch.value() + 1} : h.request.epoch;
    if (h.parked && h.mute) take_tail(h, p.snapshot(request_id{id}, static_cast<std::uint32_t>(h.answer.size())));
    if (h.mute && !h.parked) return; // what it sends until it is parked would be missed
    ASSERT_FALSE(p.unpark(request_id{id}, epoch{h.request.epoch.value() + 7}, epoch{h.request.epoch.value() + 8}));
    ASSERT_TRUE(p.unpark(request_id{id}, h.request.epoch, to));
    h.request.epoch = to;
    h.ordered = h.parked = h.mute = false;
    ++resumed;
  }

  void begin_move(std::uint64_t id) {
    auto& h = homes_.at(id);
    if (moves_.contains(id)) return;
    const auto seen = owner_of(h).planner.view(request_id{id}, h.request.epoch);
    ASSERT_TRUE(seen);
    if (!other_of(h).planner.hold_place()) return;
    auto& m = moves_[id];
    m.preemptions = seen->preemptions;
    if (below(4) == 0) return;
    const auto kv = owner_of(h).planner.complete_kv(request_id{id}, h.request.epoch);
    m.blocks = other_of(h).planner.reserve_known(kv.tokens, kv.cache_salt);
    m.brought = static_cast<std::uint32_t>(m.blocks.size());
    ASSERT_LE(m.brought, seen->full_blocks());
    known += m.brought;
  }

  /// Copies what is complete; what is not, only once the request is parked.
  bool bring(std::uint64_t id, const request_view& seen, std::uint32_t upto) {
    auto& h = homes_.at(id);
    auto& m = moves_.at(id);
    if (upto > m.blocks.size()) {
      const auto before = other_of(h).planner.ledger().available();
      const auto wanted = upto - static_cast<std::uint32_t>(m.blocks.size());
      const auto more = other_of(h).planner.reserve(wanted);
      if (!more) {
        EXPECT_EQ(other_of(h).planner.ledger().available(), before);
        return false;
      }
      EXPECT_EQ(more->size(), wanted);
      m.blocks.insert(m.blocks.end(), more->begin(), more->end());
    }
    for (; m.brought < upto; ++m.brought)
      other_of(h).model.bring(owner_of(h).model, seen.blocks[m.brought], m.blocks[m.brought]);
    return true;
  }

  void continue_move(std::uint64_t id) {
    auto& h = homes_.at(id);
    auto& m = moves_.at(id);
    const auto seen = owner_of(h).planner.view(request_id{id}, h.request.epoch);
    ASSERT_TRUE(seen);
    ASSERT_EQ(seen->preemptions, m.preemptions) << "a preemption nobody was told of";
    ASSERT_EQ(seen->state == request_state::migrating, h.parked);
    if (!h.parked) {
      ++stages;
      if (!bring(id, *seen, seen->full_blocks())) return abort_move(id);
      if (!h.ordered && below(3) == 0) order_to_park(id);
      return;
    }
    if (!bring(id, *seen, blocks_for(seen->computed))) return abort_move(id);
    hand_over(id);
  }

  void hand_over(std::uint64_t id) {
    auto& h = homes_.at(id);
    auto m = moves_.at(id);
    const auto request = request_id{id};
    auto moving = owner_of(h).planner.snapshot(request, static_cast<std::uint32_t>(h.answer.size()));
    const bool with_kv = moving.computed > 0;
    const auto old_epoch = h.request.epoch;
    const auto under = epoch{old_epoch.value() + 1};
    auto& to = other_of(h).planner;
    const auto waiting_before = to.load().waiting;
    const auto answer = to.adopt(moving, under, m.blocks);
    if (!answer.accepted()) {
      ASSERT_TRUE(answer.reason == refusal::never_fits || (!with_kv && answer.reason == refusal::queue_full))
          << to_string(answer.reason);
      to.check();
      return abort_move(id);
    }
    if (!with_kv) {
      to.free_place();
      ASSERT_EQ(to.load().waiting, waiting_before + 1);
      ++moved_waiting;
    } else {
      ++moved;
    }
    ASSERT_EQ(owner_of(h).planner.cancel({request, old_epoch}), planner::cancellation::freed);
    moves_.erase(id);
    const auto from = h.owner;
    h.owner = 1 - h.owner;
    h.request.epoch = under;
    h.ordered = h.parked = h.mute = false;
    take_tail(h, moving);
    take(from, engines_[static_cast<std::size_t>(from)].planner.take_effects());
    take(h.owner, to.take_effects());
  }

  void drop_move(std::uint64_t id) {
    const auto found = moves_.find(id);
    if (found == moves_.end()) return;
    auto& p = other_of(homes_.at(id)).planner;
    p.give_back(found->second.blocks);
    p.free_place();
    moves_.erase(found);
  }

  void abort_move(std::uint64_t id) {
    drop_move(id);
    auto& h = homes_.at(id);
    if (h.open() && (h.parked || h.ordered) && below(2) == 0) go_on(id);
  }

  void take_tail(home& h, const moved_request& from) {
    ASSERT_LE(from.tail_index, h.answer.size()) << "the home lacks more than it is told";
    tails += from.tail.size();
    if (from.tail_index == 0 && !from.tail.empty()) take_scores(h, from.prompt_scores);
    for (auto i = h.answer.size() - from.tail_index; i < from.tail.size(); ++i) accept(h, from.tail[i]);
  }

  /// Whoever first tells a token of the answer tells these.
  void take_scores(const home& h, const std::vector<sampled_token>& scores) {
    if (!h.answer.empty()) return;
    const auto expected = h.request.sampling.prompt_logprobs >= 0 ? paged_model::scores_of(h.request.prompt)
                                                                  : std::vector<sampled_token>{};
    ASSERT_EQ(scores, expected);
  }

  void accept(home& h, const sampled_token& token) {
    if (h.request.sampling.logprobs >= 0) {
      ASSERT_EQ(token.logprob, logprob_of(token.id, static_cast<std::uint32_t>(h.answer.size())));
    }
    h.answer.push_back(token.id);
  }

  void take(int from, const step_effects& effects) {
    for (const auto& update : effects.updates) {
      auto& h = homes_.at(update.request.value());
      ASSERT_EQ(h.owner, from) << "of nobody who owns it";
      ASSERT_EQ(update.epoch, h.request.epoch);
      ASSERT_TRUE(h.open());
      ASSERT_FALSE(h.parked);
      if (h.mute && !update.finished()) continue;
      if (h.mute) { // the end is told again by whom it is dispatched to next: here only that it came
        h.end = finish_reason::cancelled;
        continue;
      }
      ASSERT_EQ(update.first_index, h.answer.size()) << "a gap or a repeat";
      if (update.first_index == 0 && !update.tokens.empty()) take_scores(h, update.prompt_scores);
      for (const auto& token : update.tokens) accept(h, token);
      h.end = update.finish;
      if (update.finished()) check_answer(h);
    }
    for (const auto id : effects.parked) {
      auto& h = homes_.at(id.value());
      if (h.owner == from && h.open()) h.parked = h.ordered;
    }
    for (const auto id : effects.preempted)
      if (moves_.contains(id.value()) && homes_.at(id.value()).owner == from) {
        ++preempted_moves;
        drop_move(id.value());
      }
    for (const auto id : effects.gone)
      if (homes_.contains(id.value()) && !homes_.at(id.value()).open()) drop_move(id.value());
  }

  void check_answer(const home& h) {
    finish_reason end{};
    const auto& settings = owner_of(h).settings;
    auto expected =
        paged_model::answer_of(h.request.prompt, h.request.stop, settings.eos, settings.context_length, end);
    if (h.end == finish_reason::error) {
      ASSERT_GT(h.request.prompt.size() + h.answer.size(), std::size_t{settings.blocks} * tokens_per_block);
      expected.resize(h.answer.size());
    } else {
      ASSERT_EQ(h.end, end);
    }
    ASSERT_EQ(h.answer, expected);
  }

  void check(int number) {
    auto& e = engines_[static_cast<std::size_t>(number)];
    e.planner.check();
    std::uint32_t held = 0, places = 0, parked = 0;
    for (const auto& [id, m] : moves_)
      if (homes_.at(id).owner != number) {
        held += static_cast<std::uint32_t>(m.blocks.size());
        ++places;
      }
    ASSERT_EQ(e.planner.places_held(), places);
    for (const auto& r : e.planner.requests()) {
      held += r.blocks;
      const auto& h = homes_.at(r.request.value());
      ASSERT_EQ(h.owner, number) << "kept by one that does not own it";
      ASSERT_EQ(h.parked, r.state == request_state::migrating);
      parked += h.parked ? 1 : 0;
    }
    ASSERT_EQ(e.planner.load().migrating, parked);
    ASSERT_LE(e.planner.load().running + places, e.settings.running_max);
    if (e.steps.empty()) {
      ASSERT_LE(e.planner.ledger().used(), held) << "blocks nobody holds";
    }
  }

  void drain(int number) {
    auto& e = engines_[static_cast<std::size_t>(number)];
    for (int steps = 0; !e.planner.idle() && !failed(); ++steps) {
      ASSERT_LT(steps, 40'000) << "livelock";
      const auto requests = e.planner.requests().size();
      const bool planning = e.steps.empty();
      advance(number);
      for (auto& [id, h] : homes_)
        if (!failed() && h.open() && h.owner == number && h.parked) go_on(id);
      ASSERT_TRUE(!planning || !e.steps.empty() || e.planner.requests().size() < requests) << "nothing runs";
    }
    if (failed()) return;
    EXPECT_EQ(e.planner.ledger().used(), 0U);
    e.planner.check();
  }

  std::mt19937 random_;
  std::array<engine, 2> engines_;
  std::map<std::uint64_t, home> homes_;
  std::map<std::uint64_t, move> moves_;
  std::uint64_t next_id_ = 1;
};

// Llumnix section 4.2: whoever runs a request, and however often it moves, its answer is the same, and each token
// reaches its home once.
TEST(MovingModel, AnswersDoNotDependOnMovesParkingsAndLostUpdates) {
  std::array<std::uint64_t, 10> totals{};
  for (unsigned seed = 0; seed < 600 && !HasFatalFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random{seed * 7919 + 1};
    std::array<planner_settings, 2> settings;
    const auto context = static_cast<std::uint32_t>(20 + random() % 200);
    const bool prefix_caching = random() % 3 != 0;
    const auto order = seed % 3 == 0 ? static_cast<queue_order>(seed / 3 % 4) : queue_order::fcfs;
    for (auto& s : settings) {
      s.mode = random() % 8 == 0 ? batching_mode::static_batch : batching_mode::continuous;
      s.prefix_caching = prefix_caching;
      s.blocks = static_cast<std::uint32_t>(4 + random() % (seed % 2 == 0 ? 8 : 24));
      s.context_length = context;
      s.running_max = static_cast<std::uint32_t>(1 + random() % 6);
      s.step_tokens_max = static_cast<std::uint32_t>(s.running_max + random() % 40);
      s.waiting_max = static_cast<std::uint32_t>(1 + random() % 6);
      s.vocabulary = paged_model::vocabulary;
      s.eos = {1, 3};
      if (seed % 4 == 3) s.speculation.model_max = static_cast<std::uint32_t>(random() % 7); // of either, or of none
      if (s.speculation.model_max == 0) s.steps_max = 1 + seed / 5 % 3;
      s.queue = {order, static_cast<std::int64_t>(seed % 5)};
      if (s.mode == batching_mode::static_batch) s.batch = {seed % 7 == 0 ? 0.01 : 0.0, seed % 5 == 0 ? 0.005 : 0.0};
    }
    two_instances run{seed, settings};
    run.run(600);
    const std::array<std::uint64_t, 10> counts{
        run.moved,           run.moved_waiting,    run.stages,  run.tails,       run.resumed,
        run.preempted_moves, run.cancelled_parked, run.asked(), run.overlapping, run.known};
    for (std::size_t i = 0; i < counts.size(); ++i) totals[i] += counts[i];
  }
  for (std::size_t i = 0; i < totals.size(); ++i)
    EXPECT_GT(totals[i], 40U) << "the runs do not reach what they are for: count " << i;
}

} // namespace
} // namespace godwit::protocols
