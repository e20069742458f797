#pragma once

#include <godwit/gpu/model/tokenizer.hpp>
#include <godwit/protocols/batching/step.hpp>
#include <godwit/protocols/messages/ids.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace godwit::gpu::model {

/// The tokens that may be drawn next, one bit each.
struct token_mask {
  std::vector<std::uint64_t> words;
  bool must_end = false; ///< nothing but end-of-sequence tokens
  [[nodiscard]] bool allows(protocols::token_id id) const noexcept {
    const auto i = static_cast<std::size_t>(id);
    return id >= 0 && i / 64 < words.size() && (words[i / 64] >> (i % 64) & 1U) != 0;
  }
};

/// Bounds of what is kept; beyond them the longest unused goes, and is made again when needed. What was used of late
/// stays as it was compiled, since it would have to be compiled again at every step: a schema that does not fit beside
/// it is refused at the first token of an answer. Who has begun is never refused, here or elsewhere.
struct constraint_limits {
  std::chrono::nanoseconds kept_for = std::chrono::seconds(2); ///< since the last use; longer than most steps
  std::function<std::chrono::nanoseconds()> now;               ///< empty: the machine's steady clock
  std::size_t grammars_max = 256;
  std::size_t bytes_max = std::size_t{256} << 20U; ///< of all grammars with their masks
  std::size_t requests_max = 1024;                 ///< of one grammar
  std::size_t first_masks_max = 128;               ///< of one grammar: what the first part of a state allows
  std::size_t masks_max = 64;                      ///< of one grammar: what a state allows
  /// Of one mask, in nodes of the vocabulary's tree looked at; a part of a state counts as several. A schema that needs
  /// more is refused from then on. The first mask of an answer that began elsewhere may take eight times as much, since
  /// nothing of its schema is known here yet.
  std::uint64_t work_max = std::uint64_t{1} << 23U;
};

/// What the constraints have done, for figures.
struct constraint_counts {
  std::uint64_t grammars = 0; ///< compiled
  std::uint64_t masks = 0;    ///< put together
  std::uint64_t walks = 0;    ///< of the whole vocabulary
  std::uint64_t replays = 0;  ///< answers followed from their first token
};

/// Says which tokens keep an answer within its schema.
///
/// Problem: a schema is about bytes, a model draws tokens, and looking at every token at every step is too slow. So the
/// vocabulary is a tree of bytes, walked together with the schema's automaton: a token is allowed where the automaton
/// does not die on its bytes. What was found is kept by the automaton's state; since states nest, by their first part.
///
/// Contract: a mask is a function of (schema, sampling.reasoning, slice.generated) and the vocabulary alone, so a
/// request that moved, was preempted or is replayed gets the same ones. Special tokens are never allowed,
/// end-of-sequence tokens exactly where the text may end. An answer that thinks first (sampling.reasoning) is free
/// until the token with which `</think>` is complete, be it one token or the last of several; the schema begins with
/// the next one. A vocabulary with a token for every single byte always has an allowed token. Thread-safe; requests of
/// different schemas do not wait for each other.
class constraints {
public:
  /// `texts`: the bytes of each token by id; empty: never drawn. Ids below the vocabulary that have no text, too.
  constraints(std::vector<std::string> texts, std::vector<protocols::token_id> ends, std::uint32_t vocabulary,
              constraint_limits limits = {});
  constraints(const tokenizer& tokens, std::vector<protocols::token_id> ends, std::uint32_t vocabulary,
              constraint_limits limits = {});
  ~constraints();

  /// For a slice whose sampling is constrained. Throws std::runtime_error with one line: a schema that does not
  /// compile, an answer so far that is outside of it, a schema that explodes or, for a first token, finds no room.
  /// Null: every token, since the answer thinks.
  [[nodiscard]] std::shared_ptr<const token_mask> allowed(const protocols::step_slice& slice);

  [[nodiscard]] constraint_counts counts() const;
  [[nodiscard]] std::size_t memory_bytes() const; ///< of all grammars

private:
  struct parts;
  std::unique_ptr<parts> parts_;
};

} // namespace godwit::gpu::model
