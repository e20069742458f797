#pragma once

#include <stdexcept>

namespace godwit::protocols {

/// Our own bug, never a peer's input: a caller broke a precondition, or an invariant does not hold.
/// An exception and not an abort, so that the actor that met it dies alone and is restarted by its supervisor.
class contract_violation : public std::logic_error {
public:
  using std::logic_error::logic_error;
};

/// Checked in every build. `what` says what should have held.
inline void ensure(bool holds, const char* what) {
  if (!holds) [[unlikely]]
    throw contract_violation(what);
}

} // namespace godwit::protocols
