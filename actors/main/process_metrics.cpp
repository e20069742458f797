#include "main/process_metrics.hpp"

#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include <sys/resource.h>
#include <unistd.h>

namespace godwit::main {

namespace {

constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

/// Field `wanted` of proc(5)'s stat, from 3: what is before may hold blanks.
double stat_field(int wanted) {
  std::ifstream file("/proc/self/stat");
  std::string text;
  if (!std::getline(file, text, ')')) return unknown;
  for (int field = 3; file >> text; ++field)
    if (field == wanted) return std::strtod(text.c_str(), nullptr);
  return unknown;
}

double start_time() {
  timespec since_boot{};
  if (::clock_gettime(CLOCK_BOOTTIME, &since_boot) != 0) return unknown;
  const auto up = static_cast<double>(since_boot.tv_sec) + static_cast<double>(since_boot.tv_nsec) * 1e-9;
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  return now.count() - up + stat_field(22) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

double processor_seconds() {
  rusage used{};
  if (::getrusage(RUSAGE_SELF, &used) != 0) return unknown;
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

double open_files() {
  std::error_code failure;
  auto at = std::filesystem::directory_iterator("/proc/self/fd", failure);
  double count = -1; // one is the folder's own
  for (; !failure && at != std::filesystem::directory_iterator(); at.increment(failure)) ++count;
  return failure ? unknown : count;
}

double open_files_max() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return unknown;
  return static_cast<double>(limit.rlim_cur);
}

} // namespace

std::vector<runtime::metrics::registry::registration> add_process_metrics(runtime::metrics::registry& metrics) {
  std::vector<runtime::metrics::registry::registration> out;
  out.push_back(metrics.add_callback_gauges("godwit_build_info", "The version, in the labels; always 1.", [] {
    return runtime::metrics::registry::samples{{{{"version", GODWIT_VERSION}}, 1.0}};
  }));
  const auto gauge = [&](const char* name, const char* help, double (*read)()) {
    out.push_back(metrics.add_callback_gauge(name, help, read));
  };
  gauge("process_start_time_seconds", "When the process started, since the Unix epoch.", [] {
    static const auto at = start_time(); // clocks drift: it is one moment
    return at;
  });
  out.push_back(
      metrics.add_callback_counter("process_cpu_seconds_total", "Processor time of the process.", processor_seconds));
  gauge("process_resident_memory_bytes", "Memory of the process that is resident.",
        [] { return stat_field(24) * static_cast<double>(::sysconf(_SC_PAGESIZE)); });
  gauge("process_virtual_memory_bytes", "Addresses that the process has taken.", [] { return stat_field(23); });
  gauge("process_open_fds", "Files and sockets that are open.", open_files);
  gauge("process_max_fds", "How many may be.", open_files_max);
  return out;
}

} // namespace godwit::main
