#include "sim/memory.hpp"

#include "sim/cluster_load.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include <malloc.h>

namespace godwit::bench {

namespace {

/// What malloc has given out and not got back, its own headers included. A simulation has one thread, so one arena.
double live_bytes() {
  const auto info = ::mallinfo2();
  return static_cast<double>(info.uordblks) + static_cast<double>(info.hblkhd);
}

/// Of so many instances that are ready and have nothing to do.
double idle_bytes(std::uint32_t instances) {
  auto options = simulated_load(instances, 0);
  const auto before = live_bytes();
  actors::sim::simulated_cluster cluster{std::move(options.cluster)};
  if (!cluster.start()) std::abort();
  return live_bytes() - before;
}

/// The most that is in use while 16 instances serve so many requests, which are planned beforehand.
double busy_bytes(std::size_t requests, double rate) {
  auto options = simulated_load(16, requests, rate);
  const auto before = live_bytes();
  double most = 0;
  std::uint64_t reports = 0;
  options.cluster.node.scheduler.on_report = [&](const protocols::load_report&) {
    if (++reports % 256 == 0) most = std::max(most, live_bytes() - before); // looking takes time
  };
  (void)serve_all(std::move(options));
  return most;
}

void add(session& out, const char* name, double bytes, double reference) {
  figure f; // no goal: it is for orientation
  f.name = name;
  f.value = bytes / 1024;
  f.unit = "KiB";
  f.reference = reference / 1024;
  f.ratio = bytes / reference;
  out.add(f);
}

} // namespace

void measure_memory(session& out) {
  if (out.wants("sim/memory_per_instance")) {
    const auto few = idle_bytes(16);
    const auto more = idle_bytes(64);
    const auto many = idle_bytes(1024);
    add(out, "sim/memory_per_instance", (many - few) / (1024 - 16), (more - few) / (64 - 16));
  }
  // Slopes, so that what the cluster itself takes does not count.
  const auto slope = [](double rate) { return (busy_bytes(6000, rate) - busy_bytes(2000, rate)) / 4000; };
  if (out.wants("sim/memory_per_request")) {
    const auto ended = slope(4.0); // few are open at a time
    const auto open = slope(0);    // all arrive at once
    add(out, "sim/memory_per_request", ended, sizeof(actors::sim::request_record));
    add(out, "sim/memory_per_request_open", open, ended);
  }
}

} // namespace godwit::bench
