#pragma once

#include <godwit/transport/http/exchange.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace godwit::transport::http {

/// How the answer to one request has to be framed; follows from the request.
struct answer_form {
  unsigned version = 11;  ///< 10 or 11
  bool keep_alive = true; ///< what the client allows
  bool head = false;      ///< no body, whatever the answer
};

/// A complete answer, head and body.
[[nodiscard]] std::string serialize(const response& answer, const answer_form& form, bool keep_alive);
/// The head of a stream: chunked for HTTP/1.1, ended by the connection's end for 1.0.
[[nodiscard]] std::string serialize_stream_head(int status, const headers& fields, const answer_form& form,
                                                bool keep_alive);
void append_chunk(std::string& out, std::string_view bytes);
inline constexpr std::string_view last_chunk = "0\r\n\r\n";

/// A client's request, head and body.
[[nodiscard]] std::string serialize_request(std::string_view method, std::string_view target, std::string_view host,
                                            const headers& fields, std::string_view body);

/// Statuses that never have a body (RFC 9110, 6.4.1).
[[nodiscard]] bool bodiless(int status) noexcept;

} // namespace godwit::transport::http
