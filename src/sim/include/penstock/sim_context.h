// One fiber: a stack and an instruction to go on from, on Boost.Context.
#pragma once

#include <boost/context/fiber.hpp>
#include <functional>

namespace penstock::sim {

// Switches to and fro between the thread that resumes it and a body with a stack of its own. One
// thread of the operating system; resume() never from within another body.
class Context {
 public:
  explicit Context(std::function<void()> body);
  // The body has ended, or never begun.
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // Runs the body until it gives way or ends.
  void resume();
  // From within the body: lets the resumer go on, until the next resume().
  void give_way();
  bool ended() const { return ended_; }

 private:
  boost::context::fiber run(boost::context::fiber&& resumer);

  const std::function<void()> body_;
  boost::context::fiber inside_;   // where the body goes on
  boost::context::fiber outside_;  // where the resumer does
  bool begun_ = false;
  bool ended_ = false;

  // For the address sanitizer, which has to know on which stack it is.
  const void* stack_ = nullptr;
  size_t stack_bytes_ = 0;
  const void* resumer_stack_ = nullptr;
  size_t resumer_stack_bytes_ = 0;
};

}  // namespace penstock::sim
