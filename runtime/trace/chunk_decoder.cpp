#include "trace/chunk_decoder.hpp"

#include <limits>

namespace godwit::runtime::trace {

namespace {

// Of processes, names, actors or lanes of one chunk: more than a writer can put there.
constexpr std::size_t definitions_max = std::size_t{1} << 21U;

// Of one event: as many as a writer lets pass.
constexpr std::uint64_t attributes_max = format::event_bytes_max / 16;
constexpr std::uint64_t actors_of_event_max = format::event_bytes_max / 32;

constexpr std::uint64_t uint32_max = std::numeric_limits<std::uint32_t>::max();

} // namespace

bool chunk_decoder::decode(std::span<const std::uint8_t> records) {
  processes_.clear();
  names_.assign(1, 0);
  actors_.assign(1, actor_id{});
  lanes_.clear();
  series_.clear();
  lane_ = 0;
  varint::source all(records);
  while (all.left() != 0 && !to_.full()) {
    const auto body = all.take(all.number());
    if (all.failed() || body.empty() || !record(varint::source(body))) return false;
  }
  return true;
}

bool chunk_decoder::record(varint::source body) {
  const auto kind = body.byte();
  constexpr auto first_event = static_cast<std::uint8_t>(format::record_kind::event);
  if (kind >= first_event && kind < first_event + event_kinds)
    return event(body, static_cast<std::uint8_t>(kind - first_event));
  if (processes_.size() >= definitions_max || names_.size() >= definitions_max || actors_.size() >= definitions_max ||
      lanes_.size() >= definitions_max || series_.size() >= definitions_max)
    return false;
  switch (static_cast<format::record_kind>(kind)) {
  case format::record_kind::process:
    return process(body);
  case format::record_kind::name: {
    const auto text = body.take(body.number());
    if (body.failed()) return false;
    names_.push_back(to_.name({reinterpret_cast<const char*>(text.data()), text.size()}));
    return true;
  }
  case format::record_kind::actor:
  case format::record_kind::lane:
  case format::record_kind::series:
  case format::record_kind::fact:
  case format::record_kind::actor_name:
    return definition(body, static_cast<format::record_kind>(kind));
  default:
    to_.unknown();
    return true;
  }
}

// Those that begin with a process.
bool chunk_decoder::definition(varint::source& body, format::record_kind kind) {
  const auto which = body.number();
  if (body.failed() || which >= processes_.size()) return false;
  const auto process = processes_[which];
  if (kind == format::record_kind::fact) {
    attribute fact;
    fact.name = body.text();
    fact.value = body.text();
    if (!body.failed()) to_.fact(process, std::move(fact));
    return !body.failed();
  }
  const auto id = body.number();
  if (kind == format::record_kind::actor_name) {
    auto text = body.text();
    if (!body.failed()) to_.actor_name({process, id}, std::move(text));
  } else if (kind == format::record_kind::actor) {
    actors_.emplace_back(process, id);
  } else if (kind == format::record_kind::lane) {
    if (id > uint32_max) return false;
    lanes_.emplace_back();
    lanes_.back().process = process;
    lanes_.back().thread = static_cast<std::uint32_t>(id);
  } else {
    const auto first = id << format::series_bit;
    series_.push_back({process, first, first});
  }
  return !body.failed();
}

bool chunk_decoder::process(varint::source& body) {
  const auto number = body.number();
  trace::process said;
  const auto key = body.take(sizeof said.key);
  if (body.failed()) return false;
  said.key = format::load<std::uint64_t>(key.data());
  said.started_unix_ns = static_cast<std::int64_t>(body.difference(0));
  if (!format::in_range(said.started_unix_ns)) return false;
  said.offset_ns = static_cast<std::int64_t>(body.difference(0));
  said.name = body.text();
  if (body.failed() || !format::in_range(said.offset_ns)) return false;
  processes_.push_back(to_.process(number, std::move(said)));
  return !to_.full();
}

bool chunk_decoder::actor(varint::source& body, actor_id& made) const {
  const auto which = body.number();
  if (body.failed() || which >= actors_.size()) return false;
  made = actors_[which];
  return true;
}

bool chunk_decoder::event(varint::source& body, std::uint8_t kind) {
  const auto all_flags = body.number();
  const auto flags = static_cast<std::uint32_t>(all_flags & format::flags_known);
  if ((flags & format::flag_lane) != 0) lane_ = body.number();
  if (body.failed() || lane_ >= lanes_.size()) return false;
  trace::event made;
  made.kind = static_cast<event_kind>(kind);
  made.outside = (flags & format::flag_outside) != 0;
  made.resumed = (flags & format::flag_resumed) != 0;
  if (!numbers(body, flags, lanes_[lane_], made) || !texts(body, flags, made)) return false;
  to_.add(std::move(made));
  return true;
}

bool chunk_decoder::ids(varint::source& body, std::uint32_t flags, lane& at, trace::event& made) {
  if ((flags & format::flag_series) != 0) at.series = body.number();
  if (at.series >= series_.size() || series_[at.series].process != at.process) return false;
  auto& own = series_[at.series].id;
  own = body.difference(own);
  made.id = {at.process, own};
  if ((flags & format::flag_cause_series) != 0) at.cause_series = body.number();
  if ((flags & format::flag_cause) != 0) {
    if (at.cause_series >= series_.size()) return false;
    auto& others = series_[at.cause_series];
    others.cause = body.difference(others.cause);
    if (others.cause != 0) made.cause = {others.process, others.cause};
  }
  return !body.failed();
}

bool chunk_decoder::numbers(varint::source& body, std::uint32_t flags, lane& at, trace::event& made) {
  const auto has = [flags](std::uint32_t flag) { return (flags & flag) != 0; };
  if (has(format::flag_message)) {
    const auto kind = body.byte();
    if (kind < message_kinds) made.message = static_cast<message_kind>(kind); // else a newer one: a message
  }
  made.thread = at.thread;
  if (!ids(body, flags, at, made)) return false;
  const auto name = body.number();
  if (body.failed() || name >= names_.size()) return false;
  made.name = names_[name];
  if (!actor(body, made.sender) || !actor(body, made.receiver)) return false;
  const auto begin = body.difference(at.end);
  made.begin_ns = static_cast<std::int64_t>(begin);
  made.queued_ns = made.begin_ns;
  if (has(format::flag_queued)) made.queued_ns = static_cast<std::int64_t>(begin - varint::unzigzag(body.number()));
  made.end_ns = static_cast<std::int64_t>(body.difference(begin));
  if (has(format::flag_request)) made.request = body.difference(at.request);
  if (has(format::flag_wait)) made.wait = body.number();
  if (has(format::flag_made)) {
    made.made = body.number();
    made.first = body.difference(at.first);
  }
  const auto bytes = has(format::flag_bytes) ? body.number() : 0;
  const auto depth = has(format::flag_depth) ? body.number() : 0;
  if (has(format::flag_count)) made.count = body.number();
  if (body.failed() || bytes > uint32_max || depth > uint32_max) return false;
  if (!format::in_range(made.queued_ns) || !format::in_range(made.begin_ns) || !format::in_range(made.end_ns))
    return false;
  made.bytes = static_cast<std::uint32_t>(bytes);
  made.depth = static_cast<std::uint32_t>(depth);
  at.end = static_cast<std::uint64_t>(made.end_ns);
  if (made.request != 0) at.request = made.request;
  if (has(format::flag_made)) at.first = made.first + made.made;
  return true;
}

bool chunk_decoder::texts(varint::source& body, std::uint32_t flags, trace::event& made) {
  if ((flags & format::flag_content) != 0) made.content = body.text();
  if ((flags & format::flag_actors) != 0) {
    const auto count = body.number();
    if (count > actors_of_event_max || count > body.left()) return false; // an actor takes a byte at least
    made.actors.resize(count);
    for (auto& each : made.actors)
      if (!actor(body, each)) return false;
  }
  if ((flags & format::flag_text) != 0) made.text = body.text();
  if ((flags & format::flag_attributes) != 0) {
    const auto count = body.number();
    if (count > attributes_max || count > body.left() / 2) return false; // two lengths each
    made.attributes.resize(count);
    for (auto& each : made.attributes) {
      each.name = body.text();
      each.value = body.text();
    }
  }
  return !body.failed();
}

} // namespace godwit::runtime::trace
