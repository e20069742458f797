#pragma once

#include <godwit/gpu/executor.hpp>
#include <godwit/gpu/sim/latency_model.hpp>
#include <godwit/protocols/expected.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace godwit::gpu::sim {

/// The way of KV blocks from one instance to another.
struct profile_link {
  double bytes_per_second = 0;
  double latency_us = 0;  ///< one way, of a message
  double overhead_us = 0; ///< once for each transfer: rendezvous, staging, whatever else software does
  /// The rate of the memory at its ends, at least that of the link: what leaves or arrives takes so much of it from
  /// the steps meanwhile. 0: nothing.
  double device_bytes_per_second = 0;
  /// Between an instance's pool and its host's memory, each way, both at once. 0: nobody says, and nothing is swapped.
  double host_bytes_per_second = 0;
  /// A transfer alone on the link.
  [[nodiscard]] std::chrono::nanoseconds transfer_time(double bytes) const;
  friend bool operator==(const profile_link&, const profile_link&) = default;
};

/// A number that was chosen so that the model says what somebody observed.
struct profile_calibration {
  std::string field; ///< "step.overhead_us"
  double value = 0;
  double without = 0; ///< what it would be otherwise
  std::string reason; ///< the observation, with its source
  friend bool operator==(const profile_calibration&, const profile_calibration&) = default;
};

/// A model on a device, as far as its times and sizes go; docs/formats/profile.md. One replica: bandwidths and sizes
/// are sums over the GPUs that share it.
struct profile {
  std::string name;
  std::string device; ///< in words
  std::string source; ///< where the numbers come from
  std::string model;
  std::uint32_t layers = 1;
  std::uint32_t vocabulary = 1;
  std::uint32_t positions_max = 1; ///< longest sequence, in tokens
  std::uint64_t weight_bytes = 0;
  double kv_bytes_per_token = 0;
  std::uint32_t kv_blocks = 1; ///< capacity, in blocks of protocols::tokens_per_block
  double start_ms = 0;         ///< from the decision to start an instance to its first step
  double overhead_us = 0;      ///< of each step
  double per_decode_us = 0;    ///< of each sequence that decodes
  double per_copy_us = 0;      ///< of each block copied before the step (copy-on-write)
  step_table linear;           ///< by tokens in the step
  step_table logits;           ///< by rows drawn from; may be empty
  double kv_bytes_per_second = 1;
  step_table kv;      ///< of attention of sequences that decode, by positions read; empty: by kv_bytes_per_second
  step_spread spread; ///< of steps of one shape about their time; empty: none
  double flops_per_pair = 0; ///< of attention, all layers
  double flops_per_second = 1;
  profile_link link;
  std::vector<profile_calibration> calibration;
  std::vector<std::string> assumptions;

  [[nodiscard]] double block_bytes() const noexcept { return kv_bytes_per_token * protocols::tokens_per_block; }
  friend bool operator==(const profile&, const profile&) = default;
};

/// What is wrong, in one line that names the file and the field.
struct profile_error {
  std::string line;
};

/// Names of the profiles that are compiled in, in alphabetical order.
[[nodiscard]] std::vector<std::string> profile_names();
/// The compiled-in profile of that name, or the file at that path (whatever has a '/' or ends in ".json" is a path).
[[nodiscard]] protocols::expected<profile, profile_error> open_profile(const std::string& name_or_path);
/// `file` is named in errors.
[[nodiscard]] protocols::expected<profile, profile_error> parse_profile(std::string_view text, const std::string& file);
/// Its file; parsing that gives the same profile.
[[nodiscard]] std::string to_json(const profile& what);

/// For make_sim_executor.
[[nodiscard]] executor_info executor_info_of(const profile& what);

} // namespace godwit::gpu::sim
