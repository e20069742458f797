#include "replay/doubles.hpp"

#include <godwit/actors/instance.hpp>
#include <godwit/actors/interfaces.hpp>
#include <godwit/actors/llumlet.hpp>
#include <godwit/actors/member.hpp>

#include <utility>

// How messages from clients and devices are kept, which cannot leave their process.
namespace godwit::runtime::trace {

namespace {

std::uint64_t number_of(const std::shared_ptr<actors::answer_sink>& sink) { return sink ? sink->number() : 0; }

std::shared_ptr<actors::answer_sink> sink_of(std::uint64_t number, bool fresh) {
  auto* source = replaying();
  if (!source || number == 0) return nullptr;
  auto& known = source->object(number);
  if (fresh || !known) known = std::make_shared<actors::replayed_sink>();
  return std::static_pointer_cast<actors::answer_sink>(std::static_pointer_cast<actors::replayed_sink>(known));
}

} // namespace

void recorded_form<actors::submit_request>::write(wire_writer& out, const actors::submit_request& x) {
  wire_write(out, x.what != nullptr);
  if (!x.what) return;
  wire_write(out, x.what->request);
  wire_write(out, x.what->client_id);
  wire_write(out, x.what->seeded);
  wire_write(out, static_cast<std::int64_t>(x.what->timeout.count()));
  wire_write(out, static_cast<std::int64_t>(x.what->ttft.count()));
  wire_write(out, static_cast<std::int64_t>(x.what->tpot.count()));
  wire_write(out, number_of(x.what->first_sample));
  wire_write(out, number_of(x.what->sink));
  wire_write(out, x.what->continues);
}

actors::submit_request recorded_form<actors::submit_request>::read(wire_reader& in) {
  bool there = false;
  wire_read(in, there);
  if (!there) return {};
  auto what = std::make_shared<actors::submission>();
  std::uint64_t sink = 0;
  std::uint64_t first_sample = 0;
  std::int64_t timeout_ns = 0, ttft_ns = 0, tpot_ns = 0;
  wire_read(in, what->request);
  wire_read(in, what->client_id);
  wire_read(in, what->seeded);
  wire_read(in, timeout_ns);
  wire_read(in, ttft_ns);
  wire_read(in, tpot_ns);
  wire_read(in, first_sample);
  wire_read(in, sink);
  if (in.left() > 0) wire_read(in, what->continues); // older recordings end before it
  what->timeout = std::chrono::nanoseconds(timeout_ns);
  what->ttft = std::chrono::nanoseconds(ttft_ns);
  what->tpot = std::chrono::nanoseconds(tpot_ns);
  if (first_sample != 0) what->first_sample = sink_of(first_sample, false);
  what->sink = sink_of(sink, true);
  return actors::submit_request{std::move(what)};
}

void recorded_form<actors::withdraw_request>::write(wire_writer& out, const actors::withdraw_request& x) {
  wire_write(out, number_of(x.sink));
}

actors::withdraw_request recorded_form<actors::withdraw_request>::read(wire_reader& in) {
  std::uint64_t sink = 0;
  wire_read(in, sink);
  return actors::withdraw_request{sink_of(sink, false)};
}

void recorded_form<actors::dump_part>::write(wire_writer& out, const actors::dump_part& x) {
  wire_write(out, x.error);
  wire_write(out, static_cast<std::uint64_t>(x.bytes.size()));
}

actors::dump_part recorded_form<actors::dump_part>::read(wire_reader& in) {
  actors::dump_part out;
  std::uint64_t bytes = 0;
  wire_read(in, out.error);
  wire_read(in, bytes);
  return out;
}

namespace {

void write_info(wire_writer& out, const gpu::executor_info& info) {
  wire_write(out, info.device);
  wire_write(out, info.layers);
  wire_write(out, info.vocabulary);
  wire_write(out, info.positions_max);
  wire_write(out, info.blocks);
  wire_write(out, info.block_bytes);
  wire_write(out, info.weight_bytes);
  wire_write(out, info.kv_layout);
  wire_write(out, info.eos);
}

gpu::executor_info read_info(wire_reader& in) {
  gpu::executor_info info;
  wire_read(in, info.device);
  wire_read(in, info.layers);
  wire_read(in, info.vocabulary);
  wire_read(in, info.positions_max);
  wire_read(in, info.blocks);
  wire_read(in, info.block_bytes);
  wire_read(in, info.weight_bytes);
  wire_read(in, info.kv_layout);
  wire_read(in, info.eos);
  constexpr std::uint32_t layers_max = 100'000; // they are counted through; a recording may say anything
  if (info.layers > layers_max) in.fail();
  return info;
}

} // namespace

void recorded_form<actors::executor_outcome>::write(wire_writer& out, const actors::executor_outcome& x) {
  wire_write(out, x.error);
  wire_write(out, x.made != nullptr);
  if (!x.made) return;
  write_info(out, x.made->info());
  wire_write(out, static_cast<std::uint32_t>(x.made->shards().size()));
  wire_write(out, x.made->adapters() != nullptr);
  const auto swap = x.made->swap();
  wire_write(out, swap ? swap->slots() : 0U);
  const auto draft = x.made->draft();
  wire_write(out, draft != nullptr);
  if (draft) write_info(out, draft->info());
  std::vector<std::uint32_t> stages; // how many layers each has
  for (const auto& stage : x.made->stages()) stages.push_back(stage->info().layers);
  wire_write(out, stages);
  const auto division = x.made->division();
  wire_write(out, division ? division->beside() : std::vector<double>());
}

actors::executor_outcome recorded_form<actors::executor_outcome>::read(wire_reader& in) {
  actors::executor_outcome x;
  bool made = false;
  wire_read(in, x.error);
  wire_read(in, made);
  if (!made) return x;
  const auto info = read_info(in);
  constexpr std::uint32_t shards_max = 1024;
  actors::replayed_parts parts;
  if (in.left() > 0) wire_read(in, parts.shards); // older recordings end before these
  if (in.left() > 0) wire_read(in, parts.adapters);
  if (in.left() > 0) wire_read(in, parts.swap_slots);
  constexpr std::uint32_t swap_slots_max = 1U << 26U;
  if (parts.swap_slots > swap_slots_max || parts.shards > shards_max) in.fail();
  bool drafts = false;
  if (in.left() > 0) wire_read(in, drafts);
  if (drafts) parts.draft = read_info(in);
  if (in.left() > 0) wire_read(in, parts.stages);
  if (parts.stages.size() > shards_max ||
      std::ranges::any_of(parts.stages, [&](std::uint32_t layers) { return layers > info.layers; }))
    in.fail();
  if (in.left() > 0) wire_read(in, parts.beside);
  if (!parts.beside.empty() && parts.beside.size() != parts.stages.size()) in.fail();
  if (in.ok()) x.made = std::make_shared<actors::replayed_executor>(info, parts);
  return x;
}

void recorded_form<gpu::adapter_outcome>::write(wire_writer& out, const gpu::adapter_outcome& x) {
  wire_write(out, x.error);
  wire_write(out, x.held != nullptr);
  wire_write(out, x.passes);
}

gpu::adapter_outcome recorded_form<gpu::adapter_outcome>::read(wire_reader& in) {
  gpu::adapter_outcome x;
  bool held = false;
  wire_read(in, x.error);
  wire_read(in, held);
  wire_read(in, x.passes);
  if (held) x.held = std::make_shared<const bool>(true);
  return x;
}

void recorded_form<actors::found_head>::write(wire_writer& out, const actors::found_head& x) {
  wire_write(out, x.has_value());
  if (x)
    wire_write(out, *x);
  else
    wire_write(out, x.error());
}

actors::found_head recorded_form<actors::found_head>::read(wire_reader& in) {
  bool found = false;
  wire_read(in, found);
  if (found) {
    handle<actors::node_interface> head;
    wire_read(in, head);
    return head;
  }
  async::error why;
  wire_read(in, why);
  return why;
}

} // namespace godwit::runtime::trace
