#include <godwit/protocols/migration/reason.hpp>

#include <array>
#include <cstddef>

namespace godwit::protocols {

std::string_view to_string(migration_reason reason) noexcept {
  constexpr std::array<std::string_view, migration_reasons> names{"none",
                                                                  "request_unknown",
                                                                  "request_finished",
                                                                  "request_cancelled",
                                                                  "request_preempted",
                                                                  "request_busy",
                                                                  "request_ambiguous",
                                                                  "same_instance",
                                                                  "incompatible",
                                                                  "no_fabric",
                                                                  "no_adapter",
                                                                  "source_busy",
                                                                  "destination_busy",
                                                                  "destination_full",
                                                                  "destination_not_ready",
                                                                  "not_converging",
                                                                  "transfer_failed",
                                                                  "timed_out",
                                                                  "peer_lost",
                                                                  "home_refused",
                                                                  "home_lost",
                                                                  "stopped"};
  const auto index = static_cast<std::size_t>(reason);
  return index < names.size() ? names[index] : "unknown";
}

std::string_view to_string(migration_outcome outcome) noexcept {
  switch (outcome) {
  case migration_outcome::refused:
    return "refused";
  case migration_outcome::aborted:
    return "aborted";
  case migration_outcome::committed:
    return "committed";
  case migration_outcome::reclaimed:
    return "reclaimed";
  case migration_outcome::lost:
    return "lost";
  }
  return "unknown";
}

} // namespace godwit::protocols
