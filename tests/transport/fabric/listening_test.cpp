// A fabric bound to loopback is reached from this machine only.
#include <godwit/transport/ucx/fabric.hpp>

#include <gtest/gtest.h>
#include <ucs/config/global_opts.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

namespace godwit::transport::test {

namespace {

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

/// The local addresses, as the kernel writes them, at which this process waits for connections.
std::set<std::string> listening_at(const char* table) {
  std::set<std::string> out;
  const auto mine = own_sockets();
  std::ifstream file(table);
  std::string line;
  std::getline(file, line); // the heading
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string number, local, remote, state, queues, timer, retransmits, uid, timeout, inode;
    words >> number >> local >> remote >> state >> queues >> timer >> retransmits >> uid >> timeout >> inode;
    if (state == "0A" && mine.contains(inode)) out.insert(local.substr(0, local.find(':')));
  }
  return out;
}

} // namespace

TEST(UcxFabric, ListensOnItsOwnInterfaceOnly) {
  ucx::settings settings;
  settings.listen = "127.0.0.1";
  const auto fabric = ucx::make_fabric(settings);
  const auto addresses = listening_at("/proc/self/net/tcp");
  EXPECT_FALSE(addresses.empty());
  for (const auto& address : addresses) EXPECT_EQ(address, "0100007F") << "not 127.0.0.1";
  EXPECT_TRUE(listening_at("/proc/self/net/tcp6").empty());
}

// UCX 1.13 would abort the process at its first connection.
TEST(UcxFabric, RefusesIpv6WhereTheInterfaceHasIpv4Too) {
  ucx::settings settings;
  settings.listen = "::1";
  try {
    const auto fabric = ucx::make_fabric(settings);
    GTEST_SKIP() << "the loopback interface has no IPv4 here";
  } catch (const std::runtime_error& refused) {
    EXPECT_NE(std::string(refused.what()).find("IPv6"), std::string::npos) << refused.what();
  }
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
