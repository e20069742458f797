#pragma once

#include <godwit/protocols/batching/step.hpp>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace godwit::protocols {

/// A draft model's part in one step of the model that it drafts for (speculative decoding, Leviathan et al. 2023; spec
/// decoding.md): the passes that it runs before, and the step that comes of them.
///
/// Its KV lies in the same blocks, in layers of its own. So it computes every token that the step computes, and what
/// has KV of one model has that of the other, whether it is cached, moved, swapped or stored. Slices that want drafts
/// get one in each pass, drawn as the model will draw at that place, by the same random numbers: what the two think
/// alike of comes out alike. The last pass of each computes KV of its last draft and draws nothing.
///
/// Use: `next`, run it, `drew` with what came of it, until there is no next; then `drafts`, and `step`.
class drafting {
public:
  /// Vocabularies: of the model, and of its draft model, which may have fewer tokens or more. What one does not know
  /// of the other's is token 0 to it: a wrong guess, and nothing else.
  drafting(step_input step, std::uint32_t vocabulary, std::uint32_t draft_vocabulary);
  [[nodiscard]] std::optional<step_input> next();
  void drew(const step_output& output);
  /// step_output::drafts; after the last pass.
  [[nodiscard]] std::vector<token_id> drafts() const;
  /// For the model; after the last pass.
  [[nodiscard]] step_input step() && { return std::move(step_); }

private:
  struct guesses { ///< of a slice that wants some
    std::size_t slice = 0;
    std::uint32_t wanted = 0;
  };
  [[nodiscard]] step_input first_pass() const;
  [[nodiscard]] step_slice pass_of(const guesses& of) const;
  [[nodiscard]] token_id to_draft(token_id token) const noexcept;

  step_input step_;
  std::uint32_t vocabulary_, draft_vocabulary_;
  std::vector<guesses> wants_;
  std::uint32_t pass_ = 0;   ///< that is run
  std::uint32_t passes_ = 1; ///< in all
};

} // namespace godwit::protocols
