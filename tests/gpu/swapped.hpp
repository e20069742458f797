#pragma once

#include <godwit/gpu/event.hpp>
#include <godwit/gpu/swap_space.hpp>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace godwit::gpu::testing {

[[nodiscard]] inline std::vector<swap_move> moves(const std::vector<std::uint32_t>& blocks,
                                                  const std::vector<std::uint32_t>& slots) {
  std::vector<swap_move> out;
  for (std::size_t i = 0; i < blocks.size(); ++i)
    out.push_back({protocols::block_id{blocks[i]}, protocols::swap_slot{slots.at(i)}});
  return out;
}

/// Copies and waits; what went wrong, empty where nothing did.
[[nodiscard]] inline std::string copied_out(swap_space& space, std::vector<swap_move> what) {
  const event ended;
  std::string error;
  space.copy_out(std::move(what), [&](std::string why) {
    error = std::move(why);
    ended.set();
  });
  ended.wait();
  return error;
}
[[nodiscard]] inline std::string copied_in(swap_space& space, std::vector<swap_move> what) {
  const event ended;
  std::string error;
  space.copy_in(std::move(what), [&](std::string why) {
    error = std::move(why);
    ended.set();
  });
  ended.wait();
  return error;
}

} // namespace godwit::gpu::testing
