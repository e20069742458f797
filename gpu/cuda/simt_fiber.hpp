#pragma once

#include <cstddef>
#include <memory>

/// A stack of its own for one of a block's threads. The emulator alone uses it.
namespace godwit::gpu::cuda::simt::emulator {

/// Runs `body(argument)` on its own stack, until it gives way or ends. Belongs to one thread of the system.
///
/// Switching costs some nanoseconds on x86-64, where it is written by hand, and a system call elsewhere. The sanitizers
/// are told of each switch.
class fiber {
public:
  fiber();
  ~fiber();
  fiber(const fiber&) = delete;
  fiber& operator=(const fiber&) = delete;

  /// What the next `enter` begins. Whatever ran here before is forgotten, finished or not.
  void start(void (*body)(void*), void* argument);
  /// From the owner's stack: runs until a body leaves or ends.
  void enter();
  /// From the body: back to `enter`'s caller.
  void leave();
  /// From the owner's stack, of a body that is not to go on: tells the thread sanitizer that all it did is over.
  void give_up();
  /// From the body: straight on to another one's.
  void pass_to(fiber& next);

private:
  struct machine;
  struct owner;
  static void begin();
  std::unique_ptr<machine> machine_;
};

} // namespace godwit::gpu::cuda::simt::emulator
