#pragma once

#include <godwit/protocols/messages/load.hpp>
#include <godwit/protocols/messages/scheduling.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace godwit::protocols {

/// Whether instances keep the roles that they were given.
enum class role_policy : std::uint8_t {
  fixed,  ///< until an operator gives them other ones
  balance ///< they follow the load of the two phases
};

inline constexpr std::array role_policies{std::pair{role_policy::fixed, std::string_view{"fixed"}},
                                          std::pair{role_policy::balance, std::string_view{"balance"}}};

[[nodiscard]] std::string_view to_string(role_policy policy) noexcept;
[[nodiscard]] std::optional<role_policy> parse_role_policy(std::string_view name) noexcept;
/// The default first.
[[nodiscard]] std::vector<std::string_view> role_policy_names();

struct role_settings {
  role_policy policy = role_policy::fixed;
  double load_min = 0.5;                ///< below it a phase has enough, whatever the other has; at most 1
  std::int64_t hold_ns = 5'000'000'000; ///< what is averaged, and the least time between two decisions
  double blocks_kept = 6;               ///< of each request that decodes; pairing_settings::destination_above
  latency_objectives objectives;        ///< that all requests have; 0: none
};

/// How much of what instances of a role can do is asked of them; 1 is as much as is good. At most `phase_load_most`.
struct phase_loads {
  double prefill = 0;
  double decode = 0;
  friend bool operator==(const phase_loads&, const phase_loads&) = default;
};
inline constexpr double phase_load_most = 10;

struct role_decision {
  instance_role to = instance_role::mixed;
  std::vector<instance_id> instances; ///< at least one; they have the other role
  std::string why;                    ///< one line, with the numbers
};

/// Gives instances the other role where one phase is short of what the other can spare: Splitwise's pools (ISCA '24,
/// section 4.3) and TetriInfer's instances that flip, but without emptying one first: what decodes on a new prefill
/// instance leaves it by live migration, prompts that wait on a new decode instance are computed there.
///
/// Loads are means over `hold`, of instances of one kind of KV. They are of what there is to do, so they do not depend
/// on who came and went meanwhile:
/// * prefill: the time that prompts took, and what those that are there will still take, of `busy_share` of the time
///   that there is; beyond that a queue takes longer than what is in it. Where there is an objective for the first
///   token: what waits, of half of it, if that is more.
/// * decode: the blocks in use or asked for, of all blocks but `blocks_kept` for each request; or the places in the
///   batch. Requests that decode on prefill instances count, since they are to come. Where there is an objective for
///   each further token: what steps take beyond one of hardly anything, of what the objective leaves for that. Where it
///   leaves nothing no number of instances meets it, and it does not count.
///
/// Once per `hold` instances go over, at most a quarter of a role and never its last one, as many as keep one of these:
/// * One phase's load is above `load_min`, and the other's, with fewer, would be at most 1, and lower by `margin` than
///   that one's with more.
/// * It is above 1, and the other's would be at most `load_spared`.
/// What the others would have to do is the highest of the last `holds_kept`, since a burst of prompts is there at once
/// and an instance that has gone is not. By neither would instances come back under the same load. Where some do come
/// back soon, the next change of this kind of KV waits for twice as many holds, up to `waits_max`, and goes by their
/// mean; less again when none has come back for a while. Nothing waits that was clear in each of the last `holds_kept`,
/// by the second rule. Those with the least to do go, the youngest of equals. Where all have had one role for a hold,
/// one of them gets the other.
///
/// Mixed instances, those that terminate and those that nobody has heard of are left out.
class role_balancer {
public:
  explicit role_balancer(role_settings settings);

  /// Call it some times per `hold`, with reports by ascending instance id. Times never go back. One decision for each
  /// kind of KV at most, none where the policy is `fixed`.
  [[nodiscard]] std::vector<role_decision> step(std::int64_t now_ns, const std::vector<load_report>& loads);
  /// Another one: what was measured is forgotten.
  void set_policy(role_policy policy) noexcept;
  [[nodiscard]] role_policy policy() const noexcept { return settings_.policy; }
  /// Of the last `hold`, where instances of both roles were there; of several kinds of KV the higher ones.
  [[nodiscard]] std::optional<phase_loads> loads() const noexcept { return loads_with(0); }
  /// The same with so many prefill instances more, or less.
  [[nodiscard]] std::optional<phase_loads> loads_with(std::int64_t prefill_more) const noexcept;
  /// So many more would be enough for the prompts that come, and for those that wait within half a minute; at most as
  /// many as there are.
  [[nodiscard]] std::uint32_t prefill_missing() const noexcept;
  /// Roles have changed, and what came of it is not known yet; or are about to.
  [[nodiscard]] bool settling() const noexcept;
  /// When the last `hold` began; of several kinds of KV the first one.
  [[nodiscard]] std::int64_t measured_since() const noexcept;

  static constexpr double busy_share = 0.7;
  static constexpr double margin = 0.1;
  static constexpr double load_spared = 0.75;
  static constexpr std::int64_t waits_max = 8;
  static constexpr std::size_t holds_kept = 4;

private:
  /// Sums over time, each in its unit times nanoseconds but for `prompt_ns`.
  struct measured {
    double time = 0;
    double prefill_time = 0, decode_time = 0; ///< of the instances that have the role
    double prompt_ns = 0;                     ///< that prompts took
    double left_ns = 0;                       ///< that those that are there will take
    double running = 0;                       ///< requests that decode, or are to, on decode instances
    double blocks = 0, blocks_total = 0;
    double places = 0, places_total = 0;
    double decoding_time = 0;           ///< of decode instances that have something to do
    double light_ns = 0, beyond_ns = 0; ///< of these: a step of hardly anything; what others take more
    void operator+=(const measured& more) noexcept;
  };
  struct totals {
    std::uint64_t generation = 0;
    std::uint64_t prompt_ns = 0;
  };
  struct kind {
    std::map<instance_id, totals> seen;
    std::int64_t since = 0, last = 0;
    measured sums;                  ///< since `since`
    std::optional<measured> before; ///< the last `hold`
    std::int64_t before_since = 0;
    std::size_t prefill = 0, decode = 0; ///< instances, at its end
    std::deque<measured> recent;         ///< the last holds
    measured longer;                     ///< since `waited` began
    std::int64_t waited = 0, waits = 1;  ///< holds, of which so many are waited for
    instance_role last_to = instance_role::mixed;
    std::int64_t since_last = 0; ///< holds
    bool settling = false, pending = false;
  };
  void add(kind& k, const std::vector<const load_report*>& there, std::int64_t now_ns) const;
  [[nodiscard]] double prefill_load(const measured& m, double instances) const noexcept;
  [[nodiscard]] double decode_load(const measured& m, double instances) const noexcept;
  /// By these measures.
  [[nodiscard]] std::optional<role_decision> decide(const kind& k, const measured& m,
                                                    const std::vector<const load_report*>& there) const;
  [[nodiscard]] phase_loads loads_by(const kind& k, const measured& m, std::int64_t prefill_more) const noexcept;
  [[nodiscard]] bool is_clear(const kind& k) const noexcept;

  role_settings settings_;
  std::map<std::uint64_t, kind> kinds_;
};

} // namespace godwit::protocols
