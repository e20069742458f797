#include "processes/support/pair_of_processes.hpp"

#include <algorithm>
#include <utility>

namespace godwit::test {

using std::chrono::seconds;

namespace {

std::vector<std::string> joined_words(std::vector<std::string> first, const std::vector<std::string>& more) {
  first.insert(first.end(), more.begin(), more.end());
  return first;
}
std::vector<std::string> called(const std::string& name, const std::string& instances = "1") {
  return {"--instances", instances, "--threads", "1", "--name", name};
}

/// Of the head: only the test moves requests, so that it can count.
std::vector<std::string> head_called(const std::string& instances = "1") {
  return joined_words(called("head", instances), {"--migration", "none"});
}

std::string wrong(std::size_t request, const std::string& what) {
  return "request " + std::to_string(request) + ": " + what + "; ";
}

} // namespace

pair_of_processes::pair_of_processes(const std::vector<std::string>& head_arguments,
                                     const std::vector<std::string>& member_arguments, kind what)
    : head_(
          std::make_unique<served>(joined_words(head_called(what == kind::two_members ? "0" : "1"), head_arguments))) {
  if (!head_->wait_ready()) return;
  control_ = head_->control();
  console_ = std::make_unique<console>(control_);
  member_ = std::make_unique<joined>(control_, joined_words(called("member"), member_arguments));
  if (what == kind::two_members)
    other_ = std::make_unique<joined>(control_, joined_words(called("other"), head_arguments));
}

std::string pair_of_processes::wait_ready() {
  if (control_.empty()) return "the head does not start: " + head_->process.err();
  if (!member_->wait_ready()) return "the member does not start: " + member_->process.err();
  if (other_ && !other_->wait_ready()) return "the other does not start: " + other_->process.err();
  if (!console_->wait_instances(2, seconds(20))) return "there are not two instances" + logs();
  return "";
}

void pair_of_processes::start_head_again() {
  head_.reset();
  head_ = std::make_unique<served>(joined_words(head_called(), {"--control", control_}));
  (void)head_->wait_ready();
  console_ = std::make_unique<console>(control_);
}

void pair_of_processes::start_member_again() {
  member_.reset();
  member_ = std::make_unique<joined>(control_, called("member"));
}

std::string pair_of_processes::logs() const {
  return "\n--- head:\n" + head_->process.err() + "--- member:\n" + (member_ ? member_->process.err() : "") +
         (other_ ? "--- other:\n" + other_->process.err() : "") + "---\n";
}

std::string difference(const std::vector<streamed_answer>& answers, const std::vector<streamed_answer>& calm) {
  std::string out;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const auto& got = answers[i];
    const auto& want = calm.at(i);
    if (got == want) continue;
    if (!got.error.empty()) out += wrong(i, "ends with " + got.error);
    if (got.tokens.size() != want.tokens.size() || got.usage_tokens != want.usage_tokens)
      out += wrong(i, std::to_string(got.tokens.size()) + " tokens, usage says " + std::to_string(got.usage_tokens) +
                          ", instead of " + std::to_string(want.usage_tokens));
    const auto differ = std::mismatch(got.tokens.begin(), got.tokens.end(), want.tokens.begin(), want.tokens.end());
    if (differ.first != got.tokens.end())
      out += wrong(i, "another token at " + std::to_string(differ.first - got.tokens.begin()));
    else if (got.error.empty())
      out += wrong(i, "another answer");
  }
  return out;
}

std::string difference_when_cut_off(const std::vector<streamed_answer>& answers,
                                    const std::vector<streamed_answer>& calm) {
  std::string out;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const auto& got = answers[i];
    const auto& want = calm.at(i);
    if (got == want) continue;
    if (got.error.empty()) out += wrong(i, "cut off without an error");
    if (got.tokens.size() > want.tokens.size() ||
        !std::equal(got.tokens.begin(), got.tokens.end(), want.tokens.begin()))
      out += wrong(i, "another text before it was cut off");
  }
  return out;
}

} // namespace godwit::test
