#include "trace/chunk_encoder.hpp"

#include "trace/file_format.hpp"
#include "trace/varint.hpp"

#include <algorithm>
#include <cstring>

namespace godwit::runtime::trace {

namespace {

using varint::put;
using varint::put_difference;
using varint::zigzag;

// Of the numbers of any one record, whatever they are.
constexpr std::size_t numbers_room = 24 * varint::bytes_max;

std::uint8_t* put_text(std::uint8_t* to, std::string_view text) noexcept {
  to = put(to, text.size());
  if (!text.empty()) std::memcpy(to, text.data(), text.size());
  return to + text.size();
}

std::size_t room_for(const event& what) noexcept {
  auto room = numbers_room + what.content.size() + what.text.size() + what.actors.size() * varint::bytes_max;
  for (const auto& each : what.attributes) room += each.name.size() + each.value.size() + 2 * varint::bytes_max;
  return room;
}

std::uint32_t flags_of(const event& what) noexcept {
  std::uint32_t flags = 0;
  const auto set = [&flags](std::uint32_t flag, bool when) { flags |= when ? flag : 0; };
  set(format::flag_outside, what.outside);
  set(format::flag_resumed, what.resumed);
  set(format::flag_cause, what.cause.number != 0);
  set(format::flag_message, what.message != message_kind::message);
  set(format::flag_queued, what.queued_ns != what.begin_ns);
  set(format::flag_request, what.request != 0);
  set(format::flag_wait, what.wait != 0);
  set(format::flag_made, what.made != 0 || what.first != 0);
  set(format::flag_bytes, what.bytes != 0);
  set(format::flag_depth, what.depth != 0);
  set(format::flag_count, what.count != 0);
  set(format::flag_content, !what.content.empty());
  set(format::flag_actors, !what.actors.empty());
  set(format::flag_text, !what.text.empty());
  set(format::flag_attributes, !what.attributes.empty());
  return flags;
}

} // namespace

void chunk_encoder::clear() {
  used_ = 0;
  events_ = 0;
  std::fill(processes_.begin(), processes_.end(), 0);
  std::fill(names_.begin(), names_.end(), 0);
  processes_used_ = 0;
  names_used_ = 0;
  actors_.clear();
  lanes_.clear();
  series_.clear();
  lane_states_.clear();
  series_states_.clear();
  lane_ = 0;
}

// Begins a record: room for its length, of which one byte mostly does, and for what it will hold.
std::uint8_t* chunk_encoder::open(std::size_t room) {
  const auto needed = used_ + 1 + varint::bytes_max + room;
  if (buffer_.size() < needed) buffer_.resize(std::max(needed, 2 * buffer_.size()));
  return buffer_.data() + used_ + 1;
}

void chunk_encoder::close(std::uint8_t* end) {
  auto* const length_at = buffer_.data() + used_;
  const auto length = static_cast<std::size_t>(end - length_at) - 1;
  if (length >= 0x80) {
    std::uint8_t image[varint::bytes_max];
    const auto size = static_cast<std::size_t>(put(image, length) - image);
    std::memmove(length_at + size, length_at + 1, length);
    std::memcpy(length_at, image, size);
    used_ += size + length;
    return;
  }
  *length_at = static_cast<std::uint8_t>(length);
  used_ += 1 + length;
}

void chunk_encoder::define(std::uint8_t kind, std::uint64_t first, std::uint64_t second) {
  auto* to = open(numbers_room);
  *to++ = kind;
  close(put(put(to, first), second));
}

std::uint32_t chunk_encoder::process_of(std::uint32_t which) {
  if (which >= processes_.size()) processes_.resize(known_.processes.size());
  if (processes_[which] != 0) return processes_[which] - 1;
  const auto& what = known_.processes[which];
  auto* to = open(numbers_room + what.name.size());
  *to++ = static_cast<std::uint8_t>(format::record_kind::process);
  to = put(to, which);
  format::store(to, what.key);
  to = put(to + sizeof what.key, zigzag(static_cast<std::uint64_t>(what.started_unix_ns)));
  to = put(to, zigzag(static_cast<std::uint64_t>(what.offset_ns)));
  close(put_text(to, what.name));
  processes_[which] = ++processes_used_;
  return processes_used_ - 1;
}

std::uint32_t chunk_encoder::name_of(std::uint32_t which) {
  if (which == 0) return 0;
  if (which >= names_.size()) names_.resize(known_.names.size());
  if (names_[which] != 0) return names_[which];
  const auto text = known_.names[which];
  auto* to = open(numbers_room + text.size());
  *to++ = static_cast<std::uint8_t>(format::record_kind::name);
  close(put_text(to, text));
  return names_[which] = ++names_used_;
}

// 0: nobody.
std::uint32_t chunk_encoder::actor_of(actor_id actor) {
  if (actor == actor_id{}) return 0;
  const auto [number, fresh] = actors_.find_or_add(actor.process, actor.id);
  if (fresh) define(static_cast<std::uint8_t>(format::record_kind::actor), process_of(actor.process), actor.id);
  return number + 1;
}

std::uint32_t chunk_encoder::lane_of(std::uint32_t process, std::uint32_t thread) {
  const auto [number, fresh] = lanes_.find_or_add(process, thread);
  if (fresh) {
    define(static_cast<std::uint8_t>(format::record_kind::lane), process_of(process), thread);
    lane_states_.emplace_back();
  }
  return number;
}

std::uint32_t chunk_encoder::series_of(const event_id& id) {
  const auto high = id.number >> format::series_bit;
  const auto [number, fresh] = series_.find_or_add(id.process, high);
  if (fresh) {
    define(static_cast<std::uint8_t>(format::record_kind::series), process_of(id.process), high);
    const auto first = high << format::series_bit;
    series_states_.push_back({first, first});
  }
  return number;
}

void chunk_encoder::fact(std::uint32_t which, const attribute& what) {
  const auto process = process_of(which);
  auto* to = open(numbers_room + what.name.size() + what.value.size());
  *to++ = static_cast<std::uint8_t>(format::record_kind::fact);
  close(put_text(put_text(put(to, process), what.name), what.value));
}

void chunk_encoder::actor_name(actor_id actor, std::string_view text) {
  const auto process = process_of(actor.process);
  auto* to = open(numbers_room + text.size());
  *to++ = static_cast<std::uint8_t>(format::record_kind::actor_name);
  close(put_text(put(put(to, process), actor.id), text));
}

void chunk_encoder::event(const trace::event& what) {
  auto flags = flags_of(what);
  const auto has = [&flags](std::uint32_t flag) { return (flags & flag) != 0; };
  const auto number = lane_of(what.id.process, what.thread);
  auto& at = lane_states_[number];
  if (number != lane_) flags |= format::flag_lane;
  lane_ = number;
  const auto own = series_of(what.id);
  if (own != at.series) flags |= format::flag_series;
  const auto others = has(format::flag_cause) ? series_of(what.cause) : none;
  if (others != none && others != at.cause_series) flags |= format::flag_cause_series;
  const auto name = name_of(what.name);
  const auto sender = actor_of(what.sender);
  const auto receiver = actor_of(what.receiver);
  for (const auto& each : what.actors) static_cast<void>(actor_of(each));

  const auto begin = static_cast<std::uint64_t>(what.begin_ns);
  const auto end = static_cast<std::uint64_t>(what.end_ns);
  auto* to = open(room_for(what));
  *to++ =
      static_cast<std::uint8_t>(static_cast<unsigned>(format::record_kind::event) + static_cast<unsigned>(what.kind));
  to = put(to, flags);
  if (has(format::flag_lane)) to = put(to, number);
  if (has(format::flag_message)) *to++ = static_cast<std::uint8_t>(what.message);
  if (has(format::flag_series)) to = put(to, own);
  to = put_difference(to, what.id.number, series_states_[own].id);
  if (has(format::flag_cause_series)) to = put(to, others);
  if (has(format::flag_cause)) to = put_difference(to, what.cause.number, series_states_[others].cause);
  to = put(put(put(to, name), sender), receiver);
  to = put_difference(to, begin, at.end);
  if (has(format::flag_queued)) to = put_difference(to, begin, static_cast<std::uint64_t>(what.queued_ns));
  to = put_difference(to, end, begin);
  if (has(format::flag_request)) to = put_difference(to, what.request, at.request);
  if (has(format::flag_wait)) to = put(to, what.wait);
  if (has(format::flag_made)) to = put_difference(put(to, what.made), what.first, at.first);
  if (has(format::flag_bytes)) to = put(to, what.bytes);
  if (has(format::flag_depth)) to = put(to, what.depth);
  if (has(format::flag_count)) to = put(to, what.count);
  if (has(format::flag_content)) to = put_text(to, what.content);
  if (has(format::flag_actors)) {
    to = put(to, what.actors.size());
    for (const auto& each : what.actors) to = put(to, actor_of(each));
  }
  if (has(format::flag_text)) to = put_text(to, what.text);
  if (has(format::flag_attributes)) {
    to = put(to, what.attributes.size());
    for (const auto& each : what.attributes) to = put_text(put_text(to, each.name), each.value);
  }
  close(to);

  at.series = own;
  series_states_[own].id = what.id.number;
  if (has(format::flag_cause)) {
    at.cause_series = others;
    series_states_[others].cause = what.cause.number;
  }
  at.end = end;
  if (what.request != 0) at.request = what.request;
  if (has(format::flag_made)) at.first = what.first + what.made;
  ++events_;
}

} // namespace godwit::runtime::trace
