#include <godwit/runtime/actor.hpp>

namespace godwit::runtime {

void actor_base::on_fault(const std::exception_ptr& failure, std::string_view where) {
  context_.report(std::string(where) + ": " + detail::describe(failure).message);
}

void actor_base::start(async::task<void> body) {
  frames().start(std::move(body), [context = context_](async::outcome<void> outcome) {
    if (outcome.failure) context.fault(outcome.failure, "coroutine");
  });
}

} // namespace godwit::runtime
