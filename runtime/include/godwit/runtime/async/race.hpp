#pragma once

#include <godwit/runtime/async/task.hpp>

#include <coroutine>
#include <cstddef>
#include <optional>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

namespace godwit::runtime::async {

/// Which of several waits ended first, and with what (std::monostate for void).
template <class... Ts> class race_result {
public:
  using variant_type = std::variant<std::conditional_t<std::is_void_v<Ts>, std::monostate, Ts>...>;
  explicit race_result(variant_type v) : value_(std::move(v)) {}
  [[nodiscard]] std::size_t index() const noexcept { return value_.index(); }
  template <std::size_t I> [[nodiscard]] auto& get() & { return std::get<I>(value_); }
  template <std::size_t I> [[nodiscard]] auto&& get() && { return std::get<I>(std::move(value_)); }
  [[nodiscard]] variant_type& value() noexcept { return value_; }

private:
  variant_type value_;
};

namespace detail {

/// Where the contestants of a race report. Lives in the waiting frame.
class finish_line {
public:
  std::coroutine_handle<> parent;
  std::size_t winner = npos;
  static constexpr std::size_t npos = static_cast<std::size_t>(-1);
};

/// A contestant's way to the finish line.
struct lane {
  finish_line* line = nullptr;
  std::size_t index = 0;
  static std::coroutine_handle<> finished(promise_base& promise) noexcept {
    auto* self = static_cast<lane*>(promise.waiter);
    self->line->winner = self->index;
    return self->line->parent;
  }
};

template <class... Ts> class race_operation {
public:
  explicit race_operation(task<Ts>... tasks) : tasks_(std::move(tasks)...) {}
  race_operation(race_operation&&) noexcept = default;

  [[nodiscard]] bool await_ready() const noexcept { return false; }
  bool await_suspend(std::coroutine_handle<> parent) {
    line_.parent = parent;
    start(std::index_sequence_for<Ts...>{});
    return line_.winner == finish_line::npos;
  }
  race_result<Ts...> await_resume() {
    // The losers go now, with everything that they wait for, before the winner's result is looked at.
    drop_losers(std::index_sequence_for<Ts...>{});
    return pick(std::index_sequence_for<Ts...>{});
  }

private:
  using result = race_result<Ts...>;
  template <std::size_t... Is> void start(std::index_sequence<Is...>) { (void)(start_one<Is>() || ...); }
  template <std::size_t I> bool start_one() {
    lanes_[I].line = &line_;
    lanes_[I].index = I;
    if (!std::get<I>(tasks_).begin(&lane::finished, &lanes_[I])) return false;
    line_.winner = I;
    return true;
  }
  template <std::size_t... Is> void drop_losers(std::index_sequence<Is...>) {
    ((Is == line_.winner ? void() : std::get<Is>(tasks_).reset()), ...);
  }
  template <std::size_t... Is> result pick(std::index_sequence<Is...>) {
    std::optional<result> out;
    (void)((Is == line_.winner && (take_one<Is>(out), true)) || ...);
    return std::move(*out);
  }
  template <std::size_t I> void take_one(std::optional<result>& out) {
    using value = std::variant_alternative_t<I, typename result::variant_type>;
    if constexpr (std::is_void_v<std::tuple_element_t<I, std::tuple<Ts...>>>) {
      std::get<I>(tasks_).take();
      out.emplace(typename result::variant_type{std::in_place_index<I>});
    } else {
      value taken = std::get<I>(tasks_).take();
      out.emplace(typename result::variant_type{std::in_place_index<I>, std::move(taken)});
    }
  }

  std::tuple<task<Ts>...> tasks_;
  lane lanes_[sizeof...(Ts)];
  finish_line line_;
};

template <class T> class race_of_many {
public:
  explicit race_of_many(std::vector<task<T>> tasks) : tasks_(std::move(tasks)), lanes_(tasks_.size()) {}
  race_of_many(race_of_many&&) noexcept = default;
  [[nodiscard]] bool await_ready() const noexcept { return false; }
  bool await_suspend(std::coroutine_handle<> parent) {
    line_.parent = parent;
    for (std::size_t i = 0; i < tasks_.size() && line_.winner == finish_line::npos; ++i) {
      lanes_[i].line = &line_;
      lanes_[i].index = i;
      if (tasks_[i].begin(&lane::finished, &lanes_[i])) line_.winner = i;
    }
    return line_.winner == finish_line::npos;
  }
  std::pair<std::size_t, T> await_resume() {
    for (std::size_t i = 0; i < tasks_.size(); ++i)
      if (i != line_.winner) tasks_[i].reset();
    return {line_.winner, tasks_[line_.winner].take()};
  }

private:
  std::vector<task<T>> tasks_;
  std::vector<lane> lanes_;
  finish_line line_;
};

} // namespace detail

/// Waits for the first of several: tasks, asks, sleeps, abort_token::wait().
///
/// They start in order; one that ends at once keeps the later ones from starting. The losers are cancelled: their
/// frames are destroyed before the result is given. A winner that throws makes the race throw.
///   auto first = co_await race(ask(peer, 1s, message), source.token().wait());
///   if (first.index() == 1) co_return; // aborted
template <class... Awaitables> auto race(Awaitables... awaitables) {
  static_assert(sizeof...(Awaitables) > 0);
  return detail::race_operation<await_result_t<Awaitables>...>(as_task(std::move(awaitables))...);
}

/// Waits for the first of many alike (at least one); gives its index and value.
template <class T> auto race(std::vector<task<T>> tasks) { return detail::race_of_many<T>(std::move(tasks)); }

} // namespace godwit::runtime::async
