// Two actors of one's own: a librarian who looks things up slowly and a reader who asks with a timeout.
// The same program runs on threads with the machine's clock, and in a simulated world where time jumps.
#include <godwit/runtime/actor.hpp>
#include <godwit/runtime/actor_system.hpp>
#include <godwit/runtime/sim/world.hpp>

#include <chrono>
#include <cstdio>
#include <string>
#include <tuple>
#include <utility>

using namespace godwit;
using namespace std::chrono_literals;

// Messages: plain structs with a constructor, and fields() for the wire. In a namespace with a name, since other
// processes know them by their qualified names.
namespace library {

struct title {
  std::string text;
  title() = default;
  explicit title(std::string t) : text(std::move(t)) {}
  auto fields() { return std::tie(text); }
};
struct shelf {
  int number = 0;
  shelf() = default;
  explicit shelf(int n) : number(n) {}
  auto fields() { return std::tie(number); }
};

// What an actor understands, as signatures: reply(message).
using librarian_interface = runtime::interface<shelf(title)>;
using reader_interface = runtime::interface<shelf(title)>;

} // namespace library

namespace {

using namespace library;

class librarian final : public runtime::actor<librarian_interface> {
public:
  using actor::actor;
  runtime::behavior_of<librarian_interface> make_behavior() override {
    return {[this](title& wanted) { return respond(search(std::move(wanted))); }};
  }

private:
  runtime::async::task<runtime::async::expected<shelf>> search(title wanted) {
    co_await sleep_for(wanted.text.size() * 1ms); // other questions are answered meanwhile
    if (wanted.text.empty()) co_return runtime::async::error{runtime::async::error_code::refused, "no title"};
    co_return shelf{static_cast<int>(wanted.text.size() % 10)};
  }
};

class reader final : public runtime::actor<reader_interface> {
public:
  reader(runtime::actor_context context, runtime::handle<librarian_interface> whom)
      : actor(context), librarian_(std::move(whom)) {}
  runtime::behavior_of<reader_interface> make_behavior() override {
    return {[this](title& wanted) { return respond(look_up(std::move(wanted))); }};
  }

private:
  runtime::async::task<runtime::async::expected<shelf>> look_up(title wanted) {
    auto found = co_await ask(librarian_, 500ms, std::move(wanted));
    if (!found) co_return found.error();
    co_return shelf{found->number + 100};
  }
  runtime::handle<librarian_interface> librarian_;
};

// Works on either host, since both understand the same.
int visit(runtime::actor_host& host) {
  const auto desk = host.spawn<librarian>();
  const auto visitor = host.spawn<reader>(desk);
  const auto start = host.clock().now();
  int failures = 0;
  for (const auto* name : {"Dune", "The Left Hand of Darkness", ""}) {
    const auto answer = host.ask(visitor, 5s, title{name});
    if (answer)
      std::printf("  \"%s\": shelf %d\n", name, answer->number);
    else
      std::printf("  \"%s\": %s\n", name, answer.error().message.c_str());
    failures += static_cast<bool>(answer) == std::string(name).empty() ? 1 : 0;
  }
  // A title of 1000 letters takes a second, longer than the reader waits.
  const auto late = host.ask(visitor, 5s, title{std::string(1000, 'x')});
  failures += late ? 1 : 0;
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(host.clock().now() - start);
  std::printf("  took %lld ms of this host's time\n", static_cast<long long>(took.count()));
  return failures;
}

} // namespace

int main() {
  std::puts("on threads:");
  runtime::actor_system threads;
  int failures = visit(threads);

  std::puts("in a simulated world (seed 1):");
  runtime::sim::world world{1};
  runtime::sim::system simulated{world};
  failures += visit(simulated);
  return failures == 0 ? 0 : 1;
}
