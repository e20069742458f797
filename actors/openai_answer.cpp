#include "openai_answer.hpp"

#include "traced_exchange.hpp"

#include <godwit/protocols/ensure.hpp>
#include <godwit/protocols/openai/error.hpp>

#include <algorithm>
#include <iterator>
#include <utility>

namespace godwit::actors {

namespace openai = protocols::openai;

namespace {

constexpr auto ignored_field = "X-Godwit-Ignored";

constexpr std::size_t entries_written_at_once = 4096; // some milliseconds

std::uint32_t count_characters(std::string_view text) {
  return static_cast<std::uint32_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

/// The same for the same call of the same answer. Mistral's templates want nine letters and digits.
std::string tool_call_id(const openai_choice_options& of, std::uint32_t call) {
  static constexpr std::string_view digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  const auto hash = [&](std::uint64_t state) { // FNV-1a
    const auto take = [&](std::uint64_t byte) { state = (state ^ byte) * 1099511628211ULL; };
    for (const char c : of.id) take(static_cast<unsigned char>(c));
    take(of.index);
    take(call);
    return state ^ (state >> 29U);
  };
  const bool nine = of.short_call_ids;
  std::string out = nine ? "" : of.calls_begin;
  for (std::uint64_t word = 0; word < (nine ? 1U : 3U); ++word) {
    auto rest = hash(14695981039346656037ULL + word);
    for (int i = 0; i < (nine ? 9 : 8); ++i, rest /= digits.size()) out += digits[rest % digits.size()];
  }
  return out;
}

openai::api_error describe(const answer_failure& failure, std::uint32_t retry_after_s) {
  switch (failure.kind) {
  case failure_kind::overloaded: {
    auto error = openai::overloaded(retry_after_s);
    error.message += " (" + failure.message + ")";
    return error;
  }
  case failure_kind::unavailable:
    return openai::unavailable(failure.message, retry_after_s);
  case failure_kind::too_long: {
    auto error = openai::invalid_value("max_tokens", failure.message);
    error.code = "context_length_exceeded";
    return error;
  }
  case failure_kind::invalid:
    return openai::invalid_value({}, failure.message);
  case failure_kind::rejected:
    return openai::rejected(failure.message, retry_after_s);
  case failure_kind::timed_out:
    return openai::timed_out(failure.message);
  case failure_kind::internal:
    break;
  }
  return openai::internal_error(failure.message);
}

} // namespace

openai_answer::openai_answer(std::shared_ptr<transport::http::exchange> exchange, openai_answer_options options)
    : exchange_(std::move(exchange)), options_(std::move(options)) {
  protocols::ensure(options_.writer != nullptr, "openai_answer: nobody writes it");
}

void openai_answer::set_choices(const std::vector<std::shared_ptr<openai_choice>>& choices) {
  choices_.assign(choices.begin(), choices.end());
  running_ = choices.size();
}

void openai_answer::client_gone() { withdraw_all_but(nullptr); }

void openai_answer::withdraw_all_but(const openai_choice* one) {
  for (const auto& weak : choices_)
    if (auto choice = weak.lock(); choice && choice.get() != one) options_.withdraw(std::move(choice));
}

void openai_answer::begin_stream() {
  if (std::exchange(streaming_, true)) return;
  if (options_.on_status) options_.on_status(200);
  transport::http::headers fields{
      {"Content-Type", "text/event-stream; charset=utf-8"}, {"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}};
  name_answer(fields, options_.whose, options_.id);
  if (!options_.ignored.empty()) fields.add(ignored_field, options_.ignored);
  exchange_->begin_stream(200, std::move(fields));
  if (options_.heartbeat_s > 0)
    exchange_->keep_alive_every(std::chrono::seconds(options_.heartbeat_s), options_.writer->keep_alive());
  write(options_.writer->begin());
}

void openai_answer::write(openai::answer_part part) {
  if (part.bytes.empty()) return;
  if (part.repeats)
    exchange_->write_in_full(std::move(part.bytes));
  else
    exchange_->write(std::move(part.bytes));
}

void openai_answer::accepted(protocols::request_id request) {
  if (options_.stream && options_.heartbeat_s > 0) { // it may be long until the first token
    const std::lock_guard lock(mutex_);
    if (!over_) begin_stream();
  }
  if (options_.span) options_.span->accepted(request);
}

bool openai_answer::add(openai::choice piece, const openai::usage& so_far) {
  const std::lock_guard lock(mutex_);
  if (over_) return false;
  if (options_.stream) begin_stream();
  write(options_.writer->add(std::move(piece), so_far));
  return true;
}

bool openai_answer::over() {
  const std::lock_guard lock(mutex_);
  return over_;
}

void openai_answer::choice_finished(const openai_choice& who) {
  const std::lock_guard lock(mutex_);
  if (who.index() % options_.drawn == 0) { // a prompt counts once, however many answers it has
    used_.prompt_tokens += who.used().prompt_tokens;
    used_.cached_tokens += who.used().cached_tokens;
  }
  used_.completion_tokens += who.used().completion_tokens;
  const auto add = [](std::optional<std::uint32_t>& sum, const std::optional<std::uint32_t>& more) {
    if (more) sum = sum.value_or(0) + *more;
  };
  add(used_.reasoning_tokens, who.used().reasoning_tokens);
  add(used_.accepted_prediction_tokens, who.used().accepted_prediction_tokens);
  add(used_.rejected_prediction_tokens, who.used().rejected_prediction_tokens);
  if (--running_ == 0 && !over_) finish();
}

void openai_answer::finish() {
  over_ = true;
  if (options_.stream) begin_stream();
  // Others' tokens wait while this one's answer is written.
  if (options_.writer->entries_left() >= entries_written_at_once && options_.offload &&
      options_.offload([self = shared_from_this()] { self->write_rest(); }))
    return;
  write_rest();
}

// Nothing is added to an answer that is over, so that its writer is used without the lock.
void openai_answer::write_rest() {
  auto rest = options_.writer->finish(used_);
  if (options_.stream) {
    write(std::move(rest));
    exchange_->finish();
    return;
  }
  if (options_.on_status) options_.on_status(200);
  transport::http::response out;
  name_answer(out.fields, options_.whose, options_.id);
  if (!options_.ignored.empty()) out.fields.add(ignored_field, options_.ignored);
  out.body = std::move(rest.bytes);
  exchange_->respond(std::move(out));
}

void openai_answer::failed(const openai_choice& who, const answer_failure& failure) {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(over_, true)) return;
    write_failure(describe(failure, options_.retry_after_s));
  }
  withdraw_all_but(&who); // nobody waits for the other choices
}

void openai_answer::write_failure(const openai::api_error& error) {
  if (streaming_) { // the status line has gone; the error is an event of its own
    if (options_.span) options_.span->failed(error.message);
    exchange_->stream_failed(error.message);
    write(options_.writer->fail(error));
    exchange_->finish();
    return;
  }
  if (options_.on_status) options_.on_status(error.status);
  auto out = to_response(error, options_.writer->refusal(error));
  name_answer(out.fields, options_.whose, options_.id);
  exchange_->respond(std::move(out));
}

namespace {

template <class Token> std::span<const Token> leading(const std::vector<Token>& all, std::size_t most) {
  return std::span(all).first(std::min(all.size(), most));
}

} // namespace

openai_choice::openai_choice(std::shared_ptr<openai_answer> answer, openai_choice_options options)
    : answer_(std::move(answer)), options_(std::move(options)),
      decoder_(options_.tokens, options_.skip_special_tokens,
               options_.goes_on ? gpu::model::incremental_decoder::start::continuation
                                : gpu::model::incremental_decoder::start::text),
      matcher_(options_.stops, options_.include_stop), thoughts_(options_.reasoning), thought_(options_.reasoning),
      calls_(options_.tools, options_.calls) {
  used_.prompt_tokens = options_.prompt_tokens;
  if (options_.harmony) {
    harmony_.emplace(*options_.harmony);
    if (options_.counts_reasoning) counted_.emplace(*options_.harmony);
  }
  if (options_.counts_reasoning) used_.reasoning_tokens = 0;
  characters_ = count_characters(options_.echo);
}

openai_choice::told openai_choice::tell(const std::string& text) {
  if (harmony_) {
    auto parts = harmony_->push(text);
    return {std::move(parts.reasoning), {std::move(parts.text), std::move(parts.calls)}};
  }
  auto parts = thoughts_.push(text);
  return {std::move(parts.reasoning), calls_.push(parts.text)};
}

openai_choice::told openai_choice::tell_last(const std::string& text) {
  const auto add = [](openai::tool_parser::emission& to, openai::tool_parser::emission rest) {
    for (auto& call : rest.calls) call.text_before += to.text.size();
    to.text += rest.text;
    std::move(rest.calls.begin(), rest.calls.end(), std::back_inserter(to.calls));
  };
  if (harmony_) {
    auto out = tell(text);
    auto rest = harmony_->finish();
    out.reasoning += rest.reasoning;
    add(out.said, {std::move(rest.text), std::move(rest.calls)});
    return out;
  }
  auto parts = thoughts_.push(text);
  auto last_parts = thoughts_.finish();
  told out{parts.reasoning + last_parts.reasoning, calls_.push(parts.text + last_parts.text)};
  add(out.said, calls_.finish());
  return out;
}

/// Markers are tokens of their own in such vocabularies.
void openai_choice::count_thought(std::string_view token) {
  if (!counted_) return thought_.push(token);
  const bool before = counted_->thinks();
  (void)counted_->push(token);
  if (before && counted_->thinks()) ++counted_tokens_;
}

void openai_choice::on_prompt_scores(std::vector<protocols::sampled_token> scores) {
  const auto text_of = [this](protocols::token_id id, float logprob) {
    return openai::token_text{std::string(options_.tokens->bytes(id)), logprob};
  };
  if (!options_.logprobs || options_.prompt.empty()) {
    told_later(std::move(scores));
    return;
  }
  // The echoed prompt's tokens stand before the answer's.
  gpu::model::incremental_decoder text(options_.tokens, true);
  std::uint32_t at = 0;
  for (std::size_t i = 0; i < options_.prompt.size(); ++i) {
    openai::token_choice told;
    told.first = i == 0;
    told.text_offset = at;
    if (i == 0)
      told.chosen = text_of(options_.prompt[0], 0.0F);
    else if (i <= scores.size())
      told = describe(scores[i - 1], at);
    at += count_characters(text.feed(options_.prompt[i]));
    logprobs_.push_back(std::move(told));
  }
  told_later(std::move(scores));
}

// Written with the answer, by whoever does that.
void openai_choice::told_later(std::vector<protocols::sampled_token> scores) {
  if (!options_.prompt_logprobs) return;
  prompt_logprobs_ = [tokens = options_.tokens, scores = std::move(scores), top = options_.prompt_logprobs_top] {
    const auto text_of = [&](protocols::token_id id, float logprob) {
      return openai::token_text{std::string(tokens->bytes(id)), logprob};
    };
    std::vector<openai::prompt_token> list;
    for (const auto& score : scores) {
      auto& told = list.emplace_back(openai::prompt_token{score.id, text_of(score.id, score.logprob), {}});
      for (const auto& other : leading(score.top, top))
        told.top.push_back({other.id, text_of(other.id, other.logprob)});
    }
    return openai::prompt_logprobs_list(list);
  };
}

openai::token_choice openai_choice::describe(const protocols::sampled_token& token, std::uint32_t offset) const {
  openai::token_choice out;
  out.chosen.bytes = std::string(options_.tokens->bytes(token.id));
  out.chosen.logprob = token.logprob;
  out.text_offset = offset;
  for (const auto& other : leading(token.top, options_.logprobs_top))
    out.top.push_back({std::string(options_.tokens->bytes(other.id)), other.logprob});
  return out;
}

openai::choice openai_choice::piece(openai::tool_parser::emission said, std::string reasoning) {
  openai::choice out;
  out.reasoning = std::move(reasoning);
  out.thinks = harmony_ ? harmony_->thinks() : thoughts_.thinks();
  out.index = options_.index;
  if (!options_.echo.empty()) said.text.insert(0, std::exchange(options_.echo, {}));
  out.text = std::move(said.text);
  out.calls = std::move(said.calls);
  for (auto& call : out.calls)
    if (!call.name.empty()) call.id = tool_call_id(options_, call.index);
  if (options_.logprobs) out.logprobs = std::exchange(logprobs_, {});
  out.prompt_logprobs = std::exchange(prompt_logprobs_, {});
  return out;
}

void openai_choice::on_accepted(protocols::request_id request) { answer_->accepted(request); }

bool openai_choice::on_tokens(std::span<const protocols::sampled_token> tokens, bool ends_with_stop_token) {
  if (options_.only_prompt) return true;
  std::string text;
  for (std::size_t i = 0; i < tokens.size() && !stopped_by_; ++i) {
    const auto& token = tokens[i];
    ++used_.completion_tokens;
    logprob_sum_ += static_cast<double>(token.logprob);
    ++drawn_;
    if (ends_with_stop_token && i + 1 == tokens.size()) {
      const auto& own = options_.stop_token_ids;
      const bool asked_for = std::find(own.begin(), own.end(), token.id) != own.end();
      if (asked_for) stop_token_ = token.id;
      // Harnesses count on an entry for each token drawn.
      const bool shown = asked_for && options_.include_stop;
      if (options_.logprobs && (options_.tells_end || shown)) logprobs_.push_back(describe(token, characters_));
      if (shown) text += matcher_.push(decoder_.feed(token.id)).text;
      break;
    }
    if (options_.logprobs) logprobs_.push_back(describe(token, characters_));
    // By its own bytes, as constraints see it: stop strings hold text back, and the text of half a character comes
    // later.
    count_thought(options_.tokens->bytes(token.id));
    const auto decoded = decoder_.feed(token.id);
    characters_ += count_characters(decoded);
    if (used_.completion_tokens <= options_.min_tokens) {
      text += decoded;
      continue;
    }
    auto emitted = matcher_.push(decoded);
    text += emitted.text;
    stopped_by_ = emitted.matched;
  }
  if (used_.reasoning_tokens) used_.reasoning_tokens = counted_ ? counted_tokens_ : thought_.tokens();
  auto [reasoning, said] = tell(text);
  const bool says = !said.empty() || !reasoning.empty() || !logprobs_.empty();
  const bool wanted = says ? answer_->add(piece(std::move(said), std::move(reasoning)), used_) : !answer_->over();
  return wanted && !stopped_by_;
}

void openai_choice::on_finished(protocols::finish_reason reason, const answer_usage& usage) {
  std::string tail;
  if (!stopped_by_) {
    auto emitted = matcher_.push(decoder_.finish());
    tail = std::move(emitted.text);
    stopped_by_ = emitted.matched;
    if (!stopped_by_) tail += matcher_.finish();
  }
  used_.prompt_tokens = usage.prompt_tokens;
  used_.cached_tokens = usage.cached_tokens;
  if (options_.counts_prediction) {
    // A stop string may lie within what one step brought.
    const auto left_out = std::min(usage.answer_tokens - std::min(usage.answer_tokens, used_.completion_tokens),
                                   usage.prediction_accepted);
    used_.accepted_prediction_tokens = usage.prediction_accepted - left_out;
    used_.rejected_prediction_tokens = usage.prediction_rejected + left_out;
  }
  thought_.finish();
  if (used_.reasoning_tokens) used_.reasoning_tokens = counted_ ? counted_tokens_ : thought_.tokens();
  auto [reasoning, said] = tell_last(tail);
  auto last = piece(std::move(said), std::move(reasoning));
  last.finish_reason = reason == protocols::finish_reason::length && !stopped_by_ ? "length" : "stop";
  if (last.finish_reason == "stop" && options_.told_by_calls && calls_told() > 0) last.finish_reason = "tool_calls";
  if (options_.only_prompt) last.finish_reason = "length";
  if (stopped_by_ && options_.stops->asked_for(*stopped_by_)) last.stop_string = (*options_.stops)[*stopped_by_];
  last.stop_token = stop_token_;
  last.mean_logprob = drawn_ == 0 ? 0.0 : logprob_sum_ / drawn_;
  (void)answer_->add(std::move(last), used_);
  answer_->choice_finished(*this);
}

void openai_choice::on_failed(const answer_failure& failure) { answer_->failed(*this, failure); }

} // namespace godwit::actors
