#pragma once

#include "actor/letter.hpp"
#include "actor/replay_hook.hpp"
#include "trace/recorder_core.hpp"

#include <caf/actor_control_block.hpp>
#include <caf/mailbox_element.hpp>
#include <caf/node_id.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <typeinfo>
#include <utility>

namespace godwit::runtime::detail {

class actor_core;
class engine;

/// An element that is no letter (it comes from another node, or from CAF itself), with its mark.
class marked_element final : public caf::mailbox_element {
public:
  marked_element(caf::mailbox_element_ptr inner, const stamp& its_mark)
      : caf::mailbox_element(std::move(inner->sender), inner->mid, std::move(inner->stages)), mark(its_mark),
        inner_(std::move(inner)) {}
  caf::type_erased_tuple& content() override { return inner_->content(); }
  const caf::type_erased_tuple& content() const override { return std::as_const(*inner_).content(); }
  caf::message move_content_to_message() override { return inner_->move_content_to_message(); }
  caf::message copy_content_to_message() const override { return inner_->copy_content_to_message(); }
  static marked_element* of(caf::mailbox_element& x) noexcept {
    return typeid(x) == typeid(marked_element) ? static_cast<marked_element*>(&x) : nullptr;
  }
  stamp mark;

private:
  caf::mailbox_element_ptr inner_;
};

/// What an engine adds to a recorder: which of its processes it is, and how CAF's names are those of recordings.
class tracing {
public:
  tracing(std::shared_ptr<trace::detail::recorder_core> core, const caf::node_id& here, std::string name);

  [[nodiscard]] bool on() const noexcept { return core_->on(); }
  [[nodiscard]] trace::detail::recorder_core& core() const noexcept { return *core_; }
  [[nodiscard]] std::uint16_t process() const noexcept { return process_; }
  replay_hook* replay = nullptr; ///< null: messages go their way

  /// Into a mailbox, on the sender's thread (or a clock's).
  [[nodiscard]] caf::mailbox_element_ptr queued(caf::mailbox_element_ptr message, std::atomic<std::uint32_t>& in,
                                                const std::atomic<std::uint32_t>& out);
  /// The sender's part of it, for a message that is queued later.
  void made(stamp& mark);
  /// A message that goes to another node.
  void leaves(letter& message, caf::actor_control_block* sender, const caf::actor_control_block& receiver);

  /// The beginning of an actor's spawned event: that it was asked for.
  [[nodiscard]] trace::event birth();
  /// The event of a delivery, but for its times.
  void describe(trace::detail::slot& s, caf::mailbox_element& x, const letter* l, const stamp& mark,
                const actor_core& receiver, engine& e);
  /// Its content, before it is handled.
  void keep_content(trace::event& out, caf::mailbox_element& x, const letter* l, engine& e);

  /// The thread has nothing more to handle for now.
  void rest() noexcept;

private:
  std::uint16_t process_of(const caf::node_id& node);
  std::shared_ptr<trace::detail::recorder_core> core_;
  caf::node_id here_;
  std::uint16_t process_ = 0;
  std::uint64_t key_ = 0;
  std::mutex mutex_;
  std::map<caf::node_id, std::uint16_t> known_;
};

/// Whether a message is numbered apart from what handlers make: it is the runtime's, or a callback's result.
[[nodiscard]] bool is_beside(caf::mailbox_element& message, const letter* as_letter);

/// The same number in every process that knows the node.
[[nodiscard]] std::uint64_t key_of(const caf::node_id& node);

/// While it lives, this thread handles what it is told; then again what it handled before.
class handling {
public:
  explicit handling(tracing* t);
  handling(const handling&) = delete;
  handling& operator=(const handling&) = delete;
  ~handling();

private:
  tracing* recorder_;
  std::unique_ptr<trace::detail::moment> before_; ///< null: nothing
  trace::event whole_;                            ///< its content
};

} // namespace godwit::runtime::detail
