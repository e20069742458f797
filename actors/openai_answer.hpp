#pragma once

#include "api_errors.hpp"

#include <godwit/actors/answer_sink.hpp>
#include <godwit/gpu/model/tokenizer.hpp>
#include <godwit/protocols/openai/answer_writer.hpp>
#include <godwit/protocols/openai/error.hpp>
#include <godwit/protocols/openai/harmony_parser.hpp>
#include <godwit/protocols/openai/reasoning_splitter.hpp>
#include <godwit/protocols/openai/response.hpp>
#include <godwit/protocols/openai/stop_matcher.hpp>
#include <godwit/protocols/openai/tool_parser.hpp>
#include <godwit/transport/http/exchange.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace godwit::actors {

class openai_choice;
class request_span;

/// How one HTTP answer is written.
struct openai_answer_options {
  std::unique_ptr<protocols::openai::answer_writer> writer; ///< never null
  std::string id;                                           ///< which answers and headers tell
  api whose = api::openai;                                  ///< in which headers
  bool stream = false;                                      ///< so does the writer
  std::uint32_t drawn = 1;                                  ///< choices of each prompt
  std::uint32_t heartbeat_s = 0;                            ///< 0: none
  std::string ignored; ///< fields of the request that had no effect, told in a header; empty: none
  std::uint32_t retry_after_s = 1;
  std::function<void(int status)> on_status;                  ///< told once; may be empty
  std::function<void(std::shared_ptr<answer_sink>)> withdraw; ///< gives up a choice that still runs
  /// Runs a job elsewhere, soon; false: it does not. May be empty.
  std::function<bool(std::function<void()> job)> offload;
  std::shared_ptr<request_span> span; ///< null: nobody records
};

/// The HTTP answer to one call: one or more choices, streamed or whole.
///
/// The choices' sinks call it on the front end actor's context, one at a time; `client_gone` comes from an I/O thread.
/// The choices own the answer, which knows them weakly, so that everything is freed when the last request has ended.
class openai_answer : public std::enable_shared_from_this<openai_answer> {
public:
  openai_answer(std::shared_ptr<transport::http::exchange> exchange, openai_answer_options options);

  /// Before anything is submitted: the choices in their order.
  void set_choices(const std::vector<std::shared_ptr<openai_choice>>& choices);
  /// From any thread.
  void client_gone();

  void accepted(protocols::request_id request);
  /// False: the answer is over, nobody reads on.
  [[nodiscard]] bool add(protocols::openai::choice piece, const protocols::openai::usage& so_far);
  [[nodiscard]] bool over();
  void choice_finished(const openai_choice& who);
  void failed(const openai_choice& who, const answer_failure& failure);

private:
  void withdraw_all_but(const openai_choice* one);
  void begin_stream();
  void write(protocols::openai::answer_part part);
  void write_failure(const protocols::openai::api_error& error);
  void finish();
  void write_rest();

  std::mutex mutex_; // where a front end dies, submissions in its mailbox are failed on other threads
  std::shared_ptr<transport::http::exchange> exchange_;
  openai_answer_options options_;
  std::vector<std::weak_ptr<openai_choice>> choices_;
  protocols::openai::usage used_;
  std::size_t running_ = 0;
  bool streaming_ = false;
  bool over_ = false;
};

/// What text of one choice's tokens goes to the client.
struct openai_choice_options {
  std::uint32_t index = 0;
  std::shared_ptr<const gpu::model::tokenizer> tokens;
  bool skip_special_tokens = true;
  bool goes_on = false; ///< behind text of the prompt: a space in front belongs between the two
  std::shared_ptr<const protocols::openai::stop_patterns> stops; ///< null: none
  bool include_stop = false;
  std::vector<protocols::token_id> stop_token_ids; ///< the client's own, named as stop_reason
  std::uint32_t min_tokens = 0;                    ///< stop strings count from here on
  bool logprobs = false;
  std::size_t logprobs_top = SIZE_MAX; ///< others told with each token; more may be known of a prompt's
  bool tells_end = false;              ///< ... that of the end-of-sequence token, too
  bool prompt_logprobs = false;        ///< vLLM's, of the whole answer
  std::size_t prompt_logprobs_top = SIZE_MAX;
  bool only_prompt = false; ///< what is drawn is left out
  std::string echo;         ///< text before the answer
  /// Whether what is thought is told apart, and how the answer begins.
  protocols::reasoning_start reasoning = protocols::reasoning_start::off;
  bool counts_reasoning = false;           ///< its tokens are told
  bool counts_prediction = false;          ///< what became of it is told
  std::vector<protocols::token_id> prompt; ///< where its tokens' log-probabilities are told
  std::uint32_t prompt_tokens = 0;
  protocols::openai::tool_format tools = protocols::openai::tool_format::none; ///< how calls are written
  protocols::openai::tool_parser::options calls;
  /// The answer is in harmony's channels, which tell what is thought and what is called; `reasoning` is off, and
  /// `tools`.
  std::optional<protocols::openai::harmony_parser::options> harmony;
  bool told_by_calls = true;         ///< an answer with calls ends with `tool_calls`
  std::string id;                    ///< no other answer's, for the calls' ids
  std::string calls_begin = "call_"; ///< ... which begin so
  bool short_call_ids = false;       ///< Mistral's templates take no others back
};

/// Turns the tokens of one request into text: detokenises, looks for stop strings, collects log-probabilities.
class openai_choice final : public answer_sink {
public:
  openai_choice(std::shared_ptr<openai_answer> answer, openai_choice_options options);
  void on_accepted(protocols::request_id request) override;
  void on_prompt_scores(std::vector<protocols::sampled_token> scores) override;
  [[nodiscard]] bool on_tokens(std::span<const protocols::sampled_token> tokens, bool ends_with_stop_token) override;
  void on_finished(protocols::finish_reason reason, const answer_usage& usage) override;
  void on_failed(const answer_failure& failure) override;

  [[nodiscard]] std::uint32_t index() const noexcept { return options_.index; }
  [[nodiscard]] const protocols::openai::usage& used() const noexcept { return used_; }

private:
  struct told {
    std::string reasoning;
    protocols::openai::tool_parser::emission said;
  };
  [[nodiscard]] told tell(const std::string& text);
  [[nodiscard]] told tell_last(const std::string& text);
  [[nodiscard]] std::uint32_t calls_told() const noexcept { return harmony_ ? harmony_->calls() : calls_.calls(); }
  void count_thought(std::string_view token);
  [[nodiscard]] protocols::openai::choice piece(protocols::openai::tool_parser::emission said, std::string reasoning);
  void told_later(std::vector<protocols::sampled_token> scores);
  [[nodiscard]] protocols::openai::token_choice describe(const protocols::sampled_token& token,
                                                         std::uint32_t offset) const;

  std::shared_ptr<openai_answer> answer_;
  openai_choice_options options_;
  gpu::model::incremental_decoder decoder_;
  protocols::openai::stop_matcher matcher_;
  protocols::openai::reasoning_splitter thoughts_;
  protocols::openai::reasoning_counter thought_;
  protocols::openai::tool_parser calls_;
  std::optional<protocols::openai::harmony_parser> harmony_; // in place of both
  std::optional<protocols::openai::harmony_parser> counted_; // the same by tokens: stop strings hold text back
  std::uint32_t counted_tokens_ = 0;
  std::vector<protocols::openai::token_choice> logprobs_; // not sent yet
  std::optional<std::size_t> stopped_by_;                 ///< which of the stop strings
  std::optional<std::int32_t> stop_token_;
  protocols::openai::usage used_;
  std::uint32_t characters_ = 0; // of text so far, held-back text included
  double logprob_sum_ = 0.0;
  std::uint32_t drawn_ = 0;
  protocols::openai::prompt_logprobs_writer prompt_logprobs_; // not sent yet
};

} // namespace godwit::actors
