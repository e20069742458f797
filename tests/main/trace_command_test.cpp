#include "main/trace_command.hpp"

#include "main/usage_error.hpp"
#include "support/trace_scenes.hpp"

#include <godwit/runtime/trace/file.hpp>
#include <godwit/transport/http/server.hpp>

#include <boost/json.hpp>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <regex>
#include <sstream>

#include <unistd.h>

namespace godwit::main {
namespace {

namespace fs = std::filesystem;
namespace http = transport::http;
namespace json = boost::json;
namespace trace = runtime::trace;

/// What a command line did.
struct trace_outcome {
  int code = -1;
  std::string out;
  std::string errors;
  [[nodiscard]] json::value json() const { return json::parse(out); }
};

/// Takes what is written to a standard stream.
class taken {
public:
  explicit taken(std::ostream& stream) : stream_(stream), before_(stream.rdbuf(text_.rdbuf())) {}
  taken(const taken&) = delete;
  taken& operator=(const taken&) = delete;
  ~taken() { stream_.rdbuf(before_); }
  [[nodiscard]] std::string text() const { return text_.str(); }

private:
  std::ostringstream text_;
  std::ostream& stream_;
  std::streambuf* before_;
};

trace_outcome run(const std::string& line) {
  CLI::App app("godwit", "godwit");
  command_result result;
  add_trace_command(app, result);
  taken out(std::cout);
  taken errors(std::cerr);
  trace_outcome o;
  try {
    app.parse(line);
    o.code = result.run();
  } catch (const CLI::ParseError& error) {
    o.code = 2;
    std::cerr << explain(app, error);
  }
  o.out = out.text();
  o.errors = errors.text();
  return o;
}

bool is_harmless(const std::string& text) {
  for (const auto c : text)
    if ((static_cast<unsigned char>(c) < 0x20 && c != '\n') || c == 0x7F) return false;
  return true;
}

class TraceCommand : public ::testing::Test {
protected:
  void SetUp() override {
    fs::create_directories(directory_);
    support::served_settings s;
    s.requests = 5;
    s.instances = 3;
    s.node = true;
    s.migration = true;
    write("run.gwt", support::served(s));
  }
  void TearDown() override { fs::remove_all(directory_); }

  [[nodiscard]] std::string path(const std::string& name) const { return (directory_ / name).string(); }
  void write(const std::string& name, const trace::recording& r) const {
    const auto written = trace::write_file(path(name), r);
    ASSERT_TRUE(written) << written.error().message;
  }
  [[nodiscard]] trace_outcome ask(const std::string& before, const std::string& after = "") const {
    return run("trace " + before + " " + path("run.gwt") + " " + after);
  }

  const fs::path directory_ = fs::path(::testing::TempDir()) / ("godwit_trace_command_" + std::to_string(::getpid()));
};

TEST_F(TraceCommand, ListsProcessesActorsAndRequests) {
  const auto text = ask("list");
  ASSERT_EQ(text.code, 0) << text.errors;
  for (const auto* const part :
       {"process 0 head", "process 1 node-2", "frontend", "cmpl-5", "5 model requests", "causes: every cause is there"})
    EXPECT_NE(text.out.find(part), std::string::npos) << part << " is not in\n" << text.out;
  const auto all = ask("list", "--json").json();
  EXPECT_EQ(all.at("requests").as_array().size(), 5U);
  EXPECT_EQ(all.at("processes").as_array().size(), 2U);
  EXPECT_EQ(all.at("causes").at("wrong").to_number<int>(), 0);
}

TEST_F(TraceCommand, ShowsWhatTheFlagsChooseAndSaysWhatItLeavesOut) {
  const auto few = ask("show", "--type token_updates --actor frontend --limit 2");
  ASSERT_EQ(few.code, 0);
  EXPECT_EQ(std::count(few.out.begin(), few.out.end(), '\n'), 2);
  EXPECT_NE(few.errors.find("more left out"), std::string::npos);
  const auto all = ask("show", "--request cmpl-2 --kind request --kind answer --json").json();
  EXPECT_EQ(all.at("left_out").to_number<int>(), 0);
  auto own = 0;
  for (const auto& e : all.at("events").as_array()) {
    if (const auto* request = e.as_object().if_contains("request")) { // without: about several
      EXPECT_EQ(request->to_number<int>(), 2);
      ++own;
    }
    EXPECT_TRUE(e.at("message") == "request" || e.at("message") == "answer");
  }
  EXPECT_GT(own, 3);
  EXPECT_EQ(ask("show", "--request slowest").code, 0);
  EXPECT_EQ(ask("show", "--from 1ms --to 2.5ms --queue-min 5us --handling-min 1us --process node-2").code, 0);
}

TEST_F(TraceCommand, FollowsAMessageToItsCausesAndEffects) {
  const auto orders = ask("show", "--type generate_order --kind delivery --limit 1 --json").json();
  const auto id = std::string(orders.at("events").at(0).at("id").as_string());
  const auto text = ask("follow " + id);
  ASSERT_EQ(text.code, 0) << text.errors;
  for (const auto* const part : {"because of", "http.request", "submit_request", "this", "and so", "step_input"})
    EXPECT_NE(text.out.find(part), std::string::npos) << part << " is not in\n" << text.out;
  const auto tree = ask("follow " + id, "--json --limit 5").json();
  EXPECT_EQ(tree.at("effects").at(0).at("id").as_string(), id);
  EXPECT_LE(tree.at("effects").as_array().size(), 5U);
  EXPECT_EQ(tree.at("causes").at(0).at("name").as_string(), "http.request");
}

TEST_F(TraceCommand, DrawsSequences) {
  EXPECT_TRUE(ask("sequence", "--request 1 --format mermaid").out.starts_with("sequenceDiagram\n"));
  EXPECT_TRUE(ask("sequence", "--request cmpl-1 --format plantuml").out.starts_with("@startuml\n"));
  EXPECT_NE(ask("sequence", "--limit 3").out.find("left out"), std::string::npos);
  const auto s = ask("sequence", "--request last --json").json();
  EXPECT_FALSE(s.at("steps").as_array().empty());
}

TEST_F(TraceCommand, CountsTypesAndActors) {
  const auto s = ask("stats", "--json").json();
  EXPECT_FALSE(s.at("types").as_array().empty());
  for (const auto& a : s.at("actors").as_array()) EXPECT_LE(a.at("busy_share").to_number<double>(), 1);
  EXPECT_NE(ask("stats", "--limit 2").out.find("more; --limit"), std::string::npos);
}

TEST_F(TraceCommand, SaysWhereARequestsTimeWent) {
  const auto text = ask("slow", "--request 2 --steps 3");
  ASSERT_EQ(text.code, 0);
  for (const auto* const part : {"request 2 cmpl-2", "device", "shorter steps left out", "#"})
    EXPECT_NE(text.out.find(part), std::string::npos) << part << " is not in\n" << text.out;
  const auto all = ask("slow", "--count 3 --json").json().as_array();
  ASSERT_EQ(all.size(), 3U);
  for (const auto& r : all) {
    std::int64_t sum = 0;
    for (const auto& [how, ns] : r.at("spent_ns").as_object()) sum += ns.as_int64();
    EXPECT_EQ(sum, r.at("duration_ns").as_int64());
    EXPECT_TRUE(r.at("whole").as_bool());
  }
}

TEST_F(TraceCommand, OfFewStepsShowsTheLongest) {
  const auto shares = [this](const std::string& steps) {
    const auto text = ask("slow", "--request 2 --steps " + steps).out;
    std::vector<double> out;
    const std::regex row(R"(([0-9.]+)%  \|[# ]{40}\|)");
    for (std::sregex_iterator at(text.begin(), text.end(), row), end; at != end; ++at)
      out.push_back(std::stod((*at)[1]));
    std::ranges::sort(out, std::greater());
    return out;
  };
  const auto all = shares("1000");
  ASSERT_GT(all.size(), 3U);
  for (std::size_t few = 1; few < all.size(); ++few)
    EXPECT_EQ(shares(std::to_string(few)),
              std::vector<double>(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(few)));
}

TEST_F(TraceCommand, FindsTheFirstDifferenceOfTwoRuns) {
  auto other = support::served({5, 3, 6, true, true});
  for (auto& e : other.events)
    if (other.name_of(e) == "decision.dispatch" && e.request == 3) e.attributes[0].value = "9";
  write("other.gwt", other);
  const auto same = run("trace diff " + path("run.gwt") + " " + path("run.gwt"));
  EXPECT_EQ(same.code, 0);
  EXPECT_NE(same.out.find("no difference"), std::string::npos);
  const auto found = run("trace diff " + path("run.gwt") + " " + path("other.gwt"));
  EXPECT_EQ(found.code, 1);
  EXPECT_NE(found.out.find("instance: '2' and '9'"), std::string::npos) << found.out;
  EXPECT_NE(found.out.find("dispatch_query"), std::string::npos) << found.out; // its cause, for context
  EXPECT_EQ(run("trace diff --structure " + path("run.gwt") + " " + path("other.gwt")).code, 0);
  EXPECT_EQ(run("trace diff --json " + path("run.gwt") + " " + path("other.gwt")).json().at("differences"), 1);
}

TEST_F(TraceCommand, ExportsToFilesAndStandardOutput) {
  EXPECT_TRUE(ask("export", "--format perfetto").json().at("traceEvents").is_array());
  EXPECT_TRUE(ask("export", "--format otlp --request 1").json().at("resourceSpans").is_array());
  const auto file = path("out.json");
  const auto said = ask("export", "--output " + file + " --json");
  ASSERT_EQ(said.code, 0);
  EXPECT_EQ(said.json().at("bytes").to_number<std::uintmax_t>(), fs::file_size(file));
  EXPECT_EQ(ask("export", "--output " + path("no/such/directory")).code, 1);
}

/// Takes what it is sent, and answers always the same.
class collector {
public:
  explicit collector(int status, std::string answer)
      : server_({},
                [this, status, answer](const http::request& request, const std::shared_ptr<http::exchange>& exchange) {
                  targets.push_back(request.target);
                  types.emplace_back(request.fields.find("Content-Type").value_or(""));
                  bodies.push_back(request.body);
                  http::response out;
                  out.status = status;
                  out.body = answer;
                  exchange->respond(std::move(out));
                }) {
    EXPECT_FALSE(server_.listen("127.0.0.1", 0));
  }
  [[nodiscard]] std::string url() const { return "http://127.0.0.1:" + std::to_string(server_.local_port()); }

  // Of one request after the other, each of which the client waits for.
  std::vector<std::string> targets;
  std::vector<std::string> types;
  std::vector<std::string> bodies;

private:
  http::server server_;
};

TEST_F(TraceCommand, SendsToACollector) {
  collector there(200, "{}");
  const auto said = ask("export", "--collector " + there.url());
  ASSERT_EQ(said.code, 0) << said.errors;
  ASSERT_EQ(there.bodies.size(), 1U);
  EXPECT_EQ(there.targets[0], "/v1/traces");
  EXPECT_EQ(there.types[0], "application/json");
  EXPECT_TRUE(json::parse(there.bodies[0]).at("resourceSpans").is_array());
}

TEST_F(TraceCommand, SaysWhatACollectorAnsweredThatRefuses) {
  collector there(503, "not\x1b[31m now");
  const auto said = ask("export", "--collector " + there.url());
  EXPECT_EQ(said.code, 1);
  EXPECT_NE(said.errors.find("503"), std::string::npos) << said.errors;
  EXPECT_TRUE(is_harmless(said.errors));
}

// Each `godwit status` is a process that the head met.
TEST_F(TraceCommand, ProcessesThatRecordedNothingAreCountedInOneLine) {
  auto r = *trace::read_file(path("run.gwt"));
  for (int i = 0; i < 3; ++i) r.processes.emplace_back();
  write("met.gwt", r);
  const auto text = run("trace list " + path("met.gwt")).out;
  EXPECT_NE(text.find("3 more processes that recorded nothing\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("nameless"), std::string::npos) << text;
}

TEST_F(TraceCommand, MergesFilesOfOneRun) {
  const auto whole = trace::read_file(path("run.gwt"));
  ASSERT_TRUE(whole);
  for (std::uint32_t process = 0; process < 2; ++process) {
    auto part = *whole;
    std::erase_if(part.events, [&](const auto& e) { return e.id.process != process; });
    write("part" + std::to_string(process), part);
  }
  const auto merged = run("trace list --json " + path("part0") + " " + path("part1")).json();
  EXPECT_EQ(merged.at("events").at("delivery"), ask("list", "--json").json().at("events").at("delivery"));
}

TEST_F(TraceCommand, FailsWithOneLineThatSaysHowToMendIt) {
  const std::vector<std::pair<std::string, int>> lines{
      {"trace", 2},
      {"trace list", 2},
      {"trace list " + path("none.gwt"), 1},
      {"trace show " + path("run.gwt") + " --request cmpl-none", 1},
      {"trace show " + path("run.gwt") + " --from soon", 2},
      {"trace show " + path("run.gwt") + " --kind question", 2},
      {"trace follow 12345678 " + path("run.gwt"), 1},
      {"trace follow x " + path("run.gwt"), 1},
      {"trace sequence " + path("run.gwt") + " --format svg", 2},
      {"trace slow " + path("run.gwt") + " --request 99", 1},
      {"trace slow " + path("run.gwt") + " --count 0", 2},
      {"trace diff " + path("run.gwt"), 2},
      {"trace export " + path("run.gwt") + " --format csv", 2},
      {"trace export " + path("run.gwt") + " --collector nonsense", 2},
      {"trace export " + path("run.gwt") + " --collector http://127.0.0.1:1 --format perfetto", 2},
      {"trace export " + path("run.gwt") + " --collector http://127.0.0.1:1", 1},
  };
  for (const auto& [line, code] : lines) {
    const auto said = run(line);
    EXPECT_EQ(said.code, code) << line << '\n' << said.errors;
    EXPECT_TRUE(said.out.empty()) << line;
    EXPECT_FALSE(said.errors.empty()) << line;
    EXPECT_LE(std::count(said.errors.begin(), said.errors.end(), '\n'), 1) << line << '\n' << said.errors;
  }
}

TEST_F(TraceCommand, NamesAFileThatIsNotThereOnce) {
  for (const auto* const command : {"list", "export", "ui"}) {
    const auto said = run(std::string("trace ") + command + " " + path("nowhere.gwt"));
    EXPECT_EQ(said.code, 1);
    EXPECT_EQ(said.errors, "godwit: " + path("nowhere.gwt") + ": No such file or directory\n");
  }
}

TEST_F(TraceCommand, KeepsWhatIsInARecordingFromTheTerminal) {
  support::trace_builder b;
  b.process("head\x1b]0;x\x07");
  const auto a = b.actor(0, "a\x1b[31m\nfake line");
  const auto c = b.actor(0, "c\x7f");
  support::sending how;
  how.request = 1;
  how.text = "content\x1b[2J\r\nmore";
  const auto first = b.deliver({}, {}, a, "n::type\x1b[1m", 1, 1, how);
  b.deliver(first, a, c, "two\nlines", 2, 1, how);
  b.span(first, 0, a, "http.request", 1, 5,
         {{"request", "1"}, {"client_id", "cmpl\x1b[5m"}, {"k\x1b", "v\x9b"}, {"status", "\x1b[0m"}}, 1);
  auto r = b.finish();
  r.processes[0].facts.emplace_back("fact\x1b", "value\x1b");
  write("evil.gwt", r);
  for (const auto* const command : {"list", "show --content", "follow 3", "sequence", "sequence --format mermaid",
                                    "sequence --format plantuml", "stats", "slow", "export"}) {
    const auto said = run(std::string("trace ") + command + " " + path("evil.gwt"));
    EXPECT_EQ(said.code, 0) << command << said.errors;
    EXPECT_TRUE(is_harmless(said.out)) << command << '\n' << said.out;
    EXPECT_TRUE(is_harmless(said.errors)) << command << '\n' << said.errors;
  }
}

TEST_F(TraceCommand, JsonIsValidWhateverBytesAreInARecording) {
  const std::string bad = "bad \xff\xc3 end";
  const std::string mended = "bad \xEF\xBF\xBD\xEF\xBF\xBD end";
  support::trace_builder b;
  b.process(bad);
  const auto a = b.actor(0, bad + " a");
  const auto c = b.actor(0, bad + " c");
  support::sending how;
  how.request = 1;
  how.text = bad;
  const auto first = b.deliver({}, {}, a, bad + "::one", 1, 1, how);
  b.deliver(first, a, c, bad + "::two", 2, 1, how);
  b.span(first, 0, a, "http.request", 1, 5, {{"request", "1"}, {"client_id", bad}, {bad, bad}, {"status", bad}}, 1);
  auto r = b.finish();
  r.processes[0].facts.emplace_back(bad, bad);
  write("bytes.gwt", r);
  for (auto& name : r.names)
    if (name == bad + "::two") name = bad + "::other";
  write("others.gwt", r);

  const auto valid = [&](const std::string& line, int code) {
    SCOPED_TRACE(line);
    const auto said = run("trace " + line);
    EXPECT_EQ(said.code, code) << said.errors;
    EXPECT_NE(said.out.find(mended), std::string::npos) << said.out;
    boost::system::error_code wrong;
    auto parsed = json::parse(said.out, wrong); // which refuses what is no UTF-8
    EXPECT_FALSE(wrong) << wrong.message() << '\n' << said.out;
    return parsed;
  };
  const auto file = " --json " + path("bytes.gwt");
  for (const auto* const command : {"list", "sequence", "stats", "slow"}) (void)valid(command + file, 0);
  const auto shown = valid("show --kind delivery" + file, 0);
  ASSERT_TRUE(shown.is_object());
  const auto& message = shown.at("events").at(0);
  EXPECT_EQ(message.at("content").as_string(), mended);
  EXPECT_EQ(message.at("process").as_string(), mended);
  (void)valid("follow " + std::string(message.at("id").as_string()) + file, 0);
  (void)valid("diff " + path("others.gwt") + file, 1);
}

} // namespace
} // namespace godwit::main
