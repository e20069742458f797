#pragma once

#include <godwit/protocols/messages/load.hpp>
#include <godwit/protocols/messages/scheduling.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
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
  double load_min = 0.5;                 ///< below it a phase has enough, whatever the other has
  std::int64_t hold_ns = 10'000'000'000; ///< what is averaged, and the least time between two decisions
  double blocks_kept = 6;                ///< of each request that decodes; pairing_settings::destination_above
  latency_objectives objectives;         ///< that all requests have; 0: none
};

/// How much of what instances of a role can do is asked of them; 1 is all. At most `phase_load_most`.
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
/// Loads are means over `hold`, of instances of one kind of KV and of one role:
/// * prefill: the time that prompts took, and what those that are there will still take, of the time that there was.
///   Where there is an objective for the first token: what those that are there take in it, if that is more.
/// * decode: the blocks in use or asked for, of all blocks but `blocks_kept` for each request; likewise places in the
///   batch. Requests that decode on prefill instances count, since they are to come. Where there is an objective for
///   each further token: what one takes in it, if that is more.
///
/// Once per `hold`, where the same instances have been there all along: if one phase's load is above `load_min`, and
/// the other's, with instances less, would be at most `load_spared` and still lower by `margin` than the first one's
/// with these more, as many go over as keep that so, at most a quarter of those that have that role and never the last
/// one. So loads would have to change by more than `margin` for them to come back. Those with the least to do go, the
/// youngest of equals. Where all have one role, one of them gets the other.
///
/// Mixed instances, those that terminate and those that nobody has heard of are left out.
class role_balancer {
public:
  explicit role_balancer(role_settings settings);

  /// Call it some times per `hold`, with reports by ascending instance id. Times never go back. One decision for each
  /// kind of KV at most, none where the policy is `fixed`.
  [[nodiscard]] std::vector<role_decision> step(std::int64_t now_ns, const std::vector<load_report>& loads);
  /// What was measured goes on.
  void set_policy(role_policy policy) noexcept { settings_.policy = policy; }
  [[nodiscard]] role_policy policy() const noexcept { return settings_.policy; }
  /// Of the last `hold` that went by with the same instances, where both roles are there; of several kinds of KV the
  /// higher ones.
  [[nodiscard]] std::optional<phase_loads> loads() const noexcept;
  /// Likewise, if that many instances had each role; the highest where there are none.
  [[nodiscard]] std::optional<phase_loads> loads_with(std::int64_t prefill_more,
                                                      std::int64_t decode_more) const noexcept;

  /// Roles follow the load, and have changed lately, or those that have them; what came of it is not known yet.
  [[nodiscard]] bool settling() const noexcept;

  static constexpr double margin = 0.1;
  static constexpr double load_spared = 1;

private:
  struct seen {
    instance_id instance;
    std::uint64_t generation = 0;
    instance_role role = instance_role::mixed;
    std::uint64_t prompt_ns_total = 0;
    friend bool same(const seen& a, const seen& b) noexcept {
      return a.instance == b.instance && a.generation == b.generation && a.role == b.role;
    }
  };
  /// Sums over time, each in its unit times nanoseconds but for `prompt_ns`.
  struct measured {
    double time = 0;
    std::size_t prefill_instances = 0, decode_instances = 0;
    double prompt_ns = 0; ///< that prompts took
    double left_ns = 0;   ///< that those that are there will take
    double running = 0;   ///< requests that decode, or are to, on decode instances
    double blocks = 0, blocks_total = 0;
    double places = 0, places_total = 0;
    double tpot_ns = 0;
  };
  struct kind {
    std::vector<seen> there;
    std::int64_t since = 0;
    std::int64_t last = 0;
    measured sums;
    std::optional<measured> before; ///< the last `hold`
  };
  void add(kind& k, const std::vector<const load_report*>& loads, std::int64_t now_ns) const;
  [[nodiscard]] double prefill_load(const measured& m, double instances) const noexcept;
  [[nodiscard]] double decode_load(const measured& m, double instances) const noexcept;
  [[nodiscard]] std::optional<role_decision> decide(const measured& m,
                                                    const std::vector<const load_report*>& loads) const;

  role_settings settings_;
  std::map<std::uint64_t, kind> kinds_;
};

} // namespace godwit::protocols
