#pragma once

#include <godwit/runtime/async/expected.hpp>
#include <godwit/runtime/async/task.hpp>
#include <godwit/runtime/handle.hpp>
#include <godwit/runtime/message.hpp>

#include <type_traits>
#include <vector>

namespace godwit::runtime {

namespace detail {
template <class Signature> struct signature;
template <class Reply, class Message> struct signature<Reply(Message)> {
  using reply_type = Reply;
  using message_type = Message;
  static_assert(std::is_same_v<Message, std::remove_cvref_t<Message>>, "messages are named by value: reply(message)");
  static_assert(!async::is_expected<Reply>, "a reply may always be an error: name the value");
};
struct no_such_message {};
} // namespace detail

/// What an actor understands, as signatures: `accepted(enqueue_request)` can be asked, `void(cancel_request)` is told
/// (asking it gives expected<void>: handled). One message, one signature.
///
///   using llumlet_interface = interface<accepted(enqueue_request), void(cancel_request)>;
template <class... Signatures> class interface {
public:
  template <class... More> using extend = interface<Signatures..., More...>;
  static constexpr std::size_t size = sizeof...(Signatures);

  template <class Message>
  static constexpr bool accepts = (std::is_same_v<typename detail::signature<Signatures>::message_type, Message> ||
                                   ...);
  template <class Signature> static constexpr bool contains = (std::is_same_v<Signatures, Signature> || ...);
  template <class Wider> static constexpr bool part_of = (Wider::template contains<Signatures> && ...);

  /// Calls `visit.operator()<Message, Reply>()` for every signature, in order.
  template <class Visitor> static void for_each(Visitor&& visit) {
    (visit.template operator()<typename detail::signature<Signatures>::message_type,
                               typename detail::signature<Signatures>::reply_type>(),
     ...);
  }

  /// The types to register before messages of this interface come from another node: the messages, then the replies.
  static void collect_types(std::vector<const message_type*>& types) {
    for_each([&]<class Message, class Reply>() { types.push_back(&message_type_of<Message>); });
    for_each([&]<class Message, class Reply>() {
      if constexpr (!std::is_void_v<Reply>) types.push_back(&message_type_of<Reply>);
    });
  }

private:
  template <class Message, class... Rest> struct find { using type = detail::no_such_message; };
  template <class Message, class First, class... Rest> struct find<Message, First, Rest...> {
    using type = typename std::conditional_t<std::is_same_v<typename detail::signature<First>::message_type, Message>,
                                             std::type_identity<typename detail::signature<First>::reply_type>,
                                             find<Message, Rest...>>::type;
  };

public:
  template <class Message> using reply_of = typename find<Message, Signatures...>::type;
};

} // namespace godwit::runtime
