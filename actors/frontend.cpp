#include <godwit/actors/frontend.hpp>

#include "recorded_decisions.hpp"
#include "watchers.hpp"

#include <godwit/protocols/ensure.hpp>
#include <godwit/protocols/kv/cache_salt.hpp>
#include <godwit/protocols/kv/prefix_marks.hpp>
#include <godwit/runtime/trace/recorder.hpp>

#include <algorithm>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace godwit::actors {

using protocols::finish_reason;
using protocols::refusal;
using runtime::async::task;

namespace {

bool is_contract_violation(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const protocols::contract_violation&) {
    return true;
  } catch (...) {
    return false;
  }
}

std::string larger_pool_wanted(std::uint64_t largest) {
  return "the request needs more KV blocks than the instance's " + std::to_string(largest) +
         "; start the server with a larger KV cache";
}

constexpr std::chrono::seconds seconds_between_looks{1}; // at deadlines

double seconds(std::chrono::nanoseconds t) { return std::chrono::duration<double>(t).count(); }

/// What a client says of the tokens that it got; kept in recordings.
enum class client_wish : std::uint8_t { nothing_more, more, none_since_it_threw };

} // namespace

frontend::frontend(runtime::actor_context context, frontend_options options)
    : actor(context), options_(std::move(options)), random_(options_.random_seed, options_.incarnation),
      ended_(options_.ended_max) {
  make_predictor();
  if (options_.migration_timeout == nanoseconds{0}) options_.migration_timeout = migration_settings{}.told_within();
  if (options_.execution_levels.empty()) options_.execution_levels.emplace_back("normal");
  for (const auto& name : options_.execution_levels) {
    auto& one = levels_.emplace_back();
    one.name = name;
    if (!options_.metrics) continue;
    one.first_token_seconds = &options_.metrics->first_token_seconds.with({name});
    one.inter_token_seconds = &options_.metrics->inter_token_seconds.with({name});
    one.total_seconds = &options_.metrics->total_seconds.with({name});
    for (const auto* outcome : {"stop", "length", "cancelled", "timed_out", "overloaded", "rejected", "error"})
      (void)options_.metrics->requests.with({outcome, name});
  }
}

runtime::behavior_of<frontend_interface> frontend::make_behavior() {
  return {[this](protocols::token_updates& news) { take(news); },
          [this](protocols::prepare_move& wish) { return prepare_move(wish); },
          [this](protocols::claim_request& wish) { return claim(wish); },
          [this](protocols::reclaim_request& wish) { return reclaim(wish); },
          [this](protocols::disown_request& news) { disown(news); },
          [this](protocols::migration_report& report) { note(std::move(report)); },
          [this](submit_request& message) {
            if (message.what && message.what->sink) submit(*message.what);
          },
          [this](withdraw_request& message) { withdraw(message.sink.get()); },
          [this](topology& news) { adopt(std::move(news)); },
          [this](status_query& query) {
            auto counts = counts_;
            counts.open = open_.size();
            if (query.with_requests)
              for (const auto& [id, r] : open_) counts.names.emplace_back(id, r.client_id);
            return counts;
          },
          [this](migrate_request& order) { return respond(migrate(std::move(order))); },
          [this](history_query& query) { return history(query); }};
}

void frontend::on_fault(const std::exception_ptr& failure, std::string_view where) {
  actor_base::on_fault(failure, where);
  failed_ = true;
  quit(runtime::stop_reason::failed);
}

void frontend::on_stop() {
  stopping_ = true;
  const char* const why = failed_ ? "the server's front end failed and starts anew" : "the server is shutting down";
  while (!open_.empty()) end_first(why);
  if (options_.metrics) options_.metrics->open.set(0);
}

// Where it fails, the books that this goes by may be wrong, and their clients hear of it all the same.
void frontend::end_first(const char* why) {
  const auto first = open_.begin();
  const auto id = first->first;
  const auto sink = first->second.sink;
  try {
    by_id_.try_emplace(id, &first->second);
    return fail(id, failure_kind::unavailable, why);
  } catch (...) {
    if (open_.erase(id) == 0) return;
  }
  by_id_.erase(id);
  try {
    tell_client(id, "on_failed", [&] { sink->on_failed({failure_kind::unavailable, why}); });
  } catch (...) { // nothing can be said any more, and there are others
  }
}

template <class Call> bool frontend::tell_client(protocols::request_id id, const char* what, const Call& call) {
  try {
    const runtime::trace::foreign_call client;
    call();
    return true;
  } catch (...) {
    const auto thrown = std::current_exception();
    const auto why = runtime::detail::describe(thrown).message;
    // One of ours that found its books wrong is a fault like any other, whose trace is kept.
    if (options_.log.enabled(runtime::log::level::error) && !is_contract_violation(thrown))
      options_.log.request(id).error("its sink threw in {}, and is not called any more: {}", what, why);
    else
      context().report(std::string("a sink threw in ") + what + ", and is not called any more: " + why);
    return false;
  }
}

frontend::open_request* frontend::find(protocols::request_id id) {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second;
}

void frontend::submit(submission& what) {
  // What goes on with a taken one comes again and again for the places of those before; others may have them by now.
  const auto places = std::size_t{options_.requests_max} * (what.continues ? 2 : 1);
  if (open_.size() >= places) {
    const auto level = std::min<std::size_t>(what.request.execution_level, levels_.size() - 1);
    count("overloaded", levels_[level].name);
    ++counts_.failed_total;
    // Taken, so that the submission's own end does not fail it once more.
    const auto sink = std::exchange(what.sink, nullptr);
    tell_client({}, "on_failed", [&] {
      sink->on_failed({failure_kind::overloaded, "the server has as many requests as it can hold"});
    });
    return;
  }
  // 16 bits of home, 12 of incarnation, 36 of counter: ids stay unique over restarts of this actor.
  const auto id =
      protocols::make_request_id(options_.home, (std::uint64_t{options_.incarnation} & 0xfff) << 36 | ++last_id_);
  what.request.request = id;
  const auto label = what.client_id.empty() ? std::string() : " as " + what.client_id;
  what.request.arrival_ns = now().count();
  what.request.cache_salt = protocols::salt_with(what.request.cache_salt, what.request.adapter);
  if (!what.seeded)
    what.request.sampling.seed = runtime::trace::input<std::uint64_t>("seed", [&] { return random_.next(); });
  const auto prompt_tokens = static_cast<std::uint32_t>(what.request.prompt.size());
  auto& r = open_
                .try_emplace(id, std::move(what.request), std::move(what.sink),
                             protocols::request_ownership::limits{options_.attempts_max, options_.attempts_max * 16},
                             options_.events_max)
                .first->second;
  by_id_.emplace(id, &r);
  r.arrived = now();
  r.prompt_tokens = prompt_tokens;
  r.continues = what.continues;
  r.ttft = what.ttft > nanoseconds{0} ? what.ttft : nanoseconds{options_.objectives.ttft_ns};
  r.tpot = what.tpot > nanoseconds{0} ? what.tpot : nanoseconds{options_.objectives.tpot_ns};
  // Of the samples of one prompt the first one has the prompt computed, and is to be before the others in every queue.
  const auto sample = what.first_sample ? by_sink_.find(what.first_sample.get()) : by_sink_.end();
  auto* const first = sample == by_sink_.end() ? nullptr : find(sample->second);
  r.forecast = first != nullptr ? first->forecast : forecast(r.request);
  if (options_.on_forecast) tell_watcher(context(), "on_forecast", [&] { options_.on_forecast(id, r.forecast); });
  r.request.expected_tokens = r.forecast.tokens;
  r.request.ttft_ns = r.ttft.count();
  by_sink_[r.sink.get()] = id;
  const bool accepts = runtime::trace::input<bool>(
      "client.accepts", [&] { return tell_client(id, "on_accepted", [&] { r.sink->on_accepted(id); }); });
  if (!accepts) return abandon(id);
  r.client_id = std::move(what.client_id);
  if (!r.client_id.empty()) by_client_[r.client_id].push_back(id);
  note_accepted(id, r.client_id);
  if (options_.metrics) {
    options_.metrics->prompt_tokens.increment(prompt_tokens);
    options_.metrics->open.set(static_cast<double>(open_.size()));
  }
  options_.log.request(id).debug("accepted{}: {} prompt tokens, at most {} to answer", label, prompt_tokens,
                                 r.request.stop.max_tokens);
  watch_deadline(id, r, what.timeout > nanoseconds{0} ? what.timeout : options_.request_timeout);
  r.placing = true;
  if (options_.silence_max > nanoseconds{0} && !looks_for_forgotten_) start(look_for_forgotten());
  if (first != nullptr) {
    r.request.sibling = first->request.request;
    if (first->placing) {
      first->followers.push_back(id);
      return;
    }
  }
  start(place(id));
}

void frontend::withdraw(const answer_sink* sink) {
  const auto found = by_sink_.find(sink);
  if (found == by_sink_.end()) return;
  const auto id = found->second;
  auto& r = open_.at(id);
  if (r.owner) tell(r.owner, protocols::cancel_request{id, r.ownership.current_epoch()});
  options_.log.request(id).debug("withdrawn by its client after {} tokens", r.ownership.answer().size());
  forget(id, "cancelled");
}

task<void> frontend::place(protocols::request_id id) {
  const auto deadline = now() + options_.placement_timeout;
  auto pause = options_.retry_pause;
  std::vector<protocols::instance_id> full;  // refused for their queues since the last pause
  std::vector<protocols::instance_id> small; // refused since their whole pools hold less
  std::uint64_t largest = 0;                 // of these, in blocks
  std::vector<protocols::instance_id> bare;  // refused since they cannot have its adapter
  std::string why_bare;                      // of the last of these
  bool beside = true;                        // its sibling, which is tried once
  chosen failed;                             // what the scheduler decided and came to nothing
  bool refused = false;                      // there
  std::optional<std::vector<protocols::block_hash>> prefix;
  for (;;) {
    auto* r = find(id);
    if (r == nullptr) co_return;
    // Once taken, a request is not turned away, whatever becomes of its instance, and does not compete for places with
    // those that are new.
    const bool taken_before = r->continues || !r->ownership.answer().empty() || r->placed != nanoseconds{0};
    // By the clock of this head, which may be another one than when it came.
    r->request.arrival_ns = (r->arrived + nanoseconds(topology_.ahead_ns)).count();
    dispatch_query query{static_cast<std::uint32_t>(r->request.prompt.size() + r->ownership.answer().size()),
                         r->request.stop.max_tokens, r->request.priority};
    query.execution_level = r->request.execution_level;
    query.arrival_ns = r->request.arrival_ns;
    query.home = options_.home;
    query.begun = !r->ownership.answer().empty();
    query.expected_tokens = r->request.expected_tokens;
    query.ttft_ns = r->request.ttft_ns;
    query.request = id;
    query.adapter = r->request.adapter.id;
    query.salt = r->request.cache_salt;
    chosen choice;
    const auto* neighbour = std::exchange(beside, false) ? beside_sibling(*r) : nullptr;
    if (neighbour != nullptr) {
      choice.entry = *neighbour;
      choice.why.policy = "sibling";
      choice.why.candidates = 1;
    } else if (full.empty() && small.empty() && bare.empty()) {
      query.failed = std::exchange(failed.number, 0);
      query.failed_at = failed.decided;
      query.refused = std::exchange(refused, false);
      if (topology_.scheduler && !prefix) prefix = protocols::prefix_marks(r->request.prompt, r->request.cache_salt);
      if (prefix) query.prefix = *prefix;
      const auto hurry = hurry_of(*r);
      if (!taken_before) query.objectives = protocols::objectives_left(hurry, policy_of_objectives());
      choice = co_await choose(std::move(query), hurry);
      r = find(id);
      if (r == nullptr) co_return;
    } else { // the scheduler's news is older than the refusal
      auto unfit = small;
      unfit.insert(unfit.end(), bare.begin(), bare.end());
      auto avoided = unfit;
      avoided.insert(avoided.end(), full.begin(), full.end());
      choice = choose_in_turn(avoided, "retry");
      if (!choice.entry && full.empty()) choice = choose_in_turn(avoided, "retry", false); // one may be large enough
      choice.overloaded = !choice.entry && !full.empty();
      // Of those that there are, none is large enough, or has the adapter.
      if (!choice.entry && full.empty() && !taken_before && !others_come(unfit)) {
        fail_unfit(id, largest, why_bare);
        co_return;
      }
    }
    if (!choice.late.empty()) {
      fail(id, failure_kind::rejected, std::move(choice.late));
      co_return;
    }
    if (choice.overloaded && !taken_before) { // it can come again later
      fail(id, failure_kind::overloaded, "every queue is full");
      co_return;
    }
    if (choice.overloaded && full.empty()) choice = choose_in_turn(small, "retry");
    const auto& entry = choice.entry;
    if (entry) {
      const auto epoch = r->ownership.dispatch(entry->instance);
      if (!epoch) {
        fail(id, failure_kind::internal, "the request's instances failed too often");
        co_return;
      }
      r->owner = entry->llumlet;
      r->owner_instance = entry->instance;
      r->owner_generation = entry->generation;
      r->accepted_before = r->prediction_accepted;
      r->rejected_before = r->prediction_rejected;
      r->dispatched = now();
      r->expected = nanoseconds{choice.why.ttft_ns};
      remember_dispatch(*r, *epoch, std::move(choice.why));
      auto order = generate_order{r->request, runtime::handle<home_interface>{self()}};
      order.request.epoch = *epoch;
      order.request.answer = r->ownership.answer();
      order.request.taken_before = taken_before;
      order.dispatch = choice.number;
      const auto answer = co_await ask(entry->llumlet, options_.ask_timeout, std::move(order));
      if (choice.number > 0 && !(answer && answer->accepted())) { // it counts there no longer
        failed = choice;
        refused = answer.has_value();
      }
      r = find(id);
      if (r == nullptr) { // withdrawn, or finished, while the instance made up its mind
        tell(entry->llumlet, protocols::cancel_request{id, *epoch});
        co_return;
      }
      if (settle(id, *entry, *epoch, answer)) co_return;
      if (answer && answer->reason == refusal::queue_full) {
        full.push_back(entry->instance);
        if (now() < deadline) continue; // another one may have room
      }
      if (answer && answer->reason == refusal::never_fits) {
        small.push_back(entry->instance);
        largest = std::max(largest, answer->limit);
        if (now() < deadline) continue;
      }
      if (answer && answer->reason == refusal::no_adapter) {
        bare.push_back(entry->instance);
        why_bare = answer->why;
        if (now() < deadline) continue;
      }
    } else if (choice.number > 0) {
      failed = choice; // one of us has older news than the other
    }
    full.clear();
    if (topology_.ends && nobody_left()) {
      fail(id, failure_kind::unavailable, "the server is shutting down");
      co_return;
    }
    if (now() >= deadline) {
      if (small.empty() && why_bare.empty())
        fail(id, failure_kind::unavailable, "no instance took the request in time");
      else
        fail_unfit(id, largest, why_bare);
      co_return;
    }
    bare.clear(); // its files may come back
    why_bare.clear();
    co_await sleep_for(pause);
    pause = std::min(pause * 2, options_.retry_pause_max);
  }
}

void frontend::fail_unfit(protocols::request_id id, std::uint64_t largest, const std::string& lacking) {
  if (lacking.empty()) return fail(id, failure_kind::too_long, larger_pool_wanted(largest));
  const auto& name = find(id)->request.adapter.name;
  options_.log.request(id).warning("adapter {}: {}", name, lacking); // which names paths
  fail(id, failure_kind::unavailable, "the adapter '" + name + "' cannot be loaded; the server's log says why");
}

bool frontend::others_come(const std::vector<protocols::instance_id>& than) const {
  return std::ranges::any_of(topology_.instances, [&](const instance_entry& entry) {
    return !entry.ready && !entry.draining && std::ranges::find(than, entry.instance) == than.end();
  });
}

bool frontend::nobody_left() const {
  constexpr nanoseconds comes_back_within = std::chrono::seconds(5); // whose connection was lost
  if (empty_since_) return now() - *empty_since_ >= comes_back_within && topology_.ordered == 0;
  return std::ranges::none_of(topology_.instances,
                              [](const instance_entry& entry) { return entry.takes_requests() || !entry.draining; });
}

bool frontend::settle(protocols::request_id id, const instance_entry& entry, protocols::epoch epoch,
                      const runtime::async::expected<protocols::admission>& answer) {
  auto& r = *find(id);
  // Lost while the instance made up its mind: tokens were missing.
  if (r.ownership.current_epoch() != epoch || !r.ownership.owner()) {
    remember_loss(r, entry.instance, epoch);
    tell(entry.llumlet, protocols::cancel_request{id, epoch});
    return false;
  }
  if (answer && answer->accepted()) {
    const auto* current = topology_.find(entry.instance);
    if (current == nullptr || current->generation != entry.generation || !current->llumlet) {
      remember_loss(r, entry.instance, epoch);
      r.ownership.owner_lost(epoch); // it died while its answer was on the way
      r.owner = {};
      return false;
    }
    r.placing = false;
    release_followers(r);
    r.placed = now();
    if (options_.on_dispatched)
      tell_watcher(context(), "on_dispatched", [&] { options_.on_dispatched(id, entry.instance, r.expected); });
    options_.log.request(id).debug("dispatched to instance {} with epoch {}", entry.instance.value(), epoch.value());
    return true;
  }
  r.owner = {};
  if (!answer) {
    remember_loss(r, entry.instance, epoch);
    r.ownership.owner_lost(epoch);
    // A timeout does not say whether the instance has it: the next epoch makes that one's tokens void.
    tell(entry.llumlet, protocols::cancel_request{id, epoch});
    options_.log.request(id).warning("instance {} did not answer: {}", entry.instance.value(), answer.error().message);
    return false;
  }
  note_ownership(id, epoch, "refused", entry.instance);
  r.ownership.refused(epoch);
  r.trail.take_back(epoch);
  switch (answer->reason) {
  case refusal::too_long:
    fail(id, failure_kind::too_long,
         "the request's " + std::to_string(r.prompt_tokens) + " tokens leave no room in the model's context of " +
             std::to_string(answer->limit) + " tokens");
    return true;
  case refusal::invalid:
    fail(id, failure_kind::invalid,
         "the request's prompt is empty or has tokens outside the model's vocabulary, or its max_tokens are 0");
    return true;
  case refusal::none:
  case refusal::never_fits:
  case refusal::no_adapter:
  case refusal::queue_full:
  case refusal::duplicate:
  case refusal::not_ready:
    return false;
  }
  return false;
}

void frontend::release_followers(open_request& r) {
  for (const auto id : std::exchange(r.followers, {}))
    if (find(id) != nullptr && !stopping_) start(place(id));
}

const instance_entry* frontend::beside_sibling(const open_request& r) {
  if (r.request.sibling == protocols::request_id{} || !r.ownership.answer().empty()) return nullptr;
  const auto* first = find(r.request.sibling);
  if (first == nullptr || first->placing) return nullptr;
  const auto owner = first->ownership.owner();
  const auto* entry = owner ? topology_.find(*owner) : nullptr;
  return entry != nullptr && entry->takes_requests() ? entry : nullptr;
}

void frontend::watch_deadline(protocols::request_id id, open_request& r, nanoseconds timeout) {
  if (timeout <= nanoseconds{0}) return;
  r.deadline = now() + timeout;
  deadlines_.emplace(r.deadline, id);
  if (r.deadline < next_expiry_) start(expire_at(next_expiry_ = std::min(r.deadline, now() + seconds_between_looks)));
}

// Looks again and again while there are deadlines, at least once in a while: whoever sleeps for a request that has long
// ended is not many.
task<void> frontend::expire_at(nanoseconds wake) {
  for (;;) {
    co_await sleep_for(wake - now());
    if (wake != next_expiry_) co_return; // another one looks earlier
    while (!deadlines_.empty() && deadlines_.begin()->first <= now()) {
      const auto id = deadlines_.begin()->second;
      auto& r = *find(id);
      if (r.owner) tell(r.owner, protocols::cancel_request{id, r.ownership.current_epoch()});
      const auto given = std::chrono::round<std::chrono::milliseconds>(r.deadline - r.arrived).count();
      fail(id, failure_kind::timed_out,
           "the request's time of " + (given == 0 ? "less than 1" : std::to_string(given)) + " ms is over");
    }
    next_expiry_ = nanoseconds::max();
    if (deadlines_.empty()) co_return;
    wake = next_expiry_ = std::min(deadlines_.begin()->first, now() + seconds_between_looks);
  }
}

task<frontend::chosen> frontend::choose(dispatch_query query, protocols::hurried_request hurry) {
  if (topology_.scheduler) {
    auto decision = co_await ask(topology_.scheduler, options_.decision_timeout, std::move(query));
    if (decision && !decision->stale) {
      chosen out;
      out.overloaded = decision->overloaded;
      if (decision->late)
        out.late = protocols::describe_lateness(hurry, policy_of_objectives(), decision->ttft_ns, decision->tpot_ns);
      out.why = std::move(decision->why);
      out.number = decision->number;
      out.decided = decision->instance;
      if (!decision->found) co_return out;
      const auto* entry = topology_.find(decision->instance);
      // Otherwise one of us has older news than the other; it is asked again in a moment.
      if (entry != nullptr && entry->takes_requests() && entry->generation == decision->generation) out.entry = *entry;
      co_return out;
    }
    if (!decision) options_.log.warning("no decision from the global scheduler: {}", decision.error().message);
  }
  co_return choose_in_turn({}, "bypass");
}

protocols::hurried_request frontend::hurry_of(const open_request& r) const {
  return {r.ttft.count(), r.tpot.count(), (now() - r.arrived).count(), r.request.priority, r.request.execution_level};
}

protocols::objectives_policy frontend::policy_of_objectives() const noexcept {
  return {options_.objectives_margin, options_.objectives.refusable};
}

frontend::chosen frontend::choose_in_turn(const std::vector<protocols::instance_id>& avoided, const char* policy,
                                          bool by_roles) {
  chosen out;
  out.why.policy = policy;
  const auto prefills = [](const instance_entry& entry) {
    return entry.role == protocols::instance_role::prefill && entry.takes_requests();
  };
  const bool spares = by_roles && topology_.hands_over && std::ranges::any_of(topology_.instances, prefills);
  const auto count = topology_.instances.size();
  std::size_t next = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto& entry = topology_.instances[(turn_ + i) % count];
    if (!entry.takes_requests() || std::find(avoided.begin(), avoided.end(), entry.instance) != avoided.end()) continue;
    if (spares && entry.role == protocols::instance_role::decode) continue;
    if (++out.why.candidates > 1) continue;
    out.entry = entry;
    next = i + 1;
  }
  turn_ += next;
  return out;
}

// Where many requests are open, the next token of one finds nothing of it in the caches: what is needed of all is
// asked for at once instead of waiting for each in turn.
void frontend::fetch(const protocols::token_updates& news) {
#if defined(__GNUC__)
  for (const auto& update : news.updates)
    if (const auto* r = find(update.request)) {
      __builtin_prefetch(&r->ownership);
      __builtin_prefetch(&r->cached_tokens);
    }
  for (const auto& update : news.updates) {
    const auto* r = find(update.request);
    if (r == nullptr) continue;
    __builtin_prefetch(r->sink.get());
    __builtin_prefetch(reinterpret_cast<const char*>(r->sink.get()) - 16);
    const auto& answer = r->ownership.answer();
    __builtin_prefetch(answer.data() + answer.size());
  }
#endif
}

void frontend::take(protocols::token_updates& news) {
  fetch(news);
  for (auto& update : news.updates) take_one(update);
}

void frontend::take_one(protocols::token_update& update) {
  auto* r = find(update.request);
  if (r == nullptr) return; // withdrawn; its cancellation is on the way
  const auto accepted = r->ownership.accept(update);
  using verdict = protocols::request_ownership::verdict;
  if (accepted.what == verdict::gap) {
    options_.log.request(update.request)
        .error("tokens are missing before index {}; its instance is not trusted any more", update.first_index);
    if (r->owner) tell(r->owner, protocols::cancel_request{update.request, update.epoch});
    if (r->placing)
      r->ownership.owner_lost(update.epoch); // `settle` sees it
    else
      orphan(update.request);
    return;
  }
  if (accepted.what != verdict::accepted) {
    options_.log.request(update.request)
        .debug("dropped an update of epoch {}: {}", update.epoch.value(), to_string(accepted.what));
    return;
  }
  r->last_heard = now();
  if (!r->cached_known) {
    r->cached_known = true;
    r->cached_tokens = update.cached_tokens;
  }
  if (update.prediction_accepted + update.prediction_rejected > 0) {
    r->prediction_accepted = r->accepted_before + update.prediction_accepted;
    r->prediction_rejected = r->rejected_before + update.prediction_rejected;
  }
  if (!accepted.fresh.empty()) {
    observe_tokens(*r, accepted.fresh.size(), nanoseconds{update.queue_ns});
    // A prompt of one token has none, and its client is told so.
    const bool scores =
        accepted.first_index == 0 && (!update.prompt_scores.empty() || r->request.sampling.prompt_logprobs >= 0);
    const auto sink = r->sink;
    const auto wish = runtime::trace::input<client_wish>("client.wants", [&] {
      bool goes_on = false;
      const bool told = tell_client(update.request, "on_tokens", [&] {
        if (scores) sink->on_prompt_scores(std::move(update.prompt_scores));
        goes_on = sink->on_tokens(accepted.fresh, accepted.finish == finish_reason::stop);
      });
      if (!told) return client_wish::none_since_it_threw;
      return goes_on ? client_wish::more : client_wish::nothing_more;
    });
    if (wish != client_wish::more) {
      if (accepted.finish == finish_reason::none && r->owner)
        tell(r->owner, protocols::cancel_request{update.request, update.epoch});
      if (wish == client_wish::none_since_it_threw) return abandon(update.request);
      finish(update.request, finish_reason::stop);
      return;
    }
  }
  if (accepted.finish == finish_reason::none) return;
  if (accepted.finish == finish_reason::error || accepted.finish == finish_reason::cancelled)
    fail(update.request, failure_kind::internal, update.error.empty() ? "the instance gave up" : update.error);
  else
    finish(update.request, accepted.finish);
}

void frontend::observe_tokens(open_request& r, std::size_t count, nanoseconds queued) {
  if (!options_.metrics) return;
  const auto& level = level_of(r);
  auto* engines = options_.metrics->engines.get();
  options_.metrics->answer_tokens.increment(count);
  if (r.last_token == nanoseconds{0}) {
    r.first_token = now();
    r.first_step = std::min(std::max(r.placed, r.arrived) + queued, r.first_token);
    level.first_token_seconds->observe(seconds(now() - r.arrived));
    if (r.expected > nanoseconds{0})
      options_.metrics->ttft_over_expected.observe(seconds(now() - r.dispatched) / seconds(r.expected));
    if (engines) {
      engines->first_token(r.owner_instance, r.prompt_tokens, seconds(now() - r.arrived));
      engines->queued(r.owner_instance, seconds(std::max(r.placed, r.arrived) - r.arrived + queued));
    }
  } else {
    level.inter_token_seconds->observe(seconds(now() - r.last_token));
    if (engines) engines->next_token(r.owner_instance, seconds(now() - r.last_token));
  }
  if (engines) engines->tokens(r.owner_instance, count);
  r.last_token = now();
}

void frontend::adopt(topology news) {
  if (news.version <= topology_.version) return;
  topology_ = std::move(news);
  if (!topology_.instances.empty())
    empty_since_.reset();
  else if (!empty_since_)
    empty_since_ = now();
  if (options_.metrics && options_.metrics->engines) options_.metrics->engines->adopt(topology_);
  std::vector<protocols::request_id> orphans;
  for (auto& [id, r] : open_) {
    if (r.placing || !r.owner) continue;
    const auto owner = r.ownership.owner();
    if (!owner) continue;
    const auto* entry = topology_.find(*owner);
    if (entry != nullptr && entry->generation == r.owner_generation && entry->llumlet) continue;
    orphans.push_back(id);
  }
  for (const auto id : orphans) orphan(id);
  tell_of_lost_moves();
}

void frontend::orphan(protocols::request_id id) {
  auto& r = *find(id);
  options_.log.request(id).info("its instance is lost after {} tokens; dispatching it again",
                                r.ownership.answer().size());
  remember_loss(r, r.owner_instance, r.ownership.current_epoch());
  r.ownership.owner_lost(r.ownership.current_epoch());
  r.owner = {};
  r.placing = true;
  ++counts_.redispatches_total;
  if (options_.metrics) options_.metrics->redispatches.increment();
  start(place(id));
}

task<void> frontend::look_for_forgotten() {
  looks_for_forgotten_ = true;
  while (!open_.empty() && !stopping_) {
    co_await sleep_for(options_.silence_max);
    const auto before = now() - options_.silence_max;
    std::map<runtime::handle<llumlet_interface>, std::vector<std::pair<protocols::request_id, protocols::epoch>>>
        silent;
    for (const auto& [id, r] : open_)
      if (!r.placing && r.owner && r.ownership.owner() && heard_last(r) <= before)
        silent[r.owner].emplace_back(id, r.ownership.current_epoch());
    for (const auto& [owner, asked] : silent) {
      const auto known = co_await ask(owner, options_.ask_timeout, status_query{true});
      if (!known) continue; // that it is gone is told otherwise
      std::set<std::pair<protocols::request_id, protocols::epoch>> there;
      for (const auto& one : known->requests) there.emplace(one.request, one.epoch);
      for (const auto& [id, epoch] : asked) {
        const auto* r = find(id);
        const bool its = r != nullptr && !r->placing && r->owner == owner && r->ownership.current_epoch() == epoch;
        if (!its || heard_last(*r) > before || there.contains({id, epoch})) continue;
        options_.log.request(id).warning("instance {} does not know it any more", r->owner_instance.value());
        orphan(id);
      }
    }
  }
  looks_for_forgotten_ = false;
}

void frontend::finish(protocols::request_id id, finish_reason reason) {
  auto& r = *find(id);
  learn_length(r);
  answer_usage usage;
  usage.prompt_tokens = r.prompt_tokens;
  usage.cached_tokens = r.cached_tokens;
  usage.answer_tokens = static_cast<std::uint32_t>(r.ownership.answer().size());
  usage.prediction_accepted = r.prediction_accepted;
  usage.prediction_rejected = r.prediction_rejected;
  const auto sink = r.sink;
  if (const auto& level = level_of(r); level.total_seconds != nullptr)
    level.total_seconds->observe(seconds(now() - r.arrived));
  options_.log.request(id).debug("finished ({}) after {} tokens", to_string(reason), usage.answer_tokens);
  ++counts_.finished_total;
  forget(id, reason == finish_reason::length ? "length" : "stop");
  tell_client(id, "on_finished", [&] { sink->on_finished(reason, usage); });
}

void frontend::fail(protocols::request_id id, failure_kind kind, std::string message) {
  const auto sink = find(id)->sink;
  if (kind == failure_kind::overloaded || kind == failure_kind::rejected ||
      kind == failure_kind::timed_out) // as many as clients like
    options_.log.request(id).debug("failed: {}", message);
  else
    options_.log.request(id).warning("failed: {}", message);
  ++counts_.failed_total;
  const auto outcome = kind == failure_kind::overloaded  ? "overloaded"
                       : kind == failure_kind::rejected  ? "rejected"
                       : kind == failure_kind::timed_out ? "timed_out"
                                                         : "error";
  forget(id, outcome);
  tell_client(id, "on_failed", [&] { sink->on_failed({kind, std::move(message)}); });
}

void frontend::abandon(protocols::request_id id) {
  ++counts_.failed_total;
  forget(id, "error");
}

void frontend::forget(protocols::request_id id, const char* outcome) {
  const auto found = open_.find(id);
  auto& r = found->second;
  count(outcome, level_of(r).name);
  const bool was_placed = r.placed > nanoseconds{0}; // otherwise no engine had to do with it
  if (options_.metrics && options_.metrics->engines && was_placed)
    options_.metrics->engines->ended({r.owner_instance, outcome, seconds(now() - r.arrived),
                                      seconds(r.first_token - r.first_step), seconds(r.last_token - r.first_token),
                                      r.prompt_tokens, static_cast<std::uint32_t>(r.ownership.answer().size()),
                                      r.request.stop.max_tokens});
  note_ownership(id, r.ownership.current_epoch(), outcome, r.owner_instance);
  auto history = describe(id, r);
  history.ended = true;
  history.outcome = outcome;
  ended_.add(std::move(history));
  by_sink_.erase(r.sink.get());
  deadlines_.erase({r.deadline, id});
  release_followers(r);
  if (const auto named = by_client_.find(r.client_id); named != by_client_.end()) {
    std::erase(named->second, id);
    if (named->second.empty()) by_client_.erase(named);
  }
  by_id_.erase(id);
  open_.erase(found);
  if (options_.metrics) options_.metrics->open.set(static_cast<double>(open_.size()));
}

const frontend::served_level& frontend::level_of(const open_request& r) const noexcept {
  return levels_[std::min<std::size_t>(r.request.execution_level, levels_.size() - 1)];
}

void frontend::count(const char* outcome, const std::string& level) {
  if (options_.metrics) options_.metrics->requests.with({outcome, level}).increment();
}

} // namespace godwit::actors
