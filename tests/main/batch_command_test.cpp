#include "main/batch_command.hpp"
#include "main/batch_file.hpp"

#include <godwit/transport/http/server.hpp>

#include <boost/json.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

namespace godwit::main {
namespace batches {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;
namespace json = boost::json;
namespace http = transport::http;

/// Instead of a status: the head of an answer, and the end of its connection.
constexpr int breaks_off = -1;

/// A server that answers each body as it is told, or keeps it waiting.
class batch_server {
public:
  using answerer = std::function<std::optional<http::response>(const json::object& body, std::size_t number)>;

  explicit batch_server(answerer answers)
      : answers_(std::move(answers)),
        server_(http::server_settings{}, [this](http::request r, const auto& e) { handle(std::move(r), e); }) {
    if (auto wrong = server_.listen("127.0.0.1", 0)) throw std::runtime_error(wrong->message);
  }
  ~batch_server() { server_.stop(); }
  [[nodiscard]] std::string url() const { return "http://127.0.0.1:" + std::to_string(server_.local_port()); }
  [[nodiscard]] std::vector<json::object> bodies() const {
    const std::lock_guard lock(mutex_);
    return bodies_;
  }
  [[nodiscard]] std::vector<std::string> texts() const {
    const std::lock_guard lock(mutex_);
    return texts_;
  }
  [[nodiscard]] std::vector<std::string> keys() const {
    const std::lock_guard lock(mutex_);
    return keys_;
  }
  [[nodiscard]] std::vector<std::string> paths() const {
    const std::lock_guard lock(mutex_);
    return paths_;
  }

  std::function<void()> on_models; ///< before anything else is asked; set before

private:
  void handle(http::request request, const std::shared_ptr<http::exchange>& exchange) {
    const std::lock_guard lock(mutex_);
    if (request.target == "/v1/models" && on_models) on_models();
    if (request.target == "/v1/models")
      return exchange->respond({200, "application/json", {}, R"({"data":[{"id":"first"},{"id":"second"}]})"});
    auto body = json::parse(request.body).as_object();
    const auto answer = answers_(body, bodies_.size());
    bodies_.push_back(std::move(body));
    texts_.push_back(request.body);
    paths_.push_back(request.target);
    keys_.emplace_back(request.fields.find("Authorization").value_or(""));
    if (!answer)
      waiting_.push_back(exchange);
    else if (answer->status == breaks_off)
      exchange->begin_stream(200, {}); // and nobody goes on
    else
      exchange->respond(*answer);
  }

  answerer answers_;
  mutable std::mutex mutex_;
  std::vector<json::object> bodies_;
  std::vector<std::string> paths_, texts_, keys_;
  std::vector<std::shared_ptr<http::exchange>> waiting_;
  http::server server_; ///< last: its threads use the rest
};

http::response answered(const std::string& text) {
  return {200,
          "application/json",
          {{"x-request-id", "id-of-" + text}},
          json::serialize(json::object{
              {"text", text},
              {"usage", json::object{{"prompt_tokens", 3}, {"completion_tokens", 5}, {"total_tokens", 8}}}})};
}

http::response refused(int status) {
  return {status, "application/json", {}, R"({"error":{"message":"no","type":"invalid_request_error"}})"};
}

/// Answers with the body's prompt.
std::optional<http::response> echo(const json::object& body, std::size_t) {
  return answered(std::string(body.at("prompt").as_string()));
}

std::string line_of(const std::string& id, json::object body, const std::string& url = "/v1/completions") {
  return json::serialize(json::object{{"custom_id", id}, {"method", "POST"}, {"url", url}, {"body", std::move(body)}});
}

struct outcome {
  int code = 0;
  std::string out, progress;
};

class BatchCommand : public ::testing::Test {
protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "/godwit_batch_" + std::to_string(::getpid());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    options_.input = folder_ + "/in.jsonl";
    options_.output = folder_ + "/out.jsonl";
    options_.retries = 3;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void ask_for(const std::vector<std::string>& lines) {
    std::ofstream to(options_.input);
    for (const auto& line : lines) to << line << '\n';
  }
  void ask_for(std::size_t count) {
    std::vector<std::string> lines;
    for (std::size_t i = 0; i < count; ++i)
      lines.push_back(line_of("r" + std::to_string(i), {{"prompt", "p" + std::to_string(i)}, {"model", "first"}}));
    ask_for(lines);
  }
  outcome run(const std::string& url, const std::function<bool()>& stopped = {}) {
    options_.server.url = url;
    std::ostringstream out, progress;
    const auto code = run_batch_command(options_, out, progress, stopped);
    return {code, out.str(), progress.str()};
  }
  /// By their ids.
  std::map<std::string, json::object> answers() {
    std::map<std::string, json::object> out;
    std::ifstream in(options_.output);
    for (std::string line; std::getline(in, line);) {
      auto parsed = json::parse(line).as_object();
      const auto id = std::string(parsed.at("custom_id").as_string());
      EXPECT_TRUE(out.emplace(id, std::move(parsed)).second) << "twice: " << line;
    }
    return out;
  }
  std::string text_of_output() {
    std::ifstream in(options_.output, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  std::string folder_;
  batch_options options_;
};

TEST(BatchFile, SaysWhatIsWrongWithALine) {
  const auto wrong = [](std::string_view line) {
    const auto parsed = parse_batch_request(line, {});
    return parsed ? "right" : parsed.error();
  };
  EXPECT_EQ(wrong(line_of("a", {{"prompt", "x"}})), "right");
  EXPECT_EQ(wrong(line_of("a", {{"prompt", "x"}, {"stream", false}})), "right");
  EXPECT_THAT(wrong("{\"custom_id\":"), HasSubstr("no JSON"));
  EXPECT_THAT(wrong("[]"), HasSubstr("no JSON object"));
  EXPECT_THAT(wrong(R"({"method":"POST","url":"/v1/completions","body":{}})"), HasSubstr("'custom_id'"));
  EXPECT_THAT(wrong(R"({"custom_id":"","method":"POST","url":"/v1/completions","body":{}})"), HasSubstr("'custom_id'"));
  EXPECT_THAT(wrong(R"({"custom_id":"a","method":"GET","url":"/v1/completions","body":{}})"), HasSubstr("'method'"));
  for (const auto* url : {"/metrics", "http://other/v1/completions", "/v1/a b", "/v1/\n", ""})
    EXPECT_THAT(wrong(line_of("a", {}, url)), HasSubstr("'url'")) << url;
  EXPECT_THAT(wrong(R"({"custom_id":"a","method":"POST","url":"/v1/completions","body":[]})"), HasSubstr("'body'"));
  EXPECT_THAT(wrong(line_of("a", {{"stream", true}})), HasSubstr("stream"));
}

TEST(BatchFile, GivesAModelToABodyThatNamesNone) {
  const auto model = [](json::object body) {
    const auto parsed = parse_batch_request(line_of("a", std::move(body)), "mine");
    return std::string(json::parse(parsed->body).at("model").as_string());
  };
  EXPECT_EQ(model({{"prompt", "x"}}), "mine");
  EXPECT_EQ(model({{"prompt", "x"}, {"model", "theirs"}}), "theirs");
}

TEST_F(BatchCommand, WritesALineForEachAnswer) {
  batch_server server(echo);
  ask_for(100);
  options_.json = true;
  const auto result = run(server.url());
  EXPECT_EQ(result.code, 0) << result.progress;
  const auto got = answers();
  ASSERT_EQ(got.size(), 100U);
  for (std::size_t i = 0; i < 100; ++i) {
    const auto& line = got.at("r" + std::to_string(i));
    const auto text = "p" + std::to_string(i);
    EXPECT_TRUE(line.at("error").is_null());
    EXPECT_TRUE(line.at("id").as_string().starts_with("batch_req_"));
    const auto& response = line.at("response").as_object();
    EXPECT_EQ(response.at("status_code").as_int64(), 200);
    EXPECT_EQ(response.at("request_id").as_string(), "id-of-" + text);
    EXPECT_EQ(response.at("body").at("text").as_string(), text);
  }
  const auto report = json::parse(result.out).as_object();
  EXPECT_EQ(report.at("answered").as_int64(), 100);
  EXPECT_EQ(report.at("failed").as_int64(), 0);
  EXPECT_EQ(report.at("left").as_int64(), 0);
  EXPECT_EQ(report.at("prompt_tokens").as_int64(), 300);
  EXPECT_EQ(report.at("answer_tokens").as_int64(), 500);
}

TEST_F(BatchCommand, AsksEachEndpointAndForTheFirstModelWhereNoneIsNamed) {
  batch_server server([](const auto&, auto) { return answered("x"); });
  std::ofstream(options_.input) << line_of("a", {{"messages", json::array{}}}, "/v1/chat/completions") << "\r\n\r\n"
                                << line_of("b", {{"model", "second"}}, "/v1/responses") << "\n\n"
                                << line_of("c", {}, "/v1/messages"); // without an end of its own
  EXPECT_EQ(run(server.url() + "/v1").code, 0);
  EXPECT_THAT(server.paths(), UnorderedElementsAre("/v1/chat/completions", "/v1/responses", "/v1/messages"));
  std::vector<std::string> models;
  for (const auto& body : server.bodies()) models.emplace_back(body.at("model").as_string());
  EXPECT_THAT(models, UnorderedElementsAre("first", "second", "first"));
}

TEST_F(BatchCommand, AsksAgainWhereTheServerIsFullAndForNothingElse) {
  std::map<std::string, int> times; // under the server's lock
  batch_server server([&](const json::object& body, auto) -> std::optional<http::response> {
    const auto prompt = std::string(body.at("prompt").as_string());
    const auto tries = ++times[prompt];
    if (prompt == "p0" && tries <= 2) return refused(429);
    if (prompt == "p1") return refused(400);
    if (prompt == "p2") return refused(503);
    return answered(prompt);
  });
  ask_for(4);
  const auto result = run(server.url());
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(times["p0"], 3);
  EXPECT_EQ(times["p1"], 1);
  EXPECT_EQ(times["p2"], 4);
  EXPECT_EQ(times["p3"], 1);
  const auto got = answers();
  ASSERT_EQ(got.size(), 4U);
  EXPECT_EQ(got.at("r0").at("response").at("status_code").as_int64(), 200);
  EXPECT_EQ(got.at("r1").at("response").at("status_code").as_int64(), 400);
  EXPECT_EQ(got.at("r1").at("response").at("body").at("error").at("message").as_string(), "no");
  EXPECT_EQ(got.at("r2").at("response").at("status_code").as_int64(), 503);
  EXPECT_THAT(result.out, HasSubstr("2 of 4 requests answered, 2 failed"));
  EXPECT_THAT(result.out, HasSubstr("5 retries"));
}

TEST_F(BatchCommand, WaitsAsLongAsTheServerSays) {
  batch_server server([](const auto&, std::size_t number) {
    auto full = refused(503);
    full.fields.add("Retry-After", "2");
    return number == 0 ? full : answered("x");
  });
  ask_for(1);
  const auto began = std::chrono::steady_clock::now();
  EXPECT_EQ(run(server.url()).code, 0);
  EXPECT_GE(std::chrono::steady_clock::now() - began, 2s);
}

TEST_F(BatchCommand, HasNoMoreInFlightThanItMay) {
  batch_server server([](const auto&, auto) { return std::nullopt; });
  ask_for(20);
  options_.concurrency = 3;
  std::optional<std::chrono::steady_clock::time_point> full;
  EXPECT_EQ(run(server.url(),
                [&] {
                  const auto now = std::chrono::steady_clock::now();
                  if (!full && server.bodies().size() >= 3) full = now;
                  return full && now - *full > 500ms;
                })
                .code,
            1);
  EXPECT_EQ(server.bodies().size(), 3U);
}

TEST_F(BatchCommand, OfAnAnswerThatIsNoneTheErrorIsWritten) {
  batch_server server([](const json::object& body, auto) {
    const auto prompt = std::string(body.at("prompt").as_string());
    return prompt == "p0" ? http::response{200, "application/json", {}, "no json"} : answered(prompt);
  });
  ask_for(2);
  EXPECT_EQ(run(server.url()).code, 1);
  EXPECT_EQ(answers().at("r0").at("error").at("code").as_string(), "bad_answer");
  options_.resume = true; // what it has written it reads
  EXPECT_EQ(run(server.url()).code, 1);
  EXPECT_EQ(server.bodies().size(), 3U);
}

TEST_F(BatchCommand, AsksAgainWhereAConnectionBreaks) {
  std::map<std::string, int> times; // under the server's lock
  batch_server server([&](const json::object& body, auto) -> std::optional<http::response> {
    const auto prompt = std::string(body.at("prompt").as_string());
    if (prompt == "p0" || ++times[prompt] == 1) return http::response{breaks_off, {}, {}, {}};
    return answered(prompt);
  });
  ask_for(2);
  options_.retries = 1;
  EXPECT_EQ(run(server.url()).code, 1);
  const auto got = answers();
  EXPECT_EQ(got.at("r0").at("error").at("code").as_string(), "disconnect");
  EXPECT_TRUE(got.at("r0").at("response").is_null());
  EXPECT_EQ(got.at("r1").at("response").at("status_code").as_int64(), 200);
}

TEST_F(BatchCommand, ASlowAnswerIsNotAskedForTwice) {
  batch_server server([](const auto&, auto) { return std::nullopt; });
  ask_for(1);
  options_.server.timeout_s = 0.3;
  EXPECT_EQ(run(server.url()).code, 1);
  EXPECT_EQ(answers().at("r0").at("error").at("code").as_string(), "timeout");
  EXPECT_EQ(server.bodies().size(), 1U);
}

TEST_F(BatchCommand, AKeyThatTheServerDoesNotTakeEndsTheRun) {
  batch_server server([](const auto&, auto) { return refused(401); });
  ask_for(1000);
  options_.concurrency = 2;
  options_.server.api_key = "sk-ours";
  const auto result = run(server.url());
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.progress, HasSubstr("does not take this key (HTTP 401)"));
  EXPECT_LT(server.bodies().size(), 10U);
  EXPECT_THAT(server.keys(), ::testing::Each("Bearer sk-ours"));
  EXPECT_THAT(answers(), IsEmpty());
}

TEST_F(BatchCommand, NumbersStayAsTheyWereWritten) {
  const std::string odd =
      R"({"seed": 123456789012345678901234567890, "temperature":1e400,"x":[0.10000000000000000555, {"body":"}\"{"}]})";
  batch_server server([&](const auto&, auto) {
    return http::response{200, "application/json", {}, "{\n\"logprob\": -0.30000000000000004441,\n \"body\": 1.0}\n"};
  });
  ask_for({R"({ "body" :7,"custom_id":"a","method":"POST","url":"/v1/completions", "body" : )" + odd + " }"});
  EXPECT_EQ(run(server.url()).code, 0);
  EXPECT_EQ(server.texts().at(0), R"({"model":"first",)" + odd.substr(1));
  EXPECT_THAT(text_of_output(),
              HasSubstr(R"("body":{ "logprob": -0.30000000000000004441,  "body": 1.0} },"error":null})"));
}

TEST_F(BatchCommand, SendsNothingOfAFileThatIsWrong) {
  batch_server server(echo);
  ask_for({line_of("a", {{"prompt", "x"}}), "{"});
  auto result = run(server.url());
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.progress, HasSubstr("in.jsonl, line 2: it is no JSON"));
  ask_for({line_of("a", {{"prompt", "x"}}), line_of("a", {{"prompt", "y"}})});
  result = run(server.url());
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.progress, HasSubstr("line 2: another request has the custom_id 'a', too"));
  ask_for(std::vector<std::string>{});
  EXPECT_EQ(run(server.url()).code, 2);
  std::ofstream(options_.input) << std::string(batch_line_bytes_max + 100, ' ') << "\n" << std::string(3 << 20, 'x');
  EXPECT_THAT(run(server.url()).progress, HasSubstr("line 1: it is longer than 64 MiB"));
  options_.input += ".not_there";
  EXPECT_THAT(run(server.url()).progress, HasSubstr("cannot read"));
  options_.input = folder_;
  EXPECT_THAT(run(server.url()).progress, HasSubstr("read twice"));
  EXPECT_THAT(server.bodies(), IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(options_.output));
}

TEST_F(BatchCommand, OverwritesNothingUnasked) {
  batch_server server(echo);
  ask_for(3);
  ASSERT_EQ(run(server.url()).code, 0);
  const auto before = text_of_output();
  const auto again = run(server.url());
  EXPECT_EQ(again.code, 2);
  EXPECT_THAT(again.progress, HasSubstr("--resume"));
  EXPECT_EQ(text_of_output(), before);
  options_.overwrite = true;
  EXPECT_EQ(run(server.url()).code, 0);
  EXPECT_EQ(answers().size(), 3U);
  EXPECT_EQ(server.bodies().size(), 6U);
  options_.output = options_.input;
  EXPECT_EQ(run(server.url()).code, 2);
}

TEST_F(BatchCommand, GoesOnWhereItWasStopped) {
  ask_for(10);
  {
    batch_server server([](const json::object& body, std::size_t number) -> std::optional<http::response> {
      if (number >= 6) return std::nullopt; // for ever
      return number == 5 ? refused(400) : *echo(body, number);
    });
    const auto result = run(server.url(), [&] { return server.bodies().size() == 10 && answers().size() == 6; });
    EXPECT_EQ(result.code, 1);
    EXPECT_THAT(result.progress, HasSubstr("stopped; with --resume it goes on"));
  }
  const auto before = answers();
  ASSERT_EQ(before.size(), 6U);
  std::ofstream(options_.output, std::ios::app) << R"({"id":"batch_req_7","custom_id":"r6","respo)"; // it was killed
  options_.resume = true;
  options_.json = true;
  batch_server server(echo);
  const auto result = run(server.url());
  EXPECT_EQ(result.code, 0) << result.progress;
  EXPECT_EQ(server.bodies().size(), 5U) << "four of which nothing is known, and the refused one";
  const auto after = answers();
  EXPECT_EQ(after.size(), 10U);
  for (const auto& [id, line] : after) EXPECT_EQ(line.at("response").at("status_code").as_int64(), 200) << id;
  const auto report = json::parse(result.out).as_object();
  EXPECT_EQ(report.at("answered_before").as_int64(), 5);
  EXPECT_EQ(report.at("answered").as_int64(), 5);
  // All are there: nothing is left to ask.
  EXPECT_EQ(run(server.url()).code, 0);
  EXPECT_EQ(server.bodies().size(), 5U);
}

TEST_F(BatchCommand, LeavesAFileAloneThatIsNoneOfAnswers) {
  batch_server server(echo);
  ask_for(2);
  const std::string others = "dear diary,\nit rained\n";
  std::ofstream(options_.output) << others;
  options_.resume = true;
  const auto result = run(server.url());
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.progress, HasSubstr("another file"));
  EXPECT_EQ(text_of_output(), others);
  EXPECT_THAT(server.bodies(), IsEmpty());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 2) << "nothing is left beside it";
}

TEST_F(BatchCommand, HalfALineIsDroppedEvenWhereItIsTheOnlyOne) {
  batch_server server(echo);
  ask_for(2);
  std::ofstream(options_.output) << R"({"id":"batch_)";
  std::filesystem::permissions(options_.output,
                               std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  std::filesystem::create_symlink(options_.output, folder_ + "/link");
  const auto file = std::exchange(options_.output, folder_ + "/link");
  options_.resume = true;
  EXPECT_EQ(run(server.url()).code, 0);
  EXPECT_TRUE(std::filesystem::is_symlink(options_.output));
  EXPECT_EQ(std::filesystem::status(file).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  EXPECT_EQ(answers().size(), 2U);
}

TEST_F(BatchCommand, OneProcessWritesAFile) {
  batch_server server(echo);
  ask_for(1);
  std::ofstream(options_.output) << "";
  for (const bool resume : {false, true}) {
    options_.resume = resume;
    const batch_lock other(options_.output);
    ASSERT_TRUE(other.taken());
    const auto result = run(server.url());
    EXPECT_EQ(result.code, 1);
    EXPECT_THAT(result.progress, HasSubstr("another process writes"));
  }
  EXPECT_THAT(server.bodies(), IsEmpty());
  EXPECT_EQ(run(server.url()).code, 0);
}

TEST_F(BatchCommand, WhatComesMeanwhileIsNotOverwritten) {
  batch_server server(echo);
  ask_for(1);
  server.on_models = [this] { std::ofstream(options_.output) << "of somebody else\n"; };
  const auto result = run(server.url());
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.progress, HasSubstr("meanwhile"));
  EXPECT_EQ(text_of_output(), "of somebody else\n");
  EXPECT_THAT(server.bodies(), IsEmpty());
}

TEST_F(BatchCommand, WritesToFilesOnly) {
  batch_server server(echo);
  ask_for(1);
  for (const auto* output : {"-", "/", "/dev/null"}) {
    options_.output = output;
    options_.resume = true;
    EXPECT_EQ(run(server.url()).code, 2) << output;
  }
  EXPECT_THAT(server.bodies(), IsEmpty());
}

TEST_F(BatchCommand, AFullDiskEndsIt) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  batch_server server(echo);
  ask_for(500);
  options_.concurrency = 2;
  options_.output = "/dev/full";
  const auto result = run(server.url());
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.progress, HasSubstr("/dev/full"));
  EXPECT_LT(server.bodies().size(), 20U);
}

TEST_F(BatchCommand, NamesTheServerItCannotReach) {
  ask_for(1);
  const auto result = run("http://127.0.0.1:1");
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.progress, HasSubstr("http://127.0.0.1:1"));
}

TEST_F(BatchCommand, IsChosenOnTheCommandLine) {
  CLI::App app;
  command_result result;
  add_batch_command(app, result);
  app.parse("batch in.jsonl -o out.jsonl --url http://127.0.0.1:1 --concurrency 8 --retries 0 --resume --no-progress");
  EXPECT_TRUE(result.run);
  for (const auto* line : {"batch in.jsonl", "batch --output out.jsonl", "batch a -o b --resume --overwrite",
                           "batch a -o b --concurrency 0", "batch a -o b --retries -1"}) {
    CLI::App wrong;
    add_batch_command(wrong, result);
    EXPECT_THROW(wrong.parse(line), CLI::ParseError) << line;
  }
}

} // namespace batches
} // namespace godwit::main
