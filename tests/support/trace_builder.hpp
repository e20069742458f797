#pragma once

#include <godwit/runtime/trace/recording.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Recordings made in memory, for tests of what reads them. Times are given on the first process's clock; a process
/// with an offset gets its own. An actor handles one message after the other.
namespace godwit::support {

namespace trace = runtime::trace;

/// What a message is besides its type, ends and times.
struct sending {
  trace::message_kind kind = trace::message_kind::message;
  std::uint64_t request = 0;
  std::uint64_t wait = 0;
  bool outside = false;
  bool resumed = false;
  std::uint32_t bytes = 64;
  std::string text;
};

class trace_builder {
public:
  std::int64_t network_ns = 200'000;

  std::uint32_t process(std::string name, std::int64_t offset_ns = 0) {
    auto& p = made_.processes.emplace_back();
    p.key = 0x1000 + made_.processes.size();
    p.name = std::move(name);
    p.started_unix_ns = 1'700'000'000'000'000'000 - offset_ns;
    p.offset_ns = offset_ns;
    p.facts.emplace_back("version", "test");
    numbers_.push_back(0);
    return static_cast<std::uint32_t>(made_.processes.size() - 1);
  }

  trace::actor_id actor(std::uint32_t where, std::string name, std::int64_t at_ns = 0, trace::event_id cause = {}) {
    const trace::actor_id id(where, ++actors_);
    made_.actors[id] = name;
    auto e = at(where, trace::event_kind::spawned, name, at_ns, at_ns);
    e.cause = cause;
    e.receiver = id;
    begun_[id] = add(std::move(e));
    return id;
  }
  /// The event of its start.
  [[nodiscard]] trace::event_id start_of(trace::actor_id who) const { return begun_.at(who); }

  void ended(trace::actor_id who, std::int64_t at_ns) {
    auto e = at(who.process, trace::event_kind::ended, made_.actors[who], at_ns, at_ns);
    e.receiver = who;
    add(std::move(e));
  }

  /// A message that was made at `made_ns` while `cause` was handled. Between processes there is a sent event too.
  trace::event_id deliver(trace::event_id cause, trace::actor_id from, trace::actor_id to, std::string_view type,
                          std::int64_t made_ns, std::int64_t handling_ns, sending how = {}) {
    auto queued = made_ns;
    if (from && from.process != to.process) {
      auto e = message(from.process, trace::event_kind::sent, type, from, to, how);
      e.cause = cause;
      e.queued_ns = e.begin_ns = e.end_ns = here(from.process, made_ns);
      cause = add(std::move(e));
      queued += network_ns;
    }
    auto e = message(to.process, trace::event_kind::delivery, type, from, to, how);
    e.cause = cause;
    const auto begin = std::max(queued + 1'000, free_[to]);
    free_[to] = begin + handling_ns;
    e.queued_ns = here(to.process, queued);
    e.begin_ns = here(to.process, begin);
    e.end_ns = here(to.process, begin + handling_ns);
    return add(std::move(e));
  }

  trace::event_id note(trace::event_id cause, trace::actor_id whose, std::string_view name, std::int64_t at_ns,
                       std::vector<trace::attribute> attributes, std::uint64_t request = 0) {
    return span(cause, whose.process, whose, name, at_ns, at_ns, std::move(attributes), request,
                trace::event_kind::note);
  }

  trace::event_id span(trace::event_id cause, std::uint32_t where, trace::actor_id whose, std::string_view name,
                       std::int64_t begin_ns, std::int64_t end_ns, std::vector<trace::attribute> attributes,
                       std::uint64_t request = 0, trace::event_kind kind = trace::event_kind::span) {
    auto e = at(where, kind, name, begin_ns, end_ns);
    e.cause = cause;
    e.sender = whose;
    e.request = request;
    e.attributes = std::move(attributes);
    return add(std::move(e));
  }

  void gap(std::uint32_t where, std::int64_t at_ns, std::uint64_t count) {
    auto e = at(where, trace::event_kind::gap, "", at_ns, at_ns);
    e.count = count;
    add(std::move(e));
  }

  /// When the handling ended, on the first process's clock.
  [[nodiscard]] std::int64_t end_of(trace::event_id id) const {
    return get(id).end_ns + made_.processes[id.process].offset_ns;
  }
  [[nodiscard]] trace::event& get(trace::event_id id) { return made_.events[where_.at(id)]; }
  [[nodiscard]] const trace::event& get(trace::event_id id) const { return made_.events[where_.at(id)]; }
  void ends(trace::event_id id, std::int64_t end_ns) { get(id).end_ns = here(id.process, end_ns); }

  /// In order of time, with what follows from the whole: mailbox depths, counts of messages made.
  [[nodiscard]] trace::recording finish() {
    depths();
    renumber();
    std::stable_sort(made_.events.begin(), made_.events.end(), [this](const auto& a, const auto& b) {
      return std::pair(made_.at(a), a.id) < std::pair(made_.at(b), b.id);
    });
    return std::move(made_);
  }

private:
  [[nodiscard]] std::int64_t here(std::uint32_t where, std::int64_t ns) const {
    return ns - made_.processes[where].offset_ns;
  }

  std::uint32_t name(std::string_view text) {
    if (made_.names.empty()) made_.names.emplace_back();
    const auto found = std::find(made_.names.begin(), made_.names.end(), text);
    if (found != made_.names.end()) return static_cast<std::uint32_t>(found - made_.names.begin());
    made_.names.emplace_back(text);
    return static_cast<std::uint32_t>(made_.names.size() - 1);
  }

  trace::event at(std::uint32_t where, trace::event_kind kind, std::string_view what, std::int64_t begin_ns,
                  std::int64_t end_ns) {
    trace::event e;
    e.kind = kind;
    e.id = {where, ++numbers_[where]};
    e.name = name(what);
    e.queued_ns = e.begin_ns = here(where, begin_ns);
    e.end_ns = here(where, end_ns);
    return e;
  }

  trace::event message(std::uint32_t where, trace::event_kind kind, std::string_view type, trace::actor_id from,
                       trace::actor_id to, const sending& how) {
    auto e = at(where, kind, type, 0, 0);
    e.message = how.kind;
    e.sender = from;
    e.receiver = to;
    e.request = how.request;
    e.wait = how.wait;
    e.outside = how.outside;
    e.resumed = how.resumed;
    e.bytes = how.bytes;
    e.text = how.text;
    e.thread = static_cast<std::uint32_t>(to.id % 3);
    return e;
  }

  trace::event_id add(trace::event e) {
    const auto id = e.id;
    where_[id] = made_.events.size();
    made_.events.push_back(std::move(e));
    return id;
  }

  /// What was made while a message was handled gets numbers that follow each other, as a recorder gives them.
  void renumber() {
    std::map<trace::event_id, std::vector<trace::event*>> made; // by their maker; none: by nobody of the process
    for (auto& e : made_.events)
      made[e.cause.process == e.id.process && where_.contains(e.cause) ? e.cause : trace::event_id{e.id.process, 0}]
          .push_back(&e);
    std::map<trace::event_id, trace::event_id> renamed;
    std::vector<std::uint64_t> next(made_.processes.size(), 1);
    for (auto& [maker, list] : made) {
      if (maker) get(maker).first = next[maker.process];
      if (maker) get(maker).made = list.size();
      for (const auto* e : list) renamed[e->id] = {e->id.process, next[e->id.process]++};
    }
    for (auto& e : made_.events) {
      e.id = renamed.at(e.id);
      if (const auto cause = renamed.find(e.cause); cause != renamed.end()) e.cause = cause->second;
    }
  }

  void depths() {
    std::map<trace::actor_id, std::vector<trace::event*>> boxes;
    for (auto& e : made_.events)
      if (e.kind == trace::event_kind::delivery) boxes[e.receiver].push_back(&e);
    for (auto& [who, box] : boxes) {
      std::vector<std::int64_t> begins;
      for (const auto* e : box) begins.push_back(e->begin_ns);
      std::sort(begins.begin(), begins.end());
      std::stable_sort(box.begin(), box.end(), [](auto* a, auto* b) { return a->queued_ns < b->queued_ns; });
      for (std::size_t before = 0; before < box.size(); ++before) {
        const auto taken = std::upper_bound(begins.begin(), begins.end(), box[before]->queued_ns) - begins.begin();
        box[before]->depth =
            static_cast<std::uint32_t>(std::max<std::int64_t>(0, static_cast<std::int64_t>(before) - taken));
      }
    }
  }

  trace::recording made_;
  std::vector<std::uint64_t> numbers_;
  std::uint64_t actors_ = 0;
  std::map<trace::event_id, std::size_t> where_;
  std::map<trace::actor_id, std::int64_t> free_;
  std::map<trace::actor_id, trace::event_id> begun_;
};

} // namespace godwit::support
