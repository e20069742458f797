#include <godwit/protocols/openai/answer_writer.hpp>

#include <godwit/protocols/openai/sse.hpp>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

namespace godwit::protocols::openai {

namespace {

constexpr std::size_t prompt_entries = 4096; ///< of what is told of a prompt, which nobody has counted

void append(choice& whole, choice piece) {
  whole.index = piece.index;
  whole.text += piece.text;
  whole.reasoning += piece.reasoning;
  for (auto& call : piece.calls) {
    if (call.index == whole.calls.size())
      whole.calls.push_back(std::move(call));
    else
      whole.calls[call.index].arguments += call.arguments;
  }
  whole.finish_reason = std::move(piece.finish_reason);
  whole.stop_string = std::move(piece.stop_string);
  whole.stop_token = piece.stop_token;
  whole.mean_logprob = piece.mean_logprob;
  if (piece.prompt_logprobs) whole.prompt_logprobs = std::move(piece.prompt_logprobs);
  if (piece.logprobs) {
    if (!whole.logprobs) whole.logprobs.emplace();
    std::move(piece.logprobs->begin(), piece.logprobs->end(), std::back_inserter(*whole.logprobs));
  }
}

} // namespace

choices_writer::choices_writer(form how)
    : how_(std::move(how)), chunks_(how_.endpoint, how_.head, how_.include_usage, how_.continuous_usage) {}

answer_part choices_writer::add(choice piece, const usage& so_far) {
  answer_part out;
  if (!how_.stream) {
    if (piece.index >= whole_.size()) whole_.resize(piece.index + std::size_t{1});
    auto& whole = whole_[piece.index];
    append(whole, std::move(piece));
    return out;
  }
  if (piece.index >= greeted_.size()) greeted_.resize(piece.index + std::size_t{1});
  out.repeats = !greeted_[piece.index]; // the prompt, where it is echoed
  greeted_[piece.index] = true;
  if (out.repeats && how_.endpoint == chunk_writer::endpoint::chat)
    out.bytes += sse_event(chunks_.first(piece.index, so_far));
  out.bytes += sse_event(chunks_.delta(piece, so_far));
  return out;
}

answer_part choices_writer::finish(const usage& used) {
  answer_part out;
  if (how_.stream) {
    if (how_.include_usage) out.bytes += sse_event(chunks_.last(used));
    out.bytes += sse_done();
    return out;
  }
  if (how_.drawn > 1) choose_best();
  out.bytes = how_.endpoint == chunk_writer::endpoint::chat ? chat_object(how_.head, whole_, used)
                                                            : completion_object(how_.head, whole_, used);
  return out;
}

answer_part choices_writer::fail(const api_error& error) {
  return {sse_event(to_json(error)) + std::string(sse_done()), false};
}

std::size_t choices_writer::entries_left() const noexcept {
  std::size_t entries = 0;
  for (const auto& one : whole_) {
    entries += one.text.size() / 16 + (one.prompt_logprobs ? prompt_entries : 0);
    if (one.logprobs) entries += one.logprobs->size() * 8;
  }
  return entries;
}

void choices_writer::choose_best() {
  std::vector<choice> best;
  for (std::size_t first = 0; first < whole_.size(); first += how_.drawn) {
    std::vector<std::size_t> order(how_.drawn);
    std::iota(order.begin(), order.end(), first);
    if (how_.drawn > how_.n)
      std::stable_sort(order.begin(), order.end(),
                       [this](auto a, auto b) { return whole_[a].mean_logprob > whole_[b].mean_logprob; });
    const auto prompt_logprobs = whole_[first].prompt_logprobs; // of the prompt, which is the same for all
    for (std::size_t i = 0; i < how_.n; ++i) {
      auto& chosen = best.emplace_back(std::move(whole_[order[i]]));
      chosen.index = static_cast<std::uint32_t>(best.size() - 1);
      chosen.prompt_logprobs = prompt_logprobs;
    }
  }
  whole_ = std::move(best);
}

} // namespace godwit::protocols::openai
