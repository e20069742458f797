#include "processes/support/godwit_processes.hpp"

#include <godwit/transport/http/client.hpp>

#include <boost/json.hpp>

#include <algorithm>
#include <future>
#include <utility>

namespace godwit::test {

namespace {

using std::chrono::seconds;

using words = std::vector<std::string>;

/// Unless the test says otherwise.
void add_default(words& to, const words& arguments, const std::string& flag, const std::string& value) {
  if (std::find(arguments.begin(), arguments.end(), flag) != arguments.end()) return;
  to.push_back(flag);
  to.push_back(value);
}

words complete(words command, const words& arguments) {
  // four times the real default, since a test may share its machine; short, since most wait until somebody is missed
  add_default(command, arguments, "--cluster-connection-timeout", "2s");
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

words serve_arguments(const words& arguments) {
  words out{"serve"};
  add_default(out, arguments, "--listen", "127.0.0.1:0");
  add_default(out, arguments, "--control", "127.0.0.1:0");
  return complete(std::move(out), arguments);
}

std::uint64_t number(const boost::json::object& from, const char* key) {
  return from.at(key).to_number<std::uint64_t>();
}

} // namespace

std::string godwit_program() { return GODWIT_PROGRAM; }

bool has_default_model() {
  static const bool there = [] {
    child_process show(godwit_program(), {"model", "show", "default"});
    return show.wait_exit(seconds(20)) == 0;
  }();
  return there;
}

words patient(words arguments) {
  add_default(arguments, arguments, "--cluster-connection-timeout", "10s");
  return arguments;
}

bool says_it_ended(const std::string& printed) {
  // As a line for people, and with --json.
  const auto ways = {"no running request is called",
                     "request_unknown",
                     "its answer was complete first",
                     "request_finished",
                     "home_refused",
                     "its client went away",
                     "request_cancelled"};
  return std::any_of(ways.begin(), ways.end(), [&](const char* one) { return printed.find(one) != std::string::npos; });
}

bool says_it_goes_on(const std::string& printed) {
  const auto ways = {"not_converging", "did not answer in time", "timed_out", "could not be brought",
                     "transfer_failed"};
  return std::any_of(ways.begin(), ways.end(), [&](const char* one) { return printed.find(one) != std::string::npos; });
}

std::size_t status_page::ready() const {
  return static_cast<std::size_t>(
      std::count_if(instances.begin(), instances.end(), [](const auto& i) { return i.state == "ready"; }));
}

std::uint64_t status_page::blocks_used() const {
  std::uint64_t sum = 0;
  for (const auto& i : instances) sum += i.kv_blocks_used;
  return sum;
}

served::served(std::vector<std::string> arguments) : process(godwit_program(), serve_arguments(arguments)) {}

bool served::wait_ready(std::chrono::milliseconds timeout) {
  const auto url = process.wait_line("listening on ", timeout);
  const auto control = process.wait_line("control on ", timeout);
  if (!url || !control || !process.wait_line("ready", timeout)) return false;
  url_ = *url;
  control_ = *control;
  return true;
}

std::optional<status_page> served::status() const {
  child_process show(godwit_program(), {"status", "--control", control_, "--json"});
  if (show.wait_exit(seconds(15)) != 0) return std::nullopt;
  status_page page;
  page.json = show.out();
  const auto all = boost::json::parse(page.json).as_object();
  page.requests_open = number(all, "requests_open");
  page.requests_failed = number(all, "requests_failed");
  page.redispatches = number(all, "redispatches");
  for (const auto& value : all.at("instances").as_array()) {
    const auto& i = value.as_object();
    if (i.at("state").as_string() == "stopped") continue;
    page.instances.push_back({static_cast<std::uint32_t>(number(i, "id")), std::string(i.at("state").as_string()),
                              std::string(i.at("node").as_string()), static_cast<std::uint32_t>(number(i, "restarts")),
                              number(i, "running"), number(i, "kv_blocks_used"), number(i, "generated_tokens")});
  }
  return page;
}

bool served::wait_instances(std::size_t count, std::chrono::milliseconds timeout) {
  return wait_until(timeout, [&] {
    const auto page = status();
    return page && page->instances.size() == count && page->ready() == count;
  });
}

joined::joined(const std::string& control, std::vector<std::string> arguments)
    : process(godwit_program(), complete({"node", "--join", control}, arguments)) {}

bool joined::wait_ready(std::chrono::milliseconds timeout) { return process.wait_line("ready", timeout).has_value(); }

fronted::fronted(const std::string& control, std::vector<std::string> arguments)
    : process(godwit_program(), complete({"frontend", "--join", control, "--listen", "127.0.0.1:0"}, arguments)) {}

bool fronted::wait_ready(std::chrono::milliseconds timeout) {
  const auto url = process.wait_line("listening on ", timeout);
  if (!url || !process.wait_line("joined ", timeout)) return false;
  url_ = *url;
  return wait_until(timeout, [this] { return health() == 200; });
}

int fronted::health() const {
  std::promise<int> done;
  int status = 0;
  transport::http::client client;
  transport::http::client_request request;
  request.url = url_ + "/health";
  transport::http::client_callbacks on;
  on.on_head = [&](int told, const transport::http::headers&) { status = told; };
  on.on_done = [&](const std::optional<transport::http::client_error>& error) { done.set_value(error ? 0 : status); };
  (void)client.send(std::move(request), std::move(on));
  return done.get_future().get();
}

} // namespace godwit::test
