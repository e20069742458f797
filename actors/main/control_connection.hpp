#pragma once

#include <godwit/actors/interfaces.hpp>
#include <godwit/runtime/actor_system.hpp>

#include <CLI/CLI.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace godwit::main {

/// The way of a command to a running head, by its control port. Whatever fails is said in one line on standard error;
/// the caller ends with `exit_code`.
///
///     control_connection head(options.control);
///     const auto status = head.ask(actors::status_query{});
///     if (!status) return head.exit_code();
class control_connection {
public:
  /// "--control HOST:PORT". `address` must live as long as the command.
  static void add_option(CLI::App& command, std::string& address);

  /// Connects.
  explicit control_connection(std::string address);
  ~control_connection();
  control_connection(const control_connection&) = delete;
  control_connection& operator=(const control_connection&) = delete;

  /// Empty when the head cannot be reached or says nothing in time.
  template <class Message>
  [[nodiscard]] auto ask(Message message, std::chrono::nanoseconds timeout = std::chrono::seconds(10)) {
    using reply = typename actors::node_interface::template reply_of<Message>;
    std::optional<reply> out;
    if (!node_) return out;
    auto answer = system_->ask(node_, timeout, std::move(message));
    if (answer)
      out = std::move(*answer);
    else
      silent(answer.error().message);
    return out;
  }
  /// 0: nothing has failed; 1: the head is not there; 2: its address is none.
  [[nodiscard]] int exit_code() const noexcept { return exit_code_; }

private:
  void silent(const std::string& why);
  std::string address_;
  std::unique_ptr<runtime::actor_system> system_;
  runtime::handle<actors::node_interface> node_;
  int exit_code_ = 0;
};

} // namespace godwit::main
