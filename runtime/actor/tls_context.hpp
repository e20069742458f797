#pragma once

#include <godwit/runtime/async/expected.hpp>
#include <godwit/runtime/tls.hpp>

// g++ 12 takes the allocation of Asio's handlers, once inlined, for one that does not match their deallocation.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
#endif

#include <boost/asio/ssl/context.hpp>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace godwit::runtime::detail {

using tls_context = std::shared_ptr<boost::asio::ssl::context>;

/// For both sides of connections between nodes. Errors: `refused`, with what check_tls says.
[[nodiscard]] async::expected<tls_context> make_tls_context(const tls_files& files);

/// The newest context that a node's files have given.
class tls_identity {
public:
  /// Errors: `refused`, with what check_tls says.
  [[nodiscard]] static async::expected<tls_identity> load(tls_files files);
  /// Looks whether the files have changed. While they cannot be used, it stays with what it has, says so once for each
  /// change, and tries again with the next call.
  [[nodiscard]] const tls_context& current(const std::function<void(std::string_view)>& tell);

private:
  tls_identity(tls_files files, std::string state, tls_context made)
      : files_(std::move(files)), used_(std::move(state)), told_(used_), made_(std::move(made)) {}

  tls_files files_;
  std::string used_; ///< state of the files when they were read
  std::string told_; ///< their last state that was told, or used
  tls_context made_;
};

} // namespace godwit::runtime::detail
