// What the fabric over UCX reaches between two processes of one host, beside UCX's own ucx_perftest: in turns, over the
// same transports, with messages of the same total size. docs/design/fabric.md says what is compared.

#include "fabric/peer.hpp"
#include "fabric/perftest.hpp"
#include "support/bench.hpp"

#include <godwit/transport/ucx/fabric.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace godwit;
using namespace std::chrono_literals;
using std::chrono::steady_clock;

constexpr std::size_t mib = std::size_t{1} << 20;
constexpr std::size_t block = std::size_t{64} << 10;
constexpr std::size_t bytes_per_sample = 512 * mib;
constexpr std::uint32_t in_flight = 32; // as ucx_perftest has them
// Of both: the caches need several rounds over the same memory to settle.
constexpr std::size_t bytes_to_warm_up = 256 * mib;

double seconds_since(steady_clock::time_point start) {
  return std::chrono::duration<double>(steady_clock::now() - start).count();
}

/// Counts answers, and keeps the first error.
class tally {
public:
  void put(const std::string& error) {
    const std::lock_guard lock{mutex_};
    ++count_;
    if (error_.empty()) error_ = error;
    changed_.notify_all();
  }
  void wait_for(std::uint32_t count) {
    std::unique_lock lock{mutex_};
    if (!changed_.wait_for(lock, 30s, [&] { return count_ >= count || !error_.empty(); }))
      throw std::runtime_error("no answer in 30 s");
    if (!error_.empty()) throw std::runtime_error(error_);
  }

private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint32_t count_ = 0;
  std::string error_;
};

class pair_of_processes {
public:
  explicit pair_of_processes(bool shared_memory)
      : mine_(bench::make_bench_fabric(shared_memory)), peer_(shared_memory), memory_(shared_memory, shared_memory) {}

  /// GB/s of sends of `total` bytes each, many at a time, after some that are not counted.
  double throughput(std::size_t total, std::size_t bytes_per_region) {
    const auto regions = memory_.scattered(total, bytes_per_region);
    (void)seconds_for(bytes_to_warm_up / total, total, bytes_per_region, regions);
    const auto spent = seconds_for(bytes_per_sample / total, total, bytes_per_region, regions);
    return static_cast<double>(bytes_per_sample) / spent / 1e9;
  }

  /// The 99th percentile of urgent sends of 64 bytes, from `send` to `done`, in microseconds.
  double urgent_p99(bool busy) {
    constexpr std::uint32_t samples = 500;
    const auto bulk = start_bulk(busy);
    const auto first = next_key_;
    next_key_ += samples;
    peer_.post(first, samples, 64, 64);
    const auto regions = memory_.scattered(64, 64);
    std::vector<double> times;
    for (std::uint32_t i = 0; i < samples; ++i) {
      const auto told = std::make_shared<tally>();
      const auto start = steady_clock::now();
      send(first + i, regions, transport::transfer_priority::urgent, told);
      told->wait_for(1);
      times.push_back(seconds_since(start) * 1e6);
      std::this_thread::sleep_for(500us);
    }
    peer_.withdraw(first, samples);
    stop_bulk(bulk);
    std::sort(times.begin(), times.end());
    return times[samples * 99 / 100];
  }

private:
  double seconds_for(std::size_t sends, std::size_t total, std::size_t bytes_per_region,
                     const std::vector<protocols::memory_region>& regions) {
    const auto count = static_cast<std::uint32_t>(sends);
    const auto first = next_key_;
    next_key_ += count;
    peer_.post(first, count, total, bytes_per_region);
    const auto told = std::make_shared<tally>();
    const auto start = steady_clock::now();
    for (std::uint32_t i = 0; i < count; ++i) {
      if (i >= in_flight) told->wait_for(i - in_flight + 1);
      send(first + i, regions, transport::transfer_priority::bulk, told);
    }
    told->wait_for(count);
    const auto spent = seconds_since(start);
    peer_.withdraw(first, count);
    return spent;
  }

  void send(std::uint64_t key, const std::vector<protocols::memory_region>& regions,
            transport::transfer_priority priority, const std::shared_ptr<tally>& told) {
    mine_->send(peer_.address(), {key, 1}, 0, regions, priority, 30s, {},
                [told](const std::string& error) { told->put(error); });
  }

  struct bulk_run {
    std::atomic<bool> stop{false};
    std::thread thread;
    std::uint64_t first = 0;
    static constexpr std::uint32_t posted = 4000;
  };
  std::shared_ptr<bulk_run> start_bulk(bool wanted) {
    if (!wanted) return {};
    auto run = std::make_shared<bulk_run>();
    run->first = next_key_;
    next_key_ += bulk_run::posted;
    peer_.post(run->first, bulk_run::posted, 16 * mib, block);
    run->thread = std::thread([this, run] {
      const auto regions = memory_.scattered(16 * mib, block);
      const auto told = std::make_shared<tally>();
      for (std::uint32_t i = 0; i < bulk_run::posted && !run->stop; ++i) {
        if (i >= 2) told->wait_for(i - 1);
        send(run->first + i, regions, transport::transfer_priority::bulk, told);
      }
    });
    std::this_thread::sleep_for(50ms);
    return run;
  }
  void stop_bulk(const std::shared_ptr<bulk_run>& run) {
    if (!run) return;
    run->stop = true;
    run->thread.join();
    peer_.withdraw(run->first, bulk_run::posted);
  }

  std::shared_ptr<transport::fabric> mine_;
  bench::fabric_peer peer_;
  bench::bench_memory memory_;
  std::uint64_t next_key_ = 1;
};

void measure(bench::session& session, bool shared_memory) {
  const std::string over = shared_memory ? "shm" : "tcp";
  std::unique_ptr<pair_of_processes> ours; // started when the first figure is wanted
  const auto need = [&] {
    if (!ours) ours = std::make_unique<pair_of_processes>(shared_memory);
  };
  using way = bench::figure::direction;
  for (const std::size_t total : {1 * mib, 16 * mib, 64 * mib})
    for (const bool blocks : {false, true}) {
      const auto name =
          "fabric/" + std::string(blocks ? "blocks64k/" : "bulk/") + std::to_string(total / mib) + "MiB/" + over;
      if (!session.wants(name)) continue;
      need();
      bench::perftest reference(shared_memory ? "posix,sysv,cma" : "tcp");
      const auto result = bench::interleave(
          session.repetitions(), [&] { return ours->throughput(total, blocks ? block : total); },
          [&] { return reference.bandwidth(total, bytes_per_sample / total, bytes_to_warm_up / total); });
      session.add(bench::compare(name, result, "GB/s", way::at_least, blocks ? 0.80 : 0.90));
    }
  if (const auto name = "fabric/urgent_p99/" + over; session.wants(name)) {
    need();
    const auto result = bench::interleave(
        session.repetitions(), [&] { return ours->urgent_p99(true); }, [&] { return ours->urgent_p99(false); });
    session.add(bench::compare(name, result, "us", way::at_most, 2.0));
  }
}

} // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--peer") return bench::serve_as_peer(std::string(argv[2]) == "shm");
  bench::session session(argc, argv, 5);
  try {
    measure(session, true);
    measure(session, false);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "bench_fabric: %s\n", failure.what());
    return 1;
  }
  return session.result();
}
