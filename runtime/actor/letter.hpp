#pragma once

#include <godwit/runtime/message.hpp>

#include <caf/mailbox_element.hpp>

#include <cstddef>
#include <typeinfo>

namespace godwit::runtime::detail {

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
