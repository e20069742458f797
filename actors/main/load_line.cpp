#include "main/load_line.hpp"

#include <spdlog/fmt/fmt.h>

#include <utility>

namespace godwit::main {

std::optional<std::string> load_line::next(const load_board::sums& now, double seconds) {
  const auto before = std::exchange(before_, now);
  const auto rate = [&](std::uint64_t then, std::uint64_t count) {
    return seconds > 0 ? static_cast<double>(count - then) / seconds : 0.0;
  };
  const auto prompts = rate(before.prompt_tokens, now.prompt_tokens);
  const auto answers = rate(before.answer_tokens, now.answer_tokens);
  if (now.running + now.waiting == 0 && prompts + answers <= 0.0) return std::nullopt;
  const auto used =
      now.blocks_total == 0 ? 0.0 : static_cast<double>(now.blocks_used) / static_cast<double>(now.blocks_total);
  return fmt::format("{} running, {} waiting, KV {:.1f} %, {:.1f} prompt and {:.1f} answer tokens/s", now.running,
                     now.waiting, 100 * used, prompts, answers);
}

} // namespace godwit::main
