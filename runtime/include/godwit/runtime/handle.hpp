#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

namespace godwit::runtime {

template <class... Signatures> class interface;

/// Names an actor, here or on another node. Copies are cheap and thread-safe.
///
/// A handle keeps an address valid, not an actor alive: an actor lives until it quits or is stopped (or its system is),
/// whether anybody holds a handle or not. Nothing sent to a dead actor arrives; asks fail with error_code::down.
/// Handles may outlive their system, and answer all that is here.
class actor_ref {
public:
  actor_ref() noexcept = default;
  actor_ref(const actor_ref& other) noexcept : control_(other.control_) { retain(); }
  actor_ref(actor_ref&& other) noexcept : control_(std::exchange(other.control_, nullptr)) {}
  actor_ref& operator=(actor_ref other) noexcept {
    std::swap(control_, other.control_);
    return *this;
  }
  ~actor_ref() { release(); }

  explicit operator bool() const noexcept { return control_ != nullptr; }
  /// Unique in its system, counting up from 1 in the order of spawning; 0 for a null handle.
  [[nodiscard]] std::uint64_t id() const noexcept;
  /// True for an actor of another node.
  [[nodiscard]] bool remote() const noexcept;
  friend bool operator==(const actor_ref& a, const actor_ref& b) noexcept { return a.control_ == b.control_; }
  /// By id, then by node, so that ordered containers iterate alike in every run.
  friend bool operator<(const actor_ref& a, const actor_ref& b) noexcept {
    return a.id() != b.id() ? a.id() < b.id() : a.control_ != b.control_ && before(a, b);
  }

  /// @private Takes over one reference.
  static actor_ref adopt(void* control) noexcept {
    actor_ref out;
    out.control_ = control;
    return out;
  }
  /// @private
  [[nodiscard]] void* control() const noexcept { return control_; }
  /// @private Gives up the reference.
  [[nodiscard]] void* detach() noexcept { return std::exchange(control_, nullptr); }

private:
  static bool before(const actor_ref& a, const actor_ref& b) noexcept;
  void retain() const noexcept;
  void release() noexcept;
  void* control_ = nullptr;
};

/// An actor_ref that knows what its actor understands.
template <class Interface> class handle {
public:
  using interface_type = Interface;
  handle() noexcept = default;
  handle(std::nullptr_t) noexcept {}
  explicit handle(actor_ref ref) noexcept : ref_(std::move(ref)) {}
  /// A handle of an actor that understands more.
  template <class Wider>
  requires(!std::is_same_v<Wider, Interface> && Interface::template part_of<Wider>) handle(const handle<Wider>& other)
  noexcept : ref_(other.ref()) {}

  explicit operator bool() const noexcept { return static_cast<bool>(ref_); }
  [[nodiscard]] std::uint64_t id() const noexcept { return ref_.id(); }
  [[nodiscard]] const actor_ref& ref() const noexcept { return ref_; }
  friend bool operator==(const handle&, const handle&) noexcept = default;
  friend bool operator<(const handle& a, const handle& b) noexcept { return a.ref_ < b.ref_; }

private:
  actor_ref ref_;
};

} // namespace godwit::runtime

template <> struct std::hash<godwit::runtime::actor_ref> {
  std::size_t operator()(const godwit::runtime::actor_ref& ref) const noexcept { return ref.id(); }
};
template <class Interface> struct std::hash<godwit::runtime::handle<Interface>> {
  std::size_t operator()(const godwit::runtime::handle<Interface>& h) const noexcept { return h.id(); }
};
