// Live migrations of a real model's requests: what the client sees of them, what the bystanders do. On the CPU device,
// or with `--cuda` on the first GPU, for all instances (processes take turns on it). `--two-processes`: those lines
// alone; the others are in_process by their names.
#include "migration/bystanders.hpp"
#include "migration/stall.hpp"
#include "support/bench.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <vector>

int main(int argc, char** argv) {
  using namespace godwit::bench;
  try {
    if (is_member(argc, argv)) return run_member(argv);
    const auto flag = [&](const char* name) {
      const auto end =
          std::remove_if(argv, argv + argc, [&](const char* word) { return std::strcmp(word, name) == 0; });
      const bool given = end != argv + argc;
      argc = static_cast<int>(end - argv);
      return given;
    };
    const bool on_gpu = flag("--cuda"), two_processes = flag("--two-processes");
    session out(argc, argv, 3);
    const served_model model(on_gpu);
    bool failed = false; // what one part cannot measure others may
    std::vector wanted{setup::two_processes};
    if (!two_processes) wanted.push_back(setup::in_process);
    for (const auto where : wanted)
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
