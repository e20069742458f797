#pragma once

#include "processes/support/answers.hpp"
#include "processes/support/console.hpp"
#include "processes/support/godwit_processes.hpp"
#include "processes/support/mover.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace godwit::test {

/// Two processes with an instance each, and a thread for each of them: a head called "head" and a member called
/// "member". Or, where the head has no instances, the members "member" and "other": then the tokens of a request and
/// its ownership come to its home on two different connections.
class pair_of_processes {
public:
  enum class kind : std::uint8_t { head_and_member, two_members };
  /// With arguments beyond that.
  explicit pair_of_processes(const std::vector<std::string>& head_arguments = {},
                             const std::vector<std::string>& member_arguments = {}, kind what = kind::head_and_member);
  /// Until both instances take requests. Empty, or what went wrong.
  [[nodiscard]] std::string wait_ready();

  /// Another process in the place of a dead one, without the arguments that the first had; the head on the same
  /// control port.
  void start_head_again();
  void start_member_again();

  [[nodiscard]] served& head() { return *head_; }
  [[nodiscard]] joined& member() { return *member_; }
  [[nodiscard]] std::string logs() const; ///< of both, for messages
  [[nodiscard]] console& operator_console() { return *console_; }

private:
  std::string control_;
  std::unique_ptr<served> head_;
  std::unique_ptr<joined> member_, other_;
  std::unique_ptr<console> console_;
};

inline const mover::way outwards{"head", "member"};
inline const mover::way inwards{"member", "head"};
inline const mover::way across{"member", "other"};
inline const mover::way back{"other", "member"};

/// What is wrong with answers that ought to be `calm` to the last token; empty: nothing.
[[nodiscard]] std::string difference(const std::vector<streamed_answer>& answers,
                                     const std::vector<streamed_answer>& calm);
/// ... with those of clients whose head died: whole, or cut off with an error after the beginning of the calm answer.
[[nodiscard]] std::string difference_when_cut_off(const std::vector<streamed_answer>& answers,
                                                  const std::vector<streamed_answer>& calm);

} // namespace godwit::test
