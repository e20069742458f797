// Live migrations of a real model's requests on the CPU device: what the client sees of them, what the bystanders do.
#include "migration/bystanders.hpp"
#include "migration/stall.hpp"
#include "support/bench.hpp"

#include <cstdio>
#include <exception>

int main(int argc, char** argv) {
  using namespace godwit::bench;
  try {
    if (is_member(argc, argv)) return run_member(argv);
    session out(argc, argv, 3);
    const served_model model;
    for (const auto where : {setup::two_processes, setup::in_process}) {
      measure_stalls(out, model, where);
      measure_bystanders(out, model, where);
    }
    return out.result();
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "bench_migration: %s\n", failure.what());
    return 1;
  }
}
