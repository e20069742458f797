// Live migrations of a real model's requests: what the client sees of them, what the bystanders do. On the CPU device,
// or with `--cuda` on the first GPU, for all instances (processes take turns on it).
#include "migration/bystanders.hpp"
#include "migration/stall.hpp"
#include "support/bench.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>

int main(int argc, char** argv) {
  using namespace godwit::bench;
  try {
    if (is_member(argc, argv)) return run_member(argv);
    const auto end =
        std::remove_if(argv, argv + argc, [](const char* word) { return std::strcmp(word, "--cuda") == 0; });
    const bool on_gpu = end != argv + argc;
    session out(static_cast<int>(end - argv), argv, 3);
    const served_model model(on_gpu);
    bool failed = false; // what one part cannot measure others may
    for (const auto where : {setup::two_processes, setup::in_process})
      for (const auto measure : {measure_stalls, measure_bystanders}) {
        try {
          measure(out, model, where);
        } catch (const std::exception& failure) {
          std::fprintf(stderr, "bench_migration: %s\n", failure.what());
          failed = true;
        }
      }
    return failed ? 1 : out.result();
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "bench_migration: %s\n", failure.what());
    return 1;
  }
}
