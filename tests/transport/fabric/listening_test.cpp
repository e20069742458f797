// A fabric bound to loopback is reached from this machine only.
#include "transport/fabric/rig.hpp"

#include <godwit/transport/ucx/fabric.hpp>

#include <gtest/gtest.h>
#include <ucs/config/global_opts.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>

#include <sys/resource.h>
#include <unistd.h>

namespace godwit::transport::test {

namespace {

/// Empty: it listens.
std::string refusal(const char* address) {
  ucx::settings settings;
  settings.listen = address;
  try {
    (void)ucx::make_fabric(settings);
  } catch (const std::runtime_error& refused) {
    return refused.what();
  }
  return {};
}

/// The inodes of this process's sockets.
std::set<std::string> own_sockets() {
  std::set<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const auto target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (!gone && target.starts_with("socket:[")) out.insert(target.substr(8, target.size() - 9));
  }
  return out;
}

/// The local addresses, as the kernel writes them (ADDRESS:PORT in hexadecimal), at which this process waits for
/// connections.
std::set<std::string> listening_ends(const char* table) {
  std::set<std::string> out;
  const auto mine = own_sockets();
  std::ifstream file(table);
  std::string line;
  std::getline(file, line); // the heading
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string number, local, remote, state, queues, timer, retransmits, uid, timeout, inode;
    words >> number >> local >> remote >> state >> queues >> timer >> retransmits >> uid >> timeout >> inode;
    if (state == "0A" && mine.contains(inode)) out.insert(local);
  }
  return out;
}

/// Without the ports.
std::set<std::string> listening_at(const char* table) {
  std::set<std::string> out;
  for (const auto& end : listening_ends(table)) out.insert(end.substr(0, end.find(':')));
  return out;
}

std::set<int> listening_ports() {
  std::set<int> out;
  for (const auto& end : listening_ends("/proc/self/net/tcp"))
    out.insert(std::stoi(end.substr(end.find(':') + 1), nullptr, 16));
  return out;
}

/// Below those that the kernel gives away, another one for each process.
std::uint16_t some_port(int which) { return static_cast<std::uint16_t>(12'000 + (::getpid() * 2 + which) % 1000 * 10); }

} // namespace

TEST(UcxFabric, ListensOnItsOwnInterfaceOnly) {
  for (const char* transports : {"tcp", "tcp,self", "posix,sysv,cma,tcp"}) {
    ucx::settings settings;
    settings.listen = "127.0.0.1";
    settings.transports = transports;
    const auto fabric = ucx::make_fabric(settings);
    const auto addresses = listening_at("/proc/self/net/tcp");
    EXPECT_FALSE(addresses.empty());
    for (const auto& address : addresses) EXPECT_EQ(address, "0100007F") << "not 127.0.0.1, with " << transports;
    EXPECT_TRUE(listening_at("/proc/self/net/tcp6").empty());
  }
}

TEST(UcxFabric, KnowsWhereOnlyTcpLeavesTheHost) {
  for (const char* so : {"tcp", "tcp,self", "sm,tcp", "posix,sysv,cma,tcp"})
    EXPECT_TRUE(ucx::leaves_host_by_tcp_only(so)) << so;
  for (const char* not_so : {"", "self", "posix,sysv", "tcp,rc", "all", "rc", "^tcp", "tcp,ib"})
    EXPECT_FALSE(ucx::leaves_host_by_tcp_only(not_so)) << not_so;
}

TEST(UcxFabric, WithAFixedPortItListensThereAndAtThoseBehindItOnly) {
  const auto port = some_port(0);
  ucx::settings settings;
  settings.port = port;
  const auto fabric = ucx::make_fabric(settings);
  EXPECT_NE(fabric->address().find("127.0.0.1:" + std::to_string(port) + "/"), std::string::npos) << fabric->address();
  const auto ports = listening_ports();
  EXPECT_TRUE(ports.contains(port));
  EXPECT_TRUE(ports.contains(port + 1)) << "the streams";
  for (const auto one : ports) {
    EXPECT_GE(one, port);
    EXPECT_LT(one, port + ucx::ports_of_fabric);
  }
  EXPECT_THROW((void)ucx::make_fabric(settings), std::runtime_error) << "it is taken";
}

TEST(UcxFabric, WithFixedPortsBlocksTravelAsEver) {
  ucx::settings here, there;
  here.port = some_port(0);
  there.port = some_port(1);
  here.cross_memory = there.cross_memory = false;
  const auto from = ucx::make_fabric(here);
  const auto to = ucx::make_fabric(there);
  testing::block_memory source(3, 100'000), target(3, 100'000);
  source.scribble(5);
  testing::post(*to, {1, 1}, target.regions());
  EXPECT_EQ(testing::send(*from, to->address(), {1, 1}, 0, source.regions())->next(), "");
  EXPECT_TRUE(same(source, target));
}

TEST(UcxFabric, TellsTheAddressThatItIsToAdvertise) {
  ucx::settings settings;
  settings.advertise = "192.0.2.7";
  const auto fabric = ucx::make_fabric(settings);
  EXPECT_TRUE(fabric->address().starts_with("godwit-fabric/1/ucx/192.0.2.7:")) << fabric->address();
  EXPECT_EQ(listening_at("/proc/self/net/tcp"), std::set<std::string>{"0100007F"}) << "and listens at its own";
}

// UCX 1.13 would abort the process at its first connection.
TEST(UcxFabric, RefusesIpv6WhereTheInterfaceHasIpv4Too) {
  for (const char* transports : {"tcp", "tcp,self"}) {
    ucx::settings settings;
    settings.listen = "::1";
    settings.transports = transports;
    try {
      const auto fabric = ucx::make_fabric(settings);
      GTEST_SKIP() << "the loopback interface has no IPv4 here";
    } catch (const std::runtime_error& refused) {
      EXPECT_NE(std::string(refused.what()).find("IPv6"), std::string::npos) << refused.what();
    }
  }
}

// It would listen at the interface's first address, or at all of the machine's.
TEST(UcxFabric, RefusesAnAddressAtWhichUcxWouldNotListen) {
  EXPECT_NE(refusal("127.0.0.5").find("listen at 127.0.0.1"), std::string::npos) << refusal("127.0.0.5");
  EXPECT_NE(refusal("192.0.2.1").find("no interface of this machine has the address 192.0.2.1"), std::string::npos);
  EXPECT_EQ(refusal("0.0.0.0"), "");
}

// Whoever starts it is told that to start it again does not help.
TEST(UcxFabric, TellsWrongSettingsFromWhatMayPass) {
  const auto wrong = [](auto change) {
    ucx::settings settings;
    change(settings);
    try {
      (void)ucx::make_fabric(settings);
    } catch (const ucx::wrong_settings&) {
      return true;
    } catch (const std::runtime_error&) {
    }
    return false;
  };
  EXPECT_TRUE(wrong([](ucx::settings& s) { s.listen = "192.0.2.1"; }));
  EXPECT_TRUE(wrong([](ucx::settings& s) { s.listen = "nowhere"; }));
  EXPECT_TRUE(wrong([](ucx::settings& s) { s.transports = "pigeons"; }));
  auto taken = ucx::make_fabric({});
  const auto address = taken->address();
  const auto port = static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
  EXPECT_FALSE(wrong([&](ucx::settings& s) { s.port = port; }));
}

// An address is not missing because nobody could ask for it.
TEST(UcxFabric, WhereTheAddressesOfInterfacesCannotBeAskedForItSaysSo) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "UBSan looks at memory by way of a pipe, and takes what it has no descriptors for to be wrong";
#endif
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int lowest = ::dup(0);
  ASSERT_GE(lowest, 0);
  ::close(lowest);
  bool said = false;
  for (rlim_t left = 0; left < 64 && !said; ++left) { // which descriptor it is that is not there
    const rlimit little{static_cast<rlim_t>(lowest) + left, before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &little), 0);
    const auto why = refusal("127.0.0.1");
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
    said = why.find("addresses of this machine's interfaces: ") != std::string::npos;
    EXPECT_EQ(why.find("no interface of this machine"), std::string::npos) << why;
  }
  EXPECT_TRUE(said);
}

// UCX has one for the whole process, which may use it for something else as well.
TEST(UcxFabric, LeavesUcxsLogLevelWhereItIsAskedTo) {
  const auto level = [] { return ucs_global_opts.log_component.log_level; };
  ASSERT_EQ(ucs_global_opts_set_value("LOG_LEVEL", "error"), UCS_OK);
  ucx::settings settings;
  settings.log_level = "";
  (void)ucx::make_fabric(settings);
  EXPECT_EQ(level(), UCS_LOG_LEVEL_ERROR);
  (void)ucx::make_fabric({});
  EXPECT_EQ(level(), UCS_LOG_LEVEL_FATAL);
}

} // namespace godwit::transport::test
