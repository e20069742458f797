#include "cuda/simt_fiber.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <new>
#include <utility>

#if defined(__x86_64__)
#define GODWIT_SWITCH_BY_HAND 1
#else
#include <ucontext.h>
#endif
// As in <sanitizer/common_interface_defs.h> and <sanitizer/tsan_interface.h>.
#if defined(__SANITIZE_ADDRESS__)
extern "C" void __sanitizer_start_switch_fiber(void** fake_stack_save, const void* bottom, std::size_t size);
extern "C" void __sanitizer_finish_switch_fiber(void* fake_stack_save, const void** bottom_old, std::size_t* size_old);
extern "C" void __asan_unpoison_memory_region(const volatile void* address, std::size_t size);
#endif
#if defined(__SANITIZE_THREAD__)
extern "C" void* __tsan_get_current_fiber();
extern "C" void* __tsan_create_fiber(unsigned flags);
extern "C" void __tsan_destroy_fiber(void* fiber);
extern "C" void __tsan_switch_to_fiber(void* fiber, unsigned flags);
constexpr unsigned without_order = 1; // __tsan_switch_to_fiber_no_sync: a switch orders nothing (simt_races.hpp)
#define GODWIT_UNWATCHED __attribute__((no_sanitize("thread")))
#else
#define GODWIT_UNWATCHED
#endif

#if defined(GODWIT_SWITCH_BY_HAND)
// void godwit_switch_stack(void** from, void* to): keeps what a call keeps, and the modes of floating point, which all
// threads of a block share.
asm(R"(
.text
.p2align 4
.type godwit_switch_stack, @function
godwit_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  retq
.size godwit_switch_stack, .-godwit_switch_stack
)");
extern "C" void godwit_switch_stack(void** from, void* to);
#endif

namespace godwit::gpu::cuda::simt::emulator {

namespace {

#if defined(__SANITIZE_ADDRESS__) || !defined(__OPTIMIZE__)
constexpr std::size_t stack_bytes = 512 << 10;
#else
constexpr std::size_t stack_bytes = 128 << 10;
#endif

/// Stacks begin at different places within their pages, or all of them would share a few sets of the caches.
constexpr std::size_t colours = 61, colour_bytes = 5 * 64;
thread_local std::size_t next_colour = 0;

/// The fiber that begins: a new stack has no arguments.
thread_local fiber* starting = nullptr;

} // namespace

struct fiber::machine {
  void* memory = nullptr; ///< a page that nobody may touch, then the stack
  std::size_t bytes = 0;
  std::byte* stack = nullptr;
  std::size_t usable = 0; ///< bytes of the stack below its colour
  void (*body)(void*) = nullptr;
  void* argument = nullptr;
#if defined(GODWIT_SWITCH_BY_HAND)
  void* own = nullptr;
#else
  ucontext_t own{};
#endif
#if defined(__SANITIZE_ADDRESS__)
  void* fake = nullptr;
#endif
#if defined(__SANITIZE_THREAD__)
  void* tsan = nullptr;
  bool ended = true;
#endif
};

/// The stack that `enter` was called on; one for each thread of the system.
struct fiber::owner {
#if defined(GODWIT_SWITCH_BY_HAND)
  void* own = nullptr;
#else
  ucontext_t own{};
#endif
#if defined(__SANITIZE_ADDRESS__)
  void* fake = nullptr;
  const void* stack = nullptr;
  std::size_t bytes = 0;
  bool entered = false; ///< the switch under way comes from the owner
#endif
#if defined(__SANITIZE_THREAD__)
  void* tsan = nullptr;
#endif
  static owner& of_this_thread() {
    thread_local owner own_one;
    return own_one;
  }
#if defined(__SANITIZE_ADDRESS__)
  void arrived(void* fake_stack) {
    if (std::exchange(entered, false))
      __sanitizer_finish_switch_fiber(fake_stack, &stack, &bytes);
    else
      __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
  }
#endif
};

fiber::fiber() : machine_(std::make_unique<machine>()) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  machine_->bytes = stack_bytes + page;
  machine_->memory =
      ::mmap(nullptr, machine_->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (machine_->memory == MAP_FAILED) throw std::bad_alloc();
  ::mprotect(machine_->memory, page, PROT_NONE);
  machine_->stack = static_cast<std::byte*>(machine_->memory) + page;
  machine_->usable = stack_bytes - next_colour++ % colours * colour_bytes;
}

fiber::~fiber() {
#if defined(__SANITIZE_THREAD__)
  if (machine_->tsan != nullptr) __tsan_destroy_fiber(machine_->tsan);
#endif
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(machine_->stack, stack_bytes); // others may get these addresses
#endif
  ::munmap(machine_->memory, machine_->bytes);
}

void fiber::start(void (*body)(void*), void* argument) {
  machine_->body = body;
  machine_->argument = argument;
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(machine_->stack, stack_bytes); // frames of the body before, which never returned
#endif
#if defined(GODWIT_SWITCH_BY_HAND)
  auto* top = reinterpret_cast<std::uintptr_t*>(machine_->stack + machine_->usable);
  *--top = 0; // where begin would return to; keeps the stack aligned
  *--top = reinterpret_cast<std::uintptr_t>(&fiber::begin);
  for (int i = 0; i < 6; ++i) *--top = 0;
  machine_->own = top;
#else
  ::getcontext(&machine_->own);
  machine_->own.uc_stack.ss_sp = machine_->stack;
  machine_->own.uc_stack.ss_size = machine_->usable;
  machine_->own.uc_link = nullptr;
  ::makecontext(&machine_->own, &fiber::begin, 0);
#endif
#if defined(__SANITIZE_ADDRESS__)
  machine_->fake = nullptr;
#endif
#if defined(__SANITIZE_THREAD__)
  // One that did not end has calls on its stack still, as the sanitizer sees it.
  if (machine_->tsan != nullptr && !machine_->ended) __tsan_destroy_fiber(std::exchange(machine_->tsan, nullptr));
  if (machine_->tsan == nullptr) machine_->tsan = __tsan_create_fiber(0);
  machine_->ended = false;
#endif
}

GODWIT_UNWATCHED void fiber::enter() {
  auto& m = *machine_;
  auto& from = owner::of_this_thread();
  starting = this;
#if defined(__SANITIZE_THREAD__)
  from.tsan = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(m.tsan, without_order);
#endif
#if defined(__SANITIZE_ADDRESS__)
  from.entered = true;
  __sanitizer_start_switch_fiber(&from.fake, m.stack, stack_bytes);
#endif
#if defined(GODWIT_SWITCH_BY_HAND)
  godwit_switch_stack(&from.own, m.own);
#else
  ::swapcontext(&from.own, &m.own);
#endif
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(from.fake, nullptr, nullptr);
#endif
}

GODWIT_UNWATCHED void fiber::give_up() {
#if defined(__SANITIZE_THREAD__)
  // To the fiber and back, on paper: what was done there comes before what is done here.
  auto* here = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(machine_->tsan, without_order);
  __tsan_switch_to_fiber(here, 0);
#endif
}

GODWIT_UNWATCHED void fiber::leave() {
  auto& m = *machine_;
  auto& to = owner::of_this_thread();
#if defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(to.tsan, without_order);
#endif
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&m.fake, to.stack, to.bytes);
#endif
#if defined(GODWIT_SWITCH_BY_HAND)
  godwit_switch_stack(&m.own, to.own);
#else
  ::swapcontext(&m.own, &to.own);
#endif
#if defined(__SANITIZE_ADDRESS__)
  to.arrived(m.fake);
#endif
}

GODWIT_UNWATCHED void fiber::pass_to(fiber& next) {
  auto& m = *machine_;
  auto& n = *next.machine_;
  starting = &next;
#if defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(n.tsan, without_order);
#endif
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&m.fake, n.stack, stack_bytes);
#endif
#if defined(GODWIT_SWITCH_BY_HAND)
  godwit_switch_stack(&m.own, n.own);
#else
  ::swapcontext(&m.own, &n.own);
#endif
#if defined(__SANITIZE_ADDRESS__)
  owner::of_this_thread().arrived(m.fake);
#endif
}

GODWIT_UNWATCHED void fiber::begin() {
  auto* self = starting;
#if defined(__SANITIZE_ADDRESS__)
  owner::of_this_thread().arrived(nullptr);
#endif
  self->machine_->body(self->machine_->argument);
#if defined(__SANITIZE_THREAD__)
  self->machine_->ended = true;
#endif
  self->leave(); // for good
}

} // namespace godwit::gpu::cuda::simt::emulator
