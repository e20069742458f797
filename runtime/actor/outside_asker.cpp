#include "actor/outside_asker.hpp"

#include "actor/envelope.hpp"
#include "actor/failures.hpp"
#include "actor/letter.hpp"
#include "actor/protocol.hpp"
#include "actor/references.hpp"

#include <caf/attachable.hpp>
#include <caf/exit_reason.hpp>
#include <caf/make_actor.hpp>

#include <memory>
#include <mutex>
#include <utility>

namespace godwit::runtime::detail {

void outside_asker::enqueue(caf::mailbox_element_ptr message, caf::execution_unit*) {
  if (!message->mid.is_response()) return;
  const std::lock_guard lock{mutex_};
  if (!answer_) answer_ = std::move(message);
  arrived_.notify_all();
}

bool outside_asker::answered() const {
  const std::lock_guard lock{mutex_};
  return answer_ != nullptr;
}

bool outside_asker::wait_until(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock{mutex_};
  return arrived_.wait_until(lock, deadline, [&] { return answer_ != nullptr; });
}

caf::mailbox_element_ptr outside_asker::take() {
  const std::lock_guard lock{mutex_};
  return std::move(answer_);
}

namespace {

void fail(const std::function<void(answer&)>& take, async::error why) {
  answer value;
  value.failure = &why;
  take(value);
}

void hand_over(engine& e, caf::mailbox_element& x, const std::function<void(answer&)>& take) {
  letter_ptr opened;
  auto* l = letter::of(x);
  if (!l) {
    auto& content = x.content();
    if (content.match_elements<caf::error>()) return fail(take, to_error(content.get_as<caf::error>(0)));
    if (content.match_elements<envelope>()) opened = open_envelope(e, content.get_as<envelope>(0));
    if (!opened) return fail(take, async::error{async::error_code::unsupported, "an answer that cannot be read"});
    l = opened.get();
  }
  if (l->type == &message_type_of<async::error>) return fail(take, *static_cast<async::error*>(l->payload()));
  answer value;
  value.type = l->type;
  value.payload = l->payload();
  take(value);
}

/// Tells who asks an actor of another node that it is gone: the node may just fall silent. Hangs on that actor, which
/// may live long, until it is taken off.
class far_end final : public caf::attachable {
public:
  far_end(caf::strong_actor_ptr asker, caf::message_id id) : asker_(std::move(asker)), id_(id) {}
  static void take_off(const actor_ref& from, const caf::actor_control_block* asker) {
    block(from)->get()->detach(token{kind, asker});
  }
  void actor_exited(const caf::error&, caf::execution_unit*) override {
    asker_->enqueue(nullptr, id_, caf::make_message(caf::make_error(caf::sec::request_receiver_down)), nullptr);
  }
  bool matches(const token& what) override { return what.subtype == kind && what.ptr == asker_.get(); }

private:
  static constexpr std::size_t kind = 0x676f6477; // none of CAF's
  caf::strong_actor_ptr asker_;
  caf::message_id id_;
};

/// Calls a function with the answer.
class answer_taker final : public caf::monitorable_actor {
public:
  /// `far`: whom it asks, where that is an actor of another node.
  answer_taker(caf::actor_config& config, engine& e, std::function<void(answer&)> take, actor_ref far)
      : caf::monitorable_actor(config), engine_(e), far_(std::move(far)), take_(std::move(take)) {}
  void enqueue(caf::mailbox_element_ptr message, caf::execution_unit* where) override {
    if (!message->mid.is_response()) return;
    std::function<void(answer&)> take;
    {
      const std::lock_guard lock{mutex_}; // an answer, and the end of its connection
      take = std::exchange(take_, nullptr);
    }
    if (!take) return;
    const caf::strong_actor_ptr here{ctrl()};
    if (far_) far_end::take_off(far_, here.get());
    hand_over(engine_, *message, take);
    cleanup(caf::exit_reason::normal, where); // nobody finds it in the registry any more
  }

private:
  engine& engine_;
  const actor_ref far_;
  std::mutex mutex_;
  std::function<void(answer&)> take_;
};

/// Sends the request in the name of an asker; gives the failure that is known at once.
template <class Asker, class... Args>
caf::strong_actor_ptr send_request(engine& e, const actor_ref& to, draft message, async::error& failure,
                                   Args&&... args) {
  if (!to) {
    failure = async::error{async::error_code::down, "no such actor"};
    return nullptr;
  }
  letter_ptr l{letter::of_payload(message.release())};
  if (!l->type->write && e.elsewhere(to)) {
    failure = async::error{async::error_code::unsupported, "cannot leave this node: " + std::string(l->type->name)};
    return nullptr;
  }
  caf::actor_config config{e.system().dummy_execution_unit()};
  auto ptr = caf::make_actor<Asker, caf::strong_actor_ptr>(e.system().next_actor_id(), e.system().node(), &e.system(),
                                                           config, std::forward<Args>(args)...);
  const auto id = request_id_of(async::wait_id{0, 1});
  if (e.elsewhere(to)) block(to)->get()->attach(std::make_unique<far_end>(ptr, id.response_id()));
  l->sender = ptr;
  l->mid = id;
  if (e.recorded() && e.recorded()->on() && e.elsewhere(to)) e.tracer->leaves(*l, ptr.get(), *block(to));
  block(to)->enqueue(caf::mailbox_element_ptr{l.release()}, nullptr);
  return ptr;
}

} // namespace

void ask_from_outside(engine& e, const actor_ref& to, draft message, const std::function<void(outside_asker&)>& wait,
                      const std::function<void(answer&)>& take) {
  async::error failure;
  const auto ptr = send_request<outside_asker>(e, to, std::move(message), failure);
  if (!ptr) return fail(take, failure);
  auto& asker = static_cast<outside_asker&>(*ptr->get());
  wait(asker);
  if (auto answer_in = asker.take())
    hand_over(e, *answer_in, take);
  else
    fail(take, async::error{async::error_code::timeout, "no answer in time"});
  if (e.elsewhere(to)) far_end::take_off(to, ptr.get());
  asker.cleanup(caf::exit_reason::normal, nullptr); // nobody finds it in the registry any more
}

void ask_and_go_on(engine& e, const actor_ref& to, draft message, std::function<void(answer&)> take) {
  async::error failure;
  const auto far = to && e.elsewhere(to) ? to : actor_ref{};
  if (!send_request<answer_taker>(e, to, std::move(message), failure, e, take, far)) fail(take, failure);
}

} // namespace godwit::runtime::detail
