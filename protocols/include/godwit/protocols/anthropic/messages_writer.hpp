#pragma once

#include <godwit/protocols/openai/answer_writer.hpp>
#include <godwit/protocols/openai/turn_parts.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace godwit::protocols::anthropic {

/// Writes what /v1/messages answers: one choice, whose parts (turn_parts) are blocks of content.
class messages_writer final : public openai::answer_writer {
public:
  struct form {
    openai::response_head head;
    bool stream = false;
    std::uint32_t prompt_tokens = 0; ///< which a stream tells at its beginning
    bool context_is_less = false;    ///< it has not as many tokens left as the answer may have
    bool tells_thoughts = true;      ///< messages_request::tells_thoughts
    bool manages_context = false;    ///< messages_request::manages_context
  };
  explicit messages_writer(form how);

  [[nodiscard]] openai::answer_part begin() override;
  [[nodiscard]] openai::answer_part add(openai::choice piece, const openai::usage& so_far) override;
  [[nodiscard]] openai::answer_part finish(const openai::usage& used) override;
  [[nodiscard]] openai::answer_part fail(const openai::api_error& error) override;
  [[nodiscard]] std::string refusal(const openai::api_error& error) const override;
  [[nodiscard]] std::string keep_alive() const override;
  [[nodiscard]] std::size_t entries_left() const noexcept override;

private:
  using kind = openai::turn_parts::kind;
  /// Of a stream, whose blocks have been told, without its text.
  struct block {
    kind what = kind::text;
    std::string text; ///< a call's arguments
    std::string id;
    std::string name;
  };

  void open(const openai::turn_parts::step& begin);
  void grow(const std::string& text);
  void close();

  void event(std::string_view type, std::string_view members);
  static void append_block(std::string& out, const block& of);
  /// `"stop_reason":...` and what stands beside it; null as long as there is none.
  [[nodiscard]] std::string stop() const;
  [[nodiscard]] static std::string usage_of(const openai::usage& used);
  [[nodiscard]] std::string message(const openai::usage& used) const;
  [[nodiscard]] static std::string context_management();

  form how_;
  openai::turn_parts parts_;
  std::vector<block> blocks_;
  std::string finish_reason_;
  std::optional<std::string> stop_string_;
  bool calls_ = false;
  std::string out_; ///< not given yet
};

/// What POST /v1/messages/count_tokens answers.
[[nodiscard]] std::string count_object(std::uint64_t input_tokens, bool manages_context);

} // namespace godwit::protocols::anthropic
