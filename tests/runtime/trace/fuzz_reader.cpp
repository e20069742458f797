#include "runtime/trace/fuzz_reader.hpp"

#include "trace/compression.hpp"
#include "trace/file_format.hpp"

#include <algorithm>
#include <utility>

namespace godwit::runtime::trace::streams {

std::vector<std::byte> file_of(const std::vector<std::vector<std::uint8_t>>& chunks) {
  std::vector<std::uint8_t> made;
  const auto file_header = format::encode_file_header();
  made.assign(file_header.begin(), file_header.end());
  compressor zstd(1);
  format::chunk_header header;
  for (const auto& records : chunks) {
    std::vector<std::uint8_t> frame;
    if (!zstd.compress(records, frame)) continue;
    header.codec = format::chunk_codec::zstd;
    header.stored = static_cast<std::uint32_t>(frame.size());
    header.raw = static_cast<std::uint32_t>(records.size());
    const auto image = format::encode(header);
    made.insert(made.end(), image.begin(), image.end());
    made.insert(made.end(), frame.begin(), frame.end());
    ++header.sequence;
  }
  const auto bytes = std::as_bytes(std::span(made));
  return {bytes.begin(), bytes.end()};
}

fuzzed fuzz_reader(std::span<const std::byte> bytes) {
  read_limits limits;
  limits.memory_bytes_max = std::uint64_t{64} << 20U;
  auto made = read_bytes(bytes, limits);
  fuzzed result;
  if (!made) return result;
  result.read = true;
  result.events = made->events.size();
  const auto is_process = [&](std::uint32_t which) { return which < made->processes.size(); };
  const auto is_actor = [&](const actor_id& actor) { return actor == actor_id{} || is_process(actor.process); };
  const auto check = [&](bool good) { result.sound = result.sound && good; };
  check(!made->names.empty() && made->names[0].empty());
  std::int64_t before = 0;
  for (const auto& e : made->events) {
    check(is_process(e.id.process) && (!e.cause || is_process(e.cause.process)) && e.name < made->names.size());
    check(is_actor(e.sender) && is_actor(e.receiver) && std::all_of(e.actors.begin(), e.actors.end(), is_actor));
    check(static_cast<std::uint8_t>(e.kind) < event_kinds && static_cast<std::uint8_t>(e.message) < message_kinds);
    if (!result.sound) return result;
    const auto at = made->at(e); // undefined where it overflows
    check(&e == made->events.data() || (before <= at && at - before >= 0));
    check((e.end_ns - e.begin_ns < 0) == (e.end_ns < e.begin_ns));
    before = at;
  }
  for (const auto& [actor, name] : made->actors) check(is_actor(actor));
  // what was read can be merged, whatever it says
  const auto events = made->events.size();
  std::vector<recording> parts;
  parts.push_back(*made);
  parts.push_back(std::move(*made));
  const auto merged = merge(std::move(parts));
  check(merged.events.size() <= 2 * events);
  for (std::size_t i = 1; i < merged.events.size(); ++i)
    check(merged.at(merged.events[i - 1]) <= merged.at(merged.events[i]));
  return result;
}

} // namespace godwit::runtime::trace::streams
