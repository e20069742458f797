#pragma once

#include <godwit/protocols/policy/pairing.hpp>

#include <cstdint>
#include <ostream>
#include <vector>

/// Which instances migrate to which, for the tests of the policies.
namespace godwit::protocols {

inline void PrintTo(const migration_pair& p, std::ostream* out) {
  *out << p.source.value() << "->" << p.destination.value();
}

using pairs = std::vector<migration_pair>;

inline migration_pair pair_of(std::uint32_t source, std::uint32_t destination) {
  return {instance_id{source}, instance_id{destination}};
}

} // namespace godwit::protocols
