// The same programs as bench_trace's, over a runtime that was compiled without recording.

#include "trace/messages.hpp"

#include <cstdio>

int main() {
  const auto costs = godwit::bench::measure_messages(nullptr);
  std::printf("%.3f %.3f %llu\n", costs.tell_ns, costs.ask_ns, static_cast<unsigned long long>(costs.messages));
}
