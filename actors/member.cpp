#include <godwit/actors/member.hpp>

#include "watchers.hpp"

#include <godwit/actors/kv_store_shard.hpp>
#include <godwit/runtime/trace/recorder.hpp>

#include <algorithm>
#include <utility>

namespace godwit::actors {

using runtime::async::expected;
using runtime::async::task;
using std::chrono::nanoseconds;

namespace {

std::int64_t milliseconds_of(nanoseconds t) { return std::chrono::duration_cast<std::chrono::milliseconds>(t).count(); }

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

// --- the pairs

protocols::instance_id member::id_of(std::size_t index) const {
  return protocols::instance_id{state_.first.value() + static_cast<std::uint32_t>(index)};
}

void member::spawn_pair(std::size_t index) {
  auto& p = pairs_[index];
  ++p.generation;
  p.started = now();
  p.ready = false;
  p.draining = false;
  p.stopped = false;
  try {
    auto instance_settings = options_.instance;
    instance_settings.id = id_of(index);
    p.instance = spawn<instance>(std::move(instance_settings));

    auto llumlet_settings = options_.llumlet;
    llumlet_settings.id = id_of(index);
    llumlet_settings.generation = p.generation;
    llumlet_settings.instance = p.instance;
    llumlet_settings.node = self();
    llumlet_settings.node_address = options_.address;
    llumlet_settings.restarts = static_cast<std::uint32_t>(p.generation - 1);
    llumlet_settings.load_timeout = options_.load_timeout;
    llumlet_settings.role = p.role;
    p.llumlet = spawn<llumlet>(std::move(llumlet_settings));

    const auto generation = p.generation;
    auto down = [this, index, generation](runtime::stop_reason reason) { pair_down(index, generation, reason); };
    monitor(p.instance, down);
    monitor(p.llumlet, down);
  } catch (...) {
    stop_pair(p, runtime::stop_reason::killed);
    throw;
  }
}

void member::start_pair(std::size_t index) {
  auto& p = pairs_[index];
  try {
    spawn_pair(index);
  } catch (...) {
    report_unstarted(index);
    p.pause = longer_pause(p.pause, options_.backoff_min, options_.backoff_max);
    p.stopped = true; // where not even that can be started
    start(respawn_pair(index, membership_, p.generation, p.pause));
    p.stopped = false;
  }
}

void member::report_unstarted(std::size_t index) const noexcept {
  const auto failure = std::current_exception();
  try {
    context().report("instance " + std::to_string(id_of(index).value()) +
                     " cannot be started: " + runtime::detail::describe(failure).message);
  } catch (...) {
    context().report("an instance cannot be started");
  }
}

void member::stop_pair(pair& p, runtime::stop_reason reason) {
  if (p.llumlet) stop(std::exchange(p.llumlet, {}), reason);
  if (p.instance) stop(std::exchange(p.instance, {}), reason);
  p.ready = false;
}

void member::pair_down(std::size_t index, std::uint64_t generation, runtime::stop_reason reason) {
  auto& p = pairs_[index];
  if (p.generation != generation || (!p.instance && !p.llumlet)) return; // its other half, or one that we stopped
  const bool came_up = p.ready;
  if (p.draining) { // it was to stop anyway; the homes look after its requests
    p.draining = false;
    p.stopped = true;
    stop_pair(p, runtime::stop_reason::killed);
    options_.log.warning("instance {} is down ({}) while it was drained", id_of(index).value(), to_string(reason));
    tell_state();
    return;
  }
  p.pause = now() - p.started >= options_.settled_after
                ? longer_pause({}, options_.backoff_min, options_.backoff_max)
                : longer_pause(p.pause, options_.backoff_min, options_.backoff_max);
  start(respawn_pair(index, membership_, generation, p.pause)); // before anything that may fail
  stop_pair(p, runtime::stop_reason::killed);
  // One that never came up is reported by whoever waits for it (`godwit serve` says why and ends).
  options_.log.write(p.generation == 1 && !came_up ? runtime::log::level::debug : runtime::log::level::error,
                     "instance {} is down ({}); restart in {} ms", id_of(index).value(), to_string(reason),
                     milliseconds_of(p.pause));
  tell_state();
}

task<void> member::respawn_pair(std::size_t index, std::uint64_t membership, std::uint64_t generation,
                                nanoseconds pause) {
  auto& p = pairs_[index];
  for (;; pause = p.pause = longer_pause(pause, options_.backoff_min, options_.backoff_max)) {
    co_await sleep_for(pause);
    // Without its head, or with the next, the pair is another's business.
    if (membership != membership_ || !state_.joined || retiring_) co_return;
    if (p.stopped || p.generation != generation) co_return; // so it was decided meanwhile
    try {
      spawn_pair(index);
      break;
    } catch (...) {
      generation = p.generation;
      report_unstarted(index);
    }
  }
  tell_state();
}

void member::mark_ready(const instance_ready& news) {
  auto* p = find_pair(news.instance);
  if (p == nullptr || p->generation != news.generation || !p->llumlet) return;
  p->ready = true;
  p->error.clear();
  tell_state(); // before a line that may fail
  options_.log.info("instance {} is ready", news.instance.value());
}

// It is tried again for ever, so a reason is told once.
void member::start_failed(const instance_failed& news) {
  auto* p = find_pair(news.instance);
  if (p == nullptr || p->generation != news.generation || p->error == news.why) return;
  p->error = news.why;
  tell_state();
  options_.log.warning("instance {} cannot start: {}", news.instance.value(), news.why);
}

void member::kill(protocols::instance_id id) {
  if (auto* p = find_pair(id); p != nullptr && p->instance) stop(p->instance, runtime::stop_reason::killed);
}

member::pair* member::find_pair(protocols::instance_id id) {
  if (!state_.joined || id < state_.first || id.value() - state_.first.value() >= pairs_.size()) return nullptr;
  return &pairs_[id.value() - state_.first.value()];
}

// --- the KV store

void member::spawn_store() {
  kv_store_shard_options o;
  o.bytes = options_.llumlet.store.bytes;
  o.block_bytes = options_.model.kv_block_bytes;
  o.settings = options_.llumlet.store;
  o.fabric = options_.llumlet.migration.fabric;
  o.transfers = options_.llumlet.migration.transfers;
  o.keeper = self();
  o.recount = options_.llumlet.recount;
  o.keep = options_.llumlet.migration.keep;
  o.log = options_.log;
  if (o.bytes == 0 || o.block_bytes == 0 || !o.fabric) return;
  store_ = spawn<kv_store_shard>(std::move(o));
  monitor(store_, [this](runtime::stop_reason reason) {
    store_ = {};
    if (retiring_) return;
    store_pause_ = longer_pause(store_pause_, options_.backoff_min, options_.backoff_max);
    start(respawn_store()); // before anything that may fail
    store_report_ = {};
    options_.log.error("the KV store of this process is down ({}); restart, empty, in {} ms", to_string(reason),
                       milliseconds_of(store_pause_));
    tell_state();
  });
}

task<void> member::respawn_store() {
  for (;; store_pause_ = longer_pause(store_pause_, options_.backoff_min, options_.backoff_max)) {
    co_await sleep_for(store_pause_);
    if (retiring_) co_return;
    try {
      spawn_store();
      break;
    } catch (...) {
      if (store_) stop(std::exchange(store_, {})); // nobody watches it
      report_caught(context(), "the KV store of this process cannot be started");
    }
  }
  tell_state();
}

// --- the front end

void member::spawn_frontend() {
  frontend_started_ = now();
  auto options = *options_.frontend;
  options.home = home_;
  // Request ids of a dead front end must not come again: instances may still run them.
  options.incarnation = frontend_starts_++;
  if (options.silence_max == nanoseconds{0}) options.silence_max = std::chrono::seconds(5);
  frontend_ = spawn<frontend>(std::move(options));
  frontend_watch_ = monitor(frontend_, [this](runtime::stop_reason reason) {
    frontend_ = {};
    if (retiring_) return;
    frontend_pause_ = now() - frontend_started_ >= options_.settled_after
                          ? longer_pause({}, options_.backoff_min, options_.backoff_max)
                          : longer_pause(frontend_pause_, options_.backoff_min, options_.backoff_max);
    start(respawn_frontend()); // before anything that may fail
    options_.log.error("the front end is down ({}); restart in {} ms", to_string(reason),
                       milliseconds_of(frontend_pause_));
    tell_frontend();
    tell_state();
  });
  tell_frontend();
}

void member::start_frontend() {
  try {
    spawn_frontend();
  } catch (...) {
    if (frontend_) stop(std::exchange(frontend_, {})); // nobody watches it
    report_caught(context(), "the front end cannot be started");
    frontend_pause_ = longer_pause(frontend_pause_, options_.backoff_min, options_.backoff_max);
    start(respawn_frontend());
  }
}

task<void> member::respawn_frontend() {
  for (;; frontend_pause_ = longer_pause(frontend_pause_, options_.backoff_min, options_.backoff_max)) {
    co_await sleep_for(frontend_pause_);
    if (retiring_ || frontend_) co_return; // with another number meanwhile
    try {
      spawn_frontend();
      break;
    } catch (...) {
      if (frontend_) stop(std::exchange(frontend_, {})); // nobody watches it
      report_caught(context(), "the front end cannot be started");
    }
  }
  tell_state();
}

void member::stop_frontend() {
  if (!frontend_) return;
  demonitor(frontend_watch_);
  stop(std::exchange(frontend_, {}));
  tell_frontend();
}

// Nobody is there as long as the others have not been told of it: what it then asked of them, and who heard of its end,
// would not be known to each other. And a head that ends is not the end of this process, which waits for the next one.
void member::tell_frontend() {
  if (!options_.frontend) return;
  const bool known =
      frontend_ && state_.joined &&
      std::ranges::find(topology_.frontends, frontend_entry{home_, frontend_}) != topology_.frontends.end();
  auto news = known ? topology_ : topology{};
  news.version = ++told_version_;
  news.frontend = frontend_;
  news.ends = false;
  news.ahead_ns = head_ahead_.count();
  if (frontend_) tell(frontend_, news);
  if (options_.on_topology) tell_watcher(context(), "on_topology", [&] { options_.on_topology(news); });
}

// --- by order of the head

void member::drain(const drain_instance& order) {
  auto* p = find_pair(order.instance);
  if (p == nullptr) return;
  p->order = order.order;
  if (p->stopped) {
    if (!order.drains) start_stopped(*p, order.instance); // it was empty before the word came
  } else if (p->ready && p->llumlet) {
    if (p->draining != order.drains)
      options_.log.info("instance {} {}", order.instance.value(),
                        order.drains ? "drains" : "stays: its drain was taken back");
    p->draining = order.drains;
    tell(p->llumlet, drain_order{order.drains, order.order});
  } else if (order.drains) { // it has nothing to get rid of
    stop_pair(*p, runtime::stop_reason::shutdown);
    p->stopped = true;
  }
  tell_state();
}

void member::drained(const instance_drained& news) {
  auto* p = find_pair(news.instance);
  if (p == nullptr || p->generation != news.generation || !p->draining) return; // taken back meanwhile
  if (p->order != news.order) return; // and ordered again: it may have taken requests in between
  options_.log.info("instance {} is drained and stops", news.instance.value());
  stop_pair(*p, runtime::stop_reason::shutdown);
  p->draining = false;
  p->stopped = true;
  tell_state();
}

role_answer member::set_role(const role_order& order) {
  role_answer answer;
  auto* p = find_pair(order.instance);
  if (p == nullptr) {
    answer.error = "there is no instance " + std::to_string(order.instance.value());
    return answer;
  }
  answer.before = std::exchange(p->role, order.role);
  if (answer.before == order.role) return answer;
  if (p->llumlet) tell(p->llumlet, order);
  tell_state();
  return answer;
}

void member::activate(const activate_instance& order) {
  auto* p = find_pair(order.instance);
  if (p == nullptr) return;
  p->order = order.order;
  if (p->stopped) start_stopped(*p, order.instance);
  tell_state();
}

void member::start_stopped(pair& p, protocols::instance_id id) {
  if (retiring_) return;
  options_.log.info("instance {} starts", id.value());
  p.pause = {};
  start_pair(id.value() - state_.first.value());
}

} // namespace godwit::actors
