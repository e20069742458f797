#include "runtime/actor/test_actors.hpp"

namespace godwit::runtime::test {

void register_another_parcel(actor_host& host);

namespace {
/// Another one than same_name_test.cpp has, and of the same size.
struct parcel {
  std::int64_t grams = 0;
  auto fields() { return std::tie(grams); }
};
} // namespace

void register_another_parcel(actor_host& host) { host.register_messages<parcel>(); }

} // namespace godwit::runtime::test
