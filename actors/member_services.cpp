#include <godwit/actors/member.hpp>

#include "milliseconds.hpp"
#include "watchers.hpp"

#include <godwit/actors/kv_store_shard.hpp>

#include <algorithm>
#include <utility>

namespace godwit::actors {

using runtime::async::task;
using std::chrono::nanoseconds;

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
} // namespace godwit::actors
