// The front end without a model: how fast its streams are beside a bare Beast server that sends the same bytes, what it
// adds to a token's way at a thousand streams, and what connections that lie idle take.

#include "http/bare_server.hpp"
#include "http/front.hpp"
#include "http/readers.hpp"
#include "support/bench.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <sys/resource.h>
#include <unistd.h>

namespace {

using namespace godwit::bench;
using std::chrono::microseconds;

constexpr unsigned http_threads = 2;

std::vector<std::string> requests(std::size_t streams, std::size_t tokens) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < streams; ++i) out.push_back(front::request_of(i, tokens));
  return out;
}

/// One answer, taken apart into its head and the chunks' contents.
struct recorded {
  std::string head;
  std::vector<std::string> events;
};
recorded record(std::uint16_t port, std::size_t tokens) {
  const auto got = read_streams(port, requests(1, tokens), {false, true});
  if (!got.whole) throw std::runtime_error("the front end did not answer");
  recorded out;
  std::string_view text = got.streams[0].text;
  const auto end = text.find("\r\n\r\n") + 4;
  out.head = text.substr(0, end);
  std::string body;
  for (text.remove_prefix(end); !text.empty();) { // chunks
    const auto line = text.find("\r\n");
    const auto size = std::stoul(std::string(text.substr(0, line)), nullptr, 16);
    if (size == 0) break;
    body += text.substr(line + 2, size);
    text.remove_prefix(line + 2 + size + 2);
  }
  // One event a chunk: several may have left together.
  for (std::size_t at = 0; at < body.size();) {
    const auto next = body.find("\n\n", at) + 2;
    out.events.push_back(body.substr(at, next - at));
    at = next;
  }
  return out;
}

double tokens_per_second(std::uint16_t port, const std::vector<std::string>& what, std::size_t tokens) {
  const auto got = read_streams(port, what);
  if (!got.whole) throw std::runtime_error("not every stream came to its end");
  for (const auto& s : got.streams)
    if (s.events < tokens) throw std::runtime_error("a stream has fewer events than tokens");
  return static_cast<double>(what.size() * tokens) / got.seconds;
}

void measure_throughput(session& session) {
  constexpr std::size_t streams = 256, tokens = 256;
  front ours({http_threads, 1, 256, microseconds(0)});
  const auto same = record(ours.port(), tokens);
  const bare_server bare(http_threads, same.head, same.events);
  const auto what = requests(streams, tokens);
  session.add(compare("http/sse",
                      interleave(
                          session.repetitions(), [&] { return tokens_per_second(ours.port(), what, tokens); },
                          [&] { return tokens_per_second(bare.port(), what, tokens); }),
                      "tokens/s", figure::direction::at_least, 0.5));
}

double quantile(std::vector<double>& values, double q) {
  if (values.empty()) throw std::runtime_error("nothing was measured");
  const auto at = static_cast<std::size_t>(q * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(at), values.end());
  return values[at];
}

constexpr std::size_t paced_streams = 1000, paced_tokens = 60;
constexpr std::uint32_t paced_instances = 40;
constexpr microseconds pace(100'000);

/// From the device's having a token to its client's having it: milliseconds, 99 %.
double front_latency(front& ours) {
  ours.expect(paced_streams, paced_tokens);
  const auto got = read_streams(ours.port(), requests(paced_streams, paced_tokens), {true, false});
  if (!got.whole) throw std::runtime_error("not every stream came to its end");
  std::vector<double> late;
  for (std::size_t i = 0; i < paced_streams; ++i)
    for (std::size_t k = 10; k < paced_tokens - 1; ++k) // all are under way, and none has ended
      late.push_back(
          std::chrono::duration<double, std::milli>(got.streams[i].arrivals[k] - ours.made_at(i, k)).count());
  return quantile(late, 0.99);
}

/// The same for a server that has nothing behind it: streams in groups as large as an instance's, whose turns are
/// spread over the pace; a group's event is there when the first timer of the group has fired.
class bare_groups {
public:
  [[nodiscard]] bare_server::pace pace_of() {
    return {[this](const std::string& body, std::size_t k) {
              return began_ + pace * static_cast<int>(k) + pace * static_cast<int>(group_of(body)) / paced_instances;
            },
            [this](const std::string& body, std::size_t k) {
              std::int64_t none = 0;
              made_[group_of(body) * paced_tokens + k].compare_exchange_strong(
                  none, bench_clock::now().time_since_epoch().count());
            }};
  }
  double latency(const bare_server& bare) {
    for (auto& at : made_) at = 0;
    began_ = bench_clock::now() + std::chrono::milliseconds(200);
    const auto got = read_streams(bare.port(), requests(paced_streams, paced_tokens), {true, false});
    if (!got.whole) throw std::runtime_error("not every stream came to its end");
    std::vector<double> late;
    for (std::size_t i = 0; i < paced_streams; ++i)
      for (std::size_t k = 10; k < paced_tokens - 1; ++k) {
        const bench_clock::time_point made(bench_clock::duration(made_[i % paced_instances * paced_tokens + k].load()));
        late.push_back(std::chrono::duration<double, std::milli>(got.streams[i].arrivals[k] - made).count());
      }
    return quantile(late, 0.99);
  }

private:
  static std::size_t group_of(const std::string& body) { // as front::request_of numbers streams
    const auto digits = body.find('[') + 1;
    return (std::stoul(body.substr(digits)) * 100 + std::stoul(body.substr(body.find(',', digits) + 1))) %
           paced_instances;
  }
  bench_clock::time_point began_;
  std::vector<std::atomic<std::int64_t>> made_ = std::vector<std::atomic<std::int64_t>>(paced_instances * paced_tokens);
};

void measure_latency(session& session) {
  front ours({http_threads, paced_instances, 64, pace});
  const auto same = record(ours.port(), paced_tokens);
  bare_groups groups;
  const bare_server bare(http_threads, same.head, same.events, groups.pace_of());
  const auto both = interleave(
      std::min(session.repetitions(), 3), [&] { return front_latency(ours); }, [&] { return groups.latency(bare); });
  figure f;
  f.name = "http/added_latency_p99";
  f.value = both.ours;
  f.unit = "ms, 1000 streams";
  f.reference = both.reference;
  f.ratio = both.ratio;
  f.goal = figure::goal_type{figure::direction::at_most, 0.5, both.ours - both.reference};
  session.add(f);
}

double resident_mb() {
  std::ifstream in("/proc/self/statm");
  double size = 0, resident = 0;
  in >> size >> resident;
  return resident * static_cast<double>(::sysconf(_SC_PAGESIZE)) / 1e6;
}

void measure_idle(session& session) {
  constexpr std::size_t wanted = 10'000;
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  // Both ends are this process's.
  const auto count =
      std::min<std::size_t>(wanted, limit.rlim_cur == RLIM_INFINITY ? wanted : (limit.rlim_cur - 200) / 2);
  front ours({http_threads, 1, 256, microseconds(0)});
  (void)read_streams(ours.port(), requests(1, 4));
  const auto before = resident_mb();
  const idle_connections idle(ours.port(), count);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  (void)read_streams(ours.port(), requests(1, 4));
  const auto mb = (resident_mb() - before) * static_cast<double>(wanted) / static_cast<double>(count);
  figure f;
  f.name = "http/idle_connections";
  f.value = mb;
  f.unit = "MB for 10000";
  f.goal = figure::goal_type{figure::direction::at_most, 200, mb};
  session.add(f);
}

} // namespace

int main(int argc, char** argv) {
  session session{argc, argv, 7};
  try {
    if (session.wants("http/sse")) measure_throughput(session);
    if (session.wants("http/added_latency_p99")) measure_latency(session);
    if (session.wants("http/idle_connections")) measure_idle(session);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "bench_http: %s\n", failure.what());
    return 1;
  }
  return session.result();
}
