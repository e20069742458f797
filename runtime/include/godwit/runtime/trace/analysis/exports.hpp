#pragma once

#include <godwit/runtime/trace/analysis/index.hpp>

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace godwit::runtime::trace::analysis {

/// Gets the output piece by piece, in order. False: it has enough, and gets no more.
using sink = std::function<bool(std::string_view piece)>;

/// Chrome's trace event format (JSON object form), as ui.perfetto.dev and chrome://tracing read it: a process's actors
/// are its threads, a delivery is a complete event on its receiver's, an arrow leads from what made a message to its
/// handling; spans have tracks of their own beside each other where they overlap; notes are instants; mailboxes are
/// counters. Times in us since the recording began.
void to_perfetto(const index& of, const std::vector<position>& events, const sink& out);

struct otlp_options {
  std::size_t spans_max = 0; ///< in one request to a collector; 0: all in one, in pieces
  std::string service_name = "godwit";
};

/// OTLP's ExportTraceServiceRequest in its JSON encoding, each piece whole. A message's handling is a span, and so is a
/// span; notes are events of what they were written in. All that is about one model request is one trace: the one that
/// its client began (`traceparent`), otherwise one of its own. An effect in another trace links to its cause.
void to_otlp(const index& of, const std::vector<position>& events, const otlp_options& options, const sink& out);

} // namespace godwit::runtime::trace::analysis
