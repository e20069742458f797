#include "cuda/host_thread.hpp"

#include <gtest/gtest.h>

#include <future>
#include <numeric>
#include <vector>

namespace godwit::gpu::cuda {
namespace {

TEST(CudaHostThread, RunsInOrderWhatIsPostedWhetherItWasExpectedOrNot) {
  std::vector<int> ran, all(300);
  std::iota(all.begin(), all.end(), 0);
  {
    host_thread thread;
    for (const int i : all) {
      if (i % 3 == 0) thread.expect();
      thread.post([&ran, i] { ran.push_back(i); });
      if (i % 7 != 0) continue;
      std::promise<void> over; // it has nothing to do then, and looks or sleeps
      thread.post([&over] { over.set_value(); });
      over.get_future().wait();
    }
  }
  EXPECT_EQ(ran, all) << "what was left when it went, too";
}

TEST(CudaHostThread, EndsWhereWhatWasExpectedNeverCame) {
  host_thread thread;
  thread.expect();
  thread.expect();
}

} // namespace
} // namespace godwit::gpu::cuda
