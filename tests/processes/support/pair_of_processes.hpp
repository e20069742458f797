#pragma once

#include "processes/support/answers.hpp"
#include "processes/support/console.hpp"
#include "processes/support/godwit_processes.hpp"
#include "processes/support/mover.hpp"

#include <memory>
#include <string>
#include <vector>

namespace godwit::test {

/// A head called "head" and a member called "member", with one instance each, and a thread for each of them.
class pair_of_processes {
public:
  /// Arguments beyond that.
  explicit pair_of_processes(std::vector<std::string> head_arguments = {},
                             std::vector<std::string> member_arguments = {});
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
  std::unique_ptr<joined> member_;
  std::unique_ptr<console> console_;
};

inline const mover::way outwards{"head", "member"};
inline const mover::way inwards{"member", "head"};

/// What is wrong with answers that ought to be `calm` to the last token; empty: nothing.
[[nodiscard]] std::string difference(const std::vector<streamed_answer>& answers,
                                     const std::vector<streamed_answer>& calm);
/// ... with those of clients whose head died: whole, or cut off with an error after the beginning of the calm answer.
[[nodiscard]] std::string difference_when_cut_off(const std::vector<streamed_answer>& answers,
                                                  const std::vector<streamed_answer>& calm);

} // namespace godwit::test
