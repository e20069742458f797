#include "tls/peer.hpp"

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ssl/error.hpp>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

namespace godwit::transport::tls {

namespace asio = boost::asio;
using boost::system::error_code;

bool expect_host(SSL* with, const std::string& named) {
  // The dot at the end of a name that is complete is in no certificate.
  const auto host = named.ends_with('.') ? named.substr(0, named.size() - 1) : named;
  // Not the subject's common name: that is no host for authorities that sign it.
  SSL_set_hostflags(with, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  error_code no_address;
  const auto address = asio::ip::make_address(host, no_address);
  if (no_address) return SSL_set1_host(with, host.c_str()) == 1 && SSL_set_tlsext_host_name(with, host.c_str()) == 1;
  const auto expects = [&](const auto& bytes) {
    return X509_VERIFY_PARAM_set1_ip(SSL_get0_param(with), bytes.data(), bytes.size()) == 1;
  };
  // In certificates addresses have no zone.
  return address.is_v6() ? expects(address.to_v6().to_bytes()) : expects(address.to_v4().to_bytes());
}

namespace {

/// What the other side says of the certificate that it was shown.
bool is_of_our_certificate(int alert) {
  switch (alert) {
  case SSL_AD_BAD_CERTIFICATE:
  case SSL_AD_UNSUPPORTED_CERTIFICATE:
  case SSL_AD_CERTIFICATE_REVOKED:
  case SSL_AD_CERTIFICATE_EXPIRED:
  case SSL_AD_CERTIFICATE_UNKNOWN:
  case SSL_AD_UNKNOWN_CA:
  case SSL_AD_CERTIFICATE_REQUIRED:
    return true;
  default:
    return false;
  }
}

} // namespace

std::string explain(const error_code& error, const SSL* with) {
  if (const auto verdict = SSL_get_verify_result(with);
      verdict != X509_V_OK && SSL_get_verify_mode(with) != SSL_VERIFY_NONE)
    return error.message() + ": " + X509_verify_cert_error_string(verdict);
  if (error.category() != asio::error::get_ssl_category()) return error.message();
  const auto reason = ERR_GET_REASON(static_cast<unsigned long>(error.value()));
  if (reason == SSL_R_WRONG_VERSION_NUMBER) return "the other side does not speak it";
  if (is_of_our_certificate(reason - SSL_AD_REASON_OFFSET))
    return "it refuses this side's certificate (" + error.message() + ")";
  return error.message();
}

bool has_said_nothing(const SSL* with) { return BIO_number_read(SSL_get_rbio(with)) == 0; }

std::string out_of_date(const SSL_CTX* with) {
  const auto* own = SSL_CTX_get0_certificate(with);
  if (own == nullptr) return {};
  if (X509_cmp_current_time(X509_get0_notBefore(own)) > 0) return "is not valid yet";
  if (X509_cmp_current_time(X509_get0_notAfter(own)) < 0) return "has expired";
  return {};
}

} // namespace godwit::transport::tls
