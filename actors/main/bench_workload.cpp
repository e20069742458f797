#include "main/bench_workload.hpp"

#include <godwit/protocols/workload/trace.hpp>
#include <godwit/protocols/workload/workload.hpp>

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>

namespace godwit::main {

namespace workload = protocols::workload;
using protocols::expected;
using protocols::unexpected;

namespace {

constexpr std::size_t requests_default = 100;
constexpr std::uintmax_t trace_bytes_max = 2ULL << 30U;

expected<std::string, bench_error> read_file(const std::string& path) {
  const auto failed = [&](const std::string& why) {
    return unexpected(bench_error{1, "cannot read the trace " + path + ": " + why});
  };
  auto ec = std::error_code{};
  if (std::filesystem::is_directory(path, ec)) return failed("it is a directory");
  const auto size = std::filesystem::file_size(path, ec);
  if (ec) return failed(ec.message());
  if (size > trace_bytes_max) return failed("it is larger than 2 GiB; cut it");
  auto in = std::ifstream(path, std::ios::binary);
  auto text = std::string(static_cast<std::size_t>(size), '\0');
  if (!in.read(text.data(), static_cast<std::streamsize>(size)))
    return failed("it cannot be opened or is shorter than it was");
  return text;
}

// Nothing for a trace of one moment: it has no rate.
std::optional<double> rate_of(const std::vector<workload::workload_request>& requests) {
  const auto span_s = static_cast<double>(requests.back().arrival_ns) * 1e-9;
  if (span_s <= 0.0) return std::nullopt;
  return static_cast<double>(requests.size() - 1) / span_s;
}

expected<bench_workload, bench_error> plan_trace(const bench_options& options) {
  const auto text = read_file(options.trace);
  if (!text) return unexpected(text.error());
  auto limits = workload::trace_limits{};
  if (options.requests > 0) limits.requests_max = options.requests;
  auto read = workload::read_trace(*text, limits);
  if (!read)
    return unexpected(bench_error{1, read.error().line == 0 ? options.trace + ": " + read.error().message
                                                            : read.error().text(options.trace)});
  auto out = bench_workload{};
  out.requests = std::move(read->requests);
  out.name = "trace " + std::filesystem::path(options.trace).filename().string();
  const auto own_rate = rate_of(out.requests);
  const auto at_once = !own_rate || (options.rate && (*options.rate == 0.0 || std::isinf(*options.rate)));
  if (at_once) {
    for (auto& r : out.requests) r.arrival_ns = 0;
    out.arrivals = "all at once";
    return out;
  }
  workload::scale_rate(out.requests, options.rate ? *options.rate / *own_rate : options.scale);
  out.scheduled = true;
  out.arrivals = fmt::format("as traced, {:.4g} requests/s on average", rate_of(out.requests).value_or(0.0));
  return out;
}

expected<bench_workload, bench_error> plan_drawn(const bench_options& options) {
  auto lengths = workload::parse_lengths(options.lengths);
  if (!lengths) return unexpected(bench_error{2, "--lengths: " + lengths.error().message});
  auto spec = workload::workload_spec{};
  spec.requests = options.requests > 0 ? options.requests : requests_default;
  spec.arrivals = {options.rate.value_or(0.0), options.cv};
  spec.lengths = std::move(*lengths);
  spec.seed = options.seed;
  auto out = bench_workload{};
  out.requests = workload::make_workload(spec);
  out.name = options.lengths;
  out.scheduled = !spec.arrivals.all_at_once();
  if (!out.scheduled)
    out.arrivals = "all at once";
  else if (options.cv == 1.0)
    out.arrivals = fmt::format("Poisson, {:g} requests/s", spec.arrivals.rate);
  else
    out.arrivals = fmt::format("Gamma with CV {:g}, {:g} requests/s", options.cv, spec.arrivals.rate);
  return out;
}

struct priority_share {
  std::string name; ///< empty: none
  double share = 0;
};

expected<priority_share, bench_error> parse_priority_share(const std::string& text) {
  if (text.empty()) return priority_share{};
  const auto sign = text.rfind('=');
  const auto* const end = text.data() + text.size();
  priority_share out;
  if (sign != std::string::npos && sign > 0) {
    out.name = text.substr(0, sign);
    const auto [stop, error] = std::from_chars(text.data() + sign + 1, end, out.share);
    if (error == std::errc{} && stop == end && out.share >= 0.0 && out.share <= 1.0) return out;
  }
  return unexpected(bench_error{2, "--priority-share: expected NAME=SHARE with a share from 0 to 1, such as high=0.1"});
}

} // namespace

expected<bench_workload, bench_error> plan_workload(const bench_options& options) {
  const auto wrong = [](const std::string& what) { return unexpected(bench_error{2, what}); };
  if (!workload::arrival_process{options.rate.value_or(0.0), 1.0}.valid())
    return wrong("--rate: expected requests per second, 0 or inf for all at once");
  if (!workload::arrival_process{0.0, options.cv}.valid()) return wrong("--cv: expected a number from 0 to 100");
  if (!(options.scale > 0.0) || !std::isfinite(options.scale)) return wrong("--scale: expected a number above 0");
  if (options.trace.empty() && options.scale != 1.0)
    return wrong("--scale plays a trace faster; it needs --trace FILE");
  if (!options.trace.empty() && options.rate && options.scale != 1.0)
    return wrong("--rate and --scale both set the speed of a trace; give one of them");
  const auto priority = parse_priority_share(options.priority_share);
  if (!priority) return unexpected(priority.error());
  auto out = options.trace.empty() ? plan_drawn(options) : plan_trace(options);
  if (out && !priority->name.empty()) {
    workload::draw_priorities(out->requests, priority->share, options.seed);
    out->priority = priority->name;
  }
  if (out && options.concurrency > 0) out->arrivals += fmt::format(", at most {} in flight", options.concurrency);
  return out;
}

} // namespace godwit::main
