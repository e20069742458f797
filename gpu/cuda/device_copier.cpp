#include "cuda/device_copier.hpp"

#include "cuda/kernels.hpp"
#include "cuda/kv_extents.hpp"

#include <algorithm>
#include <array>
#include <exception>
#include <mutex>
#include <optional>
#include <utility>

namespace godwit::gpu::cuda {

namespace {

using protocols::copy_urgency;
using protocols::memory_region;

/// Fewer or larger pieces are as fast by the copy engines, which take no processors.
constexpr std::size_t pieces_min = 8;
constexpr std::size_t piece_bytes_max = std::size_t{256} << 10U;
/// Lists of pieces that kernels under way read; where all are in use, the copy engines take the copy.
constexpr std::size_t lists_count = 32, list_pieces_max = 4096;
/// Of the device, for a kernel that copies: it waits for the bus, not for arithmetic.
constexpr std::uint32_t thread_blocks = 8;

std::uint64_t sum_of(const std::vector<memory_region>& regions) {
  std::uint64_t sum = 0;
  for (const auto& one : regions) sum += one.bytes;
  return sum;
}

/// Pinned lists, lent to kernels until they have run.
class piece_lists {
public:
  explicit piece_lists(driver& from)
      : memory_(from.allocate_pinned(lists_count * list_pieces_max * sizeof(move_piece), "lists of copies")) {
    for (std::size_t i = 0; i < lists_count; ++i)
      free_.push_back(reinterpret_cast<move_piece*>(memory_.data()) + i * list_pieces_max);
  }
  /// Null where all are in use.
  [[nodiscard]] move_piece* take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return nullptr;
    auto* list = free_.back();
    free_.pop_back();
    return list;
  }
  void give_back(move_piece* list) {
    const std::lock_guard lock(mutex_);
    free_.push_back(list);
  }

private:
  allocation memory_;
  std::mutex mutex_;
  std::vector<move_piece*> free_;
};

class device_copier final : public protocols::memory_copier {
public:
  device_copier(std::shared_ptr<driver> of, copy_by small_pieces)
      : driver_(std::move(of)), by_kernel_(small_pieces == copy_by::kernel),
        lists_(std::make_shared<piece_lists>(*driver_)) {
    for (auto& one : bulk_) one.open(*driver_, stream_priority::low);
    for (auto& one : urgent_) one.open(*driver_, stream_priority::high);
  }

  [[nodiscard]] std::string name() const override {
    const auto& device = driver_->properties();
    return "cuda " + std::to_string(device.index) + " (" + device.name + ")";
  }

  [[nodiscard]] std::optional<protocols::memory_extent> extent(const std::byte* address) const override {
    return kv_extent::around(address);
  }

  void enter() override { driver_->enter(); }

  [[nodiscard]] std::shared_ptr<std::byte> allocate_pinned(std::size_t bytes) override {
    try {
      auto memory = std::make_shared<held_memory>(
          held_memory{driver_, driver_->allocate_pinned(std::max<std::size_t>(bytes, 1), "copies of KV")});
      auto* address = memory->memory.data();
      return {std::move(memory), address};
    } catch (const std::exception&) {
      return nullptr;
    }
  }

  void gather(std::vector<memory_region> from, memory_region into, copy_urgency urgency, completion done) override {
    start(from, {into}, lane_of(urgency, false), by_kernel_, std::move(done));
  }
  void scatter(memory_region from, std::vector<memory_region> into, copy_urgency urgency, completion done) override {
    start({from}, into, lane_of(urgency, true), by_kernel_, std::move(done));
  }
  /// The other end may be another device's, which a kernel of this one does not reach.
  void copy(std::vector<memory_region> from, std::vector<memory_region> into, copy_urgency urgency,
            completion done) override {
    start(from, into, lane_of(urgency, true), false, std::move(done));
  }

private:
  struct held_memory {
    std::shared_ptr<driver> owner; // outlives what it made
    allocation memory;
  };
  /// Ends are told on a stream beside the copies': a stream stands still while the driver calls back, and the next
  /// copy is not to wait for that.
  struct lane {
    std::mutex mutex;
    std::unique_ptr<driver_stream> stream;
    std::unique_ptr<driver_event> copied;
    std::unique_ptr<driver_stream> telling;

    void open(driver& from, stream_priority priority) {
      stream = from.make_stream(priority);
      copied = from.make_event();
      telling = from.make_stream(priority);
    }
    void notify(reaction then) {
      stream->record(*copied);
      telling->wait(*copied);
      telling->notify(std::move(then));
    }
  };

  /// The bus carries both directions at once.
  [[nodiscard]] lane& lane_of(copy_urgency urgency, bool to_device) {
    return (urgency == copy_urgency::urgent ? urgent_ : bulk_)[to_device ? 1 : 0];
  }

  void start(const std::vector<memory_region>& from, const std::vector<memory_region>& into, lane& way, bool by_kernel,
             completion done) {
    if (sum_of(from) != sum_of(into))
      return done("a copy of " + std::to_string(sum_of(from)) + " bytes into " + std::to_string(sum_of(into)));
    const auto error = enqueue(from, into, way, by_kernel, done);
    if (!error.empty()) done(error);
  }

  /// `done` is called later, unless something went wrong.
  std::string enqueue(const std::vector<memory_region>& from, const std::vector<memory_region>& into, lane& way,
                      bool by_kernel, const completion& done) {
    const std::lock_guard lock(way.mutex);
    move_piece* list = nullptr;
    try {
      const auto pieces = common_pieces(from, into);
      if (by_kernel && suits_kernel(pieces)) list = lists_->take();
      if (list != nullptr)
        launch_move(*way.stream, pieces, list);
      else
        way.stream->copy(pieces);
      way.notify([list, lists = lists_, done](const std::string& error) {
        if (list != nullptr) lists->give_back(list);
        done(error);
      });
      return {};
    } catch (const std::exception& failure) {
      // What was enqueued before it failed is over when this is told.
      try {
        way.stream->synchronize();
      } catch (const std::exception&) { // says the same
      }
      if (list != nullptr) lists_->give_back(list);
      return failure.what();
    }
  }

  [[nodiscard]] static bool suits_kernel(const std::vector<copy_piece>& pieces) {
    if (pieces.size() < pieces_min || pieces.size() > list_pieces_max) return false;
    const std::size_t bytes = pieces.front().bytes;
    const auto aligned = [](const void* address) { return reinterpret_cast<std::uintptr_t>(address) % 16 == 0; };
    return bytes <= piece_bytes_max && bytes % 16 == 0 && std::ranges::all_of(pieces, [&](const copy_piece& piece) {
             return piece.bytes == bytes && aligned(piece.from) && aligned(piece.to);
           });
  }

  static void launch_move(driver_stream& stream, const std::vector<copy_piece>& pieces, move_piece* list) {
    std::ranges::transform(pieces, list, [](const copy_piece& piece) { return move_piece{piece.from, piece.to}; });
    move_job job;
    job.pieces = list;
    job.count = static_cast<std::uint32_t>(pieces.size());
    job.bytes = pieces.front().bytes;
    job.thread_blocks = thread_blocks;
    launch(stream, job);
  }

  std::shared_ptr<driver> driver_;
  const bool by_kernel_;
  std::shared_ptr<piece_lists> lists_;
  std::array<lane, 2> bulk_, urgent_; ///< from the device, to it
};

} // namespace

std::vector<copy_piece> common_pieces(const std::vector<memory_region>& from, const std::vector<memory_region>& into) {
  std::vector<copy_piece> pieces;
  std::size_t source = 0, target = 0, source_at = 0, target_at = 0;
  for (;;) {
    while (source < from.size() && source_at == from[source].bytes) ++source, source_at = 0;
    while (target < into.size() && target_at == into[target].bytes) ++target, target_at = 0;
    if (source == from.size() || target == into.size()) return pieces;
    const std::size_t bytes = std::min(from[source].bytes - source_at, into[target].bytes - target_at);
    std::byte* read = from[source].address + source_at;
    std::byte* written = into[target].address + target_at;
    const bool goes_on = !pieces.empty() &&
                         static_cast<const std::byte*>(pieces.back().from) + pieces.back().bytes == read &&
                         static_cast<std::byte*>(pieces.back().to) + pieces.back().bytes == written;
    if (goes_on)
      pieces.back().bytes += bytes;
    else
      pieces.push_back({written, read, bytes});
    source_at += bytes;
    target_at += bytes;
  }
}

std::shared_ptr<protocols::memory_copier> make_device_copier(std::shared_ptr<driver> of, copy_by small_pieces) {
  return std::make_shared<device_copier>(std::move(of), small_pieces);
}

} // namespace godwit::gpu::cuda
