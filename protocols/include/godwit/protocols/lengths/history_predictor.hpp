#pragma once

#include <godwit/protocols/lengths/length_predictor.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <unordered_map>
#include <vector>

namespace godwit::protocols {

/// Learns lengths from the answers that were.
///
/// Problem: a model that reads the prompt (UELLM tunes one of 6 billion parameters) knows more, but needs a device and
/// samples; most of what a server is asked comes from few programs, each with its own way to begin a prompt. So answers
/// are counted by what their prompts have in common, from all of them to those that are the same: prompts of about this
/// length; those that begin with the same 16, 64 and 256 tokens; those and of about this length; the same prompt. Each
/// of these contexts says what it has seen, and counts as much beside the wider ones before it as it has seen answers
/// (`lent` of them make it half). Older answers fade. An answer that ended at its max_tokens says only that it would
/// have been as long at least: it teaches nothing where more was expected anyway. O(prompt) for each request, and a
/// bounded number of contexts, of which those go that were not asked for longest.
class history_predictor final : public length_predictor {
public:
  explicit history_predictor(std::size_t contexts_max = 8192);
  [[nodiscard]] length_forecast predict(const length_question& question) override;
  void ended(const length_question& question, std::uint32_t answer_tokens) override;
  [[nodiscard]] std::size_t contexts() const noexcept { return contexts_.size(); }

  static constexpr double lent = 4;       ///< answers
  static constexpr double kept_max = 256; ///< answers that a context remembers, about; then all count half

private:
  struct context {
    std::array<float, length_classes> answers{}; ///< by class
    double count = 0;                            ///< of answers
    double tokens = 0;                           ///< of all of them
    std::list<std::uint64_t>::iterator used;
  };
  struct expectation {
    std::array<double, length_classes> likely{};
    double mean = 0;
    bool known = false;
  };
  [[nodiscard]] expectation expect(); ///< by the contexts in `names_`
  context* find(std::uint64_t name);  ///< and has it used
  context& at(std::uint64_t name);

  std::size_t contexts_max_;
  std::list<std::uint64_t> by_use_; ///< the last one first
  std::unordered_map<std::uint64_t, context> contexts_;
  std::vector<std::uint64_t> names_; ///< scratch
};

} // namespace godwit::protocols
