#pragma once

#include <godwit/gpu/model/constraints.hpp>
#include <godwit/protocols/grammar/reasoning_tracker.hpp>

#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace godwit::gpu::model {

/// What the tokens of a vocabulary are to an answer that thinks before a schema binds it. Thread-safe.
///
/// Where it thinks every token may come, ends too, but those that close what is thought and say something behind it:
/// the schema begins with a token of its own. They exist where `</think>` is no token of the vocabulary, or is spelled
/// out all the same. What may begin to think does so with a token that has all of `<think>`: were its pieces allowed,
/// an answer that only wants to say something else than its schema would take the first of them, had to spell out the
/// rest, and a model that never thinks would not come back from there.
class reasoning_masks {
public:
  /// `texts`: bytes by id; `specials`: those of special tokens, which are none of a schema's. They outlive this.
  reasoning_masks(const std::vector<std::string>& texts,
                  const std::unordered_map<protocols::token_id, std::string>& specials)
      : texts_(texts), specials_(specials) {}

  /// Empty: a token without text, which changes nothing.
  [[nodiscard]] std::string_view bytes(protocols::token_id id) const noexcept;
  /// Of one that thinks; null: every token.
  [[nodiscard]] std::shared_ptr<const token_mask> within(const protocols::grammar::reasoning_tracker& here);
  /// Those with which an answer that has said nothing begins to think; in many vocabularies none.
  [[nodiscard]] std::shared_ptr<const token_mask> opening();

private:
  using part = protocols::grammar::reasoning_tracker::part;
  template <class Excluded>
  [[nodiscard]] std::shared_ptr<token_mask> all_but(const protocols::grammar::reasoning_tracker& here,
                                                    Excluded excluded) const;

  const std::vector<std::string>& texts_;
  const std::unordered_map<protocols::token_id, std::string>& specials_;
  std::mutex mutex_;
  std::shared_ptr<token_mask> opening_;
  /// By bytes of `</think>` that have come.
  std::array<std::optional<std::shared_ptr<const token_mask>>, protocols::grammar::reasoning_tracker::closing.size()>
      within_;
};

} // namespace godwit::gpu::model
