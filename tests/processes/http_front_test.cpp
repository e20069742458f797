// The HTTP front of a real server: keys and certificates from files that change, metrics, clients that mean harm.
#include "processes/support/answers.hpp"
#include "processes/support/godwit_processes.hpp"
#include "support/certificates.hpp"
#include "transport/http/raw_socket.hpp"

#include <godwit/transport/http/client.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <regex>
#include <set>
#include <sstream>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

namespace godwit::test {

namespace http = transport::http;
using namespace std::chrono_literals;
using ::testing::HasSubstr;

namespace {

class HttpFront : public ::testing::Test {
protected:
  void SetUp() override {
    if (!has_default_model()) GTEST_SKIP() << "built without the embedded model";
    folder = std::filesystem::path(::testing::TempDir()) / ("godwit_front_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder);
  }
  void TearDown() override { std::filesystem::remove_all(folder); }
  void write(const std::string& name, const std::string& text) const { std::ofstream(folder / name) << text; }
  [[nodiscard]] static std::vector<std::string> small(std::vector<std::string> more = {}) {
    std::vector<std::string> out{"--instances", "1", "--threads", "1", "--no-trace-flight"};
    out.insert(out.end(), more.begin(), more.end());
    return out;
  }
  static http::client_answer ask(const std::string& url, http::headers fields = {}, std::string body = {}) {
    http::client client;
    auto got = client.fetch({body.empty() ? "GET" : "POST", url, std::move(fields), std::move(body)});
    if (auto* answer = std::get_if<http::client_answer>(&got)) return std::move(*answer);
    return {};
  }
  std::filesystem::path folder;
};

template <class Condition> bool eventually(Condition condition, std::chrono::milliseconds within = 30s) {
  const auto limit = std::chrono::steady_clock::now() + within;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > limit) return false;
    std::this_thread::sleep_for(20ms);
  }
  return true;
}

/// The value of a series on a page of metrics; -1: it is not there.
double value_of(const std::string& page, const std::string& series) {
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(series + " ")) return std::stod(line.substr(series.size() + 1));
  return -1;
}

/// Names of the metrics on a page, with those of a histogram's parts.
std::set<std::string> names_on(const std::string& page) {
  std::set<std::string> out;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# TYPE ")) { // also of those that have no series yet
      std::istringstream words(line.substr(7));
      std::string name, type;
      words >> name >> type;
      out.insert(name);
      if (type == "histogram")
        for (const auto* part : {"_bucket", "_sum", "_count"}) out.insert(name + part);
    }
  }
  return out;
}

/// A file below docs.
std::string documentation(const std::string& path) {
  std::ifstream in(std::string(GODWIT_SOURCE_DIR) + "/docs/" + path);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::set<std::string> found_in(const std::string& text, const std::regex& what) {
  std::set<std::string> out;
  for (std::sregex_iterator at(text.begin(), text.end(), what), end; at != end; ++at) out.insert(at->str());
  return out;
}

/// A connection that sends what it is told.
class raw {
public:
  explicit raw(const std::string& url, int receive_buffer = 0) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    if (receive_buffer > 0) ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<std::uint16_t>(std::stoi(url.substr(url.rfind(':') + 1))));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
  }
  ~raw() { ::close(fd_); }
  raw(const raw&) = delete;
  raw& operator=(const raw&) = delete;
  [[nodiscard]] bool connected() const { return connected_; }
  void send(std::string_view bytes) const { (void)!::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }

private:
  int fd_;
  bool connected_ = false;
};

std::size_t resident_bytes(const child_process& process) {
  std::ifstream in("/proc/" + std::to_string(process.pid()) + "/statm");
  std::size_t size = 0, resident = 0;
  in >> size >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

constexpr auto completion = R"({"prompt":"What is","max_tokens":4,"ignore_eos":true})";

} // namespace

TEST_F(HttpFront, KeysAreReadFromAFileAndAgainWhenItChanges) {
  write("keys", "# a test\nsk-first\n");
  served head(small({"--api-key-file", folder / "keys"}));
  ASSERT_TRUE(head.wait_ready()) << head.process.err();
  const auto models = head.url() + "/v1/models";
  EXPECT_EQ(ask(models).status, 401);
  EXPECT_EQ(ask(models, {{"Authorization", "Bearer sk-first"}}).status, 200);
  EXPECT_EQ(ask(head.url() + "/health").status, 200);
  EXPECT_EQ(ask(head.url() + "/metrics").status, 200);
  write("keys", "sk-second\n");
  EXPECT_TRUE(eventually([&] { return ask(models, {{"Authorization", "Bearer sk-second"}}).status == 200; }));
  EXPECT_EQ(ask(models, {{"Authorization", "Bearer sk-first"}}).status, 401);
  write("keys", "\n"); // as when somebody is writing it: what was there stays
  std::this_thread::sleep_for(2500ms);
  EXPECT_EQ(ask(models, {{"Authorization", "Bearer sk-second"}}).status, 200);
  EXPECT_TRUE(head.process.wait_log("there is no key in it", 30s));
  EXPECT_THAT(head.process.err(), ::testing::Not(HasSubstr("sk-")));
}

TEST_F(HttpFront, TheBenchmarkSendsTheKeyOfItsEnvironment) {
  write("keys", "sk-first\n");
  served head(small({"--api-key-file", folder / "keys"}));
  ASSERT_TRUE(head.wait_ready()) << head.process.err();
  const auto bench = [&](const char* key) { // the process takes after this one
    ::setenv("OPENAI_API_KEY", key, 1);
    return std::make_unique<child_process>(godwit_program(),
                                           std::vector<std::string>{"bench", "--url", head.url(), "--requests", "3",
                                                                    "--lengths", "fixed:8:4", "--no-progress"});
  };
  const auto served_well = bench("sk-first"), refused = bench("sk-second"), without = bench("");
  ::unsetenv("OPENAI_API_KEY");
  EXPECT_EQ(served_well->wait_exit(30s), 0) << served_well->err();
  EXPECT_THAT(served_well->out(), HasSubstr("3 of 3 requests answered"));
  EXPECT_EQ(refused->wait_exit(30s), 1);
  EXPECT_EQ(refused->err(), "godwit: " + head.url() +
                                " does not take this key (HTTP 401); put one that it knows into "
                                "OPENAI_API_KEY\n");
  EXPECT_EQ(without->wait_exit(30s), 1);
  EXPECT_THAT(without->err(), HasSubstr(" wants a key (HTTP 401)"));
}

TEST_F(HttpFront, LoadBalancersHearOfTheEndBeforeItComes) {
  served head(small({"--drain-delay", "60s"}));
  ASSERT_TRUE(head.wait_ready()) << head.process.err();
  EXPECT_EQ(ask(head.url() + "/health").status, 200);
  head.process.signal(SIGTERM);
  EXPECT_TRUE(eventually([&] { return ask(head.url() + "/health").status == 503; }));
  EXPECT_EQ(ask(head.url() + "/v1/completions", {{"Content-Type", "application/json"}}, completion).status, 200);
  head.process.signal(SIGTERM);
  EXPECT_EQ(head.process.wait_exit(20s), 0) << head.process.err();
}

TEST_F(HttpFront, ARequestAndARefusalHaveTheirIds) {
  served head(small());
  ASSERT_TRUE(head.wait_ready()) << head.process.err();
  const auto url = head.url() + "/v1/completions";
  EXPECT_THAT(ask(url, {{"X-Request-Id", "from-a-proxy.7"}}, completion).body, HasSubstr("\"cmpl-from-a-proxy.7\""));
  const auto odd = ask(url, {{"X-Request-Id", "two words"}}, completion);
  EXPECT_EQ(odd.status, 200) << "a proxy's field is nobody's error";
  EXPECT_THAT(odd.body, ::testing::Not(HasSubstr("two words")));
  const auto refused = ask(url, {}, "{}");
  EXPECT_EQ(refused.status, 400);
  EXPECT_TRUE(refused.fields.contains("X-Request-Id"));
}

TEST_F(HttpFront, FilesThatCannotBeUsedEndTheStartWithOneLine) {
  for (const auto& [arguments, said] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--api-key-file", folder / "none"}, "cannot read the API keys"},
           {{"--tls-cert", folder / "none", "--tls-key", folder / "none"}, "cannot use the certificate"},
           {{"--tls-cert", folder / "none"}, "http.tls_cert and http.tls_key are given together"}}) {
    served head(small(arguments));
    EXPECT_FALSE(head.wait_ready(30s));
    EXPECT_NE(head.process.wait_exit(30s).value_or(0), 0);
    EXPECT_THAT(head.process.err(), HasSubstr(said));
  }
}

TEST_F(HttpFront, ABenchmarkReachesItInTlsWhereItTrustsIt) {
  const self_signed own("server", "IP:127.0.0.1");
  served head(small({"--tls-cert", own.certificate(), "--tls-key", own.key()}));
  ASSERT_TRUE(head.wait_ready()) << head.process.err();
  ASSERT_THAT(head.url(), ::testing::StartsWith("https://"));
  const auto bench = [&](const std::vector<std::string>& trusting) {
    std::vector<std::string> arguments{"bench", "--url", head.url(), "--requests", "2", "--lengths", "fixed:16:4"};
    arguments.insert(arguments.end(), trusting.begin(), trusting.end());
    child_process command(godwit_program(), arguments);
    const auto code = command.wait_exit(60s);
    return std::pair{code.value_or(-1), command.out() + command.err()};
  };
  EXPECT_EQ(bench({"--tls-ca", own.certificate()}).first, 0);
  EXPECT_EQ(bench({"--insecure"}).first, 0);
  const auto refused = bench({});
  EXPECT_EQ(refused.first, 1);
  EXPECT_THAT(refused.second, HasSubstr("certificate verify failed"));
  EXPECT_EQ(bench({"--tls-ca", folder / "none"}).first, 2);
  EXPECT_EQ(bench({"--tls-ca", own.certificate(), "--insecure"}).first, 2);
}

TEST_F(HttpFront, AFileOfASettingThatCannotBeUsedEndsTheStartWithTwo) {
  const auto none = (folder / "none").string(), directory = folder.string(), adapter = (folder / "sql").string();
  child_process make(godwit_program(), {"model", "adapter", "--out", adapter, "--rank", "1"});
  ASSERT_EQ(make.wait_exit(20s), 0) << make.err();
  const std::vector<std::pair<std::vector<std::string>, std::string>> wrong{
      {{"--api-key-file", none}, none},
      {{"--api-key-file", directory}, directory},
      {{"--chat-template", none}, "cannot read the chat template '" + none + "': No such file"},
      {{"--chat-template", directory}, "cannot read the chat template '" + directory + "': it is a folder"},
      {{"--tls-cert", none, "--tls-key", none}, none},
      {{"--log-file", (folder / "no" / "log").string()}, "there is no folder " + (folder / "no").string()},
      {{"--model-context-max", "100000"}, "--model-context-max 100000: the model was made for 2048 tokens"},
      {{"--lora-dir", none}, "lora.directory: '" + none + "' is no directory"},
      {{"--lora-dir", adapter}, "is an adapter itself; name the directory that it lies in"},
      {{"--lora-dir", directory, "--device", "cuda"}, "adapters are computed on the CPU only"},
      {{"--kv-bytes", "64KiB"}, "raise --kv-bytes"},
      {{"--kv-bytes", "1KiB"}, "raise --kv-bytes"},
      {{none}, none}};
  for (const auto& [arguments, says] : wrong) {
    auto all = std::vector<std::string>{"serve", "--listen", "127.0.0.1:0", "--log-level", "error"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    child_process command(godwit_program(), all);
    EXPECT_EQ(command.wait_exit(60s), 2) << says;
    EXPECT_THAT(command.err(), HasSubstr(says));
    EXPECT_THAT(command.err(), ::testing::StartsWith("godwit: "));
  }
}

TEST_F(HttpFront, AConfigurationThatCannotBePrintedIsAFailure) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  child_process command("/bin/bash", {"-c", "exec '" + godwit_program() + "' serve --print-config > /dev/full"});
  EXPECT_EQ(command.wait_exit(60s), 1);
  EXPECT_THAT(command.err(), HasSubstr("cannot write all of the output"));
}

// Where there are fewer descriptors than connections may be, clients that only wait keep nobody else out.
TEST_F(HttpFront, AFewDescriptorsAreEnoughForOperatorsToo) {
  for (const std::string files : {"200", "64"}) {
    child_process head("/bin/bash", {"-c", "ulimit -n " + files + "; exec \"$0\" \"$@\"", godwit_program(), "serve",
                                     "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0", "--threads", "1",
                                     "--cluster-connection-timeout", "10s"});
    const auto url = head.wait_line("listening on ", 60s), control = head.wait_line("control on ", 60s);
    ASSERT_TRUE(url && control && head.wait_line("ready: ", 60s)) << head.err();
    EXPECT_TRUE(head.wait_log("this process may have " + files + " files open", 1s)) << head.err();
    const auto port = static_cast<std::uint16_t>(std::stoi(url->substr(url->rfind(':') + 1)));
    std::vector<std::unique_ptr<transport::http::test::raw_socket>> crowd;
    for (int i = 0; i < 300; ++i) crowd.push_back(std::make_unique<transport::http::test::raw_socket>(port));
    child_process status(godwit_program(), {"status", "--json", "--control", *control});
    EXPECT_EQ(status.wait_exit(60s), 0) << status.err();
    EXPECT_TRUE(eventually([&] { return ask(*url + "/health").status == 200; })) << "the first ones make way";
    crowd.clear();
    head.signal(SIGTERM);
    EXPECT_EQ(head.wait_exit(20s), 0) << "a connection is counted that is gone: " << head.err();
  }
}

TEST_F(HttpFront, EveryNameOfTheDashboardOfTheGuideAndOfVllmIsExported) {
  served head(small());
  ASSERT_TRUE(head.wait_ready()) << head.process.err();
  ASSERT_EQ(ask(head.url() + "/v1/completions", {{"Content-Type", "application/json"}}, completion).status, 200);
  std::string page;
  ASSERT_TRUE(eventually([&] { // the last report comes a moment later
    page = ask(head.url() + "/metrics").body;
    const auto running = page.find("vllm:num_requests_running{");
    return value_of(page, "godwit_instance_steps_total{engine=\"0\"}") > 0 && running != std::string::npos &&
           page.compare(page.find("} ", running), 4, "} 0\n") == 0;
  }));
  const auto names = names_on(page);
  for (const auto* name : {"vllm:num_requests_running",
                           "vllm:num_requests_waiting",
                           "vllm:kv_cache_usage_perc",
                           "vllm:num_preemptions_total",
                           "vllm:prefix_cache_queries_total",
                           "vllm:prefix_cache_hits_total",
                           "vllm:cache_config_info",
                           "vllm:prompt_tokens_total",
                           "vllm:generation_tokens_total",
                           "vllm:request_success_total",
                           "vllm:time_to_first_token_seconds",
                           "vllm:inter_token_latency_seconds",
                           "vllm:time_per_output_token_seconds",
                           "vllm:e2e_request_latency_seconds",
                           "vllm:request_queue_time_seconds",
                           "vllm:request_prompt_tokens",
                           "vllm:request_generation_tokens",
                           "vllm:request_params_max_tokens",
                           "vllm:request_prefill_time_seconds",
                           "vllm:request_decode_time_seconds",
                           "vllm:request_inference_time_seconds",
                           "godwit_build_info",
                           "process_start_time_seconds",
                           "process_cpu_seconds_total",
                           "process_resident_memory_bytes",
                           "process_open_fds",
                           "process_max_fds"})
    EXPECT_TRUE(names.contains(name)) << name;

  const auto dashboard = boost::json::parse(documentation("grafana/godwit.json")).as_object();
  std::set<std::string> used;
  std::function<void(const boost::json::value&)> walk = [&](const boost::json::value& v) {
    if (const auto* array = v.if_array())
      for (const auto& one : *array) walk(one);
    const auto* object = v.if_object();
    if (object == nullptr) return;
    for (const auto& [key, inner] : *object) {
      if ((key == "expr" || key == "query") && inner.is_string())
        used.merge(found_in(std::string(inner.as_string()), std::regex("(vllm:|godwit_)[a-z0-9_]+")));
      walk(inner);
    }
  };
  walk(dashboard);
  EXPECT_GE(used.size(), 20U);
  for (const auto& name : used) EXPECT_TRUE(names.contains(name)) << name << " is on the dashboard only";

  auto documented = found_in(documentation("serving.md"), std::regex("\\bgodwit_[a-z0-9_]+"));
  documented.erase("godwit_");     // as in godwit_*
  documented.erase("godwit_cuda"); // a target of the build
  EXPECT_GE(documented.size(), 15U);
  for (const auto& name : documented) EXPECT_TRUE(names.contains(name)) << name << " is in docs/serving.md only";

  const auto model = page.substr(page.find("vllm:generation_tokens_total{model_name=\"") + 41);
  const auto name = model.substr(0, model.find('"'));
  const auto with = [&](const std::string& metric_name) {
    return metric_name + "{model_name=\"" + name + "\",engine=\"0\"}";
  };
  EXPECT_EQ(value_of(page, with("vllm:generation_tokens_total")), 4);
  EXPECT_GT(value_of(page, with("vllm:prompt_tokens_total")), 0);
  EXPECT_EQ(value_of(page, with("vllm:time_to_first_token_seconds_count")), 1);
  EXPECT_EQ(value_of(page, with("vllm:request_generation_tokens_sum")), 4);
  EXPECT_EQ(
      value_of(page, "vllm:request_success_total{model_name=\"" + name + "\",engine=\"0\",finished_reason=\"length\"}"),
      1);
  EXPECT_EQ(value_of(page, with("vllm:num_requests_running")), 0);
}

TEST_F(HttpFront, HostileClientsHurtNobodyAndLeaveNothing) {
  served head(small({"--http-header-timeout", "1s", "--http-queued-bytes-max", "64KiB"}));
  ASSERT_TRUE(head.wait_ready()) << head.process.err();
  const auto good = [&] {
    return ask(head.url() + "/v1/completions", {{"Content-Type", "application/json"}}, completion).status == 200;
  };
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(good());
  const auto before = resident_bytes(head.process);
  {
    std::vector<std::unique_ptr<raw>> crowd;
    std::mt19937 random(11); // NOLINT: the same every time
    const std::string stream = R"({"prompt":"What is","max_tokens":200,"ignore_eos":true,"stream":true})";
    for (int i = 0; i < 600; ++i) {
      crowd.push_back(std::make_unique<raw>(head.url(), i % 6 == 3 ? 2048 : 0));
      auto& c = *crowd.back();
      switch (i % 6) {
      case 0: // says nothing
        break;
      case 1: // dribbles
        c.send("POST /v1/completions HTTP/1.1\r\nHost: t\r\nX: ");
        break;
      case 2: { // noise
        std::string noise;
        for (int n = 0; n < 500; ++n) noise.push_back(static_cast<char>(random()));
        c.send(noise);
        break;
      }
      case 3: // reads nothing of its stream
        if (i < 120)
          c.send("POST /v1/completions HTTP/1.1\r\nHost: t\r\nContent-Length: " + std::to_string(stream.size()) +
                 "\r\n\r\n" + stream);
        break;
      case 4: // half a body
        c.send("POST /v1/completions HTTP/1.1\r\nHost: t\r\nContent-Length: 100000\r\n\r\n{\"prompt\":\"");
        break;
      case 5: // leaves at once
        c.send("POST /v1/completions HTTP/1.1\r\nHost: t\r\nContent-Length: " + std::to_string(stream.size()) +
               "\r\n\r\n" + stream);
        crowd.back().reset();
        crowd.pop_back();
        break;
      }
      if (i % 100 == 50) {
        EXPECT_TRUE(good());
      }
    }
    EXPECT_TRUE(good());
  }
  EXPECT_TRUE(good());
  std::string page;
  EXPECT_TRUE(eventually(
      [&] {
        page = ask(head.url() + "/metrics").body;
        return value_of(page, "godwit_requests_open") == 0 && value_of(page, "godwit_http_connections") == 1 &&
               value_of(page, "godwit_instance_kv_blocks_used{engine=\"0\"}") == 0;
      },
      30s))
      << page;
  EXPECT_EQ(value_of(page, "godwit_http_requests_open"), 1); // the page itself
  EXPECT_LT(resident_bytes(head.process), before + 64 * 1024 * 1024);
  EXPECT_TRUE(good());
  EXPECT_TRUE(head.process.running());
}

TEST_F(HttpFront, TenThousandIdleConnectionsTakeLessThan200MegabytesAndTheServerAnswers) {
  constexpr std::size_t n = 10'000;
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_max < n + 300) GTEST_SKIP() << "processes may not have " << n + 300 << " descriptors here";
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  served head(small({"--http-connections-per-address-max", "0", "--http-header-timeout", "60s"}));
  ASSERT_TRUE(head.wait_ready()) << head.process.err();
  const auto health = head.url() + "/health";
  ASSERT_EQ(ask(health).status, 200);
  const auto before = resident_bytes(head.process);
  std::vector<std::unique_ptr<raw>> idle;
  for (std::size_t i = 0; i < n; ++i) {
    idle.push_back(std::make_unique<raw>(head.url()));
    ASSERT_TRUE(idle.back()->connected());
  }
  EXPECT_TRUE(eventually([&] {
    return value_of(ask(head.url() + "/metrics").body, "godwit_http_connections") >= static_cast<double>(n);
  }));
  const auto grown = resident_bytes(head.process) - before;
  std::printf("%zu idle connections: %.1f MB\n", n, static_cast<double>(grown) / 1e6);
  EXPECT_LT(grown, 200'000'000U);
  EXPECT_EQ(ask(health).status, 200);
  idle.clear();
  EXPECT_TRUE(
      eventually([&] { return value_of(ask(head.url() + "/metrics").body, "godwit_http_connections") == 1; }, 30s));
}

} // namespace godwit::test
