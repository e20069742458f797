#pragma once

#include <godwit/protocols/expected.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace godwit::protocols {

/// A device that may have layers.
struct layer_host {
  std::uint64_t memory_bytes = 0;
  double bytes_per_second = 0; ///< at which it reads weights, which is what a token's time goes by; above 0
};

/// What is to be placed.
struct layered_model {
  std::uint32_t layers = 0;        ///< at least 1
  std::uint64_t layer_bytes = 0;   ///< of weights, read for each token
  std::uint64_t layer_reserve = 0; ///< beside them, for a layer's KV
  std::uint64_t first_bytes = 0;   ///< beside the first layer: the embeddings, of which hardly anything is read
  std::uint64_t last_bytes = 0;    ///< behind the last one: the head, read for each token
  std::uint64_t shared_bytes = 0;  ///< of both, what is there once where one device has the first and the last layer
};

struct layer_run {
  std::size_t device = 0;
  std::uint32_t layers = 0;
  friend bool operator==(const layer_run&, const layer_run&) = default;
};

struct layer_placement {
  std::vector<layer_run> runs; ///< in the order in which a token goes through them
  double seconds = 0;          ///< a token's: reading, and going from device to device
  double hop_seconds = 0;      ///< of that, going
};

/// More devices take too long to try.
inline constexpr std::size_t layer_hosts_max = 12;

/// Problem: which devices, of different memory, speed and distance, should have how many of a model's layers, in which
/// order (UELLM's HELR, algorithm 3-2).
///
/// The best of all: every subset and order, by dynamic programming over (subset, first, last device), each with the
/// numbers of layers that take least there, one at least. Least is `seconds` + `device_seconds` for each device, which
/// are what a further device has to save: 0 is the lowest latency (the paper's LR), much is the fewest devices (HE),
/// between them both (HELR). Where two are as good, that of fewer devices, then that of the first ones.
///
/// `hops`: seconds from device i to device j at [i * devices + j]. Errors (one line): the model does not fit on all
/// devices together, no devices or too many, a speed of 0.
[[nodiscard]] expected<layer_placement, std::string> place_layers(const layered_model& model,
                                                                  std::span<const layer_host> devices,
                                                                  std::span<const double> hops, double device_seconds);

} // namespace godwit::protocols
