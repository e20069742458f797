#pragma once

#include <godwit/actors/interfaces.hpp>
#include <godwit/runtime/actor_system.hpp>
#include <godwit/transport/tls/gate.hpp>

#include <CLI/CLI.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace godwit::main {

/// Where a running head is, and how a command shows who it is.
struct control_place {
  std::string address = "127.0.0.1:7070";
  transport::tls::node_files tls; ///< all or none
};

/// The way of a command to a running head, by its control port. Whatever fails is said in one line on standard error;
/// the caller ends with `exit_code`.
///
///     control_connection head(options.control);
///     const auto status = head.ask(actors::status_query{});
///     if (!status) return head.exit_code();
class control_connection {
public:
  /// --control HOST:PORT, and --cluster-tls-cert, -key and -ca, which may come from the environment. `place` must live
  /// as long as the command.
  static void add_option(CLI::App& command, control_place& place);

  /// Connects.
  explicit control_connection(const control_place& place);
  ~control_connection();
  control_connection(const control_connection&) = delete;
  control_connection& operator=(const control_connection&) = delete;

  /// Empty when the head cannot be reached or says nothing in time. `quiet`: nothing is said of that, and it is no end.
  template <class Message>
  [[nodiscard]] auto ask(Message message, std::chrono::nanoseconds timeout = std::chrono::seconds(10),
                         bool quiet = false) {
    using reply = typename actors::node_interface::template reply_of<Message>;
    std::optional<reply> out;
    if (!node_) return out;
    auto answer = system_->ask(node_, timeout, std::move(message));
    if (answer)
      out = std::move(*answer);
    else if (!quiet)
      silent(answer.error());
    return out;
  }
  /// 0: nothing has failed; 1: the head is not there; 2: its address is none, or the files of TLS cannot be used.
  [[nodiscard]] int exit_code() const noexcept { return exit_code_; }

private:
  int connect(const control_place& place);
  void silent(const runtime::async::error& why);
  std::string address_;
  std::unique_ptr<runtime::actor_system> system_;
  runtime::handle<actors::node_interface> node_;
  int exit_code_ = 0;
};

} // namespace godwit::main
