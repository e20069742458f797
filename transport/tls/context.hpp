#pragma once

#include <godwit/runtime/async/expected.hpp>
#include <godwit/transport/tls/gate.hpp>

// g++ 12 takes the allocation of Asio's handlers, once inlined, for one that does not match their deallocation.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
#endif

#include <boost/asio/ssl/context.hpp>

#include <memory>
#include <string>
#include <utility>

namespace godwit::transport::tls {

namespace async = runtime::async;

using context_ptr = std::shared_ptr<boost::asio::ssl::context>;

/// For both sides of connections between nodes. Errors: `refused`, with what `check` says.
[[nodiscard]] async::expected<context_ptr> make_context(const node_files& files);

/// The newest context that a node's files have given.
class identity {
public:
  /// Errors: `refused`, with what `check` says.
  [[nodiscard]] static async::expected<identity> load(node_files files);
  /// Looks whether the files have changed. While they cannot be used, it stays with what it has, says so once for each
  /// change, and tries again with the next call.
  [[nodiscard]] const context_ptr& current(const warning_function& tell);
  /// That the certificate is not valid at this time, so that others will refuse it; empty: it is.
  [[nodiscard]] std::string out_of_date() const;

private:
  identity(node_files files, std::string state, context_ptr made)
      : files_(std::move(files)), used_(std::move(state)), told_(used_), made_(std::move(made)) {}

  node_files files_;
  std::string used_; ///< state of the files when they were read
  std::string told_; ///< their last state that was told, or used
  context_ptr made_;
};

} // namespace godwit::transport::tls
