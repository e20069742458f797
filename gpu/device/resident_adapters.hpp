#pragma once

#include <godwit/gpu/adapters.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace godwit::gpu {

/// An adapter store in a process's own memory: what it is made of is the devices' affair.
class resident_adapters final : public adapter_store {
public:
  /// One that has been read, and how much it takes once it is made.
  struct prepared {
    std::uint64_t bytes = 0;
    std::function<std::shared_ptr<const void>()> make;
  };
  /// Reads and checks; throws std::exception, with a line that names what is wrong. On the store's thread, as `make`.
  using prepare_function = std::function<prepared(const protocols::adapter_ref&)>;

  resident_adapters(std::uint64_t bytes_max, prepare_function prepare);
  ~resident_adapters() override; ///< waits for the load under way; others end with an error
  resident_adapters(const resident_adapters&) = delete;
  resident_adapters& operator=(const resident_adapters&) = delete;

  void load(const protocols::adapter_ref& which, std::function<void(adapter_outcome)> done) override;
  [[nodiscard]] adapter_counts counts() const override;
  /// What `make` gave; null where it is not here.
  [[nodiscard]] std::shared_ptr<const void> find(std::uint64_t id) const;

private:
  struct state;
  std::shared_ptr<state> state_; ///< of those who hold adapters, too
};

} // namespace godwit::gpu
