#pragma once

#include <godwit/runtime/message.hpp>

#include <caf/mailbox_element.hpp>

#include <cstddef>
#include <cstdint>
#include <typeinfo>

namespace godwit::runtime::detail {

/// What a recorder knows of a message on its way (trace/recorder.hpp).
struct stamp {
  std::uint64_t id = 0;    ///< 0: none yet
  std::uint64_t cause = 0; ///< by whose handling it was made
  std::int64_t queued = 0; ///< ticks; of a message that leaves its process: the process's key, as a number
  std::uint32_t depth = 0; ///< of the mailbox, when it was queued
  std::uint16_t cause_process = 0;
  bool outside = false; ///< made by a thread that handled no message, or by foreign code that it called
  bool counted = false; ///< in the mailbox's depth
};

/// A message in a mailbox: CAF's element with the payload behind it, in one allocation. CAF sees an opaque tuple; so no
/// CAF template is instantiated for a message type, and a handler is found by comparing one pointer.
class letter final : public caf::mailbox_element {
public:
  ~letter() override {
    if (constructed) type->destroy(payload());
  }
  [[nodiscard]] static letter* make(const message_type& type);
  [[nodiscard]] static letter* of_payload(void* payload) noexcept {
    return reinterpret_cast<letter*>(static_cast<std::byte*>(payload) - offset());
  }
  /// Null where the element is no letter: it comes from another node, or from CAF itself.
  [[nodiscard]] static letter* of(caf::mailbox_element& x) noexcept {
    return typeid(x) == typeid(letter) ? static_cast<letter*>(&x) : nullptr;
  }
  [[nodiscard]] void* payload() noexcept { return reinterpret_cast<std::byte*>(this) + offset(); }
  [[nodiscard]] const void* payload() const noexcept { return reinterpret_cast<const std::byte*>(this) + offset(); }
  static void operator delete(void* memory) noexcept { ::operator delete(memory); }

  caf::type_erased_tuple& content() override;
  const caf::type_erased_tuple& content() const override;
  /// On the way to another node: an envelope.
  caf::message move_content_to_message() override;
  caf::message copy_content_to_message() const override;

  const message_type* const type;
  detail::stamp mark;
  bool constructed = true;

private:
  explicit letter(const message_type& t) noexcept : type(&t) {}
  static constexpr std::size_t offset() noexcept {
    constexpr std::size_t unit = alignof(std::max_align_t);
    return (sizeof(letter) + unit - 1) / unit * unit;
  }
};

using letter_ptr = std::unique_ptr<letter, caf::detail::disposer>;

} // namespace godwit::runtime::detail
