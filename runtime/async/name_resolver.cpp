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
    std::function<void(answer)> done;
  };
  struct look_up {
    std::string host;
    std::uint16_t port = 0;
    std::vector<order> wanted; ///< by those; of the running one perhaps by nobody
    answer found{std::vector<socket_address>()};
    std::chrono::steady_clock::time_point ended;

    [[nodiscard]] bool is_of(const std::string& name, std::uint16_t number) const {
      return host == name && port == number;
    }
    [[nodiscard]] bool forget(std::uint64_t which, order& gone) {
      const auto one = std::ranges::find(wanted, which, &order::number);
      if (one == wanted.end()) return false;
      gone = std::move(*one);
      wanted.erase(one);
      return true;
    }
  };
  system_function system;
  std::mutex mutex;
  std::deque<look_up> waiting;
  std::optional<look_up> running;
  std::deque<look_up> unwanted; ///< have ended when nobody waited for them any more, who may come again
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

namespace {

constexpr std::size_t unwanted_max = 16;
constexpr auto unwanted_for = std::chrono::minutes(1); ///< longer than who comes again pauses

} // namespace

name_resolver::answer name_resolver::ask_system(const std::string& host, std::uint16_t port) {
  return ask(host, port, 0);
}

name_resolver::name_resolver(system_function system) : state_(std::make_shared<state>(std::move(system))) {}

name_resolver::~name_resolver() {
  std::deque<state::look_up> waiting; // these go without the lock, as does the next
  std::optional<state::look_up> running;
  const std::lock_guard lock(state_->mutex);
  waiting.swap(state_->waiting);
  running.swap(state_->running);
}

std::uint64_t name_resolver::find(std::string host, std::uint16_t port, std::function<void(answer)> done) {
  const std::lock_guard lock(state_->mutex);
  const auto number = ++state_->last;
  const auto same = [&](const state::look_up& other) { return other.is_of(host, port); };
  auto& unwanted = state_->unwanted;
  const auto now = std::chrono::steady_clock::now();
  std::erase_if(unwanted, [now](const state::look_up& old) { return now - old.ended > unwanted_for; });
  if (const auto ended = std::ranges::find_if(unwanted, same); ended != unwanted.end()) {
    auto found = std::move(ended->found);
    unwanted.erase(ended);
    done(std::move(found));
    return number;
  }
  auto& waiting = state_->waiting;
  const auto asked = std::ranges::find_if(waiting, same);
  auto* const shared = state_->running && same(*state_->running) ? &*state_->running
                       : asked != waiting.end()                  ? &*asked
                                                                 : nullptr;
  if (shared != nullptr) {
    shared->wanted.push_back({number, std::move(done)});
    return number;
  }
  state::look_up made;
  made.host = std::move(host);
  made.port = port;
  made.wanted.push_back({number, std::move(done)});
  waiting.push_back(std::move(made));
  if (state_->has_thread) return number;
  try {
    std::thread([of = state_] { work(of); }).detach();
    state_->has_thread = true;
  } catch (const std::system_error& failure) {
    const auto last = std::move(waiting.back());
    waiting.pop_back();
    last.wanted.front().done(down(failure.what()));
  }
  return number;
}

void name_resolver::forget(std::uint64_t which) {
  state::order gone; // without the lock
  const std::lock_guard lock(state_->mutex);
  if (state_->running && state_->running->forget(which, gone)) return;
  auto& waiting = state_->waiting;
  const auto found = std::ranges::find_if(waiting, [&](state::look_up& one) { return one.forget(which, gone); });
  if (found != waiting.end() && found->wanted.empty()) waiting.erase(found);
}

void name_resolver::work(const std::shared_ptr<state>& of) {
  std::unique_lock lock(of->mutex);
  while (!of->waiting.empty()) {
    of->running = std::move(of->waiting.front());
    of->waiting.pop_front();
    const auto host = of->running->host;
    const auto port = of->running->port;
    lock.unlock();
    auto found = of->ask(host, port);
    lock.lock();
    if (!of->running) continue; // the resolver has ended
    auto ended = std::move(*of->running);
    of->running.reset();
    for (const auto& one : ended.wanted) try {
        one.done(found);
      } catch (...) { // no memory to post with: who waits does so for its time
      }
    if (!ended.wanted.empty()) continue;
    ended.found = std::move(found);
    ended.ended = std::chrono::steady_clock::now();
    try {
      of->unwanted.push_back(std::move(ended));
    } catch (const std::exception&) { // no memory: who comes again asks again
    }
    if (of->unwanted.size() > unwanted_max) of->unwanted.pop_front();
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
