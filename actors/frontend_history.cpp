#include <godwit/actors/frontend_history.hpp>

#include <godwit/actors/frontend.hpp>

#include "recorded_decisions.hpp"
#include "watchers.hpp"

#include <algorithm>
#include <utility>

namespace godwit::actors {

using protocols::request_event;
using protocols::request_history;

namespace {

constexpr std::size_t namesakes_max = 16;

void push(std::vector<request_event>& events, std::uint64_t& dropped, request_event event, std::size_t events_max) {
  if (events_max == 0) return;
  if (events.size() >= events_max) {
    events.erase(events.begin());
    ++dropped;
  }
  events.push_back(std::move(event));
}

} // namespace

void request_trail::add(request_event event) { push(events_, dropped_, std::move(event), events_max_); }

void request_trail::take_back(protocols::epoch epoch) {
  if (events_.empty()) return;
  const auto& last = events_.back();
  if (last.what == request_event::kind::dispatched && last.epoch == epoch) events_.pop_back();
}

void ended_requests::add(request_history history) {
  if (requests_max_ == 0) return;
  if (histories_.size() >= requests_max_) histories_.pop_front();
  histories_.push_back(std::move(history));
}

bool ended_requests::add(protocols::request_id request, request_event event, std::size_t events_max) {
  for (auto h = histories_.rbegin(); h != histories_.rend(); ++h) {
    if (h->request != request) continue;
    push(h->events, h->events_dropped, std::move(event), events_max);
    return true;
  }
  return false;
}

const request_history* ended_requests::find(protocols::request_id request) const noexcept {
  for (auto h = histories_.rbegin(); h != histories_.rend(); ++h)
    if (h->request == request) return &*h;
  return nullptr;
}

std::optional<request_history> ended_requests::find(std::string_view client_id, std::size_t others_max) const {
  const request_history* best = nullptr;
  std::vector<protocols::request_id> named;
  for (const auto& h : histories_) {
    if (h.client_id != client_id) continue;
    named.push_back(h.request);
    if (best == nullptr || best->request < h.request) best = &h;
  }
  if (best == nullptr) return std::nullopt;
  auto out = *best;
  std::sort(named.begin(), named.end());
  named.pop_back(); // the best one
  if (named.size() > others_max) named.resize(others_max);
  out.namesakes = std::move(named);
  return out;
}

// The front end's part.

request_history frontend::describe(protocols::request_id id, const open_request& r) const {
  request_history out;
  out.found = true;
  out.request = id;
  out.client_id = r.client_id;
  out.owned = static_cast<bool>(r.owner);
  out.instance = r.owner_instance;
  out.epoch = r.ownership.current_epoch();
  out.priority = r.request.priority;
  out.execution_priority = level_of(r).name;
  out.prompt_tokens = r.prompt_tokens;
  out.answer_tokens = r.ownership.next_index();
  out.age_ns = (now() - r.arrived).count();
  out.events_dropped = r.trail.dropped();
  out.events = r.trail.events();
  return out;
}

request_history frontend::history(const history_query& query) const {
  const open_request* open = nullptr;
  auto id = query.request;
  std::vector<protocols::request_id> namesakes;
  if (!query.client_id.empty()) {
    const auto named = by_client_.find(query.client_id);
    if (named == by_client_.end()) return ended_.find(query.client_id, namesakes_max).value_or(request_history{});
    namesakes = named->second; // in the order of their numbers, the front end's own counter
    id = namesakes.front();
    namesakes.erase(namesakes.begin());
    if (namesakes.size() > namesakes_max) namesakes.resize(namesakes_max);
  }
  if (const auto found = open_.find(id); found != open_.end()) open = &found->second;
  if (open == nullptr) {
    const auto* ended = ended_.find(id);
    return ended == nullptr ? request_history{} : *ended;
  }
  auto out = describe(id, *open);
  out.namesakes = std::move(namesakes);
  return out;
}

void frontend::remember(const protocols::migration_report& report) {
  auto event = request_event{request_event::kind::migrated, 0, report.destination, report.epoch};
  event.migration = report;
  if (auto* r = find(report.request); r != nullptr) {
    event.at_ns = (now() - r->arrived).count();
    r->trail.add(std::move(event));
    return;
  }
  const auto* ended = ended_.find(report.request);
  // An order that came after its end is nothing that befell it.
  if (ended == nullptr || report.reason == protocols::migration_reason::request_unknown) return;
  event.at_ns = ended->age_ns;
  static_cast<void>(ended_.add(report.request, std::move(event), options_.events_max));
}

void frontend::remember_dispatch(open_request& r, protocols::epoch epoch, protocols::dispatch_reason why) {
  if (options_.metrics) options_.metrics->dispatches.with({why.policy}).increment();
  note_ownership(r.request.request, epoch, "dispatched", r.owner_instance, r.client_id);
  request_event event{request_event::kind::dispatched, (now() - r.arrived).count(), r.owner_instance, epoch};
  event.dispatch = std::move(why);
  r.trail.add(std::move(event));
}

void frontend::remember_loss(open_request& r, protocols::instance_id instance, protocols::epoch epoch) {
  note_ownership(r.request.request, epoch, "lost", instance);
  r.trail.add({request_event::kind::lost, (now() - r.arrived).count(), instance, epoch});
  if (options_.on_lost) tell_watcher(context(), "on_lost", [&] { options_.on_lost(r.request.request); });
}

} // namespace godwit::actors
