#pragma once

#include "transport/fabric/rig.hpp"

#include <godwit/transport/ucx/fabric.hpp>

#include <chrono>
#include <cstddef>
#include <memory>

namespace godwit::transport::testing {

/// A receiver with one page-locked piece for bulk and one more for urgent sends, and the device of its postings.
struct one_piece {
  explicit one_piece(std::size_t window_bytes = std::size_t{8} << 20, std::chrono::milliseconds peer_timeout = 1000ms) {
    ucx::settings settings;
    settings.peer_timeout = peer_timeout;
    settings.window_bytes = window_bytes;
    settings.device.copier = copier;
    settings.device.pieces = 2;
    settings.device.urgent_pieces = 1;
    fabric = ucx::make_fabric(settings);
  }
  std::shared_ptr<fake_device> device = std::make_shared<fake_device>();
  std::shared_ptr<godwit::testing::fake_copier> copier = std::make_shared<godwit::testing::fake_copier>(device);
  std::shared_ptr<transport::fabric> fabric;
};

} // namespace godwit::transport::testing
