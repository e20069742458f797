#include "transport/fabric/peer_process.hpp"

#include "transport/fabric/rig.hpp"
#include "ucx/core.hpp"

#include <godwit/transport/ucx/fabric.hpp>

#include <csignal>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace godwit::transport::testing {

namespace {

constexpr auto argument = "--as-fabric-peer=";

char to_digit(const setup& what) {
  return static_cast<char>('0' + static_cast<int>(what.how) + (what.device ? ways : 0));
}
setup from_digit(char digit) { return {static_cast<way>((digit - '0') % ways), digit - '0' >= ways}; }

/// What the second process does until its input ends.
int serve(setup what) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::map<std::uint64_t, std::shared_ptr<block_memory>> memory;
  std::mutex mutex;
  const auto say = [&mutex](const std::string& line) {
    const std::lock_guard lock{mutex};
    std::cout << line << std::endl;
  };
  const side here(what);
  auto options = here.settings();
  options.peer_timeout = std::chrono::milliseconds(1000);
  const auto mine = here.make(options);
  say(mine->address());
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::string verb, address;
    std::uint64_t id = 0;
    std::size_t count = 0, bytes = 0;
    words >> verb;
    if (verb == "post") {
      words >> id >> count >> bytes;
      const auto blocks = memory[id] = std::make_shared<block_memory>(here.blocks(count, bytes));
      // Made here: what the callback does, the fabric's only thread does, and until it has done it answers nobody.
      auto wanted = std::make_shared<block_memory>(count, bytes); // of the host
      wanted->scribble(id);
      mine->post({id, 1}, blocks->regions(), {}, [say, count, blocks, wanted](const landing& l) mutable {
        if (l.error.empty() && l.regions != count) return;
        say(!l.error.empty() ? "dead " + l.error : same(*wanted, *blocks) ? "landed right" : "landed wrong");
        wanted.reset();
      });
      wanted.reset();
      say("posted");
    } else if (verb == "send") {
      words >> address >> id >> count >> bytes;
      const auto blocks = memory[id] = std::make_shared<block_memory>(here.blocks(count, bytes));
      blocks->scribble(id);
      say("sending");
      mine->send(address, {id, 1}, 0, blocks->regions(), transfer_priority::bulk, 5s, blocks,
                 [say](const std::string& error) { say("sent " + error); });
    } else if (verb == "withdraw") {
      words >> id;
      mine->withdraw({id, 1}, [say] { say("withdrawn"); });
    }
  }
  return 0;
}

/// Turns this process into a peer before main where it was asked for.
const bool was_peer = [] {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string word;
  while (std::getline(file, word, '\0'))
    if (word.starts_with(argument)) ::_exit(serve(from_digit(word.back())));
  return false;
}();

} // namespace

const char* name(way how) {
  return how == way::cross_memory ? "cross_memory"
         : how == way::streams    ? "streams"
         : how == way::messages   ? "messages"
         : how == way::mapped     ? "mapped"
                                  : "remote_reads";
}

ucx::settings settings_for(way how) {
  ucx::settings out;
  out.cross_memory = how == way::cross_memory || how == way::mapped;
  out.streams = how == way::streams;
  if (how == way::remote_reads) out.reads = ucx::remote_reading::always;
  return out;
}

std::string name(const setup& what) { return std::string(name(what.how)) + (what.device ? "_device" : ""); }

side::side(setup what) : settings_(settings_for(what.how)) {
  if (what.how == way::mapped || what.how == way::remote_reads) {
    pages_ = std::make_shared<shared_pages>();
    settings_.shared_memory = [pages = pages_](const std::byte* address) { return pages->find(address); };
  }
  if (!what.device) return;
  device_ = std::make_shared<fake_device>(what.how == way::remote_reads);
  copier_ = std::make_shared<godwit::testing::fake_copier>(device_, 1, std::chrono::microseconds(50));
  settings_.device.copier = copier_;
}

std::shared_ptr<fabric> side::make(const ucx::settings& options) const {
  const auto broken = std::make_shared<ucx::faults>();
  broken->reads_by_messages = broken->devices_are_hosts = options.reads == ucx::remote_reading::always;
  return std::make_shared<ucx::core>(options, broken);
}

peer_process::peer_process(setup what) {
  (void)was_peer;
  ::signal(SIGPIPE, SIG_IGN);
  int in[2], out[2];
  if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0) return;
  const auto word = argument + std::string(1, to_digit(what));
  pid_ = ::fork();
  if (pid_ == 0) {
    ::dup2(in[0], 0);
    ::dup2(out[1], 1);
    ::execl("/proc/self/exe", "transport_test", word.c_str(), static_cast<char*>(nullptr));
    ::_exit(127);
  }
  ::close(in[0]);
  ::close(out[1]);
  to_ = in[1];
  from_ = out[0];
  address_ = hear();
}

peer_process::~peer_process() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  ::close(to_);
  ::close(from_);
}

void peer_process::tell(const std::string& line) const {
  const auto text = line + "\n";
  if (::write(to_, text.data(), text.size()) < 0) return; // it is dead, and will not answer
}

std::string peer_process::hear(int timeout_ms) {
  for (;;) {
    if (const auto end = heard_.find('\n'); end != std::string::npos) {
      auto line = heard_.substr(0, end);
      heard_.erase(0, end + 1);
      return line;
    }
    pollfd readable{from_, POLLIN, 0};
    if (::poll(&readable, 1, timeout_ms) != 1) return {};
    char buffer[512];
    const auto got = ::read(from_, buffer, sizeof buffer);
    if (got <= 0) return {};
    heard_.append(buffer, static_cast<std::size_t>(got));
  }
}

void peer_process::signal(int number) const {
  ::kill(pid_, number);
  siginfo_t stopped{};
  if (number == SIGSTOP) ::waitid(P_PID, static_cast<id_t>(pid_), &stopped, WSTOPPED); // some threads may still run
}

} // namespace godwit::transport::testing
