#pragma once

#include <godwit/protocols/messages/migration.hpp>
#include <godwit/protocols/messages/status.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <string>

namespace godwit::test {

/// What `godwit status` and `godwit migrate` do, hundreds of times over one connection. Connects again where the head
/// was gone for a while.
class console {
public:
  explicit console(std::string control); ///< HOST:PORT
  ~console();
  /// Nothing where the head does not answer within some seconds.
  [[nodiscard]] std::optional<protocols::cluster_status> status(bool with_requests = false);
  [[nodiscard]] std::optional<protocols::migration_report> migrate(protocols::request_id request,
                                                                   protocols::instance_id to);
  /// Until so many instances take requests and no other is there.
  [[nodiscard]] bool wait_instances(std::size_t count, std::chrono::milliseconds timeout);
  /// Until no instance has a request, a migration or a block in use, and the front end has no request. Else a line
  /// that says what is left; empty: nothing.
  [[nodiscard]] std::string left_over(std::chrono::milliseconds timeout);

private:
  struct connection;
  [[nodiscard]] bool connected();
  template <class Reply, class Message>
  [[nodiscard]] std::optional<Reply> ask(Message message, std::chrono::milliseconds timeout);

  std::string control_;
  std::unique_ptr<connection> connection_;
};

} // namespace godwit::test
