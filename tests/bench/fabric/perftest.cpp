#include "fabric/perftest.hpp"

#include "support/child.hpp"

#include <chrono>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <vector>

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace godwit::bench {

namespace {

std::string free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t size = sizeof address;
  const bool found = ::bind(fd, reinterpret_cast<const sockaddr*>(&address), size) == 0 &&
                     ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  ::close(fd);
  if (!found) throw std::runtime_error("no port");
  return std::to_string(ntohs(address.sin_port));
}

/// The sixth number of the line of figures: overall bandwidth in MiB/s. 0: there is none.
double overall_bandwidth(const std::string& output) {
  std::istringstream lines(output);
  std::string line;
  while (std::getline(lines, line)) {
    std::istringstream fields(line);
    std::string field;
    std::vector<double> values;
    try {
      while (std::getline(fields, field, ',')) values.push_back(std::stod(field));
    } catch (const std::exception&) {
      continue; // the head line
    }
    if (values.size() == 8) return values[5];
  }
  return 0;
}

} // namespace

double perftest::bandwidth(std::size_t bytes, std::size_t count, std::size_t warm_up) const {
  const std::vector<std::pair<std::string, std::string>> environment{{"UCX_TLS", transports_},
                                                                     {"UCX_WARN_UNUSED_ENV_VARS", "n"}};
  for (int attempt = 0; attempt < 20; ++attempt) {
    const auto port = free_port();
    const child server({"ucx_perftest", "-p", port}, environment);
    std::this_thread::sleep_for(std::chrono::milliseconds(100 + 50 * attempt));
    child client({"ucx_perftest", "127.0.0.1", "-p", port, "-t", "ucp_am_bw", "-s", std::to_string(bytes), "-n",
                  std::to_string(count), "-w", std::to_string(warm_up), "-f", "-v"},
                 environment);
    if (const auto mib = overall_bandwidth(client.rest()); mib > 0) return mib * 1048576 / 1e9;
  }
  throw std::runtime_error("ucx_perftest gives no figures; is the package ucx-utils installed?");
}

} // namespace godwit::bench
