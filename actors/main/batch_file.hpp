#pragma once

#include <godwit/protocols/expected.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>

/// Files of OpenAI's Batch API: a line of JSON for each request, and one for each answer, in any order.
namespace godwit::main {

/// One line of what is asked for.
struct batch_request {
  std::uint64_t number = 0; ///< among those of its file, from 1
  std::string custom_id;
  std::string path;  ///< of the endpoint: "/v1/chat/completions"
  std::string body;  ///< JSON, as it stands there
  std::string model; ///< that the body names; empty: none
};

/// A line has at most so many bytes; longer ones are wrong.
inline constexpr std::size_t batch_line_bytes_max = std::size_t{64} << 20U;

/// {"custom_id", "method": "POST", "url", "body"}. A body that names no model gets `model`, where that is not empty;
/// nothing else in it is changed. What is wrong with the line otherwise.
[[nodiscard]] protocols::expected<batch_request, std::string> parse_batch_request(std::string_view line,
                                                                                  const std::string& model);

/// The requests of such a file, one after the other, but for those that have been answered.
class batch_reader {
public:
  /// `model` as in `parse_batch_request`.
  batch_reader(const std::string& path, std::string model, std::unordered_set<std::string> answered);
  ~batch_reader();
  batch_reader(batch_reader&&) noexcept;
  /// Nothing at the end, or where a line is wrong.
  [[nodiscard]] std::optional<batch_request> next();
  /// "in.jsonl, line 3: 'body' is no JSON object"; empty: nothing has been wrong.
  [[nodiscard]] const std::string& wrong() const noexcept;
  [[nodiscard]] std::uint64_t line() const noexcept; ///< of the last one

private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

/// What all of a file holds.
struct batch_contents {
  std::uint64_t requests = 0;
  bool names_models = true; ///< each body names its model
  std::string model;        ///< the first that one names; empty: none does
};

/// Reads all of it, so that nothing is sent of a file that is wrong: each line is right, and no two have the same id.
/// What is wrong otherwise. Once `stopped` says so it reads no more, and says that.
[[nodiscard]] protocols::expected<batch_contents, std::string> check_batch(const std::string& path,
                                                                           const std::function<bool()>& stopped = {});

[[nodiscard]] constexpr bool is_answered(int status) noexcept { return status >= 200 && status < 300; }
/// Whether a request with this status, or with no answer at all (0), may do better a little later.
[[nodiscard]] bool is_transient(int status) noexcept;

/// {"id", "custom_id", "response": {"status_code", "request_id", "body"}, "error": null}, the body as the server wrote
/// it. One that is no JSON object is an error, "bad_answer".
[[nodiscard]] std::string batch_answer_line(std::uint64_t number, const std::string& custom_id, int status,
                                            const std::string& request_id, const std::string& body);
/// The same for a request that has no answer: {"id", "custom_id", "response": null, "error": {"code", "message"}}.
[[nodiscard]] std::string batch_error_line(std::uint64_t number, const std::string& custom_id, const std::string& code,
                                           const std::string& message);

/// What a line of answers says.
struct batch_outcome {
  std::string custom_id;
  int status = 0; ///< 0: no answer
  std::uint64_t prompt_tokens = 0, answer_tokens = 0;
};
[[nodiscard]] protocols::expected<batch_outcome, std::string> parse_batch_answer(std::string_view line);

/// Leaves in a file of answers those of requests that were answered, and says whose they are. It is written anew beside
/// itself and then takes its own place; a file that holds anything else is left as it is. Why that cannot be done
/// otherwise. Where there is no file, nobody was answered.
[[nodiscard]] protocols::expected<std::unordered_set<std::string>, std::string> keep_answered(const std::string& path);

/// Keeps other processes from writing the same file of answers.
class batch_lock {
public:
  /// Not taken where another one has it, or there is no file.
  explicit batch_lock(const std::string& path);
  ~batch_lock();
  batch_lock(const batch_lock&) = delete;
  batch_lock& operator=(const batch_lock&) = delete;
  [[nodiscard]] bool taken() const noexcept { return descriptor_ >= 0; }

private:
  int descriptor_ = -1;
};

} // namespace godwit::main
