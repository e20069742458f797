#pragma once

#include <godwit/gpu/model/config.hpp>
#include <godwit/gpu/model/weights.hpp>

#include <string>

namespace godwit::gpu::model {

/// Tells models apart: two processes may serve the same requests only where their models have the same fingerprint.
///
/// 16 hexadecimal digits of a hash over everything in the configuration that tokens depend on, and of every tensor its
/// name, type, shape and content. Of tensors over 64 KiB it takes 16 pages of 4 KiB, the first, the last and others
/// evenly between: 20 MB of a model of 300 tensors, however large they are, and two trainings of one architecture
/// differ in every page. Against somebody who forges weights it is no help. Equal on every machine.
[[nodiscard]] std::string fingerprint(const config& configuration, const weights& tensors);

} // namespace godwit::gpu::model
