#include "support/child.hpp"

#include <csignal>
#include <cstdlib>
#include <stdexcept>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace godwit::bench {

child::child(const std::vector<std::string>& command,
             const std::vector<std::pair<std::string, std::string>>& environment) {
  int in[2], out[2];
  if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  std::vector<char*> words;
  for (const auto& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::dup2(in[0], 0);
    ::dup2(out[1], 1);
    for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
    ::execvp(words[0], words.data());
    ::_exit(127);
  }
  ::close(in[0]);
  ::close(out[1]);
  to_ = in[1];
  from_ = out[0];
}

child::~child() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  ::close(to_);
  ::close(from_);
}

void child::tell(const std::string& line) const {
  const auto text = line + "\n";
  if (::write(to_, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    throw std::runtime_error("the other process does not listen");
}

bool child::more() {
  pollfd readable{from_, POLLIN, 0};
  char buffer[4096];
  if (::poll(&readable, 1, 30'000) != 1) throw std::runtime_error("the other process says nothing");
  const auto got = ::read(from_, buffer, sizeof buffer);
  if (got > 0) heard_.append(buffer, static_cast<std::size_t>(got));
  return got > 0;
}

std::string child::hear() {
  for (;;) {
    if (const auto end = heard_.find('\n'); end != std::string::npos) {
      auto line = heard_.substr(0, end);
      heard_.erase(0, end + 1);
      return line;
    }
    if (!more()) throw std::runtime_error("the other process has ended");
  }
}

std::string child::rest() {
  while (more()) {
  }
  return std::move(heard_);
}

} // namespace godwit::bench
