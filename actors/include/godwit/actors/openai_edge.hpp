#pragma once

#include <godwit/actors/edge_worker.hpp>
#include <godwit/actors/frontend_gate.hpp>
#include <godwit/gpu/model/adapter.hpp>
#include <godwit/gpu/model/tokenizer.hpp>
#include <godwit/protocols/kv/cache_salt.hpp>
#include <godwit/protocols/openai/answer_writer.hpp>
#include <godwit/protocols/openai/chat_template.hpp>
#include <godwit/protocols/openai/error.hpp>
#include <godwit/protocols/openai/request.hpp>
#include <godwit/protocols/openai/stop_matcher.hpp>
#include <godwit/runtime/async/counter_random.hpp>
#include <godwit/runtime/log/logger.hpp>
#include <godwit/runtime/machine.hpp>
#include <godwit/runtime/metrics/registry.hpp>
#include <godwit/runtime/trace/recorder.hpp>
#include <godwit/runtime/version.hpp>
#include <godwit/transport/http/exchange.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace godwit::actors {

struct openai_choice_options;
class openai_answer;
class beam_searcher;

/// What clients of the HTTP endpoint talk to.
struct served_model {
  std::string name; ///< which answers tell
  std::shared_ptr<const gpu::model::tokenizer> tokens;
  std::uint32_t context_length = 0; ///< tokens of prompt and answer
  std::uint32_t vocabulary = 0;
  protocols::openai::request_defaults defaults;
  /// How conversations are told to it; never null.
  std::shared_ptr<const protocols::openai::chat_template> chat =
      std::make_shared<const protocols::openai::chat_template>();
  bool tells_reasoning = false; ///< what it thinks between <think> and </think> is `reasoning_content` of chats
  /// Its low-rank adapters, each a model to clients, by its name. Null: none.
  std::shared_ptr<const gpu::model::adapter_directory> adapters = nullptr;
  std::string root = {};                 ///< told with it: where its files are; empty: its name
  std::vector<std::string> aliases = {}; ///< other names under which clients may ask for it
  /// Its end-of-sequence tokens, as the instances have them: for beam search, which ends answers by itself.
  std::vector<protocols::token_id> eos = {};

  /// Whether clients mean this model, and no adapter.
  [[nodiscard]] bool is_called(std::string_view asked) const noexcept {
    return asked == name || std::find(aliases.begin(), aliases.end(), asked) != aliases.end();
  }
};

/// What is known of an HTTP request when its answer has ended.
struct ended_request {
  std::string target;
  std::string client_id; ///< of the answer; empty: it had none
  std::string outcome;   ///< `complete`, `disconnected` (by the client) or `dropped` (by us)
  std::chrono::nanoseconds took{0};
};

struct edge_options {
  served_model model;
  protocols::openai::request_limits limits;
  std::string version{runtime::version()}; ///< for /version
  /// Requests with larger bodies, and the writing of large answers, are a thread's of their own. 0: nothing is (in a
  /// simulated world).
  std::size_t large_bytes = 0;
  std::function<std::int64_t()> unix_time_s = runtime::unix_time_s; ///< for `created`
  /// Of the answers' ids and the salts of KV, which clients must not foresee. Empty: drawn (runtime::entropy); a value
  /// is for tests.
  std::optional<std::uint64_t> random_seed;
  std::uint32_t retry_after_s = 1;               ///< told with 429 and 503
  runtime::metrics::registry* metrics = nullptr; ///< may be null
  runtime::log::logger log;
  /// Records each request as a span, and what it caused; answers then name their trace (`traceparent`). May be null.
  std::shared_ptr<runtime::trace::recorder> recorder;
  /// With a recorder: told of each request that ended, on any thread; must only post or store. May be empty.
  std::function<void(const ended_request& request)> on_ended;
  /// What the flight recorder has of the last `last`; called on a thread of the edge's own, at most once at a time.
  /// Empty: there is no /debug/, as if nobody had heard of it. Whoever reaches the port sees what is recorded.
  std::function<runtime::trace::recording(std::chrono::nanoseconds last)> debug_recording;
  std::string_view debug_page; ///< HTML that asks for `recording.json` beside it; must live as long as the edge
};

/// The HTTP endpoint, OpenAI's and Anthropic's: routes, checks, tokenises, and gives requests to the front end actor,
/// whose tokens become the answer. Runs on the server's I/O threads; thread-safe. Must outlive the server that calls
/// it.
class openai_edge {
public:
  openai_edge(std::shared_ptr<frontend_gate> gate, edge_options options);
  ~openai_edge();

  /// An http::handler.
  void handle(transport::http::request request, std::shared_ptr<transport::http::exchange> exchange);
  /// From now on new requests are answered 503.
  void drain() noexcept { draining_ = true; }
  /// /health says 503 from now on; requests are still answered.
  void look_unwell() noexcept { unwell_ = true; }

private:
  using exchange_ptr = std::shared_ptr<transport::http::exchange>;
  struct route;
  using serve_function = std::function<void(const transport::http::request&, const exchange_ptr&)>;
  void serve_any(const transport::http::request& request, exchange_ptr exchange);
  /// On the worker's thread. Where that has too much to do the request is refused.
  void serve_apart(transport::http::request request, const exchange_ptr& exchange, serve_function serve);
  /// True where it has been given to the worker, for the sake of its model.
  bool reads_apart(const std::string& model, const transport::http::request& request, const exchange_ptr& exchange,
                   void (openai_edge::*serve)(const transport::http::request&, const exchange_ptr&));
  /// Calls `serve` with the exchange, which the recording has as a span where there is one.
  void recorded(const transport::http::request& request, exchange_ptr exchange,
                const std::function<void(const exchange_ptr&)>& serve);
  [[nodiscard]] static const std::vector<route>& routes();
  void models(const transport::http::request& request, const exchange_ptr& exchange);
  void completion(const transport::http::request& request, const exchange_ptr& exchange);
  void chat(const transport::http::request& request, const exchange_ptr& exchange);
  void responses(const transport::http::request& request, const exchange_ptr& exchange);
  void messages(const transport::http::request& request, const exchange_ptr& exchange);
  void count_tokens(const transport::http::request& request, const exchange_ptr& exchange);
  void health(const transport::http::request& request, const exchange_ptr& exchange);
  void ping(const transport::http::request& request, const exchange_ptr& exchange);
  void tokenize(const transport::http::request& request, const exchange_ptr& exchange);
  void detokenize(const transport::http::request& request, const exchange_ptr& exchange);
  void not_served(const transport::http::request& request, const exchange_ptr& exchange);
  void not_stored(const transport::http::request& request, const exchange_ptr& exchange);
  void version(const transport::http::request& request, const exchange_ptr& exchange);
  void metrics(const transport::http::request& request, const exchange_ptr& exchange);
  void debug_home(const transport::http::request& request, const exchange_ptr& exchange);
  void debug_page(const transport::http::request& request, const exchange_ptr& exchange);
  void debug_recording(const transport::http::request& request, const exchange_ptr& exchange);

  /// `adapter`: becomes what the request's model is, where that is one of the model's.
  [[nodiscard]] std::optional<protocols::openai::api_error> admissible(const protocols::openai::common_request& request,
                                                                       protocols::adapter_ref& adapter) const;
  [[nodiscard]] std::optional<protocols::openai::api_error>
  unknown_in(const protocols::openai::common_request& request) const;
  /// Whether a client may ask for a model of this name, by an empty one for the one that there is; if so, with which
  /// adapter.
  [[nodiscard]] std::optional<protocols::openai::api_error> find_model(const std::string& name,
                                                                       protocols::adapter_ref& adapter) const;
  /// How an answer to a chat's prompt begins.
  /// The model writes harmony's channels.
  [[nodiscard]] bool in_channels() const noexcept;
  void begin_in_channels(const protocols::openai::chat_request& request,
                         std::vector<protocols::token_id>& prompt) const;
  [[nodiscard]] std::string end_of(const std::vector<protocols::token_id>& prompt) const;
  [[nodiscard]] protocols::reasoning_start reasoning_behind(const std::vector<protocols::token_id>& prompt) const;
  [[nodiscard]] protocols::expected<std::vector<protocols::token_id>, protocols::openai::api_error>
  chat_prompt(const protocols::openai::chat_request& request, bool has_to_fit) const;
  [[nodiscard]] std::vector<protocols::token_id> text_prompt(const protocols::openai::completion_request& request,
                                                             const protocols::openai::prompt_input& input) const;
  /// The request, its prompt's tokens checked against the context and `max_tokens`.
  struct call;
  /// Answers a conversation, in whichever words it was sent.
  void converse(protocols::openai::chat_request& parsed, call what, const transport::http::request& request,
                const exchange_ptr& exchange);
  /// `items_id`: no other answer's.
  [[nodiscard]] std::unique_ptr<protocols::openai::answer_writer>
  writer_of(const call& what, protocols::openai::response_head head, const std::string& items_id) const;
  /// How many log-probabilities are told of each token of the answers to a prompt.
  [[nodiscard]] static std::uint64_t logprobs_a_token(const call& what) noexcept;
  [[nodiscard]] std::optional<protocols::openai::api_error> fits(const call& what) const;
  /// Tokens that the context has left for an answer.
  [[nodiscard]] std::uint64_t room_behind(const std::vector<protocols::token_id>& prompt) const noexcept;
  [[nodiscard]] std::optional<protocols::openai::api_error> small_enough(const call& what) const;
  [[nodiscard]] std::vector<protocols::token_id> predicted(const std::string& text, std::uint32_t answer_max) const;
  [[nodiscard]] std::optional<protocols::openai::api_error>
  calls_beside_schema(const protocols::openai::chat_request& request) const;
  void call_tools(const protocols::openai::chat_request& request, openai_choice_options& text) const;
  /// What ends the texts of all its answers; null: nothing.
  [[nodiscard]] std::shared_ptr<const protocols::openai::stop_patterns> stops_of(const call& what) const;
  [[nodiscard]] openai_choice_options text_of(const call& what, std::size_t prompt, std::uint32_t index) const;
  [[nodiscard]] std::shared_ptr<submission> submission_of(const call& what, std::size_t prompt,
                                                          std::uint32_t sample) const;
  void start(call what, const transport::http::request& request, const exchange_ptr& exchange);
  /// Instead of the submissions, of which each prompt has as many as beams. `searches`: becomes those that run.
  void search_beams(const protocols::openai::common_request& common,
                    std::vector<std::shared_ptr<submission>> submissions,
                    std::vector<std::weak_ptr<beam_searcher>>& searches, const exchange_ptr& exchange,
                    const std::shared_ptr<openai_answer>& answer);
  /// No text of so many bytes has fewer tokens.
  [[nodiscard]] std::uint64_t tokens_at_least(const std::string& text) const noexcept;
  [[nodiscard]] std::string new_id(const char* prefix);
  void count(int status);
  /// `called`: by its client; empty: as its head says, or by a name of ours.
  void refuse(const protocols::openai::api_error& error, const transport::http::request& request,
              const exchange_ptr& exchange, const std::string& called = {});

  std::shared_ptr<frontend_gate> gate_;
  edge_options options_;
  runtime::async::counter_random random_;
  runtime::async::counter_random trace_random_; ///< for ids of traces and spans
  std::atomic<std::uint64_t> traces_{0};
  protocols::salt_key salt_key_;
  std::int64_t started_s_;
  std::size_t longest_token_ = 1; // in bytes
  std::atomic<std::uint64_t> ids_{0};
  std::atomic<bool> draining_{false};
  std::atomic<bool> unwell_{false};
  std::atomic<bool> debug_busy_{false}; ///< a recording is being made, by...
  std::mutex debug_mutex_;
  std::thread debug_thread_; ///< ... this one; touched under the mutex
  runtime::metrics::family<runtime::metrics::counter>* answers_ = nullptr;
  std::shared_ptr<edge_worker> worker_; ///< null: there is none. Last: its jobs use the others
};

/// For http::server_settings::error_response: what the server answers by itself looks like the API's errors. `head`: of
/// the request, where it is known.
[[nodiscard]] transport::http::response openai_error_response(int status, std::string message,
                                                              const transport::http::request* head = nullptr);

} // namespace godwit::actors
