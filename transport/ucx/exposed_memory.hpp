#pragma once

#include <godwit/protocols/messages/memory_extent.hpp>
#include <godwit/protocols/messages/memory_region.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <ucp/api/ucp.h>

namespace godwit::transport::ucx {

/// Memory that UCX was told of, as a whole, and may read for others until the last holder of this lets go of it: on the
/// fabric's thread, or when that has ended.
class exposed {
public:
  /// Null where UCX does not take it, and in `why` its words.
  [[nodiscard]] static std::shared_ptr<const exposed> make(std::shared_ptr<ucp_context> context,
                                                           const protocols::memory_extent& whole, std::string& why);
  exposed(const exposed&) = delete;
  exposed& operator=(const exposed&) = delete;
  ~exposed();

  [[nodiscard]] bool holds(const protocols::memory_region& region) const noexcept;
  [[nodiscard]] const std::string& key() const noexcept { return key_; } ///< for others
  [[nodiscard]] ucs_memory_type_t type() const noexcept { return type_; }
  /// What is written from outside is seen by whatever its device begins afterwards.
  [[nodiscard]] bool takes_writes() const noexcept { return whole_.takes_writes; }

private:
  exposed() = default;
  std::shared_ptr<ucp_context> context_;
  ucp_mem_h handle_ = nullptr;
  protocols::memory_extent whole_;
  std::string key_;
  ucs_memory_type_t type_ = UCS_MEMORY_TYPE_HOST;
};

/// What of this process's memory UCX was told of, so that it is told once. On the fabric's thread.
///
/// A device's memory counts only where UCX itself says that it is not the host's: one that does not know devices takes
/// any address, and reads it as if it were.
class exposed_memory {
public:
  using finder = std::function<std::optional<protocols::memory_extent>(const protocols::memory_region&)>;
  /// `trusting`: a device's memory that UCX takes for the host's is such. For tests, whose devices have that.
  /// `tell`: why UCX does not take memory that it was told of.
  exposed_memory(std::shared_ptr<ucp_context> context, finder find, bool trusting,
                 std::function<void(const std::string&)> tell = {})
      : context_(std::move(context)), find_(std::move(find)), trusting_(trusting), tell_(std::move(tell)) {}

  /// Null: UCX does not reach it, or nobody knows where it begins and ends.
  [[nodiscard]] std::shared_ptr<const exposed> find(const protocols::memory_region& region);
  /// Lets go of what its owner has given back.
  void forget_gone();
  [[nodiscard]] std::size_t count() const noexcept { return host_.size() + device_.size(); } ///< looked at

private:
  struct entry {
    protocols::memory_region first;        ///< a region in it, of no bytes: to ask whether it is there still
    std::shared_ptr<const exposed> memory; ///< null: UCX does not take it
  };
  std::shared_ptr<ucp_context> context_;
  finder find_;
  bool trusting_;
  std::function<void(const std::string&)> tell_;
  std::map<std::uint64_t, entry> host_, device_; ///< by the id
};

} // namespace godwit::transport::ucx
