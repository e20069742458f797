#include "main/bench_workload.hpp"

#include <godwit/protocols/workload/trace.hpp>
#include <godwit/protocols/workload/workload.hpp>

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

namespace godwit::main {

namespace workload = protocols::workload;
using protocols::expected;
using protocols::unexpected;

namespace {

constexpr std::size_t requests_default = 100;
constexpr std::string_view lengths_default = "short";
constexpr std::uintmax_t trace_bytes_max = 2ULL << 30U;

constexpr const char* too_large = "it is larger than 2 GiB; cut it";

/// A pipe, or a device: nobody knows how much there is.
template <class Failed> expected<std::string, bench_error> read_stream(std::istream& in, const Failed& failed) {
  std::string text;
  std::array<char, 1 << 16> part{};
  while (in.read(part.data(), part.size()), in.gcount() > 0) {
    text.append(part.data(), static_cast<std::size_t>(in.gcount()));
    if (text.size() > trace_bytes_max) return failed(too_large);
  }
  if (in.bad()) return failed("it cannot be read to its end");
  return text;
}

expected<std::string, bench_error> read_file(const std::string& path) {
  const auto failed = [&](const std::string& why) {
    return unexpected(bench_error{1, "cannot read the trace " + path + ": " + why});
  };
  auto ec = std::error_code{};
  if (std::filesystem::is_directory(path, ec)) return failed("it is a directory");
  auto in = std::ifstream(path, std::ios::binary);
  if (!in) return failed(std::generic_category().message(errno));
  if (const auto kind = std::filesystem::status(path, ec); std::filesystem::exists(kind) && !is_regular_file(kind))
    return read_stream(in, failed);
  const auto size = std::filesystem::file_size(path, ec);
  if (ec) return failed(ec.message());
  if (size > trace_bytes_max) return failed(too_large);
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

std::string describe(const workload::arrival_process& process) {
  if (process.all_at_once()) return "all at once";
  if (process.cv == 1.0) return fmt::format("Poisson, {:g} requests/s", process.rate);
  return fmt::format("Gamma with CV {:g}, {:g} requests/s", process.cv, process.rate);
}

expected<workload::trace, bench_error> read_requests(const bench_options& options) {
  const auto text = read_file(options.trace);
  if (!text) return unexpected(text.error());
  auto limits = workload::trace_limits{};
  if (options.requests > 0) limits.requests_max = options.requests;
  auto read = workload::read_trace(*text, limits);
  if (read) return std::move(*read);
  return unexpected(bench_error{1, read.error().line == 0 ? options.trace + ": " + read.error().message
                                                          : read.error().text(options.trace)});
}

bool draws_arrivals(const bench_options& options) {
  if (options.arrivals == bench_arrivals::unless_told) return options.trace.empty();
  return options.arrivals != bench_arrivals::trace;
}

/// As they were recorded, at the speed that is asked for.
void play_arrivals(const bench_options& options, bench_workload& out) {
  const auto own_rate = rate_of(out.requests);
  const auto at_once = !own_rate || (options.rate && (*options.rate == 0.0 || std::isinf(*options.rate)));
  if (at_once) {
    for (auto& r : out.requests) r.arrival_ns = 0;
    out.arrivals = "all at once";
    return;
  }
  workload::scale_rate(out.requests, options.rate ? *options.rate / *own_rate : options.scale);
  out.scheduled = true;
  out.arrivals = fmt::format("as traced, {:.4g} requests/s on average", rate_of(out.requests).value_or(0.0));
}

/// Unless told otherwise at the rate of the requests' own arrivals, or all at once where they have none.
void draw_arrivals(const bench_options& options, bench_workload& out) {
  const auto own_rate = options.trace.empty() ? std::nullopt : rate_of(out.requests);
  const auto process = workload::arrival_process{options.rate.value_or(own_rate.value_or(0.0) * options.scale),
                                                 options.cv.value_or(1.0)};
  workload::draw_arrivals(out.requests, process, options.seed);
  out.scheduled = !process.all_at_once();
  out.arrivals = describe(process);
}

expected<bench_workload, bench_error> plan(const bench_options& options) {
  auto out = bench_workload{};
  const auto trace = std::filesystem::path(options.trace).filename().string();
  if (options.trace.empty()) {
    out.requests.resize(options.requests > 0 ? options.requests : requests_default);
  } else {
    auto read = read_requests(options);
    if (!read) return unexpected(read.error());
    out.requests = std::move(read->requests);
    out.skipped = read->skipped;
    out.missing = std::max(options.requests, out.requests.size()) - out.requests.size();
    out.name = "trace " + trace;
  }
  if (!options.lengths.empty() || options.trace.empty()) {
    out.name = options.lengths.empty() ? std::string(lengths_default) : options.lengths;
    const auto lengths = workload::parse_lengths(out.name);
    if (!lengths) return unexpected(bench_error{2, "--lengths: " + lengths.error().message});
    workload::draw_lengths(out.requests, *lengths, options.seed);
    if (!options.trace.empty()) out.name += " at the times of trace " + trace;
  }
  if (draws_arrivals(options))
    draw_arrivals(options, out);
  else
    play_arrivals(options, out);
  return out;
}

/// What cannot be meant, in one line; nothing where all is well.
std::optional<std::string> contradiction(const bench_options& options) {
  if (!workload::arrival_process{options.rate.value_or(0.0), 1.0}.valid())
    return "--rate: expected requests per second, 0 or inf for all at once";
  if (!workload::arrival_process{0.0, options.cv.value_or(1.0)}.valid()) return "--cv: expected a number from 0 to 100";
  if (!(options.scale > 0.0) || !std::isfinite(options.scale))
    return options.scale_flag + ": expected a number above 0";
  if (options.trace.empty() && options.scale != 1.0)
    return options.scale_flag + " plays a trace faster; it needs --trace FILE";
  if (options.rate && options.scale != 1.0)
    return "--rate and " + options.scale_flag + " both set the speed of a trace; give one of them";
  if (options.trace.empty() && options.arrivals == bench_arrivals::trace)
    return "--arrivals trace are those of a trace; it needs --trace FILE";
  if (!options.trace.empty() && !options.lengths.empty() && draws_arrivals(options))
    return "--lengths and --arrivals leave nothing of the trace; leave out one of the three";
  if (options.cv && !draws_arrivals(options))
    return "--cv is of drawn arrivals, and a trace has its own; --arrivals gamma draws them";
  const bool at_once = workload::arrival_process{options.rate.value_or(0.0), 1.0}.all_at_once();
  if (options.trace.empty() && at_once && (options.cv || options.arrivals != bench_arrivals::unless_told))
    return "--arrivals and --cv are of gaps between requests, and without --rate there are none";
  if (options.cv && options.arrivals == bench_arrivals::poisson)
    return "--cv: Poisson arrivals have a CV of 1; --arrivals gamma has any";
  return std::nullopt;
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
  if (auto wrong = contradiction(options)) return unexpected(bench_error{2, std::move(*wrong)});
  const auto priority = parse_priority_share(options.priority_share);
  if (!priority) return unexpected(priority.error());
  auto out = plan(options);
  if (out && !priority->name.empty()) {
    workload::draw_priorities(out->requests, priority->share, options.seed);
    out->priority = priority->name;
  }
  if (out && options.concurrency > 0) out->arrivals += fmt::format(", at most {} in flight", options.concurrency);
  return out;
}

} // namespace godwit::main
