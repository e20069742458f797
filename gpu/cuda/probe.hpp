#pragma once

#include "cuda/driver.hpp"

#include <godwit/gpu/cuda/cuda_probe.hpp>

#include <memory>

namespace godwit::gpu::cuda {

[[nodiscard]] std::unique_ptr<cuda_probe> make_device_probe(std::shared_ptr<driver> of);

} // namespace godwit::gpu::cuda
