#include "processes/support/child_process.hpp"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace godwit::test {

namespace {

std::string read_all(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// In the child, between fork and exec: only what a signal handler may do.
[[noreturn]] void become(const char* program, char* const* arguments, char* const* environment, const char* out,
                         const char* err, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);
  const int in = ::open("/dev/null", O_RDONLY);
  const int to = ::open(out, O_WRONLY | O_CREAT | O_APPEND, 0600);
  const int errors = ::open(err, O_WRONLY | O_CREAT | O_APPEND, 0600);
  if (in < 0 || to < 0 || errors < 0) ::_exit(127);
  ::dup2(in, 0);
  ::dup2(to, 1);
  ::dup2(errors, 2);
  for (int descriptor = 3; descriptor < 1024; ++descriptor) ::close(descriptor);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execve(program, arguments, environment);
  ::_exit(127);
}

} // namespace

void pause_briefly() { std::this_thread::sleep_for(std::chrono::milliseconds(5)); }

child_process::child_process(std::string program, std::vector<std::string> arguments) {
  auto pattern = (std::filesystem::temp_directory_path() / "godwit-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary directory: " + pattern);
  directory_ = pattern;
  std::vector<char*> argv{program.data()};
  for (auto& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  std::vector<char*> environment; // settings of the person who runs the tests are none of the test's
  for (char** entry = environ; *entry != nullptr; ++entry)
    if (!std::string_view(*entry).starts_with("GODWIT_")) environment.push_back(*entry);
  std::string device =
      "GODWIT_INSTANCES_DEVICE=cpu"; // texts are compared to the last token, on machines with a GPU too
  environment.push_back(device.data());
  environment.push_back(nullptr);
  const auto out = directory_ + "/out";
  const auto err = directory_ + "/err";
  const auto parent = ::getpid();
  pid_ = ::fork();
  if (pid_ < 0) throw std::runtime_error("fork failed");
  if (pid_ == 0) become(program.c_str(), argv.data(), environment.data(), out.c_str(), err.c_str(), parent);
}

child_process::~child_process() {
  if (running()) {
    signal(SIGKILL); // ends a stopped one too
    (void)wait_exit(std::chrono::seconds(10));
  }
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

void child_process::signal(int number) const {
  if (!code_) ::kill(pid_, number);
}

bool child_process::running() {
  if (code_) return false;
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) != pid_) return true;
  code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return false;
}

bool child_process::stopped() const {
  const auto line = read_all("/proc/" + std::to_string(pid_) + "/stat");
  const auto name_end = line.rfind(") ");
  return name_end != std::string::npos && line.compare(name_end + 2, 1, "T") == 0;
}

std::optional<int> child_process::wait_exit(milliseconds timeout) {
  (void)wait_until(timeout, [this] { return !running(); });
  return code_;
}

std::optional<std::string> child_process::wait_line(const std::string& prefix, milliseconds timeout) {
  std::optional<std::string> found;
  const auto look = [&] {
    const bool last_look = !running();
    std::istringstream lines(out());
    for (std::string line; std::getline(lines, line) && !lines.eof();)
      if (line.starts_with(prefix)) {
        found = line.substr(prefix.size());
        return true;
      }
    return last_look;
  };
  (void)wait_until(timeout, look);
  return found;
}

bool child_process::wait_log(const std::string& text, milliseconds timeout, std::size_t times) {
  const auto count = [&] {
    const auto log = err();
    std::size_t n = 0;
    for (auto at = log.find(text); at != std::string::npos; at = log.find(text, at + text.size())) ++n;
    return n;
  };
  (void)wait_until(timeout, [&] { return count() >= times || !running(); });
  return count() >= times;
}

std::string child_process::out() const { return read_all(directory_ + "/out"); }
std::string child_process::err() const { return read_all(directory_ + "/err"); }

} // namespace godwit::test
