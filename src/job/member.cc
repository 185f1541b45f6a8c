#include "member_impl.h"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "penstock/job.h"

namespace penstock::job {
namespace {

// A launcher answers at once, but the machine may be busy with the start of a thousand processes.
constexpr std::chrono::seconds kToJoin{60};

std::optional<uint64_t> number_in(const char* variable) {
  const char* text = std::getenv(variable);
  uint64_t value = 0;
  if (text == nullptr || !parse_number(text, &value)) return std::nullopt;
  return value;
}

// Whether the descriptor is the socket that the launcher left: a program that a rank started has
// the same environment, and another file by that number perhaps.
bool is_the_socket(int fd, uint64_t inode) {
  struct stat st {};
  int domain = 0;
  socklen_t length = sizeof domain;
  return ::fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode) && st.st_ino == inode &&
         ::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0 && domain == AF_UNIX;
}

Failure already_joined() {
  return {Code::already_exists, "this process has joined its job already"};
}

}  // namespace

Member::Member(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Member::~Member() {
  // What a child by fork() has of it is the parent's.
  if (impl_->is_forked()) (void)impl_.release();
}

Outcome<std::unique_ptr<Member>> Member::from_environment() {
  static std::atomic<bool> taken{false};
  if (std::getenv("PENSTOCK_JOB_FD") == nullptr) {
    if (taken) return already_joined();
    auto member = by_other_launcher();
    if (member) taken = true;
    return member;
  }
  const auto fd = number_in("PENSTOCK_JOB_FD");
  const auto inode = number_in("PENSTOCK_JOB_SOCKET");
  const auto rank = number_in("PENSTOCK_RANK");
  const auto size = number_in("PENSTOCK_SIZE");
  if (!fd || *fd > INT32_MAX || !inode || !rank || !size || *size == 0 ||
      *size > limits::kRanksMax || *rank >= *size) {
    return Failure{
        Code::invalid_argument,
        "PENSTOCK_JOB_FD, PENSTOCK_JOB_SOCKET, PENSTOCK_RANK or PENSTOCK_SIZE are not as "
        "'penstock run' sets them"};
  }
  if (taken.exchange(true)) return already_joined();
  if (!is_the_socket(static_cast<int>(*fd), *inode)) {
    return Failure{Code::stale,
                   fmt::format("descriptor {} is not the socket of the job: a program between "
                               "'penstock run' and this one closed it, or a rank started this one",
                               *fd)};
  }
  UniqueFd socket(static_cast<int>(*fd));
  ASSERT(::fcntl(socket.get(), F_SETFD, FD_CLOEXEC) == 0);
  const Hello hello{static_cast<uint32_t>(*rank), static_cast<uint32_t>(*size), {}};
  TRY_ASSIGN(auto impl, Impl::join(std::move(socket), hello,
                                   std::chrono::steady_clock::now() + kToJoin, nullptr));
  return std::make_unique<Member>(std::move(impl));
}

Outcome<std::unique_ptr<Member>> Member::alone() {
  return std::make_unique<Member>(std::make_unique<Impl>());
}

const Place& Member::place() const {
  return impl_->place();
}
uint32_t Member::node_of(uint32_t rank) const {
  return impl_->node_of(rank);
}
Outcome<std::vector<Brought>> Member::exchange(const Meeting& meeting, const Bring& bring,
                                               Time deadline) {
  return impl_->exchange(meeting, bring, deadline);
}
const std::atomic<uint32_t>& Member::trouble() const {
  return impl_->trouble();
}

const std::atomic<uint32_t>& Member::departures() const {
  return impl_->departures();
}

void Member::follow(uint32_t* word, std::vector<uint32_t> ranks, Time::duration after_leave) {
  impl_->follow(word, std::move(ranks), after_leave);
}
void Member::unfollow(uint32_t* word) {
  impl_->unfollow(word);
}

std::vector<End> Member::ends() const {
  return impl_->ends();
}
std::optional<End> Member::first_end() const {
  auto ends = impl_->ends();
  if (ends.empty()) return std::nullopt;
  return std::move(ends.front());
}
bool Member::has_ended(uint32_t rank) const {
  return impl_->has_ended(rank);
}
void Member::leave() {
  impl_->leave();
}
void Member::abort(int code, const std::string& why) {
  impl_->abort(code, why);
}

}  // namespace penstock::job
