#include "http/tls.hpp"

#include <openssl/err.h>
#include <openssl/ssl.h>

namespace godwit::transport::http {

namespace {

/// Null where there is no memory, or a configuration of OpenSSL's without TLS: `why` says so.
std::shared_ptr<ssl::context> make_context(ssl::context::method method, std::string& why) {
  try {
    return std::make_shared<ssl::context>(method);
  } catch (const std::exception& thrown) {
    why = std::string("TLS: ") + thrown.what();
    return nullptr;
  }
}

} // namespace

std::variant<std::shared_ptr<ssl::context>, std::string> load_tls(const tls_files& files) {
  auto why = std::string();
  auto made = make_context(ssl::context::tls_server, why);
  if (!made) return why;
  auto* native = made->native_handle();
  SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION);
  // A client that renegotiates for ever costs a handshake each time; compression tells of what it compresses.
  SSL_CTX_set_options(native, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_mode(native, SSL_MODE_RELEASE_BUFFERS); // 34 KiB less for a connection that lies idle
  // Clients resume with tickets, which are kept at their side.
  SSL_CTX_set_session_cache_mode(native, SSL_SESS_CACHE_OFF);

  auto ec = error_code();
  // Otherwise OpenSSL would ask at the terminal.
  made->set_password_callback([](std::size_t, ssl::context::password_purpose) { return std::string(); }, ec);
  ERR_clear_error();
  made->use_certificate_chain_file(files.certificate, ec);
  if (ec) return "cannot use the certificate " + files.certificate + ": " + ec.message();
  made->use_private_key_file(files.key, ssl::context::pem, ec);
  if (ec) return "cannot use the key " + files.key + ": " + ec.message();
  if (SSL_CTX_check_private_key(native) != 1)
    return "the key " + files.key + " does not belong to the certificate " + files.certificate;
  return made;
}

std::variant<std::shared_ptr<ssl::context>, std::string> load_tls(const client_tls& trusted) {
  auto why = std::string();
  auto made = make_context(ssl::context::tls_client, why);
  if (!made) return why;
  SSL_CTX_set_min_proto_version(made->native_handle(), TLS1_2_VERSION);
  auto ec = error_code();
  if (!trusted.verify) {
    made->set_verify_mode(ssl::verify_none, ec);
    return made;
  }
  made->set_verify_mode(ssl::verify_peer, ec);
  ERR_clear_error();
  if (trusted.authorities.empty())
    made->set_default_verify_paths(ec);
  else
    made->load_verify_file(trusted.authorities, ec);
  if (ec) return "cannot use the authorities " + trusted.authorities + ": " + ec.message();
  return made;
}

} // namespace godwit::transport::http
