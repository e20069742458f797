#include <godwit/gpu/model/error.hpp>
#include <godwit/gpu/model/file_source.hpp>

#include "model/json_reader.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <mutex>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace godwit::gpu::model {

namespace {

class mapped_file {
public:
  mapped_file(const void* data, std::size_t size) : data_(data), size_(size) {}
  mapped_file(const mapped_file&) = delete;
  mapped_file& operator=(const mapped_file&) = delete;
  ~mapped_file() {
    if (size_ > 0) ::munmap(const_cast<void*>(data_), size_);
  }
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept {
    return {static_cast<const std::byte*>(data_), size_};
  }

private:
  const void* data_;
  std::size_t size_;
};

struct descriptor {
  int value;
  ~descriptor() {
    if (value >= 0) ::close(value);
  }
};

class directory : public file_source {
public:
  explicit directory(std::filesystem::path path) : path_(std::move(path)), name_(path_.string()) {}

  const std::string& name() const noexcept override { return name_; }

  std::optional<std::span<const std::byte>> find(std::string_view file) const override {
    if (file.empty() || file.size() > 255 || file == "." || file == ".." ||
        file.find_first_of(std::string_view("/\0", 2)) != std::string_view::npos)
      return std::nullopt;
    const std::lock_guard lock(mutex_);
    if (const auto known = files_.find(file); known != files_.end()) return known->second->bytes();
    auto mapped = map(std::string(file));
    if (!mapped) return std::nullopt;
    return files_.emplace(std::string(file), std::move(mapped)).first->second->bytes();
  }

private:
  [[nodiscard]] std::unique_ptr<mapped_file> map(const std::string& file) const {
    const auto full = path_ / file;
    const auto fail = [&](const char* why) { throw model_error(in_quotes(full.string()), why); };
    // Without O_NONBLOCK a named pipe would wait for a writer for ever.
    const descriptor opened{::open(full.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
    if (opened.value < 0) {
      if (errno == ENOENT || errno == ENOTDIR) return nullptr;
      fail(std::strerror(errno));
    }
    struct stat facts {};
    if (::fstat(opened.value, &facts) != 0) fail(std::strerror(errno));
    if (!S_ISREG(facts.st_mode)) fail("is not a regular file");
    const auto size = static_cast<std::size_t>(facts.st_size);
    if (size == 0) return std::make_unique<mapped_file>(nullptr, 0);
    const auto* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, opened.value, 0);
    if (data == MAP_FAILED) fail(std::strerror(errno));
    return std::make_unique<mapped_file>(data, size);
  }

  std::filesystem::path path_;
  std::string name_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::unique_ptr<mapped_file>, std::less<>> files_;
};

class memory : public file_source {
public:
  memory(std::string name, std::map<std::string, std::vector<std::byte>, std::less<>> files)
      : name_(std::move(name)), files_(std::move(files)) {}

  const std::string& name() const noexcept override { return name_; }

  std::optional<std::span<const std::byte>> find(std::string_view file) const override {
    const auto found = files_.find(file);
    if (found == files_.end()) return std::nullopt;
    return std::span<const std::byte>(found->second);
  }

private:
  std::string name_;
  std::map<std::string, std::vector<std::byte>, std::less<>> files_;
};

} // namespace

std::shared_ptr<const file_source> directory_source(std::filesystem::path path) {
  return std::make_shared<directory>(std::move(path));
}

std::shared_ptr<const file_source> memory_source(std::string name,
                                                 std::map<std::string, std::vector<std::byte>, std::less<>> files) {
  return std::make_shared<memory>(std::move(name), std::move(files));
}

} // namespace godwit::gpu::model
