#include "gathering.h"
#include "room_thread.h"
#include "unique_id.h"

#include <algorithm>

#include "penstock/job/unique_id.h"

namespace penstock::job {

class Gate::Impl {
 public:
  ~Impl() { thread.close(std::chrono::milliseconds(0)); }

  UniqueId id;
  RoomThread thread;
  std::unique_ptr<Gathering> gathering;  // of the thread
};

Gate::Gate(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Gate::~Gate() {
  if (!impl_->thread.is_of_this_process()) (void)impl_.release();
}

Outcome<std::unique_ptr<Gate>> Gate::open(const std::string& interface) {
  Invitation invitation;
  invitation.addresses = own_addresses(interface);
  if (invitation.addresses.empty()) {
    return Failure{Code::not_found,
                   interface.empty() ? "no network interface of this machine is up"
                                     : "no network interface is up that '" + interface + "' names"};
  }
  invitation.addresses.resize(std::min(invitation.addresses.size(), kAddressesMax));
  if (!fill_with_random(invitation.secret).ok() || !fill_with_random(invitation.name).ok()) {
    return Failure{Code::io_error, "the kernel gives no random numbers"};
  }
  TRY_ASSIGN(UniqueFd listener, listen_anywhere(&invitation.port));
  auto impl = std::make_unique<Impl>();
  TRY(impl->thread.open());
  impl->id = encode(invitation);
  impl->gathering = std::make_unique<Gathering>(impl->thread.loop(), invitation.secret);
  TRY(impl->thread.start(std::move(listener),
                         {[at = impl.get()](UniqueFd socket) {
                            set_up_stream(socket.get());
                            at->gathering->adopt(std::move(socket));
                          },
                          [at = impl.get()] { return at->gathering->is_over(); },
                          [at = impl.get()] { at->gathering.reset(); }}));
  return std::unique_ptr<Gate>(new Gate(std::move(impl)));
}

const UniqueId& Gate::id() const {
  return impl_->id;
}

void Gate::close(std::chrono::milliseconds patience) {
  if (!impl_->thread.is_of_this_process()) return;
  impl_->thread.close(patience);
}

}  // namespace penstock::job
