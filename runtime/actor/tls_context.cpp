#include "actor/tls_context.hpp"

#include <boost/asio/ssl/verify_mode.hpp>

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <system_error>
#include <utility>

namespace godwit::runtime::detail {

namespace ssl = boost::asio::ssl;

async::expected<tls_context> make_tls_context(const tls_files& files) {
  auto made = std::make_shared<ssl::context>(ssl::context::tls);
  auto* native = made->native_handle();
  SSL_CTX_set_min_proto_version(native, TLS1_3_VERSION); // the other side is a godwit of the same version
  SSL_CTX_set_session_cache_mode(native, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(native, 0); // connections last; none is resumed
  SSL_CTX_set_mode(native, SSL_MODE_RELEASE_BUFFERS);

  boost::system::error_code ec;
  const auto wrong = [&](std::string what) {
    return async::error{async::error_code::refused, std::move(what) + ": " + ec.message()};
  };
  // Otherwise OpenSSL would ask at the terminal.
  made->set_password_callback([](std::size_t, ssl::context::password_purpose) { return std::string(); }, ec);
  ERR_clear_error();
  made->use_certificate_chain_file(files.certificate, ec);
  if (ec) return wrong("cannot use the certificate " + files.certificate);
  made->use_private_key_file(files.key, ssl::context::pem, ec);
  if (ec) return wrong("cannot use the key " + files.key);
  if (SSL_CTX_check_private_key(native) != 1)
    return async::error{async::error_code::refused,
                        "the key " + files.key + " does not belong to the certificate " + files.certificate};
  made->load_verify_file(files.authorities, ec);
  if (ec) return wrong("cannot use the authorities " + files.authorities);
  made->set_verify_mode(ssl::verify_peer | ssl::verify_fail_if_no_peer_cert, ec);
  if (ec) return wrong("TLS");
  return made;
}

async::expected<tls_identity> tls_identity::load(tls_files files) {
  const auto read = look(files); // before: what changes meanwhile is read again
  auto made = make_tls_context(files);
  if (!made) return std::move(made).error();
  return tls_identity{std::move(files), read, std::move(*made)};
}

const tls_context& tls_identity::current(const std::function<void(std::string_view)>& tell) {
  if (const auto now = look(files_); now != read_) {
    read_ = now;
    if (auto made = make_tls_context(files_))
      made_ = std::move(*made);
    else if (tell)
      tell(made.error().message + "; what was read before stays in use");
  }
  return made_;
}

tls_identity::ages tls_identity::look(const tls_files& files) {
  std::error_code missing; // as good as another age
  return {std::filesystem::last_write_time(files.certificate, missing),
          std::filesystem::last_write_time(files.key, missing),
          std::filesystem::last_write_time(files.authorities, missing)};
}

} // namespace godwit::runtime::detail

namespace godwit::runtime {

std::string check_tls(const tls_files& files) {
  const auto made = detail::make_tls_context(files);
  return made ? std::string() : made.error().message;
}

} // namespace godwit::runtime
