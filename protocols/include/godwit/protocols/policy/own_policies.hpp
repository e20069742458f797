#pragma once

#include <godwit/protocols/lengths/length_predictor.hpp>
#include <godwit/protocols/messages/load.hpp>
#include <godwit/protocols/policy/dispatch.hpp>
#include <godwit/protocols/policy/pairing.hpp>
#include <godwit/protocols/policy/role_balance.hpp>
#include <godwit/protocols/policy/scaling.hpp>
#include <godwit/protocols/policy/selection.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace godwit::protocols {

/// Scheduling ideas of one's own, each in the place of a built-in one. All are functions of what they are told: no
/// clock, no random device, or a simulation is not the same twice and a recording cannot be replayed. None should
/// throw or take long; what happens to one that does stands in docs/embedding.md, section 8.

/// Dispatch policies beside the built-in ones, by names that these do not have. Each call makes a new one, never null;
/// same calls, same answers, as `dispatcher` promises.
using dispatcher_factories = std::map<std::string, std::function<std::unique_ptr<dispatcher>()>, std::less<>>;

/// In the place of pair_instances, whose promises it keeps: called once a round, with the policy in force (paused:
/// `none`), which it has to heed. It pairs instances; which requests move, and whether any does, each source's llumlet
/// decides. Pairs of an instance with itself, of one that `loads` lacks and further ones of a source are left out, and
/// the log says so.
using pair_policy = std::function<std::vector<migration_pair>(const std::vector<load_report>& loads,
                                                              const pairing_settings& settings, std::uint64_t round)>;

/// In the place of `autoscaler`, and asked once a round unless the mode is `off`; `dry` is filled in, and `count` is
/// kept within the bounds. Goes by the view's time.
using scale_policy = std::function<std::optional<scaling_decision>(const scaling_view& view)>;

/// In the place of `role_balancer`, and asked once a round where the role policy is `balance` and prefill instances
/// hand over. Instances that are not there are left out.
using role_balance_policy =
    std::function<std::vector<role_decision>(std::int64_t now_ns, const std::vector<load_report>& loads)>;

/// In the place of the rule in choose_move by which a marked source says what leaves it for memory's sake: an index
/// into `moves`, or none. `moves` is what can go there now (possible_moves), never empty, with what would come of it.
/// Not asked what is handed over from prefill to decode instances, nor what leaves an instance that drains. An index
/// that is none of these counts as none, and the log says so. Called on the context of each instance's llumlet, so on
/// several threads at a time, each with a copy.
using move_policy = std::function<std::optional<std::size_t>(
    const std::vector<possible_move>& moves, const load_report& source, const load_report& destination)>;

/// Says how long answers will be, in the place of `history_predictor`. One for each front end.
using length_predictor_factory = std::function<std::unique_ptr<length_predictor>()>;

/// What is empty stays as it is built in.
struct own_policies {
  dispatcher_factories dispatchers;
  pair_policy pair;
  scale_policy scale;
  role_balance_policy balance;
  move_policy move;
  length_predictor_factory lengths;
};

} // namespace godwit::protocols
