#include "trace/chunk_decoder.hpp"
#include "trace/compression.hpp"
#include "trace/file_format.hpp"
#include "trace/recording_builder.hpp"

#include <godwit/runtime/trace/file.hpp>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

namespace godwit::runtime::trace {

namespace {

using bytes_view = std::span<const std::uint8_t>;

// Unpacking what turns out to be damaged costs time and gives nothing; a file made to cost much of it is given up.
constexpr std::uint64_t wasted_bytes_max = std::uint64_t{1} << 30U;

/// Goes through a file's chunks; where one is damaged, on to the next that is not.
class reader {
public:
  reader(bytes_view file, read_limits limits) : file_(file), builder_(limits) {}
  [[nodiscard]] recording read();

private:
  [[nodiscard]] bool chunk(const format::chunk_header& header, bytes_view stored);
  [[nodiscard]] std::optional<bytes_view> unpack(const format::chunk_header& header, bytes_view stored);
  void skip_damage(std::size_t from);
  void check_sequence(const format::chunk_header& header);
  [[nodiscard]] std::string at(std::size_t where) const { return "at byte " + std::to_string(where); }

  bytes_view file_;
  recording_builder builder_;
  chunk_decoder decoder_{builder_};
  decompressor zstd_;
  std::vector<std::uint8_t> raw_;
  std::size_t at_ = format::file_header_bytes;
  std::uint32_t sequence_ = 0; // of the next chunk
  std::uint64_t wasted_ = 0;
  bool ended_ = false;
};

recording reader::read() {
  while (at_ < file_.size() && !builder_.full()) {
    const auto begin = at_;
    const auto header = format::decode_chunk_header(file_.subspan(at_));
    if (!header) {
      skip_damage(begin);
      continue;
    }
    const auto left = file_.size() - at_ - format::chunk_header_bytes;
    if (header->stored > left || !chunk(*header, file_.subspan(at_ + format::chunk_header_bytes, header->stored))) {
      at_ += format::chunk_header_bytes;
      skip_damage(begin);
      if (wasted_ > wasted_bytes_max) {
        builder_.remark_on_all("too much is damaged: the rest was not read");
        break;
      }
      continue;
    }
    at_ += format::chunk_header_bytes + header->stored;
  }
  if (!ended_ && !builder_.full())
    builder_.remark_on_all("the file has no end mark: who wrote it was killed, or is still writing");
  return builder_.finish();
}

// Chunks are numbered; what is missing was lost with what lay between, or somebody cut it out.
void reader::check_sequence(const format::chunk_header& header) {
  if (header.sequence != sequence_)
    builder_.hole("chunks are missing " + at(at_) + ": number " + std::to_string(sequence_) + " expected, " +
                  std::to_string(header.sequence) + " found");
  sequence_ = header.sequence + 1;
}

bool reader::chunk(const format::chunk_header& header, bytes_view stored) {
  if (header.kind == format::chunk_kind::end) {
    check_sequence(header);
    ended_ = true;
    return true;
  }
  if (header.kind != format::chunk_kind::records) { // of a newer writer, which says that older readers need not know
    check_sequence(header);
    builder_.unknown();
    return true;
  }
  const auto records = unpack(header, stored);
  if (!records) return false;
  check_sequence(header);
  if (!decoder_.decode(*records) && !builder_.full())
    builder_.hole("the chunk " + at(at_) + " makes no sense from some record on; what came before it was taken");
  return true;
}

std::optional<bytes_view> reader::unpack(const format::chunk_header& header, bytes_view stored) {
  if (header.codec != format::chunk_codec::zstd || header.raw > format::chunk_raw_max) return std::nullopt;
  if (raw_.size() < header.raw) raw_.resize(header.raw);
  const auto to = std::span(raw_).first(header.raw);
  if (zstd_.decompress(stored, to)) return bytes_view(to);
  wasted_ += stored.size() + to.size();
  return std::nullopt;
}

// Finds the next whole chunk header at or after at_.
void reader::skip_damage(std::size_t from) {
  auto where = file_.begin() + static_cast<std::ptrdiff_t>(at_);
  for (; where != file_.end(); ++where) {
    where = std::search(where, file_.end(), format::chunk_marker.begin(), format::chunk_marker.end());
    if (where == file_.end()) break;
    at_ = static_cast<std::size_t>(where - file_.begin());
    if (format::decode_chunk_header(file_.subspan(at_))) {
      builder_.hole("damaged " + at(from) + ": " + std::to_string(at_ - from) + " bytes were skipped");
      return;
    }
  }
  at_ = file_.size();
  builder_.remark("cut off or damaged " + at(from) + ": the last " + std::to_string(at_ - from) +
                  " bytes were left out");
}

async::expected<recording> read(bytes_view file, read_limits limits, const std::string& name) {
  const auto magic = std::span(format::magic);
  if (file.size() < format::file_header_bytes || !std::equal(magic.begin(), magic.end(), file.begin()))
    return async::error{async::error_code::failed, name + " is no recording of godwit's"};
  const auto version = format::load<std::uint16_t>(file.data() + magic.size());
  if (version != format::version)
    return async::error{async::error_code::unsupported, name + " has version " + std::to_string(version) +
                                                            " of the format of recordings, and this godwit " +
                                                            "reads version " + std::to_string(format::version) +
                                                            ": use the godwit that wrote it, or a newer one"};
  return reader(file, limits).read();
}

struct descriptor {
  int number;
  explicit descriptor(const std::string& path) : number(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  descriptor(const descriptor&) = delete;
  descriptor& operator=(const descriptor&) = delete;
  ~descriptor() {
    if (number >= 0) ::close(number);
  }
};

} // namespace

async::expected<recording> read_bytes(std::span<const std::byte> bytes, read_limits limits) {
  return read({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()}, limits, "this");
}

async::expected<recording> read_file(const std::string& path, read_limits limits) {
  const auto failure = [&] {
    return async::error{async::error_code::failed, path + ": " + std::generic_category().message(errno)};
  };
  const descriptor file(path);
  if (file.number < 0) return failure();
  constexpr std::size_t step = std::size_t{1} << 20U;
  std::vector<std::uint8_t> bytes;
  std::size_t filled = 0;
  bool whole = false;
  const auto none = [&] { // so that nobody waits for the end of what is no recording
    const auto& magic = format::magic;
    return filled >= magic.size() && !std::equal(magic.begin(), magic.end(), bytes.begin());
  };
  while (!whole && filled < limits.file_bytes_max && !none()) { // not mapped: somebody may cut it off meanwhile
    if (bytes.size() - filled < step) bytes.resize(filled + std::max(step, filled)); // a pipe gives little at a time
    const auto got = ::read(file.number, bytes.data() + filled, bytes.size() - filled);
    if (got < 0 && errno != EINTR) return failure();
    filled += static_cast<std::size_t>(std::max<ssize_t>(got, 0));
    whole = got == 0;
  }
  bytes.resize(std::min<std::uint64_t>(filled, limits.file_bytes_max));
  auto made = read(bytes, limits, path);
  if (made && !whole)
    made->remarks.push_back("only the first " + std::to_string(bytes.size()) + " bytes were read: that is the limit");
  return made;
}

} // namespace godwit::runtime::trace
