#pragma once

#include <godwit/gpu/model/constraints.hpp>
#include <godwit/protocols/grammar/reasoning_tracker.hpp>

#include <array>
#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace godwit::gpu::model {

/// What the tokens of a vocabulary are to an answer that thinks before a schema binds it. Thread-safe.
///
/// Where it thinks every token may come, ends too, but those that close what is thought and say something behind it:
/// the schema begins with a token of its own. They exist where `</think>` is no token of the vocabulary, or is spelled
/// out all the same. Where it may begin to think, the tokens with which `<think>` may come are allowed besides the
/// schema's.
class reasoning_masks {
public:
  /// `texts`: bytes by id; `specials`: those of special tokens, which are none of a schema's. They outlive this.
  reasoning_masks(const std::vector<std::string>& texts,
                  const std::unordered_map<protocols::token_id, std::string>& specials)
      : texts_(texts), specials_(specials) {}

  /// Empty: a token without text, which changes nothing.
  [[nodiscard]] std::string_view bytes(protocols::token_id id) const noexcept;
  /// Of one that is `before` or `within`; null: every token.
  [[nodiscard]] std::shared_ptr<const token_mask> at(const protocols::grammar::reasoning_tracker& here);

private:
  struct kept {
    bool known = false;
    std::shared_ptr<const token_mask> mask;
  };
  [[nodiscard]] std::shared_ptr<const token_mask> look(const protocols::grammar::reasoning_tracker& here) const;

  const std::vector<std::string>& texts_;
  const std::unordered_map<protocols::token_id, std::string>& specials_;
  std::mutex mutex_;
  std::array<kept, protocols::grammar::reasoning_tracker::opening.size()> before_; ///< by bytes matched
  std::array<kept, protocols::grammar::reasoning_tracker::closing.size()> within_;
};

} // namespace godwit::gpu::model
