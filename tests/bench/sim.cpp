// What simulating costs: messages of a simulated world next to bare CAF's, clusters of 16 to 1,024 instances, and
// memory; the fault search.

#include "sim/cluster.hpp"
#include "sim/explore.hpp"
#include "sim/memory.hpp"
#include "sim/messages.hpp"
#include "support/bench.hpp"

#include <main/huge_heap.hpp>

int main(int argc, char** argv) {
  godwit::bench::session session{argc, argv, 7};
  godwit::main::use_huge_pages(); // as `godwit sim` does
  measure_messages(session);
  measure_clusters(session);
  measure_memory(session);
  measure_explore(session);
  return session.result();
}
