#include "limits.h"

#include <boost/context/protected_fixedsize_stack.hpp>
#include <vector>

#include "penstock/base.h"
#include "penstock/sim_context.h"

// g++ tells by a macro, and clang by a feature.
#if defined(__SANITIZE_ADDRESS__)
#define PENSTOCK_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PENSTOCK_ADDRESS_SANITIZER 1
#endif
#endif

#ifdef PENSTOCK_ADDRESS_SANITIZER
#include <sanitizer/common_interface_defs.h>
#endif

namespace penstock::sim {
namespace {

using boost::context::fiber;
using boost::context::stack_context;

// Stacks with a guard page below, used again: a test makes worlds by the thousand.
class Stacks {
 public:
  ~Stacks() {
    for (stack_context& stack : spare_) system_.deallocate(stack);
  }
  stack_context take() {
    if (spare_.empty()) return system_.allocate();
    const stack_context stack = spare_.back();
    spare_.pop_back();
    return stack;
  }
  void give_back(const stack_context& stack) { spare_.push_back(stack); }

 private:
  boost::context::protected_fixedsize_stack system_{limits::kFiberStackBytes};
  std::vector<stack_context> spare_;
};

Stacks& stacks() {
  static thread_local Stacks all;
  return all;
}

// As Boost.Context wants an allocator of stacks.
struct FromStacks {
  stack_context stack;
  stack_context allocate() { return stack; }
  void deallocate(stack_context& done) { stacks().give_back(done); }
};

#ifdef PENSTOCK_ADDRESS_SANITIZER
void leave_stack(void** fake, const void* next, size_t bytes) {
  __sanitizer_start_switch_fiber(fake, next, bytes);
}
void enter_stack(void* fake, const void** previous, size_t* bytes) {
  __sanitizer_finish_switch_fiber(fake, previous, bytes);
}
#else
void leave_stack(void**, const void*, size_t) {}
void enter_stack(void*, const void**, size_t*) {}
#endif

}  // namespace

Context::Context(std::function<void()> body) : body_(std::move(body)) {
  FromStacks allocator{stacks().take()};
  stack_ = static_cast<const std::byte*>(allocator.stack.sp) - allocator.stack.size;
  stack_bytes_ = allocator.stack.size;
  // Boost enters the new stack once to make the fiber, and comes back. The sanitizer is told to
  // keep what that leaves there on that stack: a copy among those of the thread or fiber that runs
  // now would end with them. To be told so it is told where this one's stack is, which it knows
  // itself.
  void* fake = nullptr;
  const void* own = nullptr;
  size_t own_bytes = 0;
  leave_stack(&fake, stack_, stack_bytes_);
  enter_stack(fake, &own, &own_bytes);
  leave_stack(&fake, own, own_bytes);
  inside_ = fiber(std::allocator_arg, allocator,
                  [this](fiber&& resumer) { return run(std::move(resumer)); });
  enter_stack(fake, nullptr, nullptr);
}

Context::~Context() {
  ASSERT(ended_ || !begun_);
}

fiber Context::run(fiber&& resumer) {
  outside_ = std::move(resumer);
  enter_stack(nullptr, &resumer_stack_, &resumer_stack_bytes_);
  body_();
  ended_ = true;
  leave_stack(nullptr, resumer_stack_, resumer_stack_bytes_);
  return std::move(outside_);
}

void Context::resume() {
  ASSERT(!ended_);
  begun_ = true;
  void* fake = nullptr;
  leave_stack(&fake, stack_, stack_bytes_);
  inside_ = std::move(inside_).resume();
  enter_stack(fake, nullptr, nullptr);
}

void Context::give_way() {
  void* fake = nullptr;
  leave_stack(&fake, resumer_stack_, resumer_stack_bytes_);
  outside_ = std::move(outside_).resume();
  enter_stack(fake, &resumer_stack_, &resumer_stack_bytes_);
}

}  // namespace penstock::sim
