#include "ucx/wire.hpp"

#include "fabric/checksum.hpp"

#include <cstring>
#include <utility>

namespace godwit::transport::ucx::wire {

namespace {

enum class kind : std::uint8_t {
  hello = 1,
  welcome,
  rejection,
  data,
  offer,
  receipts,
  refusal,
  ping,
  pong,
  keyed_offer
};
constexpr std::size_t text_max = 1024;
constexpr std::size_t runs_max = 64;

class writer {
public:
  writer() = default;
  explicit writer(kind k) { put(k); }
  template <class T> void put(T value) {
    static_assert(std::is_trivially_copyable_v<T>);
    out_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void text(std::string_view value) { bytes(value.substr(0, text_max)); }
  void bytes(std::string_view value) {
    put(static_cast<std::uint16_t>(value.size()));
    out_.append(value);
  }
  std::string take() { return std::move(out_); }

private:
  std::string out_;
};

class reader {
public:
  explicit reader(std::string_view bytes) : left_(bytes) {}
  template <class T> T get() {
    T value{};
    if (left_.size() < sizeof value) {
      failed_ = true;
      return value;
    }
    std::memcpy(&value, left_.data(), sizeof value);
    left_.remove_prefix(sizeof value);
    return value;
  }
  std::string text() { return bytes(text_max); }
  std::string bytes(std::size_t max) {
    const auto size = get<std::uint16_t>();
    if (failed_ || size > max || size > left_.size()) {
      failed_ = true;
      return {};
    }
    std::string out{left_.substr(0, size)};
    left_.remove_prefix(size);
    return out;
  }
  void fail() { failed_ = true; }
  [[nodiscard]] bool failed() const { return failed_; }
  [[nodiscard]] bool complete() const { return !failed_ && left_.empty(); }

private:
  std::string_view left_;
  bool failed_ = false;
};

struct encoder {
  std::string operator()(const hello& m) const {
    writer out(kind::hello);
    out.put(magic);
    out.put(m.version);
    out.text(m.from);
    out.text(m.to);
    out.put(m.pid);
    out.put(m.probe);
    out.put(static_cast<std::uint8_t>(m.urgent));
    return out.take();
  }
  std::string operator()(const welcome& m) const {
    writer out(kind::welcome);
    out.put(m.pull);
    out.put(m.reads);
    out.put(m.stream_port);
    out.put(m.stream_token);
    return out.take();
  }
  std::string operator()(const rejection& m) const {
    writer out(kind::rejection);
    out.text(m.reason);
    return out.take();
  }
  std::string operator()(const blocks& m) const {
    writer out(!m.offered ? kind::data : m.keyed ? kind::keyed_offer : kind::offer);
    out.put(m.number);
    out.put(m.key.id);
    out.put(m.key.generation);
    out.put(m.what.first_region);
    out.put(m.what.offset);
    out.put(m.what.bytes);
    out.put(static_cast<std::uint8_t>(m.summed));
    out.put(m.sum);
    out.put(static_cast<std::uint16_t>(m.what.sizes.size()));
    for (const auto& run : m.what.sizes) {
      out.put(run.bytes);
      out.put(run.count);
    }
    if (m.offered && !m.keyed) {
      out.put(m.within.id);
      out.put(m.within.file);
      out.put(m.within.address);
      out.put(m.within.bytes);
    }
    return out.take();
  }
  std::string operator()(const receipts& m) const {
    writer out(kind::receipts);
    out.put(m.what);
    out.put(static_cast<std::uint16_t>(m.numbers.size()));
    for (const auto number : m.numbers) out.put(number);
    return out.take();
  }
  std::string operator()(const refusal& m) const {
    writer out(kind::refusal);
    out.put(m.number);
    out.text(m.reason);
    out.put(static_cast<std::uint8_t>(m.unreadable));
    return out.take();
  }
  std::string operator()(const ping& m) const { return writer(m.answer ? kind::pong : kind::ping).take(); }
};

// A hello of another version is read as far as its version: the rest may be anything.
message read_hello(reader& in, bool& enough) {
  hello m;
  if (in.get<std::uint64_t>() != magic) in.fail();
  m.version = in.get<std::uint32_t>();
  if (!in.failed() && m.version != version) {
    enough = true;
    return m;
  }
  m.from = in.text();
  m.to = in.text();
  m.pid = in.get<std::uint64_t>();
  m.probe = in.get<std::uint64_t>();
  m.urgent = in.get<std::uint8_t>() != 0;
  return m;
}

message read_blocks(reader& in, kind how) {
  blocks m;
  m.offered = how != kind::data;
  m.keyed = how == kind::keyed_offer;
  m.number = in.get<std::uint64_t>();
  m.key.id = in.get<std::uint64_t>();
  m.key.generation = in.get<std::uint32_t>();
  m.what.first_region = in.get<std::uint32_t>();
  m.what.offset = in.get<std::uint64_t>();
  m.what.bytes = in.get<std::uint64_t>();
  m.summed = in.get<std::uint8_t>() != 0;
  m.sum = in.get<std::uint64_t>();
  const auto runs = in.get<std::uint16_t>();
  if (runs > runs_max) in.fail();
  for (std::uint16_t i = 0; i < runs && !in.failed(); ++i) {
    size_run run;
    run.bytes = in.get<std::uint64_t>();
    run.count = in.get<std::uint32_t>();
    m.what.sizes.push_back(run);
  }
  if (how == kind::offer) {
    m.within.id = in.get<std::uint64_t>();
    m.within.file = in.get<std::int32_t>();
    m.within.address = in.get<std::uint64_t>();
    m.within.bytes = in.get<std::uint64_t>();
  }
  return m;
}

message read_receipts(reader& in) {
  receipts m;
  m.what = in.get<fate>();
  if (m.what < fate::landed || m.what > fate::void_) in.fail();
  const auto count = in.get<std::uint16_t>();
  if (count > receipts_max) in.fail();
  for (std::uint16_t i = 0; i < count && !in.failed(); ++i) m.numbers.push_back(in.get<std::uint64_t>());
  return m;
}

} // namespace

std::string encode(const message& m) { return std::visit(encoder{}, m); }

std::optional<message> decode(std::string_view bytes) {
  if (bytes.size() > header_bytes_max) return std::nullopt;
  reader in(bytes);
  bool enough = false;
  message out;
  const auto what = in.get<kind>();
  switch (what) {
  case kind::hello:
    out = read_hello(in, enough);
    break;
  case kind::welcome: {
    welcome m;
    m.pull = in.get<std::uint8_t>();
    m.reads = in.get<std::uint8_t>();
    m.stream_port = in.get<std::uint16_t>();
    m.stream_token = in.get<std::uint64_t>();
    out = m;
    break;
  }
  case kind::rejection: {
    rejection m;
    m.reason = in.text();
    out = m;
    break;
  }
  case kind::data:
  case kind::offer:
  case kind::keyed_offer:
    out = read_blocks(in, what);
    break;
  case kind::receipts:
    out = read_receipts(in);
    break;
  case kind::refusal: {
    refusal m;
    m.number = in.get<std::uint64_t>();
    m.reason = in.text();
    m.unreadable = in.get<std::uint8_t>() != 0;
    out = m;
    break;
  }
  case kind::ping:
    out = ping{false};
    break;
  case kind::pong:
    out = ping{true};
    break;
  default:
    return std::nullopt;
  }
  if (!in.complete() && !enough) return std::nullopt;
  return out;
}

std::string pack_keyed(const keyed_list& list) {
  writer out;
  out.put(static_cast<std::uint16_t>(list.keys.size()));
  for (const auto& key : list.keys) out.bytes(key);
  out.put(static_cast<std::uint16_t>(list.spans.size()));
  for (const auto& span : list.spans) {
    out.put(span.address);
    out.put(span.bytes);
    out.put(span.key);
  }
  return out.take();
}

std::optional<keyed_list> unpack_keyed(std::string_view payload) {
  reader in(payload);
  keyed_list out;
  const auto keys = in.get<std::uint16_t>();
  if (keys > keys_max) return std::nullopt;
  for (std::uint16_t i = 0; i < keys && !in.failed(); ++i) out.keys.push_back(in.bytes(key_bytes_max));
  const auto spans = in.get<std::uint16_t>();
  if (spans > spans_max) return std::nullopt;
  for (std::uint16_t i = 0; i < spans && !in.failed(); ++i) {
    keyed_span span;
    span.address = in.get<std::uint64_t>();
    span.bytes = in.get<std::uint64_t>();
    span.key = in.get<std::uint32_t>();
    if (span.key >= keys) return std::nullopt;
    out.spans.push_back(span);
  }
  if (!in.complete()) return std::nullopt;
  return out;
}

std::optional<std::string> pack(const message& m) {
  const auto text = encode(m);
  const auto size = static_cast<std::uint16_t>(text.size());
  if (sizeof size + text.size() > stream_header_bytes) return std::nullopt;
  std::string out(stream_header_bytes, '\0');
  std::memcpy(out.data(), &size, sizeof size);
  std::memcpy(out.data() + sizeof size, text.data(), text.size());
  return out;
}

std::optional<message> unpack(std::string_view header) {
  std::uint16_t size = 0;
  if (header.size() != stream_header_bytes) return std::nullopt;
  std::memcpy(&size, header.data(), sizeof size);
  header.remove_prefix(sizeof size);
  return size <= header.size() ? decode(header.substr(0, size)) : std::nullopt;
}

// Over all bytes as one sequence would be slower. Both sides cut them into the same regions: sizes that differ are
// refused before, and bytes in a page-locked piece are summed as the regions to which they belong.
std::uint64_t checksum(const std::vector<protocols::memory_region>& regions) noexcept {
  std::uint64_t sum = 0;
  for (const auto& region : regions) sum = transport::checksum(region.address, region.bytes, sum);
  return sum;
}

} // namespace godwit::transport::ucx::wire
