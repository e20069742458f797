#include <godwit/transport/files/disk.hpp>

#include "fabric/checksum.hpp"

#include <godwit/protocols/ensure.hpp>

#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <limits>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

namespace godwit::transport::files {

namespace {

[[noreturn]] void fail(int error, const std::string& what) {
  throw std::system_error(error, std::generic_category(), what);
}

class owned_file {
public:
  explicit owned_file(int descriptor) noexcept : descriptor_(descriptor) {}
  ~owned_file() { (void)::close(descriptor_); }
  owned_file(const owned_file&) = delete;
  owned_file& operator=(const owned_file&) = delete;
  [[nodiscard]] int get() const noexcept { return descriptor_; }

private:
  int descriptor_;
};

/// Not all file systems know O_TMPFILE.
int open_unnamed(const std::string& directory) {
  const auto unnamed = ::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (unnamed >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return unnamed;
  auto path = directory + "/godwit-kv-store-XXXXXX";
  const auto named = ::mkostemp(path.data(), O_CLOEXEC);
  if (named >= 0) (void)::unlink(path.c_str());
  return named;
}

int opened(const std::string& directory) {
  const auto out = open_unnamed(directory);
  if (out < 0) fail(errno, directory);
  return out;
}

class file_disk final : public disk {
public:
  explicit file_disk(const disk_settings& settings)
      : slots_(settings.slots), bytes_(settings.slot_bytes), file_(opened(settings.directory)) {
    protocols::ensure(slots_ > 0 && bytes_ > 0 && settings.threads > 0, "file_disk: there is something to keep");
    take_room(settings.directory);
    sums_.resize(slots_);
    go_past_page_cache();
    for (std::uint32_t i = 0; i < settings.threads; ++i)
      threads_.push_back(std::make_unique<boost::asio::thread_pool>(1));
  }
  ~file_disk() override {
    ending_ = true;
    for (auto& thread : threads_) thread->join(); // what waits says that it is not done
  }
  file_disk(const file_disk&) = delete;
  file_disk& operator=(const file_disk&) = delete;

  [[nodiscard]] std::uint32_t slots() const noexcept override { return slots_; }
  [[nodiscard]] std::size_t slot_bytes() const noexcept override { return bytes_; }
  void write(std::uint32_t slot, std::uint64_t tag, const std::byte* from, std::shared_ptr<void> keep,
             std::function<void(std::string)> done) override {
    later(slot, from, [this, slot, tag, from, keep = std::move(keep), done = std::move(done)]() mutable {
      sums_[slot] = checksum(from, bytes_, tag);
      auto error = all_of(
          slot, [&](std::size_t at, off_t where) { return ::pwrite(file_.get(), from + at, bytes_ - at, where); });
      if (!error.empty()) sums_[slot].reset();
      keep.reset();
      done(std::move(error));
    });
  }
  void read(std::uint32_t slot, std::uint64_t tag, std::byte* to, std::shared_ptr<void> keep,
            std::function<void(std::string)> done) override {
    later(slot, to, [this, slot, tag, to, keep = std::move(keep), done = std::move(done)]() mutable {
      auto error =
          all_of(slot, [&](std::size_t at, off_t where) { return ::pread(file_.get(), to + at, bytes_ - at, where); });
      if (error.empty() && sums_[slot] != checksum(to, bytes_, tag)) error = "what was read is not what was written";
      keep.reset();
      done(std::move(error));
    });
  }

private:
  /// A slot's calls are all one thread's, in their order.
  template <class Work> void later(std::uint32_t slot, const std::byte* memory, Work work) {
    protocols::ensure(slot < slots_, "file_disk: a slot is one of its own");
    protocols::ensure(!direct_ || reinterpret_cast<std::uintptr_t>(memory) % alignment == 0,
                      "file_disk: memory is aligned");
    boost::asio::post(*threads_[slot % threads_.size()], std::move(work));
  }

  /// `some(at, where)` reads or writes from byte `at` of the slot on, as far as it gets.
  template <class Some> std::string all_of(std::uint32_t slot, Some&& some) const {
    for (std::size_t at = 0; at < bytes_;) {
      if (ending_) return "the disk ends";
      const auto got = some(at, static_cast<off_t>(slot * bytes_ + at));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return std::generic_category().message(errno);
      if (got == 0) return "the file ends before its slots";
      at += static_cast<std::size_t>(got);
    }
    return {};
  }

  /// Now, so that it is not missed later. Where the file system cannot promise it, that is seen when it is full.
  void take_room(const std::string& directory) const {
    if (bytes_ > static_cast<std::uint64_t>(std::numeric_limits<off_t>::max()) / slots_) fail(EFBIG, directory);
    const auto size = static_cast<off_t>(slots_ * bytes_);
    rlimit most{}; // beyond it a signal would end the process
    if (::getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur != RLIM_INFINITY && slots_ * bytes_ > most.rlim_cur)
      fail(EFBIG, directory);
    int error = 0;
    do error = ::fallocate(file_.get(), 0, 0, size) == 0 ? 0 : errno;
    while (error == EINTR);
    if (error == EOPNOTSUPP) error = ::ftruncate(file_.get(), size) == 0 ? 0 : errno;
    if (error != 0) fail(error, directory);
  }

  /// Memory is for what is used now, and each chunk is asked for once and then kept by whoever asked.
  void go_past_page_cache() {
    const auto flags = ::fcntl(file_.get(), F_GETFL);
    if (bytes_ % alignment != 0 || ::fcntl(file_.get(), F_SETFL, flags | O_DIRECT) != 0) return;
    // Some accept the flag, and then no read.
    const std::unique_ptr<void, decltype(&std::free)> piece(std::aligned_alloc(alignment, alignment), &std::free);
    direct_ = piece && ::pread(file_.get(), piece.get(), alignment, 0) == static_cast<ssize_t>(alignment);
    if (!direct_) (void)::fcntl(file_.get(), F_SETFL, flags);
  }

  const std::uint32_t slots_;
  const std::uint64_t bytes_;
  const owned_file file_;
  bool direct_ = false;
  std::atomic<bool> ending_ = false;
  std::vector<std::optional<std::uint64_t>> sums_; ///< each touched by its slot's thread alone
  std::vector<std::unique_ptr<boost::asio::thread_pool>> threads_;
};

} // namespace

std::shared_ptr<disk> make_disk(const disk_settings& settings) { return std::make_shared<file_disk>(settings); }

} // namespace godwit::transport::files
