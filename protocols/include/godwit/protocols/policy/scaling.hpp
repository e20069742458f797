#pragma once

#include <godwit/protocols/messages/load.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace godwit::protocols {

enum class scaling_mode : std::uint8_t { off, dry_run, on };
[[nodiscard]] std::string_view to_string(scaling_mode mode) noexcept;
[[nodiscard]] std::optional<scaling_mode> parse_scaling_mode(std::string_view name) noexcept;

struct scaling_settings {
  scaling_mode mode = scaling_mode::off;
  double freeness_min = 10;              ///< x, in blocks per running request: below it for `hold`, one instance more
  double freeness_max = 60;              ///< y: above it for `hold`, one less
  std::int64_t hold_ns = 10'000'000'000; ///< also between two decisions
  std::uint32_t instances_min = 1;
  std::uint32_t instances_max = 16;
  std::int64_t provision_timeout_ns = 600'000'000'000; ///< an ordered instance that is not there by then never comes
};

/// What is there, at one moment.
struct scaling_view {
  std::int64_t now_ns = 0;
  std::vector<load_report> loads; ///< of the instances that take requests, and of those that terminate
  std::uint32_t starting = 0;     ///< there, but not ready yet
  std::uint32_t ordered = 0;      ///< ordered from the provisioner, not there yet
};

struct scaling_decision {
  enum class kind : std::uint8_t {
    out,  ///< one instance more
    keep, ///< let `instance` stay, which is being drained
    in    ///< drain `instance`, then stop it
  };
  kind what = kind::out;
  instance_id instance;
  double mean = 0;  ///< of the freeness
  bool dry = false; ///< only say so
  std::string why;  ///< one line, with the numbers
};

/// Keeps the mean freeness of the instances that take requests within [x, y] (Llumnix section 4.4.3). Each instance
/// counts with at most 2y and at least -2y, lest one idle instance hide that the others are full.
///
/// Scale-in takes the instance with the fewest running requests, the youngest of equals. One at a time: nothing is
/// decided while an instance starts or is ordered, but for a drain that is taken back because the load rose.
class autoscaler {
public:
  explicit autoscaler(scaling_settings settings);
  [[nodiscard]] std::optional<scaling_decision> step(const scaling_view& view);
  void set_mode(scaling_mode mode) noexcept;
  /// Of the last step.
  [[nodiscard]] double mean_freeness() const noexcept { return mean_; }
  [[nodiscard]] const scaling_settings& settings() const noexcept { return settings_; }

private:
  scaling_settings settings_;
  double mean_ = 0;
  std::optional<std::int64_t> low_since_, high_since_;
  std::optional<std::int64_t> decided_;
};

/// The mean that the autoscaler goes by; of no instances: -2y.
[[nodiscard]] double mean_freeness(const std::vector<load_report>& loads, const scaling_settings& settings) noexcept;

} // namespace godwit::protocols
