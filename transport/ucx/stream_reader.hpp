#pragma once

#include "fabric/postings.hpp"
#include "ucx/stream_socket.hpp"
#include "ucx/wire.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace godwit::transport::ucx {

/// What comes over a stream: headers of one size, each followed by the bytes that it announces. Those are read out of
/// the socket to where they belong, without a buffer between; where nobody wants them (any more) they are thrown away.
class stream_reader {
public:
  class events {
  public:
    /// Where the bytes go that `m` announces, and the memory into which they are read for that; with an error nowhere.
    /// Nothing: there is no memory now, `step` asks again.
    struct arrival {
      postings::admission place;
      std::vector<protocols::memory_region> into;
    };
    virtual std::optional<arrival> begin(const wire::blocks& m) = 0;
    /// Whether this write may go on.
    virtual bool wanted(std::uint64_t write) = 0;
    /// All of them are there.
    virtual void end(const wire::blocks& m, const postings::admission& place) = 0;
    /// All of them have come, to nowhere: the write had ended meanwhile.
    virtual void unwanted(const wire::blocks& m) = 0;

  protected:
    ~events() = default;
  };

  explicit stream_reader(std::shared_ptr<stream_socket> from) : socket_(std::move(from)) {}

  [[nodiscard]] bool readable() const noexcept { return !waiting_ && socket_->readable(); }
  /// For memory.
  [[nodiscard]] bool waiting() const noexcept { return waiting_; }
  /// A piece has begun to arrive: the rest is on its way.
  [[nodiscard]] bool midway() const noexcept { return reading_ || header_have_ != 0; }
  /// The transfer to which the bytes belong that are waited for.
  [[nodiscard]] transfer_key key() const noexcept { return what_.key; }
  /// One read. What is wrong with the stream: it cannot go on. Empty otherwise.
  [[nodiscard]] std::string step(events& to);
  /// What is wrong is that the peer has closed it, or is no more.
  [[nodiscard]] bool gone() const noexcept { return socket_->gone(); }
  /// The write whose bytes are coming; 0: none.
  [[nodiscard]] std::uint64_t writing() const noexcept { return reading_ ? place_.write : 0; }

private:
  [[nodiscard]] std::string read_header(events& to);
  void begin(events& to);
  void read_bytes(events& to);
  void took(std::size_t bytes);

  std::shared_ptr<stream_socket> socket_;
  std::array<char, wire::stream_header_bytes> header_;
  std::size_t header_have_ = 0;
  bool waiting_ = false; ///< for memory for `what_`
  bool reading_ = false; ///< the bytes of `what_`, of which `left_` are missing
  wire::blocks what_;
  postings::admission place_;
  std::vector<protocols::memory_region> into_;
  std::uint64_t left_ = 0;
  std::size_t region_ = 0, offset_ = 0; ///< of `into_`
};

} // namespace godwit::transport::ucx
