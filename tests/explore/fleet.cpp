#include "explore/fleet.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <list>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace godwit::explore {

namespace {

using steady = std::chrono::steady_clock;

/// Of one process: a new one costs a millisecond or two.
constexpr std::size_t batch_size = 25;

std::string line_of(outcome out) {
  for (auto* text : {&out.broken, &out.details})
    for (auto& c : *text)
      if (c == '\t' || c == '\n') c = ' ';
  std::ostringstream line;
  line << out.broken << '\t' << out.details << '\t' << out.hash << ' ' << out.events << ' ' << out.answered << ' '
       << out.failed << ' ' << out.gone << ' ' << out.migrations << ' ' << out.redispatches << ' ' << out.moves << ' '
       << out.took.count();
  for (const auto count : out.seen.counts()) line << ' ' << count;
  line << '\n';
  return line.str();
}

outcome outcome_of(const std::string& line) {
  outcome out;
  std::istringstream text(line);
  std::getline(text, out.broken, '\t');
  std::getline(text, out.details, '\t');
  std::int64_t took = 0;
  text >> out.hash >> out.events >> out.answered >> out.failed >> out.gone >> out.migrations >> out.redispatches >>
      out.moves >> took;
  out.took = std::chrono::nanoseconds(took);
  for (auto& count : out.seen.counts()) text >> count;
  return out;
}

void write_all(int to, const std::string& text) {
  for (std::size_t sent = 0; sent < text.size();) {
    const auto n = write(to, text.data() + sent, text.size() - sent);
    if (n <= 0) _exit(3);
    sent += static_cast<std::size_t>(n);
  }
}

struct worker {
  std::vector<std::pair<scenario, bool>> batch;
  std::size_t reported = 0;
  pid_t process = -1;
  int from = -1;
  std::string text; ///< the beginning of a line
  steady::time_point since;

  void start() {
    int ends[2];
    if (pipe(ends) != 0) throw std::runtime_error("no pipe for a worker");
    std::fflush(nullptr);
    process = fork();
    if (process < 0) throw std::runtime_error("no process for a worker");
    if (process == 0) {
      close(ends[0]);
      for (auto i = reported; i < batch.size(); ++i)
        write_all(ends[1], line_of(run_here(batch[i].first, batch[i].second)));
      std::fflush(nullptr);
      _exit(0);
    }
    close(ends[1]);
    from = ends[0];
    text.clear();
    since = steady::now();
  }
  /// Its status.
  int end(bool by_force) {
    if (by_force) kill(process, SIGKILL);
    int status = 0;
    waitpid(process, &status, 0);
    close(from);
    process = -1;
    from = -1;
    return status;
  }
};

} // namespace

void run_fleet(const fleet_options& options, const std::function<std::optional<scenario>()>& next,
               const std::function<bool(const scenario&, const outcome&)>& done) {
  std::list<worker> workers;
  bool more = true, go_on = true;
  std::uint64_t taken = 0;
  const auto fill = [&] {
    while (more && go_on && workers.size() < options.processes) {
      worker fresh;
      while (fresh.batch.size() < batch_size) {
        auto one = next();
        if (!one) {
          more = false;
          break;
        }
        const bool twice = options.twice_every > 0 && taken++ % options.twice_every == 0;
        fresh.batch.emplace_back(std::move(*one), twice);
      }
      if (fresh.batch.empty()) return;
      workers.push_back(std::move(fresh));
      workers.back().start();
    }
  };
  const auto report = [&](worker& who, const outcome& what) {
    who.since = steady::now();
    go_on = done(who.batch[who.reported].first, what) && go_on;
    ++who.reported;
  };
  // What ended without a word is told as the outcome of the scenario that ran.
  const auto bury = [&](worker& who, bool hung) {
    const auto status = who.end(hung);
    if (who.reported >= who.batch.size()) return true;
    outcome out;
    out.broken = hung ? ends_promise : "the process lives";
    out.details = hung ? "no end after " + std::to_string(options.wall_limit.count()) + " s of real time"
                       : (WIFSIGNALED(status) ? std::string("signal ") + strsignal(WTERMSIG(status))
                                              : "exit " + std::to_string(WEXITSTATUS(status)));
    report(who, out);
    if (who.reported >= who.batch.size() || !go_on) return true;
    who.start();
    return false;
  };

  for (fill(); !workers.empty() && go_on; fill()) {
    if (options.stop && options.stop()) break;
    std::vector<pollfd> waits;
    for (const auto& one : workers) waits.push_back({one.from, POLLIN, 0});
    poll(waits.data(), waits.size(), 500);
    auto wait = waits.begin();
    for (auto who = workers.begin(); who != workers.end() && go_on; ++wait) {
      bool gone = false;
      if ((wait->revents & (POLLIN | POLLHUP)) != 0) {
        char buffer[4096];
        const auto n = read(who->from, buffer, sizeof buffer);
        if (n <= 0)
          gone = bury(*who, false);
        else
          who->text.append(buffer, static_cast<std::size_t>(n));
        for (auto end = who->text.find('\n'); end != std::string::npos && go_on; end = who->text.find('\n')) {
          report(*who, outcome_of(who->text.substr(0, end)));
          who->text.erase(0, end + 1);
        }
      } else if (steady::now() - who->since > options.wall_limit) {
        gone = bury(*who, true);
      }
      who = gone ? workers.erase(who) : std::next(who);
    }
  }
  for (auto& who : workers)
    if (who.process > 0) who.end(true);
}

outcome run_here(const scenario& s, bool twice, const run_options& options) {
  outcome out;
  try {
    out = run(s, options);
    if (twice && out.broken.empty())
      if (const auto again = run(s); again.hash != out.hash) {
        out.broken = same_promise;
        out.details =
            "two runs differ: " + std::to_string(out.events) + " and " + std::to_string(again.events) + " events";
      }
  } catch (const std::exception& failure) {
    out.broken = "no exception escapes";
    out.details = failure.what();
  }
  return out;
}

outcome run_apart(const scenario& s, std::chrono::seconds wall_limit, bool twice) {
  outcome out;
  bool given = false;
  fleet_options alone;
  alone.wall_limit = wall_limit;
  alone.twice_every = twice ? 1 : 0;
  run_fleet(
      alone,
      [&]() -> std::optional<scenario> {
        if (std::exchange(given, true)) return std::nullopt;
        return s;
      },
      [&](const scenario&, const outcome& what) {
        out = what;
        return true;
      });
  return out;
}

} // namespace godwit::explore
