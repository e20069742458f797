#pragma once

#include <godwit/runtime/async/connection_gate.hpp>
#include <godwit/runtime/async/expected.hpp>

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace godwit::transport::tls {

/// How the nodes of a cluster know each other and keep what they say to themselves: connections between them are
/// TLS 1.3, and each side shows a certificate that one of the authorities has signed. Whoever has none reaches no
/// actor. A side that connects also wants the certificate to be for the host that it connects to (a subject
/// alternative name, DNS or IP).
///
/// All three are PEM files: the certificate with those that lead to its authority, its key without a password, and the
/// certificates of the authorities, roots or not. They are read again when they change; connections stay with what they
/// began with.
struct node_files {
  std::string certificate;
  std::string key;
  std::string authorities;
};

/// Empty, or one line that names the file that cannot be used and why.
[[nodiscard]] std::string check(const node_files& files);

/// Told, in words, of peers that were turned away (at most once a second, then with the number of those before), of
/// files that have changed and cannot be used, and of a certificate of this side that is not valid when it is read. Who
/// leaves without a word is no news. On a thread of the gate's, or the caller's while a gate is made.
using warning_function = std::function<void(std::string_view)>;

/// A gate for one actor system (actor_system_settings::gate). A peer that is accepted has 3 s for its handshake; 1024
/// have that time at once, 256 of them from one address or IPv6 network of 64 bits; one more is closed. One thread
/// carries all connections' bytes. Errors: `refused`, with what `check` says.
[[nodiscard]] runtime::async::expected<std::shared_ptr<runtime::async::connection_gate>>
make_gate(node_files files, warning_function tell = {});

} // namespace godwit::transport::tls
