// Looks at messages while they are handled: a program of one's own with a recorder, a tap on some of its messages, and
// a file of all of them for `godwit trace`.
#include <godwit/runtime/actor.hpp>
#include <godwit/runtime/actor_system.hpp>
#include <godwit/runtime/trace/file_recorder.hpp>
#include <godwit/runtime/trace/recorder.hpp>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

using namespace godwit;
using namespace std::chrono_literals;
namespace trace = runtime::trace;

namespace restaurant {

struct order {
  std::string dish;
  order() = default;
  explicit order(std::string d) : dish(std::move(d)) {}
  auto fields() { return std::tie(dish); }
};
struct plate {
  std::string dish;
  plate() = default;
  explicit plate(std::string d) : dish(std::move(d)) {}
  auto fields() { return std::tie(dish); }
};
using cook_interface = runtime::interface<plate(order)>;

} // namespace restaurant

namespace {

using namespace restaurant;

class cook final : public runtime::actor<cook_interface> {
public:
  using actor::actor;
  [[nodiscard]] std::string_view name() const noexcept override { return "cook"; }
  runtime::behavior_of<cook_interface> make_behavior() override {
    return {[](order& wanted) { return plate(std::move(wanted.dish)); }};
  }
};

class waiter final : public runtime::actor<cook_interface> {
public:
  waiter(runtime::actor_context context, runtime::handle<cook_interface> kitchen)
      : actor(context), kitchen_(std::move(kitchen)) {}
  [[nodiscard]] std::string_view name() const noexcept override { return "waiter"; }
  runtime::behavior_of<cook_interface> make_behavior() override {
    return {[this](order& wanted) { return respond(serve(std::move(wanted))); }};
  }

private:
  runtime::async::task<runtime::async::expected<plate>> serve(order wanted) {
    co_return co_await ask(kitchen_, 1s, std::move(wanted));
  }
  runtime::handle<cook_interface> kitchen_;
};

} // namespace

int main(int count, char** arguments) {
  trace::process who;
  who.name = "restaurant";
  trace::recorder_settings settings;
  settings.level = trace::level::content;
  const auto recorder = std::make_shared<trace::recorder>(who, settings);

  // What reaches a cook, whoever sends it. The function runs on the cook's thread, so it must be quick.
  std::atomic<int> orders{0};
  trace::filter chosen;
  chosen.actors = {"cook"};
  chosen.types = {"order"};
  const auto tap = recorder->tap(chosen, [&orders](const trace::event& what, std::string_view type) {
    ++orders;
    std::printf("actor %llu gets %.*s: %s\n", static_cast<unsigned long long>(what.receiver.id),
                static_cast<int>(type.size()), type.data(), what.text.c_str());
  });

  std::unique_ptr<trace::file_recorder> file;
  int served = 0;
  {
    runtime::actor_system_settings how;
    how.recorder = recorder;
    runtime::actor_system system(how);
    if (count > 1) { // when the system is there, since it gives the process its key
      auto started = trace::file_recorder::start(recorder, arguments[1]);
      if (!started) return std::fprintf(stderr, "%s\n", started.error().message.c_str()), 1;
      file = std::move(*started);
    }
    const auto floor = system.spawn<waiter>(system.spawn<cook>());
    for (const auto* dish : {"soup", "fish", "ice cream"})
      if (system.ask(floor, 5s, order(dish))) ++served;
  }
  if (file && !file->stop()) return 1;
  if (file) std::printf("recorded; see: godwit trace show --content %s\n", arguments[1]);
  return served == 3 && orders == 3 ? 0 : 1;
}
