#pragma once

#include <godwit/protocols/openai/error.hpp>
#include <godwit/protocols/openai/response.hpp>
#include <godwit/protocols/openai/sse.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace godwit::protocols::openai {

/// Bytes for a client.
struct answer_part {
  std::string bytes;
  /// Long, maybe, though its reader is not slow: what is echoed, or told again as a whole.
  bool repeats = false;
};

/// Writes the answer to one call out of the pieces of its choices, as the call's endpoint has it: as the events of a
/// stream, or whole.
class answer_writer {
public:
  virtual ~answer_writer() = default;
  /// What a stream has before its first piece.
  [[nodiscard]] virtual answer_part begin() { return {}; }
  /// The pieces of a choice come in their order; the last one has a `finish_reason`. Of an answer that is given whole
  /// nothing comes out.
  [[nodiscard]] virtual answer_part add(choice piece, const usage& so_far) = 0;
  /// Every choice has had its last piece: the rest of a stream, or the body.
  [[nodiscard]] virtual answer_part finish(const usage& used) = 0;
  /// The rest of a stream that ends with this error.
  [[nodiscard]] virtual answer_part fail(const api_error& error) = 0;
  /// The body of an answer that is this error, and has not begun.
  [[nodiscard]] virtual std::string refusal(const api_error& error) const { return to_json(error); }
  /// What a stream has where nothing else came for long.
  [[nodiscard]] virtual std::string keep_alive() const { return std::string(sse_keep_alive()); }
  /// How long `finish` takes, in entries such as a log-probability or some words.
  [[nodiscard]] virtual std::size_t entries_left() const noexcept = 0;
};

/// Writes what /v1/completions and /v1/chat/completions answer.
class choices_writer final : public answer_writer {
public:
  struct form {
    chunk_writer::endpoint endpoint = chunk_writer::endpoint::completions;
    response_head head;
    bool stream = false;
    bool include_usage = false;
    bool continuous_usage = false;
    std::uint32_t n = 1;     ///< answers given to each prompt...
    std::uint32_t drawn = 1; ///< ... of so many: those whose tokens are the most probable on average
  };
  explicit choices_writer(form how);

  [[nodiscard]] answer_part add(choice piece, const usage& so_far) override;
  [[nodiscard]] answer_part finish(const usage& used) override;
  [[nodiscard]] answer_part fail(const api_error& error) override;
  [[nodiscard]] std::size_t entries_left() const noexcept override;

private:
  /// Leaves of each prompt's answers the best ones; all have what is told of the prompt.
  void choose_best();

  form how_;
  chunk_writer chunks_;
  std::vector<bool> greeted_; ///< streams: which choices' first chunks have been written
  std::vector<choice> whole_; ///< otherwise
};

} // namespace godwit::protocols::openai
