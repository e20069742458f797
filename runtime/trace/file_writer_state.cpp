#include "trace/file_writer_state.hpp"

#include <algorithm>

namespace godwit::runtime::trace {

namespace {

constexpr std::size_t chunk_bytes_min = 1024;
constexpr std::size_t chunk_bytes_max = std::size_t{4} << 20U;
// What a file that is full still gets: the gap and the end mark.
constexpr std::uint64_t reserve_bytes = 512;

/// At most the room of what can be of any size.
std::size_t weight(const event& what) noexcept {
  auto bytes = what.content.size() + what.text.size() + what.actors.size() * 32;
  for (const auto& each : what.attributes) bytes += each.name.size() + each.value.size() + 16;
  return bytes;
}

event without_weight(const event& what) {
  event light = what;
  light.content.clear();
  light.actors.clear();
  light.attributes.clear();
  light.text = "(left out: content, text and attributes of " + std::to_string(weight(what)) + " bytes)";
  return light;
}

attribute cut(const attribute& what, std::size_t bytes) {
  return {what.name.substr(0, bytes), what.value.substr(0, bytes)};
}

} // namespace

file_writer::state::state(std::unique_ptr<file_output> to, file_settings how)
    : file(std::move(to)), settings_(how), zstd_(how.compression) {
  settings_.chunk_bytes = std::clamp(settings_.chunk_bytes, chunk_bytes_min, chunk_bytes_max);
}

std::uint32_t file_writer::state::add_process(const process& added) {
  auto& all = names.processes;
  auto found = all.end();
  if (added.key != 0) found = std::find_if(all.begin(), all.end(), [&](const auto& p) { return p.key == added.key; });
  const auto which = static_cast<std::uint32_t>(found - all.begin());
  if (found == all.end())
    all.emplace_back();
  else
    put_chunk(); // which may define it as it was known before
  auto& told = all[which];
  told.key = added.key;
  if (!added.name.empty()) told.name = added.name.substr(0, process_name_bytes_max);
  if (added.started_unix_ns != 0) told.started_unix_ns = added.started_unix_ns;
  if (added.offset_ns != 0 && format::in_range(added.offset_ns)) told.offset_ns = added.offset_ns;
  if (!added.facts.empty()) told.facts = added.facts;
  processes_to_tell_.push_back(which);
  return which;
}

std::uint32_t file_writer::state::name(std::string_view text) {
  text = text.substr(0, text_bytes_max);
  if (text.empty()) return 0;
  const auto address = reinterpret_cast<std::uintptr_t>(text.data());
  auto& lately = named_lately_[(address ^ (address >> 8U)) % named_lately_.size()];
  if (lately.text == text.data() && names.names[lately.number] == text) return lately.number;
  auto found = interned_.find(text);
  if (found == interned_.end()) {
    found = interned_.emplace(std::string(text), static_cast<std::uint32_t>(names.names.size())).first;
    names.names.push_back(found->first);
  }
  lately = {text.data(), found->second};
  return found->second;
}

void file_writer::state::name_actor(actor_id actor, std::string_view text) {
  if (actor.process >= names.processes.size() || over()) return;
  actors_to_tell_.emplace_back(actor, std::string(text.substr(0, text_bytes_max)));
}

bool file_writer::state::known(const actor_id& actor) const noexcept {
  return actor.process < names.processes.size() || actor == actor_id{};
}

bool file_writer::state::valid(const event& what) const noexcept {
  if (what.id.process >= names.processes.size() || what.name >= names.names.size()) return false;
  if (what.cause && what.cause.process >= names.processes.size()) return false;
  if (!known(what.sender) || !known(what.receiver)) return false;
  if (!std::all_of(what.actors.begin(), what.actors.end(), [this](const auto& each) { return known(each); }))
    return false;
  return format::in_range(what.queued_ns) && format::in_range(what.begin_ns) && format::in_range(what.end_ns);
}

void file_writer::state::announce() {
  if (processes_to_tell_.empty() && actors_to_tell_.empty()) return;
  for (const auto which : processes_to_tell_) {
    chunk.process(which);
    for (const auto& each : names.processes[which].facts) {
      chunk.fact(which, cut(each, text_bytes_max));
      if (chunk.size() >= settings_.chunk_bytes) put_chunk();
    }
  }
  for (const auto& [actor, text] : actors_to_tell_) {
    chunk.actor_name(actor, text);
    if (chunk.size() >= settings_.chunk_bytes) put_chunk();
  }
  processes_to_tell_.clear();
  actors_to_tell_.clear();
}

void file_writer::state::add(const event& what) {
  if (over() || !valid(what)) {
    const auto dated = format::in_range(what.begin_ns) && format::in_range(what.end_ns);
    const auto process = what.id.process < names.processes.size() ? what.id.process : 0;
    return lose({process, dated ? what.begin_ns : around_.end, dated ? what.end_ns : around_.end}, 1);
  }
  announce();
  if (weight(what) <= format::event_bytes_max)
    chunk.event(what);
  else
    chunk.event(without_weight(what));
  if (added_in_chunk++ == 0) around_ = {what.id.process, what.begin_ns, what.end_ns};
  around_.begin = std::min(around_.begin, what.begin_ns);
  around_.end = std::max(around_.end, what.end_ns);
  if (chunk.size() >= settings_.chunk_bytes) put_chunk();
}

void file_writer::state::lose(const stretch& where, std::uint64_t events) {
  lost += events;
  gap_.add(where, events);
}

void file_writer::state::loss::add(const stretch& more, std::uint64_t events) noexcept {
  if (events == 0) return;
  if (count == 0) where = more;
  where.begin = std::min(where.begin, more.begin);
  where.end = std::max(where.end, more.end);
  count += events;
}

void file_writer::state::put_gap(const loss& what) {
  event gap;
  gap.kind = event_kind::gap;
  gap.id.process = what.where.process;
  gap.queued_ns = gap.begin_ns = what.where.begin;
  gap.end_ns = what.where.end;
  gap.count = what.count;
  chunk.event(gap);
}

// Header and records as they go to the file, into image_. Without records nothing follows the header.
bool file_writer::state::make_image(format::chunk_kind kind, std::span<const std::uint8_t> records) {
  image_.resize(format::chunk_header_bytes);
  format::chunk_header header;
  header.kind = kind;
  if (!records.empty()) {
    header.codec = format::chunk_codec::zstd;
    if (!zstd_.compress(records, image_)) return false;
  }
  header.sequence = sequence_;
  header.stored = static_cast<std::uint32_t>(image_.size() - format::chunk_header_bytes);
  header.raw = static_cast<std::uint32_t>(records.size());
  header.events = kind == format::chunk_kind::end ? events_in_file_ : chunk.events();
  const auto encoded = format::encode(header);
  std::copy(encoded.begin(), encoded.end(), image_.begin());
  return true;
}

void file_writer::state::put_chunk() {
  if (chunk.size() == 0) return;
  const auto begin = file->size();
  if (!over()) {
    if (!make_image(format::chunk_kind::records, chunk.bytes()))
      error_.emplace(async::error_code::failed, "zstd has no memory");
    else if (settings_.bytes_max != 0 && begin + image_.size() + reserve_bytes > settings_.bytes_max)
      full = true;
    else if (auto done = file->append(image_); !done)
      error_ = done.error();
  }
  if (over()) {
    lose(around_, added_in_chunk);
  } else {
    ++sequence_;
    events_in_file_ += chunk.events();
    added_in_file += added_in_chunk;
    raw_in_file += chunk.size();
  }
  added_in_chunk = 0;
  chunk.clear();
}

// A gap after which nothing can come: the last chunk of the file, written again whenever more was lost.
void file_writer::state::put_last_gap() {
  if (gap_.count == last_gap_told_ || names.processes.empty()) return;
  chunk.clear();
  put_gap(gap_);
  if (!last_gap_begin_) last_gap_begin_ = file->size();
  if (make_image(format::chunk_kind::records, chunk.bytes()) && file->replace_from(*last_gap_begin_, image_))
    last_gap_told_ = gap_.count;
  chunk.clear();
}

async::expected<void> file_writer::state::flush() {
  loss told;
  if (!over()) {
    announce();
    if (!names.processes.empty()) told = std::exchange(gap_, {});
    if (told.count != 0) put_gap(told);
  }
  put_chunk();
  if (over()) gap_.add(told.where, told.count); // it did not get there
  if (!closed && over()) put_last_gap();
  if (error_) return *error_;
  return {};
}

async::expected<void> file_writer::state::close() {
  auto done = flush();
  if (closed) return done;
  if (last_gap_told_ != 0) {
    ++sequence_;
    ++events_in_file_;
  }
  static_cast<void>(make_image(format::chunk_kind::end, {}));
  if (auto ended = file->append(image_); done && !ended) done = error_.emplace(ended.error());
  closed = true;
  return done;
}

} // namespace godwit::runtime::trace
