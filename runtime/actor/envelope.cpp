#include "actor/envelope.hpp"

#include "actor/engine.hpp"
#include "actor/references.hpp"

#include <span>

namespace godwit::runtime::detail {

letter_ptr open_envelope(const engine& e, const envelope& x) {
  const auto* type = e.find_type(x.type);
  if (!type || !type->read) return {};
  std::vector<actor_ref> actors;
  for (const auto& actor : x.actors) actors.push_back(reference(actor));
  wire_reader in{std::as_bytes(std::span{x.bytes}), actors};
  letter_ptr opened{letter::make(*type)};
  opened->constructed = false;
  type->read(in, opened->payload());
  opened->constructed = true;
  if (!in.ok() || in.left() != 0) return {};
  return opened;
}

} // namespace godwit::runtime::detail
