#include <godwit/transport/ucx/fabric.hpp>

#include "ucx/core.hpp"

namespace godwit::transport::ucx {

std::shared_ptr<fabric> make_fabric(settings options) {
  return std::make_shared<core>(options, std::make_shared<faults>());
}

} // namespace godwit::transport::ucx
