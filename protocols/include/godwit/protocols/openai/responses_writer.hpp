#pragma once

#include <godwit/protocols/openai/answer_writer.hpp>
#include <godwit/protocols/openai/turn_parts.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace godwit::protocols::openai {

/// Writes what /v1/responses answers: one choice, as a list of items: what was thought, what is said, what is called.
///
/// Its parts (turn_parts) are the items. A stream tells each beginning, growing and ending, and in the end the whole
/// response.
class responses_writer final : public answer_writer {
public:
  struct form {
    response_head head;
    std::string items_id;   ///< no other answer's, for the items' ids
    std::string parameters; ///< responses_request::parameters
    bool stream = false;
  };
  /// How often a stream tells a log-probability: as it comes, and with the end of the text, the part, the item and the
  /// response.
  static constexpr std::uint32_t times_told = 5;

  explicit responses_writer(form how);

  [[nodiscard]] answer_part begin() override;
  [[nodiscard]] answer_part add(choice piece, const usage& so_far) override;
  [[nodiscard]] answer_part finish(const usage& used) override;
  [[nodiscard]] answer_part fail(const api_error& error) override;
  [[nodiscard]] std::size_t entries_left() const noexcept override;

private:
  using kind = turn_parts::kind;
  enum class state : std::uint8_t { in_progress, completed, incomplete };
  struct item {
    kind what = kind::text;
    state is = state::in_progress;
    std::string id;
    std::string text; ///< a call's arguments
    std::string call_id;
    std::string name;
    std::vector<token_choice> logprobs;
  };

  /// Log-probabilities that a piece brought wait for the text that they belong to.
  void keep_logprobs(choice& piece);

  [[nodiscard]] bool whole_call() const;
  void open(const turn_parts::step& begin);
  void grow(std::string_view text);
  void close(state how);

  void event(std::string_view type, std::string_view members);
  /// `"item_id":...,"output_index":...` of the last item; with `part` its only part's index, too.
  [[nodiscard]] std::string place(bool part) const;
  static void append_part(std::string& out, const item& of);
  static void append_item(std::string& out, const item& of);
  /// `error`, `used`: null where there is none.
  [[nodiscard]] std::string object(std::string_view status, const usage* used, const api_error* error) const;
  [[nodiscard]] answer_part told();

  form how_;
  turn_parts parts_;
  std::vector<item> items_; ///< the last one may be in progress
  std::vector<token_choice> logprobs_;
  bool cut_ = false; ///< by its length
  std::uint64_t events_ = 0;
  answer_part out_; ///< not given yet
};

} // namespace godwit::protocols::openai
