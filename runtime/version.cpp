#include <godwit/runtime/version.hpp>

namespace godwit::runtime {

std::string_view version() noexcept { return GODWIT_VERSION; }

} // namespace godwit::runtime
