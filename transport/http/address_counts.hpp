#pragma once

#include "http/asio.hpp"

#include <boost/asio/ip/address.hpp>

#include <cstdint>
#include <map>
#include <mutex>

namespace godwit::transport::http {

/// Connections by the address that they come from. Of IPv6 the first 64 bits count: whoever has one of those addresses
/// usually has them all. Thread-safe.
class address_counts {
public:
  /// False, and nothing is counted, if there are `most` already; 0: any number.
  [[nodiscard]] bool enter(const asio::ip::address& from, std::uint32_t most) {
    const auto lock = std::lock_guard(mutex_);
    auto& count = counts_[key(from)]; // a count of 0 is erased, so that the map is no larger than the connections
    if (most != 0 && count >= most) return false;
    ++count;
    return true;
  }
  void leave(const asio::ip::address& from) {
    const auto lock = std::lock_guard(mutex_);
    const auto found = counts_.find(key(from));
    if (found != counts_.end() && --found->second == 0) counts_.erase(found);
  }

private:
  static asio::ip::address key(const asio::ip::address& from) {
    if (!from.is_v6()) return from;
    const auto v6 = from.to_v6();
    if (v6.is_v4_mapped()) return asio::ip::make_address_v4(asio::ip::v4_mapped, v6);
    auto bytes = v6.to_bytes();
    for (std::size_t i = 8; i < bytes.size(); ++i) bytes[i] = 0;
    return v6.is_loopback() ? from : asio::ip::address(asio::ip::address_v6(bytes));
  }

  std::mutex mutex_;
  std::map<asio::ip::address, std::uint32_t> counts_;
};

} // namespace godwit::transport::http
