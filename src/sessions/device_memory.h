// GPU memory that a session shows to other processes of its user.
#pragma once

#include "context.h"

namespace penstock::sessions {

// Without state of its own (the node's HandleTable has it); thread safe.
class DeviceMemory {
 public:
  explicit DeviceMemory(const Context& context) : context_(context) {}

  Answer publish(const wire::PublishDevice& m, resources::ForeignFd fd) const;
  Answer withdraw(const wire::WithdrawDevice& m) const;
  Answer open(const wire::OpenDevice& m, Given* given) const;
  void withdraw_all() const;

 private:
  Publisher publisher() const { return {context_.id, context_.credentials().uid}; }

  const Context& context_;
};

}  // namespace penstock::sessions
