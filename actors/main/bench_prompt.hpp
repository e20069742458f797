#pragma once

#include "main/bench_options.hpp"

#include <godwit/protocols/workload/request.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace godwit::main {

/// Writes the bodies of a run's requests: random prompts of the asked length, the same ones for the same seed.
class prompt_writer {
public:
  struct settings {
    std::string model;
    bench_endpoint endpoint = bench_endpoint::completions;
    std::uint32_t vocabulary = 0; ///< 0: ids 10 .. 249, which any tokenizer has and which are seldom special
    std::uint64_t seed = 0;
    double temperature = 0.0;
    bool ignore_eos = true;
    std::string priority{}; ///< execution priority of the workload's requests of priority 1; empty: not sent
  };

  explicit prompt_writer(settings chosen) : settings_(std::move(chosen)) {}

  /// Where the workload has prefix hashes, equal hashes give equal tokens, so that prefix caching shows.
  [[nodiscard]] std::vector<std::uint32_t> ids(const protocols::workload::workload_request& request,
                                               std::size_t index) const;
  /// A word for each token asked for: how many tokens the server makes of it is its tokenizer's business.
  [[nodiscard]] std::string words(const protocols::workload::workload_request& request, std::size_t index) const;
  [[nodiscard]] std::string body(const protocols::workload::workload_request& request, std::size_t index) const;

private:
  [[nodiscard]] std::vector<std::uint32_t> draw(const protocols::workload::workload_request& request, std::size_t index,
                                                std::uint32_t low, std::uint32_t high) const;

  settings settings_;
};

} // namespace godwit::main
