#include <godwit/actors/node.hpp>
#include <godwit/runtime/trace/recorder.hpp>

#include <algorithm>
#include <memory>
#include <utility>

// How the processes of the cluster record.
namespace godwit::actors {

using runtime::async::task;

namespace {

// Members are asked at the same time; writing a dump takes some tenths of a second.
constexpr std::chrono::seconds answer_timeout{8};
constexpr const char* records_nothing =
    "it records nothing by order (trace.flight is off; a program of its own has not set the option `trace`)";

} // namespace

/// Answers of processes that are still coming in.
template <class Answer> struct node::trace_round {
  std::vector<Answer> answers;
  std::size_t waiting = 0;
  std::unique_ptr<runtime::completer<bool>> complete;
  void one_less() {
    if (--waiting == 0 && complete) (*complete)(true);
  }
};

std::vector<node::other_process> node::other_processes() const {
  std::vector<other_process> out;
  for (const auto& m : members_)
    if (m.member && m.key != own_key && !further_members_.contains(m.key)) out.push_back({m.member, m.address});
  return out;
}

template <class Order, class Answer>
task<void> node::ask_process(other_process whom, Order order, std::shared_ptr<trace_round<Answer>> round,
                             std::size_t index) {
  auto answer = co_await ask(whom.member, answer_timeout, std::move(order));
  if (answer)
    round->answers[index] = std::move(*answer);
  else
    round->answers[index] = Answer(whom.address, answer.error().message);
  round->one_less();
}

template <class Order, class Answer> task<std::vector<Answer>> node::ask_processes(Order order) {
  const auto others = other_processes();
  auto round = std::make_shared<trace_round<Answer>>();
  round->answers.resize(others.size());
  round->waiting = others.size();
  for (std::size_t i = 0; i < others.size(); ++i) start(ask_process<Order, Answer>(others[i], order, round, i));
  if (round->waiting > 0) {
    const auto wait = [round](runtime::completer<bool> done) {
      round->complete = std::make_unique<runtime::completer<bool>>(std::move(done));
    };
    (void)co_await callback<bool>(wait);
  }
  co_return std::move(round->answers);
}

task<trace_answer> node::set_trace(trace_order order) {
  trace_answer out;
  const auto set = [&] { return options_.trace ? options_.trace->set(order) : trace_state{{}, records_nothing}; };
  out.processes.push_back(runtime::trace::input<trace_state>("trace.state", set));
  out.processes.front().process = options_.address;
  auto others = co_await ask_processes<trace_order, trace_state>(std::move(order));
  std::move(others.begin(), others.end(), std::back_inserter(out.processes));
  co_return out;
}

task<dump_answer> node::dump_trace(dump_order order) {
  dump_answer out;
  out.files.emplace_back(options_.address, records_nothing);
  if (options_.trace) {
    const auto ask_for = [control = options_.trace, order](runtime::completer<dumped_file> done) {
      control->dump(order, [done](dumped_file file) { done(std::move(file)); });
    };
    auto file = co_await callback<dumped_file>(ask_for);
    out.files.front() = file ? std::move(*file) : dumped_file(std::string(), file.error().message);
    out.files.front().process = options_.address;
    out.files.front().key = own_key;
  }
  auto others = co_await ask_processes<dump_order, dumped_file>(order);
  std::move(others.begin(), others.end(), std::back_inserter(out.files));
  co_return out;
}

task<dump_part> node::read_dump(dump_part_query query) {
  if (query.key == own_key) {
    if (!options_.trace) co_return dump_part(records_nothing);
    const auto ask_for = [control = options_.trace, query](runtime::completer<dump_part> done) {
      control->read(query, [done](dump_part part) { done(std::move(part)); });
    };
    auto part = co_await callback<dump_part>(ask_for);
    if (!part) co_return dump_part(part.error().message);
    co_return std::move(*part);
  }
  const auto* m = find_member(query.key);
  if (m == nullptr || !m->member) co_return dump_part("its process has left");
  auto part = co_await ask(m->member, answer_timeout, query);
  if (!part) co_return dump_part(part.error().message);
  co_return std::move(*part);
}

} // namespace godwit::actors
