#pragma once

#include <godwit/runtime/async/task.hpp>
#include <godwit/runtime/context.hpp>
#include <godwit/runtime/interface.hpp>

#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace godwit::runtime {

namespace detail {

/// What an actor does with one type of message.
class handler {
public:
  explicit handler(const message_type& t) noexcept : type(&t) {}
  handler(const handler&) = delete;
  handler& operator=(const handler&) = delete;
  virtual ~handler() = default;
  virtual void run(actor_context context, void* message, reply_to reply) = 0;
  const message_type* const type;
};
using handler_table = std::vector<std::unique_ptr<handler>>;

template <class F> struct argument_of : argument_of<decltype(&F::operator())> {};
template <class C, class R, class A> struct argument_of<R (C::*)(A)> { using type = std::remove_cvref_t<A>; };
template <class C, class R, class A> struct argument_of<R (C::*)(A) const> { using type = std::remove_cvref_t<A>; };
template <class F> using argument_of_t = typename argument_of<F>::type;

template <class T> struct unwrapped { using type = T; };
template <class T> struct unwrapped<async::task<T>> : unwrapped<T> {};
template <class T> struct unwrapped<async::expected<T>> { using type = T; };

/// Answers with what a handler or its coroutine gave, as the signature's Reply: the asker unpacks that type and no
/// other.
template <class Reply, class T> void answer_with(reply_to& reply, T result) {
  if constexpr (async::is_expected<T>) {
    if (!result)
      reply.fail(result.error());
    else if constexpr (std::is_void_v<Reply>)
      reply.answer(done{});
    else
      reply.answer<Reply>(std::move(*result));
  } else {
    reply.answer<Reply>(std::move(result));
  }
}

/// The end of a handler's coroutine; destroyed uncalled (the actor died), it answers error_code::down.
template <class Reply, class T> class responder {
public:
  responder(actor_context context, reply_to reply, const message_type& type)
      : context_(context), reply_(std::move(reply)), type_(&type) {}
  responder(responder&&) noexcept = default;
  void operator()(async::outcome<T> outcome) {
    if (outcome.failure) {
      reply_.fail(describe(outcome.failure));
      context_.fault(outcome.failure, type_->name);
    } else if constexpr (std::is_void_v<T>) {
      reply_.answer(done{});
    } else {
      answer_with<Reply>(reply_, std::move(*outcome.value));
    }
  }

private:
  actor_context context_;
  reply_to reply_;
  const message_type* type_;
};

template <class Message, class Reply, class F> class handler_of final : public handler {
public:
  explicit handler_of(F f) : handler(message_type_of<Message>), f_(std::move(f)) {}
  void run(actor_context context, void* message, reply_to reply) override {
    auto& m = *static_cast<Message*>(message);
    try {
      if constexpr (std::is_invocable_v<F&, Message&&>)
        finish(
            context, [&]() -> decltype(auto) { return f_(std::move(m)); }, reply);
      else
        finish(
            context, [&]() -> decltype(auto) { return f_(m); }, reply);
    } catch (...) {
      reply.fail(describe(std::current_exception()));
      context.fault(std::current_exception(), type->name);
    }
  }

private:
  template <class Call> void finish(actor_context context, Call call, reply_to& reply) {
    using result = std::remove_cvref_t<decltype(call())>;
    using value = typename unwrapped<result>::type;
    static_assert(std::is_void_v<Reply> ? std::is_void_v<value> : std::is_convertible_v<value, Reply>,
                  "a handler gives its signature's reply, as a value, an expected or a task of either");
    if constexpr (async::is_task<result>) {
      auto body = call(); // which may throw: until then the reply is here
      context.frames().start(std::move(body),
                             responder<Reply, typename result::value_type>{context, std::move(reply), *type});
    } else if constexpr (std::is_void_v<result>) {
      call();
      reply.answer(done{});
    } else {
      answer_with<Reply>(reply, call());
    }
  }
  F f_;
};

} // namespace detail

/// One handler for each signature of the interface, in any order: functions of one message (by reference or by value)
/// that give the reply (or what converts to it), expected<reply>, task<reply> or task<expected<reply>>; nothing, or
/// task<>, for `void`. An exception answers the request with error_code::failed and goes to actor_base::on_fault.
template <class Interface> class behavior_of {
public:
  template <class... Fs>
  requires(sizeof...(Fs) == Interface::size && !(std::is_same_v<std::remove_cvref_t<Fs>, behavior_of> || ...))
      behavior_of(Fs... handlers) {
    table_.reserve(sizeof...(Fs));
    (add(std::move(handlers)), ...);
    Interface::for_each([]<class Message, class Reply>() {
      static_assert((std::is_same_v<detail::argument_of_t<Fs>, Message> || ...), "a message has no handler");
    });
  }
  [[nodiscard]] detail::handler_table take() && { return std::move(table_); }

private:
  template <class F> void add(F f) {
    using message = detail::argument_of_t<F>;
    static_assert(Interface::template accepts<message>, "a handler's message is not in the interface");
    table_.push_back(
        std::make_unique<detail::handler_of<message, typename Interface::template reply_of<message>, F>>(std::move(f)));
  }
  detail::handler_table table_;
};

} // namespace godwit::runtime
