#pragma once

#include <boost/system/error_code.hpp>

#include <openssl/ssl.h>

#include <string>

namespace godwit::transport::tls {

/// For the side that connects, before it shakes hands: the certificate must be for this host, a DNS name or an IP
/// address (a subject alternative name; the subject's common name is none, as for browsers), and the server is told the
/// name. False: no certificate can be for it.
[[nodiscard]] bool expect_host(SSL* with, const std::string& host);

/// Why the handshake failed: OpenSSL's word for it says least where a certificate is the reason, and does not tell
/// whose.
[[nodiscard]] std::string explain(const boost::system::error_code& error, const SSL* with);

/// Nothing has come from the other side, as from one that only looks whether the port is open.
[[nodiscard]] bool has_said_nothing(const SSL* with);

/// What is wrong with the time of the certificate that is shown to others; empty: nothing.
[[nodiscard]] std::string out_of_date(const SSL_CTX* with);

} // namespace godwit::transport::tls
