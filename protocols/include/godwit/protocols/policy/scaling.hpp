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
/// The default first.
[[nodiscard]] std::vector<std::string_view> scaling_mode_names();

/// What an autoscaler goes by.
enum class scaling_rule : std::uint8_t {
  mean, ///< the mean of the instances' freeness, over a while
  total ///< what they have left together for each request, at one moment; as Llumnix's public artifact
};
[[nodiscard]] std::string_view to_string(scaling_rule rule) noexcept;

struct scaling_settings {
  scaling_mode mode = scaling_mode::off;
  scaling_rule rule = scaling_rule::mean;
  double freeness_min = 10;              ///< x, in blocks per running request: below it for `hold`, one instance more
  double freeness_max = 60;              ///< y: above it for `hold`, one less
  std::int64_t hold_ns = 10'000'000'000; ///< also between two decisions; between two looks where the rule is `total`
  std::uint32_t instances_min = 1;
  std::uint32_t instances_max = 16;
  std::int64_t provision_timeout_ns = 600'000'000'000; ///< an ordered instance that is not there by then never comes
};

/// Of instances whose roles follow the load (role_balance.hpp).
struct scaling_roles {
  bool settling = false;                        ///< roles have changed, and nobody knows yet whether that is enough
  std::optional<double> prefill = {};           ///< the load of prefill instances; 1 is as much as is good
  std::optional<double> prefill_with_less = {}; ///< with one of them less
  std::uint32_t prefill_missing = 0;            ///< so many more would be enough
  std::int64_t measured_since = 0;              ///< when the measurement of all that began
};

/// What is there, at one moment.
struct scaling_view {
  std::int64_t now_ns = 0;
  std::vector<load_report> loads; ///< of the instances that take requests, and of those that terminate
  std::uint32_t starting = 0;     ///< there, but not ready yet
  std::uint32_t ordered = 0;      ///< ordered from the provisioner, not there yet
  std::uint64_t refused = 0;      ///< requests since the last view, since others before them would have made them late
  /// Were ready when they were last heard of, which is too long ago: late, or dead. They are there, and nobody waits
  /// for them.
  std::vector<instance_id> silent = {};
  std::optional<scaling_roles> roles = {}; ///< nothing: they stay as they are
  /// The bounds of scaling_settings, for whoever decides without them.
  std::uint32_t instances_min = 0, instances_max = 0;
};

struct scaling_decision {
  enum class kind : std::uint8_t {
    out,  ///< `count` instances more
    keep, ///< let `instance` stay, which is being drained
    in    ///< drain `instance`, then stop it
  };
  kind what = kind::out;
  instance_id instance;
  std::uint32_t count = 1; ///< of instances; more than one only with the rule `total`
  double mean = 0;         ///< of the freeness, or what all have left together
  bool dry = false;        ///< only say so
  std::string why;         ///< one line, with the numbers
};
[[nodiscard]] std::string_view to_string(scaling_decision::kind kind) noexcept;

/// What is left of somebody's decision: no more instances than `view.instances_max` with all that there are, drain, are
/// silent, start or are ordered; of those that take requests one drained at a time, and none where
/// `view.instances_min` or fewer do. Nothing: nothing is left.
[[nodiscard]] std::optional<scaling_decision> within_bounds(scaling_decision decision, const scaling_view& view);

/// Keeps the mean freeness of the instances that take requests within [x, y] (Llumnix section 4.4.3).
///
/// * Each instance counts with at most 2y and at least -2y (2|x| where that is more), lest one idle instance hide that
///   the others are full. It is the freeness that normal requests meet: the headroom of others counts as used.
/// * Below x for `hold`: the drain that this autoscaler began is taken back; where there is none, one instance more.
///   Drains that an operator began, or took over, are not its business: what still drains `hold` after it was to stay
///   is taken for such a one. Fewer than `instances_min`: one more at once; where nothing has been decided yet, after
///   `hold`, since members that a head before had may be about to join again.
/// * Above y for `hold`: the instance with the fewest running requests is drained, then the fewest others; the youngest
///   of equals. Not where the others would then be below x, at any moment of the hold: it would come back at once.
/// * Where requests are refused since they would be late (early rejection), the load is what is let in and says little:
///   that counts as below x, as long as a quarter of `hold` does not pass without such a refusal. So many instances
///   were too few: for `hold` there are not to be so few again, for twice as long when they are too few once more, and
///   so on up to 64 times, and anew from one when there has been none for twice as long and 16 times `hold`.
/// * One thing at a time: while instances start or are ordered, or drain, nothing but a drain's end is decided. What
///   neither starts nor comes for `provision_timeout` is not waited for any longer, nor is what fails and starts over
///   and over, unless it is ready for `hold` in between; what was ordered then never comes.
/// * `instances_max` counts all there are, those that drain, that are silent and that are ordered too.
/// * Prefill instances are counted, and nobody looks at their freeness, which says little of prompts to come. Where
///   there are no others they are as mixed. None leaves, unless roles follow the load: then their load above
///   `prefill_load_max` counts as a mean below x, and as many are ordered as are missing; and where it would be below
///   `prefill_load_min` with one less, for `prefill_idle_holds` times `hold`, one of them leaves if no other can:
///   a queue of prompts is there at once, and an instance is not. As long as roles have changed and nobody knows what
///   came of it, nothing is too low, for three times `hold` at most; and none leaves before that load has been measured
///   with as many as there are.
///
/// With the rule `total` once per `hold` is looked at what is free in all for each request, running or waiting, all
/// that waits counted as used (Llumnix's public artifact, which looks every 10 s):
/// * Below x: as many instances more at once as bring it to x if they were empty; one where none takes requests.
/// * Above y: one instance less, where the others would still be above y if its requests ran there.
/// The rest is alike.
///
/// A dry run decides likewise and says so, again after each `hold` since nothing changes by it. A successor (the
/// scheduler may die) knows no drains, so it takes none back.
class autoscaler {
public:
  explicit autoscaler(scaling_settings settings);
  /// Call it at least a few times per `hold`. Times never go back.
  [[nodiscard]] std::optional<scaling_decision> step(const scaling_view& view);
  /// Everything held so far begins anew.
  void set_mode(scaling_mode mode) noexcept;
  static constexpr double prefill_load_max = 1;
  static constexpr double prefill_load_min = 0.6;
  static constexpr std::int64_t prefill_idle_holds = 6;

  /// Of the last step.
  [[nodiscard]] double mean_freeness() const noexcept { return mean_; }
  [[nodiscard]] const scaling_settings& settings() const noexcept { return settings_; }

private:
  struct census;
  [[nodiscard]] bool waits_for_instances(const scaling_view& view) noexcept;
  void follow_drain(const scaling_view& view) noexcept;
  [[nodiscard]] bool looks(std::int64_t now_ns) noexcept;
  struct shortage;
  [[nodiscard]] bool settles(const scaling_view& view) noexcept;
  /// The load of prefill instances, where it was measured since the last one came and the last decision.
  [[nodiscard]] std::optional<scaling_roles> prompts(const scaling_view& view) noexcept;
  [[nodiscard]] std::optional<scaling_decision> more(const std::vector<load_report>& loads, const census& there,
                                                     const shortage& what) const;
  [[nodiscard]] bool one_may_leave(const census& there) const noexcept;
  [[nodiscard]] std::optional<scaling_decision> less(const std::vector<load_report>& loads, const census& there) const;
  [[nodiscard]] std::optional<scaling_decision> less_prefill(const scaling_view& view, const census& there) const;
  void forget() noexcept;

  scaling_settings settings_;
  double mean_ = 0;
  std::optional<std::int64_t> low_since_, high_since_, few_since_;
  std::optional<std::int64_t> settling_since_, prefill_idle_since_;
  std::optional<std::size_t> there_;    ///< the most instances since the last decision
  std::int64_t others_until_ = 0;       ///< what was measured before is of other instances
  std::optional<std::int64_t> refused_; ///< when requests were the last time
  std::size_t too_few_ = 0;             ///< instances, then
  std::int64_t too_few_holds_ = 0;      ///< for which that is remembered
  std::optional<std::int64_t> decided_;
  std::optional<std::int64_t> looked_;
  std::optional<instance_id> drain_; ///< begun by this one
  bool kept_ = false;                ///< the last decision was to take it back
  std::uint32_t ordered_ = 0;
  std::uint32_t most_ = 0;         ///< that started or were ordered at once, until there were fewer for `hold`
  std::int64_t pending_since_ = 0; ///< when there were more than that, or their orders last changed
  std::optional<std::int64_t> fewer_since_;
};

/// The mean that the autoscaler goes by; of no instances: the least.
[[nodiscard]] double mean_freeness(const std::vector<load_report>& loads, const scaling_settings& settings) noexcept;
/// The same if what runs on `leaving` ran on the others, shared out evenly.
[[nodiscard]] double mean_freeness_without(const std::vector<load_report>& loads, const load_report& leaving,
                                           const scaling_settings& settings) noexcept;

/// The blocks that the instances that take requests have left together for each request, running or waiting, when all
/// that waits has its prompt; of no instances: minus infinity. As with freeness, less than none is not divided.
[[nodiscard]] double total_freeness(const std::vector<load_report>& loads) noexcept;
/// The same with so many more instances, which are empty and like those that are there on average.
[[nodiscard]] double total_freeness_with(const std::vector<load_report>& loads, std::size_t more) noexcept;
/// The same if the others had all requests.
[[nodiscard]] double total_freeness_without(const std::vector<load_report>& loads, const load_report& leaving) noexcept;

} // namespace godwit::protocols
