#pragma once

#include <godwit/runtime/trace/analysis/index.hpp>
#include <godwit/runtime/trace/analysis/requests.hpp>
#include <godwit/runtime/trace/analysis/stats.hpp>

#include <boost/json.hpp>

#include <cstdint>
#include <optional>
#include <string>

/// What the subcommands of `godwit trace` share on their way out. All text is harmless to a terminal.
namespace godwit::main {

/// `frontend 4 -> llumlet 12  generate_order`, `instance 11  device.step  instance=1 ...`.
[[nodiscard]] std::string event_text(const runtime::trace::analysis::index& of, runtime::trace::analysis::position p,
                                     bool whole = false);
/// `0.1 us queued, 12.3 us handled`; of others their time, or nothing.
[[nodiscard]] std::string times_text(const runtime::trace::analysis::index& of, runtime::trace::analysis::position p);
/// Since the recording began: `+1.234567 s`.
[[nodiscard]] std::string offset_text(const runtime::trace::analysis::index& of, std::int64_t ns);
/// A moment of a wall clock in UTC; empty for 0, as in simulations.
[[nodiscard]] std::string moment_text(std::int64_t unix_ns);

/// Written down, for --json. What a recording says may be no UTF-8, which JSON has to be.
[[nodiscard]] std::string json_text(const boost::json::value& what);

[[nodiscard]] boost::json::object event_json(const runtime::trace::analysis::index& of,
                                             runtime::trace::analysis::position p);
[[nodiscard]] boost::json::object request_json(const runtime::trace::analysis::index& of,
                                               const runtime::trace::analysis::model_request& r);
[[nodiscard]] boost::json::object summary_json(const runtime::trace::analysis::summary& s);

} // namespace godwit::main
