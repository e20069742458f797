#include <godwit/gpu/model/adapter.hpp>

#include "model/adapter_names.hpp"
#include "model/hasher.hpp"
#include "model/json_reader.hpp"
#include "model/utf8.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <new>
#include <span>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace godwit::gpu::model {

namespace {

constexpr std::uint64_t adapter_header_bytes_max = 32U << 20U; // the reader's own bound
constexpr std::size_t known_max = 65'536;

/// One of an adapter's files, open. Whoever cuts it off while it is read gets an error, no signal.
class open_file {
public:
  /// Throws model_error where there is none that can be read.
  open_file(const std::filesystem::path& path) : name_(path.string()) {
    descriptor_ = ::open(name_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); // a named pipe would wait for a writer
    if (descriptor_ < 0) fail(std::strerror(errno));
    if (::fstat(descriptor_, &facts_) == 0 && S_ISREG(facts_.st_mode)) return;
    ::close(descriptor_);
    fail("is not a regular file");
  }
  open_file(const open_file&) = delete;
  open_file& operator=(const open_file&) = delete;
  ~open_file() { ::close(descriptor_); }

  [[nodiscard]] std::uint64_t size() const noexcept { return static_cast<std::uint64_t>(facts_.st_size); }
  [[nodiscard]] const struct stat& facts() const noexcept { return facts_; }
  [[noreturn]] void fail(const std::string& why) const { throw model_error(in_quotes(name_), why); }

  void read(std::uint64_t at, std::span<std::byte> into) const {
    while (!into.empty()) {
      const auto got = ::pread(descriptor_, into.data(), into.size(), static_cast<off_t>(at));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail(std::strerror(errno));
      if (got == 0) fail("was cut off while it was read");
      into = into.subspan(static_cast<std::size_t>(got));
      at += static_cast<std::uint64_t>(got);
    }
  }
  void refuse_beyond(std::uint64_t most) const {
    if (size() > most)
      fail("has " + std::to_string(size()) + " bytes, more than the " + std::to_string(most) +
           " that an adapter may have here");
  }
  [[nodiscard]] std::vector<std::byte> all(std::uint64_t most) const {
    refuse_beyond(most);
    std::vector<std::byte> bytes(size());
    read(0, bytes);
    return bytes;
  }

private:
  std::string name_;
  int descriptor_ = -1;
  struct stat facts_ {};
};

/// Memory for a file's content, of which nothing is taken before it is written.
class file_memory {
public:
  explicit file_memory(std::uint64_t size) : size_(size) {
    if (size == 0) return;
    data_ = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data_ == MAP_FAILED) throw std::bad_alloc();
  }
  file_memory(const file_memory&) = delete;
  file_memory& operator=(const file_memory&) = delete;
  ~file_memory() {
    if (size_ > 0) ::munmap(data_, size_);
  }
  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return {static_cast<std::byte*>(data_), size_}; }

private:
  void* data_ = nullptr;
  std::uint64_t size_;
};

/// An adapter's files in memory.
class adapter_files final : public file_source {
public:
  adapter_files(std::string name, std::vector<std::byte> config, std::uint64_t tensors_bytes)
      : name_(std::move(name)), config_(std::move(config)), tensors_(tensors_bytes) {}
  [[nodiscard]] const std::string& name() const noexcept override { return name_; }
  [[nodiscard]] std::optional<std::span<const std::byte>> find(std::string_view file) const override {
    if (file == adapter_config_file) return config_;
    if (file == adapter_tensors_file) return tensors_.bytes();
    return std::nullopt;
  }
  [[nodiscard]] std::span<const std::byte> config() const noexcept { return config_; }
  [[nodiscard]] std::span<std::byte> tensors() const noexcept { return tensors_.bytes(); }

private:
  std::string name_;
  std::vector<std::byte> config_;
  file_memory tensors_;
};

/// `read(at, length)` gives bytes of the tensors' file, until it is asked again.
template <class Read>
std::uint64_t fingerprint_of(std::span<const std::byte> config, std::uint64_t size, const Read& read) {
  constexpr std::uint64_t piece = 1U << 20U;
  hasher h;
  h.bytes(config.data(), config.size());
  h.word(size);
  for (std::uint64_t at = 0; at < size; at += piece) {
    const auto length = std::min(piece, size - at);
    h.bytes(read(at, length), length);
  }
  return std::max<std::uint64_t>(h.value(), 1);
}

std::array<std::uint64_t, 10> stamp_of(const struct stat& config, const struct stat& tensors) {
  std::array<std::uint64_t, 10> out{};
  std::size_t at = 0;
  for (const auto* facts : {&config, &tensors}) {
    out[at++] = facts->st_dev;
    out[at++] = facts->st_ino;
    out[at++] = static_cast<std::uint64_t>(facts->st_size);
    for (const auto& when : {facts->st_mtim, facts->st_ctim}) // copies may keep the first one
      out[at++] = static_cast<std::uint64_t>(when.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(when.tv_nsec);
  }
  return out;
}

bool is_adapter_name(std::string_view name) {
  const auto is_odd = [](char c) { return c == '/' || static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  return !name.empty() && name.size() <= 200 && name.front() != '.' && std::ranges::none_of(name, is_odd) &&
         is_utf8(name);
}

std::filesystem::path file_of_tensors(const std::filesystem::path& directory, const protocols::adapter_ref& which) {
  if (!is_adapter_name(which.name)) throw model_error(in_quotes(which.name) + " is no adapter's name");
  return directory / which.name / adapter_tensors_file;
}

/// The configuration, and memory for the tensors.
std::shared_ptr<adapter_files> with_room_for(const open_file& tensors, const std::filesystem::path& directory,
                                             std::uint64_t bytes_max) {
  tensors.refuse_beyond(bytes_max);
  return std::make_shared<adapter_files>(
      directory.string(), open_file(directory / adapter_config_file).all(adapter_config_bytes_max), tensors.size());
}

} // namespace

std::vector<std::string> adapter_directory::names(std::size_t most) const {
  std::vector<std::string> out;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(path_, error), end; !error && entry != end && out.size() < most;
       entry.increment(error)) {
    auto name = entry->path().filename().string();
    std::error_code unseen;
    if (is_adapter_name(name) && std::filesystem::exists(entry->path() / adapter_config_file, unseen) &&
        std::filesystem::exists(entry->path() / adapter_tensors_file, unseen))
      out.push_back(std::move(name));
  }
  std::ranges::sort(out);
  return out;
}

std::optional<protocols::adapter_ref> adapter_directory::find(std::string_view name) const {
  if (!is_adapter_name(name)) return std::nullopt;
  const auto directory = path_ / name;
  std::error_code unseen;
  if (!std::filesystem::exists(directory / adapter_config_file, unseen)) {
    const std::lock_guard lock(mutex_);
    if (const auto known = known_.find(name); known != known_.end()) known_.erase(known);
    return std::nullopt;
  }
  const open_file config(directory / adapter_config_file);
  const open_file tensors(directory / adapter_tensors_file);
  const auto seen = stamp_of(config.facts(), tensors.facts());
  {
    const std::lock_guard lock(mutex_);
    const auto known = known_.find(name);
    if (known != known_.end() && known->second.first == seen)
      return protocols::adapter_ref{std::string(name), known->second.second};
  }
  std::vector<std::byte> piece; // others may look at the directory meanwhile
  const auto id = fingerprint_of(config.all(adapter_config_bytes_max), tensors.size(),
                                 [&](std::uint64_t first, std::uint64_t length) {
                                   piece.resize(length);
                                   tensors.read(first, piece);
                                   return static_cast<const std::byte*>(piece.data());
                                 });
  const std::lock_guard lock(mutex_);
  if (known_.size() >= known_max) known_.clear();
  known_.insert_or_assign(std::string(name), std::pair{seen, id});
  return protocols::adapter_ref{std::string(name), id};
}

bool adapter_directory::is_new(std::string_view name) const noexcept {
  try {
    if (!is_adapter_name(name)) return false;
    struct stat config {};
    struct stat tensors {};
    if (::stat((path_ / name / adapter_config_file).c_str(), &config) != 0 ||
        ::stat((path_ / name / adapter_tensors_file).c_str(), &tensors) != 0)
      return false; // which is found out soon
    const std::lock_guard lock(mutex_);
    const auto known = known_.find(name);
    return known == known_.end() || known->second.first != stamp_of(config, tensors);
  } catch (const std::exception&) {
    return false;
  }
}

std::shared_ptr<const file_source> adapter_directory::open(const protocols::adapter_ref& which,
                                                           std::uint64_t bytes_max) const {
  const open_file tensors(file_of_tensors(path_, which));
  const auto files = with_room_for(tensors, path_ / which.name, bytes_max);
  tensors.read(0, files->tensors());
  const auto id = fingerprint_of(files->config(), files->tensors().size(), [&](std::uint64_t at, std::uint64_t) {
    return static_cast<const std::byte*>(files->tensors().data() + at);
  });
  if (id != which.id)
    throw model_error(in_quotes(files->name()), "is not the adapter that the request was given: its files have "
                                                "changed, or are others on the head's machine");
  return files;
}

std::shared_ptr<const file_source> adapter_directory::peek(const protocols::adapter_ref& which,
                                                           std::uint64_t bytes_max) const {
  const open_file tensors(file_of_tensors(path_, which));
  const auto files = with_room_for(tensors, path_ / which.name, bytes_max);
  constexpr std::uint64_t length_bytes = 8;
  if (tensors.size() < length_bytes) return files; // its reader says what is wrong
  tensors.read(0, files->tensors().first(length_bytes));
  std::uint64_t header = 0; // little-endian
  for (std::uint64_t i = length_bytes; i > 0; --i)
    header = header << 8U | std::to_integer<std::uint64_t>(files->tensors()[i - 1]);
  if (header <= std::min<std::uint64_t>(tensors.size() - length_bytes, adapter_header_bytes_max))
    tensors.read(length_bytes, files->tensors().subspan(length_bytes, header));
  return files;
}

} // namespace godwit::gpu::model
