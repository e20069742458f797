#include <godwit/protocols/policy/expected_latency.hpp>

#include <godwit/protocols/kv/block_hash.hpp>

#include <algorithm>
#include <cmath>

namespace godwit::protocols {

namespace {

std::uint64_t lacking(std::uint64_t wanted, std::uint64_t there) noexcept {
  return wanted > there ? wanted - there : 0;
}

} // namespace

double attention_pairs(std::uint64_t first, std::uint64_t upto) noexcept {
  if (upto <= first) return 0;
  return static_cast<double>(upto - first) * (static_cast<double>(first) + static_cast<double>(upto) + 1) / 2;
}

std::uint64_t blocks_lacking(const load_report& load, std::uint64_t on_the_way,
                             const expected_request& request) noexcept {
  return lacking(std::uint64_t{load.blocks_used} + load.outstanding_blocks +
                     lacking(load.waiting_blocks, request.behind.blocks) + on_the_way +
                     blocks_for(std::uint64_t{request.tokens} + 1),
                 load.blocks_total);
}

double expected_ttft_ns(const load_report& load, const step_pace& pace, const expected_work& on_the_way,
                        const expected_request& request, std::optional<double> room_within) noexcept {
  if (!pace.knows_prompts) return 0;
  const auto tokens = request.tokens;
  const auto known = std::min(request.known, tokens > 0 ? tokens - 1 : 0); // the last one is always computed
  const double decoding = load.running;
  const double room = std::max(static_cast<double>(load.step_tokens) - decoding / pace.overlap, 1.0);
  const auto computed = [&](double count, double pairs) {
    return std::ceil(count / room) * pace.step + count * pace.token + pairs * pace.pair;
  };
  const double own = tokens - known, own_pairs = attention_pairs(known, tokens);
  const double ahead =
      static_cast<double>(lacking(load.prefill_tokens, request.behind.tokens)) + static_cast<double>(on_the_way.tokens);
  const double ahead_pairs = std::max(load.prefill_pairs - request.behind.pairs, 0.0) + on_the_way.pairs;

  double room_made = static_cast<double>(blocks_lacking(load, on_the_way.blocks, request)) * pace.block;
  if (room_within) room_made = std::min(room_made, *room_within);
  const auto places = load.places_taken() + lacking(load.waiting, request.behind.requests) + on_the_way.requests + 1;
  if (load.running_max > 0)
    room_made = std::max(room_made, static_cast<double>(lacking(places, load.running_max)) * pace.place);

  const double step_under_way = load.running > 0 ? pace.step / 2 / pace.overlap : 0;
  // The next one begins while the first ones are under way, and only the last has to be waited for from end to end.
  const double alone = computed(own, own_pairs);
  const double last = alone / std::max(std::ceil(own / room), 1.0);
  const double own_time = pace.overlap > 1 ? last + (alone - last) / pace.overlap : alone;
  const double all = computed(ahead + own, ahead_pairs + own_pairs);
  const double in_line = pace.overlap > 1 ? last + (all - last) / pace.overlap : all;
  return step_under_way + std::max(in_line, room_made + own_time);
}

double expected_alone_ns(const step_pace& pace, std::uint32_t step_tokens, std::uint32_t tokens) noexcept {
  const double steps = std::ceil(static_cast<double>(tokens) / std::max(step_tokens, 1U));
  const double all = steps * pace.step + tokens * pace.token + attention_pairs(0, tokens) * pace.pair;
  if (pace.overlap <= 1 || steps <= 1) return all;
  return all / steps + (all - all / steps) / pace.overlap; // chunks follow each other
}

double expected_tpot_ns(const load_report& load) noexcept {
  return load.pace.decode > 0 ? load.pace.decode : load.pace.step;
}

} // namespace godwit::protocols
