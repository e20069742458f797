// The same programs as bench_trace's, over a runtime that was compiled without recording.

#include "trace/messages.hpp"

int main() {
  godwit::bench::message_load load(nullptr);
  godwit::bench::answer_slices(load);
}
