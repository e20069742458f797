#pragma once

#include <boost/asio/buffer.hpp>
#include <boost/beast/core/buffers_range.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/optional.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

namespace godwit::transport::http {

/// A body that is taken out of the message as it comes.
///
/// Beast's string_body makes room for all that a Content-Length announces, which is whatever a server likes to say.
struct passing_body {
  using value_type = std::string;

  class reader {
  public:
    template <bool IsRequest, class Fields>
    reader(boost::beast::http::header<IsRequest, Fields>&, value_type& body) : body_(body) {}
    void init(const boost::optional<std::uint64_t>&, boost::beast::error_code& ec) { ec = {}; }
    template <class Buffers> std::size_t put(const Buffers& buffers, boost::beast::error_code& ec) {
      ec = {};
      std::size_t taken = 0;
      for (const auto bytes : boost::beast::buffers_range_ref(buffers)) {
        body_.append(static_cast<const char*>(bytes.data()), bytes.size());
        taken += bytes.size();
      }
      return taken;
    }
    void finish(boost::beast::error_code& ec) { ec = {}; }

  private:
    value_type& body_;
  };
};

} // namespace godwit::transport::http
