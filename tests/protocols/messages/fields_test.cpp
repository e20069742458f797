#include <godwit/protocols/batching/step.hpp>
#include <godwit/protocols/messages/load.hpp>
#include <godwit/protocols/messages/moved_request.hpp>
#include <godwit/protocols/messages/request.hpp>
#include <godwit/protocols/messages/status.hpp>
#include <godwit/protocols/messages/tokens.hpp>

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

namespace godwit::protocols {
namespace {

template <class T> void change(T& value) {
  if constexpr (std::is_same_v<T, bool>)
    value = !value;
  else if constexpr (std::is_enum_v<T>)
    value = static_cast<T>(static_cast<int>(value) + 1);
  else if constexpr (std::is_arithmetic_v<T>)
    value += 1;
  else if constexpr (std::is_same_v<T, std::string>)
    value += "x";
  else if constexpr (requires { value.emplace_back(); })
    value.emplace_back();
  else
    std::apply([](auto& first, auto&...) { change(first); }, value.fields());
}

template <class T, std::size_t... I> void copy_fields(T& from, T& to, std::index_sequence<I...>) {
  ((std::get<I>(to.fields()) = std::get<I>(from.fields())), ...);
}

/// A field left out of fields() would be lost on the way to another node.
template <class T> class MessageFields : public ::testing::Test {};
using messages =
    ::testing::Types<request_id, sampling_params, stop_params, token_logprob, sampled_token, generate_request,
                     admission, cancel_request, moved_request, token_update, token_updates, load_report, request_status,
                     instance_status, cluster_status, block_copy, step_slice, step_input, step_output>;
TYPED_TEST_SUITE(MessageFields, messages);

TYPED_TEST(MessageFields, AreWhatEqualityComparesAndWhatACopyNeeds) {
  constexpr auto count = std::tuple_size_v<decltype(std::declval<TypeParam&>().fields())>;
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    const auto changes_equality = [](auto index) {
      TypeParam message;
      change(std::get<index()>(message.fields()));
      EXPECT_NE(message, TypeParam{}) << "field " << index();
      TypeParam copy;
      copy_fields(message, copy, std::make_index_sequence<count>{});
      EXPECT_EQ(message, copy) << "field " << index();
    };
    (changes_equality(std::integral_constant<std::size_t, I>{}), ...);
  }
  (std::make_index_sequence<count>{});
}

// The address of a field beyond the last one of fields() would show as room that none of them covers.
TYPED_TEST(MessageFields, CoverTheWholeMessage) {
  constexpr auto count = std::tuple_size_v<decltype(std::declval<TypeParam&>().fields())>;
  TypeParam message;
  const auto begin = reinterpret_cast<const std::byte*>(&message);
  std::size_t end = 0; // of the fields so far, in declaration order
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    const auto follows = [&](const auto& field) {
      const auto offset = static_cast<std::size_t>(reinterpret_cast<const std::byte*>(&field) - begin);
      EXPECT_GE(offset, end);
      EXPECT_LT(offset - end, alignof(std::remove_reference_t<decltype(field)>)) << "a field is left out before";
      end = offset + sizeof field;
    };
    (follows(std::get<I>(message.fields())), ...);
  }
  (std::make_index_sequence<count>{});
  EXPECT_LT(sizeof message - end, alignof(TypeParam)) << "a field is left out at the end";
}

TEST(RequestId, NamesItsHome) {
  const auto id = make_request_id(513, 77);
  EXPECT_EQ(home_of(id), 513);
  EXPECT_NE(id, make_request_id(512, 77));
  EXPECT_EQ(make_request_id(1, 1ULL << 48U), make_request_id(1, 0)) << "the counter stays below the home";
}

} // namespace
} // namespace godwit::protocols
