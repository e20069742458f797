#pragma once

#include <godwit/gpu/adapters.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>

namespace godwit::gpu {

/// Why an adapter cannot be had now, where it may be had later.
class adapter_not_now : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

/// An adapter store in a process's own memory: what it is made of is the devices' affair.
class resident_adapters final : public adapter_store {
public:
  /// Both on the store's thread. Throw std::exception, with a line that names what is wrong; adapter_not_now and
  /// std::bad_alloc where another try may do.
  struct source {
    std::function<std::uint64_t(const protocols::adapter_ref&)>
        measure; ///< bytes that it takes, without reading it all
    std::function<std::shared_ptr<const void>(const protocols::adapter_ref&)> make;
  };

  resident_adapters(std::uint64_t bytes_max, source from);
  ~resident_adapters() override; ///< waits for what is under way; nobody is told anything afterwards
  resident_adapters(const resident_adapters&) = delete;
  resident_adapters& operator=(const resident_adapters&) = delete;

  void load(const protocols::adapter_ref& which, std::weak_ptr<const void> asker,
            std::function<void(adapter_outcome)> done) override;
  [[nodiscard]] adapter_counts counts() const override;
  /// What `make` gave; null where it is not here.
  [[nodiscard]] std::shared_ptr<const void> find(std::uint64_t id) const;

private:
  struct state;
  std::shared_ptr<state> state_; ///< of those who hold adapters, and of the thread, too
};

} // namespace godwit::gpu
