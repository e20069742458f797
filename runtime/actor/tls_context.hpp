#pragma once

#include <godwit/runtime/async/expected.hpp>
#include <godwit/runtime/tls.hpp>

// g++ 12 takes the allocation of Asio's handlers, once inlined, for one that does not match their deallocation.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
#endif

#include <boost/asio/ssl/context.hpp>

#include <array>
#include <filesystem>
#include <functional>
#include <memory>
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
  /// Looks whether the files have changed. Where they cannot be used, it says so once and stays with what it has.
  [[nodiscard]] const tls_context& current(const std::function<void(std::string_view)>& tell);

private:
  using ages = std::array<std::filesystem::file_time_type, 3>;
  tls_identity(tls_files files, ages read, tls_context made)
      : files_(std::move(files)), read_(read), made_(std::move(made)) {}
  [[nodiscard]] static ages look(const tls_files& files);

  tls_files files_;
  ages read_;
  tls_context made_;
};

} // namespace godwit::runtime::detail
