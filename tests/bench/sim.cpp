// What simulating costs: messages of a simulated world next to bare CAF's, clusters of 16 to 1,024 instances, and
// memory.

#include "sim/cluster.hpp"
#include "sim/memory.hpp"
#include "sim/messages.hpp"
#include "support/bench.hpp"

int main(int argc, char** argv) {
  godwit::bench::session session{argc, argv, 7};
  measure_messages(session);
  measure_clusters(session);
  measure_memory(session);
  return session.result();
}
