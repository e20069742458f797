#include "cpu/control_group.hpp"
#include "gpu/model/model_files.hpp"

#include <godwit/gpu/cpu/cpu_device.hpp>

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <sched.h>

namespace godwit::gpu::cpu {
namespace {

namespace fs = std::filesystem;

class ControlGroup : public ::testing::Test {
protected:
  void write(const fs::path& file, const std::string& text) const {
    fs::create_directories((root() / file).parent_path());
    std::ofstream(root() / file) << text << '\n';
  }
  [[nodiscard]] const fs::path& root() const { return directory_.path(); }

private:
  model::tests::scratch_directory directory_{"control-group"};
};

TEST_F(ControlGroup, SaysNothingWhereThereIsNone) {
  EXPECT_FALSE(group_available_bytes(root()));
  EXPECT_FALSE(group_processors(root()));
  write("proc/self/cgroup", "0::/");
  EXPECT_FALSE(group_available_bytes(root()));
  write("sys/fs/cgroup/memory.max", "max");
  write("sys/fs/cgroup/memory.current", "4096");
  write("sys/fs/cgroup/cpu.max", "max 100000");
  EXPECT_FALSE(group_available_bytes(root()));
  EXPECT_FALSE(group_processors(root()));
}

TEST_F(ControlGroup, TheProcesssOwnGroupAndThoseAboveItCount) {
  write("proc/self/cgroup", "0::/system.slice/godwit.service");
  write("sys/fs/cgroup/system.slice/godwit.service/memory.max", "8000");
  write("sys/fs/cgroup/system.slice/godwit.service/memory.current", "5000");
  write("sys/fs/cgroup/system.slice/godwit.service/memory.stat", "anon 3000\nactive_file 500\ninactive_file 700");
  EXPECT_EQ(group_available_bytes(root()), 8000U - 5000U + 1200U);
  write("sys/fs/cgroup/system.slice/memory.max", "20000");
  write("sys/fs/cgroup/system.slice/memory.current", "19000");
  EXPECT_EQ(group_available_bytes(root()), 1000U);
  write("sys/fs/cgroup/system.slice/memory.current", "21000"); // more than it may: nothing is left
  EXPECT_EQ(group_available_bytes(root()), 0U);

  write("sys/fs/cgroup/system.slice/godwit.service/cpu.max", "max 100000");
  write("sys/fs/cgroup/system.slice/cpu.max", "250000 100000");
  EXPECT_EQ(group_processors(root()), 3U);
}

// Seen from inside, the container's group is the root, whatever its path is outside.
TEST_F(ControlGroup, InAContainerTheRootIsItsGroup) {
  for (const auto* path : {"0::/", "0::/docker/0123", "0::/../other"}) {
    write("proc/self/cgroup", path);
    write("sys/fs/cgroup/memory.max", "8000");
    write("sys/fs/cgroup/memory.current", "5000");
    write("sys/fs/cgroup/cpu.max", "50000 100000");
    EXPECT_EQ(group_available_bytes(root()), 3000U) << path;
    EXPECT_EQ(group_processors(root()), 1U) << path;
  }
}

TEST_F(ControlGroup, VersionOneHasATreeForEachKind) {
  write("proc/self/cgroup", "5:cpu,cpuacct:/pod/one\n4:memory:/pod/one\n0::/");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712"); // none
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "777");
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1");
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000");
  EXPECT_FALSE(group_available_bytes(root()));
  EXPECT_FALSE(group_processors(root()));
  write("sys/fs/cgroup/memory/pod/one/memory.limit_in_bytes", "8000");
  write("sys/fs/cgroup/memory/pod/one/memory.usage_in_bytes", "5000");
  write("sys/fs/cgroup/memory/pod/one/memory.stat", "inactive_file 1\ntotal_inactive_file 100\ntotal_active_file 11");
  EXPECT_EQ(group_available_bytes(root()), 3111U);
  write("sys/fs/cgroup/cpu,cpuacct/pod/one/cpu.cfs_quota_us", "200000");
  write("sys/fs/cgroup/cpu,cpuacct/pod/one/cpu.cfs_period_us", "100000");
  EXPECT_EQ(group_processors(root()), 2U);
}

// As in a container that has some processors of a large machine: more threads than these wait for each other.
TEST(AllowedProcessors, AreThoseThatAThreadMayRunOn) {
  std::thread([] {
    cpu_set_t before;
    ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
    EXPECT_EQ(allowed_processors(), static_cast<std::uint32_t>(CPU_COUNT(&before)));
    cpu_set_t one;
    CPU_ZERO(&one);
    for (std::size_t i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++i)
      if (CPU_ISSET(i, &before)) CPU_SET(i, &one);
    ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(allowed_processors(), 1U);
    EXPECT_EQ(usable_threads(), 1U);
  }).join();
}

} // namespace
} // namespace godwit::gpu::cpu
