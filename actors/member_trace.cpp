#include <godwit/actors/member.hpp>
#include <godwit/runtime/trace/recorder.hpp>

#include <utility>

// How this process records, by order of the head.
namespace godwit::actors {

using runtime::async::task;

namespace {

constexpr const char* records_nothing =
    "it records nothing by order (trace.flight is off; a program of its own has not set the option `trace`)";

} // namespace

trace_state member::set_trace(const trace_order& order) {
  const auto set = [&] { return options_.trace ? options_.trace->set(order) : trace_state{{}, records_nothing}; };
  auto out = runtime::trace::input<trace_state>("trace.state", set);
  out.process = options_.address;
  return out;
}

task<dumped_file> member::dump_trace(dump_order order) {
  auto out = dumped_file{options_.address, records_nothing};
  if (!options_.trace) co_return out;
  const auto ask_for = [control = options_.trace, order](runtime::completer<dumped_file> done) {
    control->dump(order, [done](dumped_file file) { done(std::move(file)); });
  };
  auto file = co_await callback<dumped_file>(ask_for);
  if (!file) co_return dumped_file(options_.address, file.error().message);
  out = std::move(*file);
  out.process = options_.address;
  out.key = options_.key;
  co_return out;
}

task<dump_part> member::read_dump(dump_part_query query) {
  if (!options_.trace) co_return dump_part(records_nothing);
  const auto ask_for = [control = options_.trace, query](runtime::completer<dump_part> done) {
    control->read(query, [done](dump_part part) { done(std::move(part)); });
  };
  auto part = co_await callback<dump_part>(ask_for);
  if (!part) co_return dump_part(part.error().message);
  co_return std::move(*part);
}

} // namespace godwit::actors
