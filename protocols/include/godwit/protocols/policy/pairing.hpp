#pragma once

#include <godwit/protocols/messages/load.hpp>
#include <godwit/protocols/messages/migration.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace godwit::protocols {

enum class migration_policy : std::uint8_t {
  none,     ///< only by hand, and to drain an instance that terminates
  defrag,   ///< instances whose head of line waits for memory get rid of running requests
  freeness, ///< and instances that run out of memory soon too (Llumnix)
  never,    ///< only by hand: an instance that terminates ends its requests itself, as without migration (INFaaS++)
};
[[nodiscard]] std::string_view to_string(migration_policy policy) noexcept;
[[nodiscard]] std::optional<migration_policy> parse_migration_policy(std::string_view name) noexcept;
/// The default first.
[[nodiscard]] std::vector<std::string_view> migration_policy_names();

/// In blocks per running request, like freeness.
struct pairing_settings {
  migration_policy policy = migration_policy::freeness;
  double source_below = 3;      ///< an instance with less is a source
  double destination_above = 6; ///< one with more a destination
  bool handoff = true;          ///< what is prefilled leaves prefill instances
};

inline constexpr std::size_t handoff_destinations = 4;

struct migration_pair {
  instance_id source;
  instance_id destination;
  friend bool operator==(const migration_pair&, const migration_pair&) = default;
};

/// One round of pairing (Llumnix section 4.4.3): the instance with the lowest freeness is paired with the one with the
/// highest, the second lowest with the second highest, and so on; each round anew, whoever was paired in the last one.
/// No instance is in two pairs. Ascending by source's freeness, then by id; those that terminate come first, in turn by
/// `round`, or one whose requests fit nowhere would keep the others from the only destination.
///
/// And prefill instances, idle ones too, are each paired with some that are not, the freest ones, so that their
/// requests leave them as soon as they decode (DistServe, Splitwise). These pairs come last, those of a source
/// together. Their destinations may be in several of them, and in one of the others.
///
/// * Instances of different `kv_kind` are never paired: each kind is paired by itself, one after the other.
/// * A source has requests, and is ready or terminates. By `freeness` it has less than `source_below`; by `defrag` its
///   head of line demands all that is free or more. (Its freeness is at most 0 then; but headroom alone, which keeps
///   nobody from starting, makes no such source.)
/// * A terminating instance is a source unless by `never`, no destination, and content with any destination that
///   has memory left over, kept free as headroom or not, `destination_above` or not, be it a source otherwise: it has
///   to get empty while others are busy.
/// * A destination is ready and has places in queue and batch. But for those that terminate it is no source.
/// * The source's freeness is below the destination's, whatever the thresholds say.
/// * What is prefilled goes to instances that have more than `destination_above`, places and memory left over; at most
///   `handoff_destinations` for each source, which begin in turn. With `handoff`, and by every policy but `never`.
/// * While there is such a one, prefill instances are in no other pairs, but as sources that terminate, with each other
///   first, and as destinations of others that do, last. Otherwise all roles are as mixed.
///
/// `loads` has each instance at most once, in any order. Costs O(instances log instances), whatever runs on them.
[[nodiscard]] std::vector<migration_pair> pair_instances(const std::vector<load_report>& loads,
                                                         const pairing_settings& settings, std::uint64_t round = 0);

/// What the source of a pair is to be told as the reason of its mark.
[[nodiscard]] migration_cause::kind mark_cause(const load_report& source, const load_report& destination) noexcept;

/// Whether this pair is there for what is prefilled at the source.
[[nodiscard]] bool hands_over(const load_report& source, const load_report& destination) noexcept;

} // namespace godwit::protocols
