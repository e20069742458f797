#include <godwit/runtime/async/name_resolver.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <exception>
#include <future>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include <netdb.h>

namespace godwit::runtime::async {

namespace {

error down(std::string why) { return error{error_code::down, std::move(why)}; }

name_resolver::answer ask(const std::string& host, std::uint16_t port, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  const int failure = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (failure == EAI_SYSTEM) return down(std::generic_category().message(errno));
  if (failure != 0) return down(::gai_strerror(failure));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, &::freeaddrinfo);
  std::vector<socket_address> out;
  for (const auto* one = found; one != nullptr; one = one->ai_next) {
    auto& made = out.emplace_back();
    made.size = std::min<socklen_t>(one->ai_addrlen, sizeof made.bytes);
    std::memcpy(&made.bytes, one->ai_addr, made.size);
  }
  return out;
}

} // namespace

struct name_resolver::state {
  struct order {
    std::uint64_t number = 0;
    std::string host;
    std::uint16_t port = 0;
    std::function<void(answer)> done;
  };
  system_function system;
  std::mutex mutex;
  std::deque<order> waiting;
  std::optional<order> running; ///< nothing: there is none, or nobody wants its answer
  std::uint64_t last = 0;
  bool has_thread = false;

  explicit state(system_function asks) : system(std::move(asks)) {}
  [[nodiscard]] answer ask(const std::string& host, std::uint16_t port) const {
    try {
      return system(host, port);
    } catch (const std::exception& failure) { // no memory
      return down(failure.what());
    }
  }
};

name_resolver::answer name_resolver::ask_system(const std::string& host, std::uint16_t port) {
  return ask(host, port, 0);
}

name_resolver::name_resolver(system_function system) : state_(std::make_shared<state>(std::move(system))) {}

name_resolver::~name_resolver() {
  std::deque<state::order> waiting; // these go without the lock, as does the next
  std::optional<state::order> running;
  const std::lock_guard lock(state_->mutex);
  waiting.swap(state_->waiting);
  running.swap(state_->running);
}

std::uint64_t name_resolver::find(std::string host, std::uint16_t port, std::function<void(answer)> done) {
  const std::lock_guard lock(state_->mutex);
  const auto number = ++state_->last;
  state_->waiting.push_back({number, std::move(host), port, std::move(done)});
  if (state_->has_thread) return number;
  try {
    std::thread([of = state_] { work(of); }).detach();
    state_->has_thread = true;
  } catch (const std::system_error& failure) {
    const auto last = std::move(state_->waiting.back());
    state_->waiting.pop_back();
    last.done(down(failure.what()));
  }
  return number;
}

void name_resolver::forget(std::uint64_t which) {
  std::optional<state::order> gone; // without the lock
  const std::lock_guard lock(state_->mutex);
  auto& waiting = state_->waiting;
  if (auto& running = state_->running; running && running->number == which) {
    gone.swap(running);
  } else if (const auto found = std::ranges::find(waiting, which, &state::order::number); found != waiting.end()) {
    gone = std::move(*found);
    waiting.erase(found);
  }
}

void name_resolver::work(const std::shared_ptr<state>& of) {
  std::unique_lock lock(of->mutex);
  while (!of->waiting.empty()) {
    of->running = std::move(of->waiting.front());
    of->waiting.pop_front();
    const auto host = std::move(of->running->host);
    const auto port = of->running->port;
    lock.unlock();
    auto found = of->ask(host, port);
    lock.lock();
    if (!of->running) continue;
    try {
      of->running->done(std::move(found));
    } catch (...) { // no memory to post with: who waits does so for its time
    }
    of->running.reset();
  }
  of->has_thread = false;
}

name_resolver::answer name_resolver::find_by(const std::string& host, std::uint16_t port,
                                             std::chrono::steady_clock::time_point deadline) {
  if (auto address = ask(host, port, AI_NUMERICHOST)) return address;
  const auto told = std::make_shared<std::promise<answer>>();
  auto found = told->get_future();
  const auto number = find(host, port, [told](answer what) { told->set_value(std::move(what)); });
  if (found.wait_until(deadline) != std::future_status::ready) {
    forget(number);
    if (found.wait_for(std::chrono::seconds(0)) != std::future_status::ready)
      return down("nobody has said in time where that is");
  }
  return found.get();
}

} // namespace godwit::runtime::async
