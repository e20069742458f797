#include "tls/context.hpp"

#include "tls/peer.hpp"

#include <boost/asio/ssl/verify_mode.hpp>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

#include <string>
#include <utility>

#include <sys/stat.h>

namespace godwit::transport::tls {

namespace ssl = boost::asio::ssl;

namespace {

/// Differs when a file was written, replaced, its rights were changed, or its link leads elsewhere.
std::string state_of(const node_files& files) {
  std::string out;
  for (const auto* file : {&files.certificate, &files.key, &files.authorities}) {
    struct stat now {};
    if (::stat(file->c_str(), &now) == 0)
      for (const auto part :
           {static_cast<long>(now.st_dev), static_cast<long>(now.st_ino), static_cast<long>(now.st_size),
            now.st_mtim.tv_sec, now.st_mtim.tv_nsec, now.st_ctim.tv_sec, now.st_ctim.tv_nsec})
        out += std::to_string(part) + ',';
    out += ';';
  }
  return out;
}

} // namespace

async::expected<context_ptr> make_context(const node_files& files) {
  auto made = std::make_shared<ssl::context>(ssl::context::tls);
  auto* native = made->native_handle();
  // The other side is a godwit of the same version; the system's configuration may want less at most.
  SSL_CTX_set_min_proto_version(native, TLS1_3_VERSION);
  SSL_CTX_set_max_proto_version(native, 0);
  X509_STORE_set_flags(SSL_CTX_get_cert_store(native), X509_V_FLAG_PARTIAL_CHAIN); // an intermediate one will do
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

async::expected<identity> identity::load(node_files files) {
  auto state = state_of(files); // before: what changes meanwhile is read again
  auto made = make_context(files);
  if (!made) return std::move(made).error();
  return identity{std::move(files), std::move(state), std::move(*made)};
}

const context_ptr& identity::current(const warning_function& tell) {
  auto now = state_of(files_);
  if (now == used_) return made_;
  if (auto made = make_context(files_)) {
    made_ = std::move(*made);
    used_ = told_ = std::move(now);
    if (const auto wrong = out_of_date(); !wrong.empty()) tell(wrong);
  } else if (now != told_) {
    told_ = std::move(now);
    tell(made.error().message + "; what was read before stays in use");
  }
  return made_;
}

std::string identity::out_of_date() const {
  const auto wrong = tls::out_of_date(made_->native_handle());
  return wrong.empty() ? wrong : "the certificate " + files_.certificate + " " + wrong + ": others will refuse it";
}

std::string check(const node_files& files) {
  const auto made = make_context(files);
  return made ? std::string() : made.error().message;
}

} // namespace godwit::transport::tls
