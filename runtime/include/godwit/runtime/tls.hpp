#pragma once

#include <string>

namespace godwit::runtime {

/// How the nodes of a cluster know each other and keep what they say to themselves: connections between them are
/// TLS 1.3, and each side shows a certificate that one of the authorities has signed. Whoever has none reaches no
/// actor. A side that connects also wants the certificate to be for the host that it connects to (a subject
/// alternative name, DNS or IP).
///
/// All three are PEM files: the certificate with those that lead to its authority, its key without a password, and the
/// certificates of the authorities. They are read again when they change; connections stay with what they began with.
struct tls_files {
  std::string certificate;
  std::string key;
  std::string authorities;
};

/// Empty, or one line that names the file that cannot be used and why.
[[nodiscard]] std::string check_tls(const tls_files& files);

} // namespace godwit::runtime
