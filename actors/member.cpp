#include <godwit/actors/member.hpp>

#include "milliseconds.hpp"
#include "watchers.hpp"

#include <godwit/runtime/trace/recorder.hpp>

#include <algorithm>
#include <utility>

namespace godwit::actors {

using runtime::async::expected;
using runtime::async::task;
using std::chrono::nanoseconds;

namespace {

/// The number of a process's front end: 1 to 0xFFFE, since 0 is the head's and the last one nobody's.
std::uint16_t home_of_process(std::uint64_t key) {
  return static_cast<std::uint16_t>(1 + key % (protocols::nobodys_home - 1U));
}

} // namespace

nanoseconds longer_pause(nanoseconds before, nanoseconds least, nanoseconds most) {
  constexpr nanoseconds floor = std::chrono::milliseconds(1); // never a busy loop of restarts
  return std::min(std::max({least, before * 2, floor}), std::max(most, floor));
}

member::member(runtime::actor_context context, member_options options) : actor(context), options_(std::move(options)) {
  options_.capacity = std::max(options_.capacity, options_.instances);
  pairs_.resize(options_.capacity);
  for (std::size_t i = 0; i < pairs_.size(); ++i) pairs_[i].role = protocols::role_at(options_.roles, i);
  host()
      .register_interfaces<node_interface, llumlet_interface, scheduler_interface, home_interface, frontend_interface,
                           source_coordinator_interface, destination_coordinator_interface, kv_store_interface>();
}

runtime::behavior_of<member_interface> member::make_behavior() {
  options_.key = runtime::trace::input<std::uint64_t>("member.key", [&] { return options_.key; });
  options_.address = runtime::trace::input<std::string>("member.address", [&] { return options_.address; });
  spawn_store();
  if (options_.frontend) {
    home_ = home_of_process(options_.key);
    spawn_frontend();
  }
  start(join_until_joined());
  return {[this](instance_ready& news) { mark_ready(news); },
          [this](instance_failed& news) { start_failed(news); },
          [this](instance_drained& news) { drained(news); },
          [this](kill_instance& what) { kill(what.instance); },
          [this](topology& news) { pass_on(news); },
          [this](retire&) { return respond(leave()); },
          [this](activate_instance& order) { activate(order); },
          [this](drain_instance& order) { drain(order); },
          [this](role_order& order) { return set_role(order); },
          [this](trace_order& order) { return set_trace(order); },
          [this](dump_order& order) { return respond(dump_trace(order)); },
          [this](dump_part_query& query) { return respond(read_dump(query)); },
          [this](protocols::store_report& report) {
            store_report_ = report;
            if (state_.joined && head_) tell(head_, store_news{options_.key, report});
          }};
}

void member::on_stop() {
  stop_frontend(); // first, so that clients hear of the end
  if (head_) tell(head_, leave_cluster{options_.key});
  for (auto& p : pairs_) stop_pair(p, runtime::stop_reason::shutdown);
  if (store_) stop(store_);
}

// --- the head

task<void> member::join_until_joined() {
  nanoseconds pause{0};
  while (!retiring_) {
    pause = longer_pause(pause, options_.rejoin_min, options_.rejoin_max);
    try {
      auto answer = co_await join();
      if (retiring_) co_return;
      if (answer && answer->joined()) {
        take_up(*answer);
        co_return;
      }
      ++state_.failures;
      state_.error = answer ? answer->refusal : answer.error().message;
      // Whoever waits for the first attempt reports it.
      options_.log.write(state_.joins == 0 && state_.failures == 1 ? runtime::log::level::debug
                                                                   : runtime::log::level::warning,
                         "cannot join: {}; next attempt in {} ms", state_.error, milliseconds_of(pause));
      tell_state();
    } catch (...) {
      report_caught(context(), state_.joined ? "after it has joined" : "cannot join");
    }
    if (state_.joined) co_return; // and nobody could be told
    co_await sleep_for(pause);
  }
}

task<expected<join_answer>> member::join() {
  const auto search = [this](runtime::completer<found_head> done) {
    options_.find_head([done](found_head found) { done(std::move(found)); });
  };
  auto found = co_await callback<found_head>(options_.ask_timeout * 4, search);
  if (!found) co_return found.error();
  if (!*found) co_return found->error();
  if (retiring_) co_return runtime::async::error{runtime::async::error_code::down, "this member leaves"};
  head_ = std::move(**found);
  topology_ = {}; // an earlier head's versions say nothing about this one's, which come before its answer
  // Watched before it is asked, so that a head that dies meanwhile is noticed.
  const auto membership = ++membership_;
  head_watch_ = monitor(head_, [this, membership](runtime::stop_reason why) { head_down(membership, why); });
  auto request = join_cluster{options_.version,  options_.key,   options_.address,
                              options_.capacity, options_.model, runtime::handle<member_interface>{self()}};
  request.home = home_;
  asked_ = now();
  if (options_.frontend) request.execution_levels = options_.frontend->execution_levels;
  auto answer = co_await ask(head_, options_.ask_timeout, std::move(request));
  if (membership != membership_ || !head_)
    co_return runtime::async::error{runtime::async::error_code::down, "the head went down while it was asked"};
  if (!answer || !answer->joined()) {
    if (!answer) tell(head_, leave_cluster{options_.key}); // it may have taken us in for all we know
    demonitor(head_watch_);
    head_ = {};
    declare_all_down(); // of what it told before
    tell_frontend();
  }
  co_return answer;
}

void member::take_up(const join_answer& answer) {
  state_.joined = true;
  state_.first = answer.first;
  head_ahead_ = nanoseconds(answer.clock_ns) - (asked_ + now()) / 2;
  try {
    if (options_.frontend && answer.home != home_) { // what ids its requests have another one's may have, too
      options_.log.warning("another front end has the number {} of this one, which starts anew as {}", home_,
                           answer.home);
      stop_frontend();
      home_ = answer.home;
      start_frontend();
    }
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
      auto& p = pairs_[i];
      p.generation = std::max(p.generation, answer.generation_floor);
      p.draining = false;
      p.stopped = true;
      p.order = 0;
      if (i < options_.instances) start_pair(i);
    }
  } catch (...) { // one of them would never be there: it joins again
    state_.joined = false;
    for (auto& p : pairs_) stop_pair(p, runtime::stop_reason::killed);
    demonitor(head_watch_);
    const auto head = std::exchange(head_, {});
    tell(head, leave_cluster{options_.key});
    declare_all_down();
    tell_frontend();
    throw;
  }
  state_.failures = 0;
  state_.error.clear();
  ++state_.joins;
  tell_state(); // last, as it may fail: what becomes of the pairs is told anew
  options_.log.info("joined with {} instances from id {}", options_.instances, state_.first.value());
}

void member::head_down(std::uint64_t membership, runtime::stop_reason reason) {
  if (membership != membership_ || !head_) return;
  const bool was_joined = std::exchange(state_.joined, false);
  head_ = {};
  const bool drops_all = was_joined && !retiring_; // otherwise `join` sees it
  if (drops_all) start(join_until_joined());       // before anything that may fail
  declare_all_down();
  tell_frontend();
  if (!drops_all) return;
  for (auto& p : pairs_) stop_pair(p, runtime::stop_reason::killed);
  if (pairs_.empty())
    options_.log.warning("the head is gone ({}); requests wait for it, joining again", to_string(reason));
  else
    options_.log.warning("the head is gone ({}); its requests are dropped, joining again", to_string(reason));
  tell_state();
}

void member::declare_all_down() {
  for (const auto& other : topology_.instances)
    if (other.llumlet) host().declare_down(other.llumlet);
  for (const auto& other : topology_.stores)
    if (other.shard != store_) host().declare_down(other.shard);
  for (const auto& other : topology_.frontends)
    if (other.frontend != frontend_) host().declare_down(other.frontend);
  topology_ = {}; // their old handles will have no way by the next head
}

task<void> member::leave() {
  retiring_ = true;
  stop_frontend();
  if (head_) {
    const auto head = head_;
    const auto told = co_await ask(head, options_.ask_timeout, leave_cluster{options_.key});
    if (!told) options_.log.warning("the head did not answer that this member leaves: {}", told.error().message);
  }
  head_ = {};
  state_.joined = false;
  for (auto& p : pairs_) stop_pair(p, runtime::stop_reason::shutdown);
  if (store_) stop(store_);
  tell_state();
}

void member::pass_on(const topology& news) {
  if (!head_ || news.version <= topology_.version) return; // without one: of a head that was given up
  // Members reach each other by way of the head, which alone sees that one is gone.
  auto entry = news.instances.begin(); // both are by id
  for (const auto& before : topology_.instances) {
    while (entry != news.instances.end() && entry->instance < before.instance) ++entry;
    const bool stays =
        entry != news.instances.end() && entry->instance == before.instance && entry->llumlet == before.llumlet;
    if (before.llumlet && !stays) host().declare_down(before.llumlet);
  }
  for (const auto& before : topology_.stores)
    if (before.shard != store_ && std::ranges::find(news.stores, before) == news.stores.end())
      host().declare_down(before.shard);
  for (const auto& before : topology_.frontends)
    if (before.frontend != frontend_ && std::ranges::find(news.frontends, before) == news.frontends.end())
      host().declare_down(before.frontend);
  topology_ = news;
  for (const auto& p : pairs_)
    if (p.llumlet) tell(p.llumlet, news);
  tell_frontend();
}

void member::tell_state() {
  state_.ready = 0;
  state_.pairs.clear();
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    const auto& p = pairs_[i];
    const bool ready = p.ready && p.llumlet;
    if (ready) ++state_.ready;
    auto& entry = state_.pairs.emplace_back(p.generation, ready, p.llumlet);
    entry.draining = p.draining;
    entry.stopped = p.stopped;
    entry.role = p.role;
    entry.order = p.order;
    entry.error = p.error;
  }
  state_.head = state_.joined ? head_ : runtime::handle<node_interface>{};
  if (state_.head) {
    member_news news{options_.key, ++news_, state_.pairs};
    news.store = store_;
    news.frontend = frontend_;
    tell(head_, std::move(news));
    if (store_) tell(head_, store_news{options_.key, store_report_});
  }
  if (options_.on_state) tell_watcher(context(), "on_state", [&] { options_.on_state(state_); });
}

} // namespace godwit::actors
