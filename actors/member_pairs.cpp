#include <godwit/actors/member.hpp>

#include "milliseconds.hpp"

#include <string>
#include <utility>

namespace godwit::actors {

using runtime::async::task;
using std::chrono::nanoseconds;

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
    tell_state(); // before a line that may fail
    options_.log.warning("instance {} is down ({}) while it was drained", id_of(index).value(), to_string(reason));
    return;
  }
  p.pause = now() - p.started >= options_.settled_after
                ? longer_pause({}, options_.backoff_min, options_.backoff_max)
                : longer_pause(p.pause, options_.backoff_min, options_.backoff_max);
  start(respawn_pair(index, membership_, generation, p.pause)); // before anything that may fail
  stop_pair(p, runtime::stop_reason::killed);
  tell_state();
  // One that never came up is reported by whoever waits for it (`godwit serve` says why and ends).
  options_.log.write(p.generation == 1 && !came_up ? runtime::log::level::debug : runtime::log::level::error,
                     "instance {} is down ({}); restart in {} ms", id_of(index).value(), to_string(reason),
                     milliseconds_of(p.pause));
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

// --- by order of the head

void member::drain(const drain_instance& order) {
  auto* p = find_pair(order.instance);
  if (p == nullptr) return;
  p->order = order.order;
  if (p->stopped) {
    if (!order.drains) start_stopped(*p, order.instance); // it was empty before the word came
  } else if (p->ready && p->llumlet) {
    const bool news = std::exchange(p->draining, order.drains) != order.drains;
    tell(p->llumlet, drain_order{order.drains, order.order});
    tell_state(); // before a line that may fail
    if (news)
      options_.log.info("instance {} {}", order.instance.value(),
                        order.drains ? "drains" : "stays: its drain was taken back");
    return;
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
  stop_pair(*p, runtime::stop_reason::shutdown);
  p->draining = false;
  p->stopped = true;
  tell_state();
  options_.log.info("instance {} is drained and stops", news.instance.value());
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
