#include <godwit/gpu/model/adapter.hpp>

#include "model/adapter_names.hpp"
#include "model/hasher.hpp"
#include "model/json_reader.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fcntl.h>
#include <span>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace godwit::gpu::model {

namespace {

constexpr std::uint64_t adapter_pages = 64;
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
  [[nodiscard]] std::vector<std::byte> all(std::uint64_t most) const {
    if (size() > most)
      fail("has " + std::to_string(size()) + " bytes, more than the " + std::to_string(most) +
           " that an adapter may have here");
    std::vector<std::byte> bytes(size());
    read(0, bytes);
    return bytes;
  }

private:
  std::string name_;
  int descriptor_ = -1;
  struct stat facts_ {};
};

template <class Read>
std::uint64_t fingerprint_of(std::span<const std::byte> config, std::uint64_t size, const Read& read) {
  hasher h;
  h.bytes(config.data(), config.size());
  h.word(size);
  h.sample(size, adapter_pages, read);
  return std::max<std::uint64_t>(h.value(), 1);
}

bool is_adapter_name(std::string_view name) {
  const auto is_odd = [](char c) { return c == '/' || static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  return !name.empty() && name.size() <= 200 && name.front() != '.' && std::ranges::none_of(name, is_odd);
}

} // namespace

std::vector<std::string> adapter_directory::names(std::size_t most) const {
  std::vector<std::string> out;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(path_, error), end; !error && entry != end && out.size() < most;
       entry.increment(error)) {
    auto name = entry->path().filename().string();
    std::error_code unseen;
    if (is_adapter_name(name) && std::filesystem::exists(entry->path() / adapter_config_file, unseen))
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
  stamp seen{};
  std::size_t at = 0;
  for (const auto* file : {&config, &tensors}) {
    const auto& facts = file->facts();
    seen[at++] = facts.st_dev;
    seen[at++] = facts.st_ino;
    seen[at++] = file->size();
    seen[at++] = static_cast<std::uint64_t>(facts.st_mtim.tv_sec) * 1'000'000'000 +
                 static_cast<std::uint64_t>(facts.st_mtim.tv_nsec);
  }
  {
    const std::lock_guard lock(mutex_);
    const auto known = known_.find(name);
    if (known != known_.end() && known->second.first == seen)
      return protocols::adapter_ref{std::string(name), known->second.second};
  }
  std::vector<std::byte> piece;
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

std::shared_ptr<const file_source> adapter_directory::open(const protocols::adapter_ref& which,
                                                           std::uint64_t bytes_max) const {
  if (!is_adapter_name(which.name)) throw model_error(in_quotes(which.name) + " is no adapter's name");
  const auto directory = path_ / which.name;
  auto config = open_file(directory / adapter_config_file).all(adapter_config_bytes_max);
  auto tensors = open_file(directory / adapter_tensors_file).all(bytes_max);
  const auto id = fingerprint_of(config, tensors.size(),
                                 [&](std::uint64_t first, std::uint64_t) { return tensors.data() + first; });
  if (id != which.id)
    throw model_error(in_quotes(directory.string()), "is not the adapter that the request was given: its files have "
                                                     "changed, or are others on the head's machine");
  std::map<std::string, std::vector<std::byte>, std::less<>> files;
  files.emplace(adapter_config_file, std::move(config));
  files.emplace(adapter_tensors_file, std::move(tensors));
  return memory_source(directory.string(), std::move(files));
}

} // namespace godwit::gpu::model
