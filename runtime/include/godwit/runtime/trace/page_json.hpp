#pragma once

#include <godwit/runtime/trace/recording.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace godwit::runtime::trace {

struct page_json_options {
  std::string title;                   ///< what the page calls the recording: the files' names
  bool live = false;                   ///< the page asks again every now and then
  std::size_t events_max = 200'000;    ///< a browser still follows these; the newest are kept
  std::vector<std::uint64_t> requests; ///< not empty: events about these and what led to them, and no others
  std::size_t text_max = 16 * 1024;    ///< bytes of one content or value; longer ones are cut, and the page says so
  std::size_t texts_max = 16 * 1024 * 1024; ///< bytes of all contents, and of all attributes; more are left out
};

/// A recording as the page of `godwit trace ui` reads it: one JSON object.
///
/// A browser is to hold hundreds of thousands of events, so events are columns of numbers that refer to tables of
/// strings; times are ns, each column relative to another one. What did not fit is counted in `left_out` (older
/// events), `texts_left_out` and `attributes_left_out` (events without theirs), what is about other requests than those
/// asked for in `others_left_out`; nothing is dropped in silence. Whatever names and contents hold, the output is
/// well-formed UTF-8 JSON, and it holds no '<', so that it can stand inside a page's <script>.
///
///   processes   [{key, name, started_unix_ns, facts: [[name, value], ...]}]; key and times as strings of digits
///   names, requests, remarks   tables of strings; entry 0 of the first two is empty
///   actors      [[process, id, name], ...]
///   origin_ns   what was subtracted from all times
///   columns     one array each of: process, number, kind, message, flags (1: outside, 2: resumed), cause (index + 1 of
///               an event here; 0: none; -1: one that is not here, see far_causes), sender, receiver (index + 1 of an
///               actor), name, request, thread, begin (ns since the event before), queued (ns before begin), length
///               (ns), wait, made, count, bytes, depth
///   far_causes  [[event, process, number], ...]
///   contents    [[event, bytes, actors, text], ...]; bytes: of the content itself, which stays in the file; actors:
///               [index + 1, ...]
///   attributes  [[event, name, value, name, value, ...], ...]
[[nodiscard]] std::string page_json(const recording& from, const page_json_options& options = {});

} // namespace godwit::runtime::trace
