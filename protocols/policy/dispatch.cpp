#include <godwit/protocols/policy/dispatch.hpp>

#include <godwit/protocols/kv/prefix_marks.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>

namespace godwit::protocols {

namespace {
constexpr auto not_eligible = -std::numeric_limits<double>::infinity();

/// Reports that may come while a request is on its way to an instance. They are some milliseconds apart where much
/// happens; a request that takes longer is lost, or its client has gone.
constexpr std::uint32_t reports_max = 8;

constexpr double expected_ns_max = 1e15; // eleven days

/// After so many requests that an idle instance is not expected to serve in time, it gets one; after twice as many the
/// next one, and so on.
constexpr std::uint32_t idle_refusals_most = 1024;

/// A step with a prompt in it; to see whether an instance is much quicker than it was.
double rough(const step_pace& pace) noexcept { return pace.step + 512 * pace.token; }

bool makes_sense(const step_pace& pace) noexcept {
  for (const double ns : {pace.step, pace.token, pace.pair})
    if (!std::isfinite(ns) || ns < 0) return false;
  return pace.knows_prompts && std::isfinite(pace.overlap) && pace.overlap >= 1;
}

/// A head of line that lacks memory has it after a round or two and the migrations of these, where others have some.
constexpr double room_by_moves_ns = 1e9;

/// Whoever reports may err, too.
double bounded(double ns) noexcept {
  return std::isfinite(ns) ? std::clamp(ns, 0.0, expected_ns_max) : expected_ns_max;
}

std::uint32_t bit_of(std::uint8_t level) noexcept { return 1U << std::min<std::uint32_t>(level, 31); }

/// Whoever derives from a dispatcher may err.
double finite_or_none(double rating) noexcept { return std::isfinite(rating) ? rating : not_eligible; }

std::int64_t headroom_of(const dispatch_demand& demand, const load_report& r) noexcept {
  return demand.headroom.value_or(r.headroom_profiled);
}
} // namespace

std::uint64_t dispatcher::places_in_batch(const load_report& r) noexcept {
  const auto taken = r.places_taken();
  return r.running_max > taken ? r.running_max - taken : 0;
}

bool dispatcher::eligible(const place& p) noexcept { return p.rating != not_eligible; }

bool dispatcher::report(const load_report& report) {
  auto index = at(report.instance);
  if (index == finding::none) {
    const auto behind = std::ranges::upper_bound(reports_, report.instance, {}, &load_report::instance);
    index = static_cast<std::size_t>(behind - reports_.begin());
    const auto offset = static_cast<std::ptrdiff_t>(index);
    reports_.insert(behind, report);
    places_.insert(places_.begin() + offset, place{});
    accounts_.insert(accounts_.begin() + offset, account{});
    for (auto i = index; i < reports_.size(); ++i) index_[reports_[i].instance] = i;
  } else {
    const auto age = [](const load_report& r) { return std::tie(r.generation, r.sequence); };
    if (age(report) <= age(reports_[index])) return false;
    const bool restarted = report.generation != reports_[index].generation;
    reports_[index] = report;
    accounts_[index].stale = false;
    if (restarted) {
      accounts_[index].forget();
      accounts_[index].refusing = {};
      prefixes_.forget(report.instance);
    } else {
      accounts_[index].settle(report);
    }
  }
  if (auto& queue = reports_[index].queue; queue.size() > queue_summary::parts_max) // whoever reports may err
    queue.resize(queue_summary::parts_max);
  if (auto& held = reports_[index].held_back; held.size() > load_report::held_back_max)
    held.resize(load_report::held_back_max);
  if (makes_sense(report.pace)) usual_ = report.pace;
  if (auto& watch = accounts_[index].refusing; watch.pace_ns > 0) { // at another pace it begins anew
    const double pace = rough(report.pace);
    if (pace < watch.pace_ns / 2 || pace > watch.pace_ns * 2) watch = {};
  }
  refresh(index);
  return true;
}

void dispatcher::remove(instance_id instance) {
  const auto index = at(instance);
  if (index == finding::none) return;
  count_prefill(index, std::nullopt);
  count_left(index, {});
  const auto offset = static_cast<std::ptrdiff_t>(index);
  reports_.erase(reports_.begin() + offset);
  places_.erase(places_.begin() + offset);
  accounts_.erase(accounts_.begin() + offset);
  index_.erase(instance);
  prefixes_.forget(instance);
  for (auto i = index; i < reports_.size(); ++i) index_[reports_[i].instance] = i;
}

void dispatcher::set_stale(instance_id instance, bool stale) {
  const auto index = at(instance);
  if (index == finding::none) return;
  accounts_[index].stale = stale;
  refresh(index);
}

bool dispatcher::stale(instance_id instance) const noexcept {
  const auto index = at(instance);
  return index != finding::none && accounts_[index].stale;
}

dispatcher::picked_load dispatcher::picked(instance_id instance) const noexcept {
  const auto index = at(instance);
  return index == finding::none ? picked_load{} : accounts_[index].picked;
}

std::optional<dispatch_choice> dispatcher::pick(const dispatch_demand& demand) {
  look_for_prefix(demand);
  const auto& all = counts_headroom() && demand.headroom != 0U ? seen_by(demand) : places_;
  const auto& places = narrowed_down(all, demand);
  if (late_) return std::nullopt;
  const auto found = find(places, demand);
  // Whoever derives from this may err; the books must not.
  found_wrong_ = found.best == finding::none
                     ? std::ranges::none_of(places, eligible) && std::ranges::any_of(places_, eligible)
                     : found.best >= places.size() || !eligible(places[found.best]);
  if (found.best == finding::none || found_wrong_) return std::nullopt;
  dispatch_choice choice;
  choice.instance = reports_[found.best].instance;
  choice.why.policy = name();
  choice.why.score = score(found.rating.value_or(places[found.best].rating));
  choice.why.runner_up = score(found.runner_up);
  choice.why.candidates = found.candidates;
  choice.why.prefix_tokens = known_at(found.best);
  choice.why.ttft_ns =
      static_cast<std::int64_t>(expected_ttft(found.best, demand, choice.why.prefix_tokens, standing::own));

  auto& books = accounts_[found.best];
  const auto& report = reports_[found.best];
  prefixes_.sent(report.instance, demand.prefix, report.blocks_total / (tokens_per_mark / tokens_per_block));
  auto load = load_of(demand, choice.why.prefix_tokens);
  choice.why.blocks = static_cast<std::uint32_t>(load.blocks);
  load.levels = bit_of(demand.execution_level);
  if (((report.execution_levels | books.picked.levels) & load.levels) == 0) load.headroom = headroom_of(demand, report);
  choice.number = ++picks_;
  books.add(choice.number, demand.home, load, place_there(found.best, demand, standing::own));
  places_[found.best].picked_last = picks_;
  refresh(found.best);
  return choice;
}

void dispatcher::picked_load::operator+=(const picked_load& more) noexcept {
  requests += more.requests;
  blocks += more.blocks;
  headroom += more.headroom;
  levels |= more.levels;
  tokens += more.tokens;
  pairs += more.pairs;
}

void dispatcher::picked_load::shrink_to(std::uint64_t some) noexcept {
  if (some >= requests) return;
  blocks = blocks * some / requests;
  tokens = tokens * some / requests;
  pairs *= static_cast<double>(some) / static_cast<double>(requests);
  requests = some;
}

// What was on its way to an earlier generation.
void dispatcher::account::forget() noexcept {
  picked = {};
  count = 0;
}

void dispatcher::account::add(std::uint64_t number, std::uint16_t home, const picked_load& load,
                              const queue_place& place) noexcept {
  picked += load;
  if (count < on_way.size()) {
    on_way[count] = {};
    on_way[count].first_place = on_way[count].last_place = place;
    on_way[count++].first = number;
  }
  auto& last = on_way[count - 1];
  last.first_place = std::min(last.first_place, place);
  last.last_place = std::max(last.last_place, place);
  last.number = number;
  last.home = home;
  last.load += load;
  last.reports = 0;
}

dispatcher::picked_load dispatcher::account::before(const queue_place& place) const noexcept {
  picked_load sum;
  for (std::uint32_t i = 0; i < count; ++i) {
    auto load = on_way[i].load;
    if (on_way[i].first_place > place) continue;
    if (on_way[i].last_place > place) { // some of several: half, for what one knows
      load.requests /= 2;
      load.blocks /= 2;
      load.tokens /= 2;
      load.pairs /= 2;
    }
    sum += load;
  }
  return sum;
}

// Headroom and levels of what several have in common stay until a report says better.
void dispatcher::account::take_back(std::uint64_t number, const picked_load& one) noexcept {
  const auto end = on_way.begin() + count;
  const auto entry = std::find_if(
      on_way.begin(), end, [number](const on_the_way& some) { return some.first <= number && number <= some.number; });
  if (entry == end) return;
  if (entry->load.requests > 1) {
    --entry->load.requests;
    entry->load.blocks -= std::min(one.blocks, entry->load.blocks);
    entry->load.tokens -= std::min(one.tokens, entry->load.tokens);
    entry->load.pairs = std::max(entry->load.pairs - one.pairs, 0.0);
  } else {
    const auto gone = entry->load;
    std::move(entry + 1, end, entry);
    --count;
    // The first of a level carries its headroom for all of them: now the next one does.
    const auto rest = on_way.begin() + count;
    const auto heir = std::find_if(on_way.begin(), rest,
                                   [&](const on_the_way& some) { return (some.load.levels & gone.levels) != 0; });
    if (heir != rest) heir->load.headroom += gone.headroom;
  }
  picked = {};
  for (std::uint32_t i = 0; i < count; ++i) picked += on_way[i].load;
}

void dispatcher::account::settle(const load_report& report) noexcept {
  picked = {};
  std::uint32_t kept = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    auto one = on_way[i];
    if (one.number <= report.dispatched_of(one.home)) {
      const auto held = std::ranges::count_if(
          report.held_back, [&](std::uint64_t number) { return one.first <= number && number <= one.number; });
      if (held == 0) continue;
      one.load.shrink_to(static_cast<std::uint64_t>(held));
    } else if (++one.reports > reports_max) {
      continue;
    }
    if ((one.load.levels & ~report.execution_levels) == 0) one.load.headroom = 0; // the report has it
    picked += one.load;
    on_way[kept++] = one;
  }
  count = kept;
}

void dispatcher::take_back(instance_id instance, std::uint64_t number, const dispatch_demand& demand) {
  const auto index = at(instance);
  if (index == finding::none) return;
  accounts_[index].take_back(number, load_of(demand, 0));
  refresh(index);
}

const std::vector<dispatcher::place>& dispatcher::seen_by(const dispatch_demand& demand) {
  const auto level = bit_of(demand.execution_level);
  seen_ = places_;
  for (std::size_t i = 0; i < seen_.size(); ++i) {
    if (!eligible(seen_[i])) continue;
    auto picked = accounts_[i].picked;
    const bool kept = ((reports_[i].execution_levels | picked.levels) & level) != 0;
    picked.headroom += kept ? -headroom_of(demand, reports_[i]) : headroom_of(demand, reports_[i]);
    seen_[i].rating = finite_or_none(rate(reports_[i], picked));
  }
  return seen_;
}

void dispatcher::look_for_prefix(const dispatch_demand& demand) {
  known_.clear();
  if (demand.prefix.empty()) return;
  for (const auto& match : prefixes_.find(demand.prefix))
    if (const auto index = at(match.instance); index != finding::none)
      known_.push_back({index, match.marks * tokens_per_mark});
}

std::uint32_t dispatcher::known_at(std::size_t index) const noexcept {
  const auto known = std::ranges::find(known_, index, &known_prefix::place);
  return known == known_.end() ? 0 : known->tokens;
}

dispatcher::picked_load dispatcher::load_of(const dispatch_demand& demand, std::uint32_t known) noexcept {
  picked_load load;
  load.requests = 1;
  load.blocks = blocks_for(std::uint64_t{demand.tokens} + 1); // and the token that comes next
  known = std::min(known, demand.tokens);
  load.tokens = demand.tokens - known;
  load.pairs = attention_pairs(known, demand.tokens);
  return load;
}

step_pace dispatcher::pace_of(std::size_t index) const noexcept {
  auto pace = reports_[index].pace;
  if (pace.knows_prompts || !usual_.knows_prompts) return pace;
  // As good a guess as any, and not that it takes no time.
  pace.knows_prompts = true;
  pace.step = std::max(pace.step, usual_.step);
  pace.token = usual_.token;
  pace.pair = usual_.pair;
  return pace;
}

double dispatcher::expected_ttft(std::size_t index, const dispatch_demand& demand, std::uint32_t known,
                                 standing as) const noexcept {
  const auto& report = reports_[index];
  const auto there = place_there(index, demand, as);
  const auto picked = accounts_[index].before(there);
  const expected_request request{demand.tokens, known, queued_behind(there, report.queue)};
  std::optional<double> room_within;
  if (const auto lacks = blocks_lacking(report, picked.blocks, request); lacks > 0 && moves_)
    if (free_beside(index) >= lacks) room_within = room_by_moves_ns;
  return bounded(expected_ttft_ns(report, pace_of(index), {picked.requests, picked.blocks, picked.tokens, picked.pairs},
                                  request, room_within));
}

queue_place dispatcher::place_there(std::size_t index, const dispatch_demand& demand, standing as) const noexcept {
  constexpr auto never = std::numeric_limits<std::int64_t>::max();
  queue_place there{std::numeric_limits<std::int32_t>::max(), true, never, never, 0};
  if (demand.in_queue && as == standing::own) there = place_in_queue(reports_[index].order, *demand.in_queue);
  if (demand.in_queue) there.priority = demand.in_queue->priority;
  there.serial = std::numeric_limits<std::uint64_t>::max();
  return there;
}

std::uint64_t dispatcher::free_beside(std::size_t index) const noexcept {
  const auto all = left_.find(reports_[index].kv_kind);
  return all == left_.end() ? 0 : all->second - accounts_[index].left.blocks;
}

// Of each kind of KV, the quickest that may decode for a prefill instance.
void dispatcher::find_decoders() {
  if (!by_roles_ || prefill_instances_.empty()) return;
  for (std::size_t i = 0; i < reports_.size(); ++i) {
    const auto& r = reports_[i];
    if (r.role == instance_role::prefill || !r.takes_requests() || accounts_[i].stale) continue;
    const double tpot = bounded(expected_tpot_ns(r));
    const auto [known, fresh] = decoders_.try_emplace(r.kv_kind, tpot);
    if (!fresh) known->second = std::min(known->second, tpot);
  }
}

double dispatcher::expected_tpot(std::size_t index) const noexcept {
  const auto& report = reports_[index];
  if (report.role == instance_role::prefill)
    if (const auto there = decoders_.find(report.kv_kind); there != decoders_.end()) return there->second;
  return bounded(expected_tpot_ns(report));
}

const std::vector<double>& dispatcher::expected_ttfts(const std::vector<place>& places, const dispatch_demand& demand,
                                                      standing as) {
  expected_.assign(places.size(), 0.0);
  for (std::size_t i = 0; i < places.size(); ++i)
    if (eligible(places[i])) expected_[i] = expected_ttft(i, demand, 0, as);
  for (const auto& known : known_)
    if (eligible(places[known.place])) expected_[known.place] = expected_ttft(known.place, demand, known.tokens, as);
  return expected_;
}

bool dispatcher::idle(std::size_t index) const noexcept {
  const auto& r = reports_[index];
  return r.places_taken() + r.waiting + r.migrating + accounts_[index].picked.requests == 0;
}

const std::vector<dispatcher::place>& dispatcher::narrowed_down(const std::vector<place>& places,
                                                                const dispatch_demand& demand) {
  late_ = false;
  const auto& [ttft_ns, tpot_ns, refusable] = demand.objectives;
  if (!demand.objectives.any()) return places;
  // By deadlines, who comes pushes those back that were let in before it; so it is let in where it would be in time as
  // the last one of its priority, too.
  auto asked = demand;
  if (refusable && asked.in_queue) asked.in_queue->ttft_ns = std::numeric_limits<std::int64_t>::max();
  const auto& expected = expected_ttfts(places, asked);
  decoders_.clear();
  if (tpot_ns > 0) find_decoders();
  const auto share = [](double ns, std::int64_t objective) {
    return objective > 0 ? ns / static_cast<double>(objective) : 0;
  };
  narrowed_ = places;
  least_expected_ = {};
  std::optional<double> closest;
  bool one_is_within = false, fits = false;
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (!eligible(places[i])) continue;
    fits = fits || blocks_for(std::uint64_t{demand.tokens} + 1) <= reports_[i].blocks_total;
    const double tpot = tpot_ns > 0 ? expected_tpot(i) : 0;
    const double used = std::max(share(expected[i], ttft_ns), share(tpot, tpot_ns));
    const bool unknown = !reports_[i].pace.knows_prompts && idle(i); // and nobody is refused for a guess
    if (used <= 1 || unknown)
      one_is_within = true;
    else
      narrowed_[i].rating = not_eligible;
    if (closest && used >= *closest) continue;
    closest = used;
    const bool by_others = reports_[i].role != instance_role::prefill && share(tpot, tpot_ns) <= 1;
    const bool alone =
        share(bounded(expected_alone_ns(pace_of(i), reports_[i].step_tokens, demand.tokens)), ttft_ns) <= 1;
    least_expected_ = {expected[i], tpot, alone && by_others};
  }
  if (one_is_within) return narrowed_;
  // One that fits nowhere is told so where it is sent.
  if (!closest || !refusable || !fits) return places;
  late_ = !looks_again(places, ttft_ns);
  return narrowed_;
}

// What is expected is what was measured, and is not measured any more where nobody is let in.
bool dispatcher::looks_again(const std::vector<place>& places, std::int64_t ttft_ns) {
  std::optional<std::size_t> due;
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (!eligible(places[i]) || !idle(i)) continue;
    const bool in_time = ttft_ns <= 0 || expected_[i] <= static_cast<double>(ttft_ns);
    if (in_time && decoders_.contains(reports_[i].kv_kind) && reports_[i].role == instance_role::prefill)
      continue; // others are what is too slow
    if (++accounts_[i].refusing.refused < accounts_[i].refusing.refused_max) continue;
    if (!due || places[i].picked_last < places[*due].picked_last) due = i;
  }
  if (!due) return false;
  auto& watch = accounts_[*due].refusing;
  watch.refused = 0;
  watch.refused_max = std::min(2 * watch.refused_max, idle_refusals_most);
  watch.pace_ns = rough(reports_[*due].pace);
  narrowed_[*due].rating = places[*due].rating;
  return true;
}

dispatcher::finding dispatcher::find(const std::vector<place>& places, const dispatch_demand&) {
  return best_of(places);
}

dispatcher::finding dispatcher::best_of(const std::vector<place>& places,
                                        const std::function<bool(std::size_t)>& wanted) const {
  const auto best_among = [&](const auto& in) {
    finding found;
    found.runner_up = not_eligible;
    for (std::size_t i = 0; i < places.size(); ++i) {
      const auto& candidate = places[i];
      if (!eligible(candidate) || !in(i)) continue;
      ++found.candidates;
      if (found.best == finding::none || better(candidate, places[found.best])) {
        if (found.best != finding::none) found.runner_up = places[found.best].rating;
        found.best = i;
      } else {
        found.runner_up = std::max(found.runner_up, candidate.rating);
      }
    }
    if (found.candidates == 1) found.runner_up = places[found.best].rating;
    if (!looks_at_prefixes()) return found;
    // Of equals.
    std::uint32_t most = 0;
    const double best = found.candidates > 0 ? places[found.best].rating : not_eligible;
    for (const auto& known : known_) {
      if (best == not_eligible || places[known.place].rating != best || known.tokens < most) continue;
      if (!in(known.place)) continue;
      if (known.tokens == most && !better(places[known.place], places[found.best])) continue;
      most = known.tokens;
      found.best = known.place;
    }
    return found;
  };
  // Asked of each place, a function that may be empty takes as long again as all the rest.
  return wanted ? best_among(wanted) : best_among([](std::size_t) { return true; });
}

dispatcher::lack dispatcher::why_none() const noexcept {
  if (late_) return lack::late;
  auto answer = lack::not_ready;
  for (std::size_t i = 0; i < reports_.size(); ++i) {
    if (!reports_[i].takes_requests() || is_spared(i)) continue;
    if (accounts_[i].stale) {
      if (answer == lack::not_ready) answer = lack::stale;
      continue;
    }
    if (is_full(i)) {
      if (answer != lack::sense) answer = lack::full;
      continue;
    }
    if (!found_wrong_ && eligible(places_[i])) return lack::none;
    answer = lack::sense;
  }
  return answer;
}

void dispatcher::take_over(const dispatcher& before) {
  places_ = before.places_;
  reports_ = before.reports_;
  accounts_ = before.accounts_;
  index_ = before.index_;
  picks_ = before.picks_;
  usual_ = before.usual_;
  prefill_instances_ = before.prefill_instances_;
  by_roles_ = before.by_roles_;
  moves_ = before.moves_;
  prefixes_ = before.prefixes_;
  left_ = before.left_;
  for (std::size_t i = 0; i < reports_.size(); ++i) refresh(i);
}

std::size_t dispatcher::at(instance_id instance) const noexcept {
  // Where ids have no gaps, as is usual, there is no need to search.
  if (!reports_.empty()) {
    const std::size_t guess = instance.value() - reports_.front().instance.value();
    if (guess < reports_.size() && reports_[guess].instance == instance) return guess;
  }
  const auto known = index_.find(instance);
  return known == index_.end() ? finding::none : known->second;
}

bool dispatcher::is_full(std::size_t index) const noexcept {
  const auto& r = reports_[index];
  if (r.waiting_max == 0) return false;
  // What was picked since the report fills the free places of the batch before those of the queue.
  return r.waiting + accounts_[index].picked.requests >= r.waiting_max + places_in_batch(r);
}

bool dispatcher::is_spared(std::size_t index) const noexcept {
  const auto& r = reports_[index];
  return r.role == instance_role::decode && by_roles_ && prefill_instances_.contains(r.kv_kind);
}

void dispatcher::set_handoff(bool on) noexcept {
  if (std::exchange(by_roles_, on) != on) rate_decode_instances_anew();
}

void dispatcher::refresh(std::size_t index) noexcept {
  const auto& r = reports_[index];
  const bool prefills = r.takes_requests() && !accounts_[index].stale && r.role == instance_role::prefill;
  count_prefill(index, prefills ? std::optional(r.kv_kind) : std::nullopt);
  blocks_left left{r.kv_kind, 0};
  const auto wanted =
      std::uint64_t{r.blocks_used} + r.outstanding_blocks + r.waiting_blocks + accounts_[index].picked.blocks;
  if (r.takes_requests() && !accounts_[index].stale && r.blocks_total > wanted) left.blocks = r.blocks_total - wanted;
  count_left(index, left);
  rate_anew(index);
}

// The first prefill instance relieves the decode instances, and with the last one they have to stand in.
void dispatcher::count_prefill(std::size_t index, std::optional<std::uint64_t> kind) noexcept {
  const auto before = std::exchange(accounts_[index].prefills, kind);
  if (before == kind) return;
  bool turned = kind && ++prefill_instances_[*kind] == 1;
  if (before && --prefill_instances_[*before] == 0) turned = prefill_instances_.erase(*before) > 0;
  if (turned) rate_decode_instances_anew();
}

void dispatcher::count_left(std::size_t index, blocks_left now) noexcept {
  const auto before = std::exchange(accounts_[index].left, now);
  if (before.blocks > 0) {
    const auto sum = left_.find(before.kind);
    if ((sum->second -= before.blocks) == 0) left_.erase(sum);
  }
  if (now.blocks > 0) left_[now.kind] += now.blocks;
}

void dispatcher::rate_decode_instances_anew() noexcept {
  for (std::size_t i = 0; i < reports_.size(); ++i)
    if (reports_[i].role == instance_role::decode) rate_anew(i);
}

void dispatcher::rate_anew(std::size_t index) noexcept {
  const auto& r = reports_[index];
  auto& rating = places_[index].rating;
  rating = not_eligible;
  if (!r.takes_requests() || accounts_[index].stale || is_full(index) || is_spared(index)) return;
  rating = finite_or_none(rate(r, accounts_[index].picked));
}

} // namespace godwit::protocols
