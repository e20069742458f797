#pragma once

#include <godwit/transport/http/client.hpp>
#include <godwit/transport/http/server.hpp>

#include "http/asio.hpp"

#include <boost/asio/ssl/context.hpp>

#include <memory>
#include <string>
#include <variant>

namespace godwit::transport::http {

namespace ssl = boost::asio::ssl;

/// A server's side of TLS 1.2 and 1.3, or one line that names the file and what is wrong with it. Connections keep the
/// context that they began with.
[[nodiscard]] std::variant<std::shared_ptr<ssl::context>, std::string> load_tls(const tls_files& files);

/// A client's side, or one line that says what is wrong with its file.
[[nodiscard]] std::variant<std::shared_ptr<ssl::context>, std::string> load_tls(const client_tls& trusted);

} // namespace godwit::transport::http
