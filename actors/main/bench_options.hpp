#pragma once

#include <godwit/transport/http/client.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace godwit::main {

enum class bench_endpoint : std::uint8_t { completions, chat };
/// Where arrivals come from. Unless told: the trace, where there is one; else drawn, gamma with `cv` and Poisson
/// without.
enum class bench_arrivals : std::uint8_t { unless_told, trace, poisson, gamma };
enum class progress_style : std::uint8_t { none, lines, bar };

/// What `godwit bench` can be told. docs/bench.md says what each is for.
struct bench_options {
  std::string url = "http://127.0.0.1:8000";
  transport::http::client_tls tls;
  std::string model;   ///< empty: the first of /v1/models
  std::string api_key; ///< for a server that wants one; empty: there is none
  bench_endpoint endpoint = bench_endpoint::completions;

  std::string lengths; ///< empty: those of the trace, or `short` without one
  std::string trace;   ///< a file; empty: all is drawn
  bench_arrivals arrivals = bench_arrivals::unless_told;
  std::size_t requests = 0;           ///< 0: 100, or the whole trace
  std::optional<double> rate;         ///< requests/s; 0, infinite or (without a trace) absent: all at once
  std::optional<double> cv;           ///< of drawn gaps
  double scale = 1.0;                 ///< how many times as fast a trace is played
  std::string scale_flag = "--scale"; ///< as the command calls it
  std::uint32_t concurrency = 0;      ///< requests in flight at most; 0: no bound
  std::uint32_t context = 0;          ///< lengths are cut to it; 0: what the server says of its model
  std::uint32_t vocabulary = 0;       ///< prompt ids lie below it; 0: within 10 .. 249
  std::uint64_t seed = 0;
  std::string priority_share; ///< "NAME=SHARE": of the requests, with this execution priority; empty: none are sent

  double temperature = 0.0;
  bool ignore_eos = true;
  std::size_t warmup = 0;
  double timeout_s = 600.0;      ///< of one request; 0: none
  std::optional<double> ttft_ms; ///< the objective for goodput
  std::optional<double> tpot_ms;

  bool json = false;
  progress_style progress = progress_style::none;
  std::string save; ///< a file for one JSON line per request
};

} // namespace godwit::main
