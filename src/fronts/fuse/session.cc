#include "session.h"

#define FUSE_USE_VERSION 312
#include "device.h"
#include "limits.h"

#include <cerrno>
#include <cstring>
#include <fuse3/fuse_lowlevel.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

namespace penstock::fuse {

// One thread with its own queue of the connection and its own memory.
struct Session::Worker {
  UniqueFd device;  // a clone; empty: the session's own
  int fd = -1;
  UniqueFd events;  // epoll: the device, or the end
  std::byte* memory = nullptr;
  std::thread thread;

  ~Worker() {
    if (memory) ::munmap(memory, kMemoryBytes);
  }
  // A page whose end takes the header, the payload, and room for names of other requests.
  static constexpr size_t kMemoryBytes = kPageBytes + kRequestBytesMax + kPageBytes;
  std::byte* request() const { return memory + kPageBytes - kRequestHeaderBytes; }
  static constexpr size_t request_bytes() {
    return kMemoryBytes - (kPageBytes - kRequestHeaderBytes);
  }
  std::byte* payload() const { return memory + kPageBytes; }
};

namespace {

// The device of the worker that runs on this thread, and its payload memory: where libfuse writes
// replies to, as each must go where its request came from.
thread_local int worker_device = -1;
thread_local std::byte* worker_payload = nullptr;

ssize_t write_reply(int fd, iovec* parts, int count, void*) {
  const ssize_t written = ::writev(worker_device >= 0 ? worker_device : fd, parts, count);
  // After the end of the mount nobody wants the reply, and that is no fault worth a line of
  // libfuse's; ENOENT it takes as an interrupted request.
  const bool gone = written < 0 && (errno == ENODEV || errno == ENOTCONN || errno == ECONNABORTED);
  if (gone) errno = ENOENT;
  return written;
}

ssize_t read_request(int fd, void* buffer, size_t length, void*) {
  return ::read(fd, buffer, length);
}

void log_line(fuse_log_level level, const char* format, va_list arguments) {
  char text[512];
  std::vsnprintf(text, sizeof(text), format, arguments);
  std::string_view line(text);
  while (line.ends_with('\n')) line.remove_suffix(1);
  if (level <= FUSE_LOG_ERR) {
    log::warning("libfuse: {}", line);
  } else {
    log::debug("libfuse: {}", line);
  }
}

enum class Event : uint32_t { request, stop };

bool watch_for(int events, int fd, uint32_t what, Event name) {
  epoll_event event{};
  event.events = what;
  event.data.u32 = static_cast<uint32_t>(name);
  return ::epoll_ctl(events, EPOLL_CTL_ADD, fd, &event) == 0;
}

}  // namespace

Outcome<std::unique_ptr<Session>> Session::make(UniqueFd device,
                                                const fuse_lowlevel_ops& operations, void* context,
                                                Intercept before) {
  fuse_set_log_func(log_line);
  std::unique_ptr<Session> session(new Session);
  session->context_ = context;
  session->before_ = before;
  // libfuse wants to hear of the mount's limit, though it does not mount.
  std::string limit = fmt::format("-omax_read={}", kRequestBytesMax);
  std::string name = "penstock";
  char* arguments[] = {name.data(), limit.data(), nullptr};
  fuse_args args = FUSE_ARGS_INIT(2, arguments);
  session->session_ = fuse_session_new(&args, &operations, sizeof(operations), context);
  fuse_opt_free_args(&args);
  session->stopper_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!session->session_ || !session->stopper_) {
    return Failure{Code::no_memory, "libfuse cannot make a session for the mount"};
  }
  fuse_custom_io io{};
  io.writev = write_reply;
  io.read = read_request;
  if (fuse_session_custom_io(session->session_, &io, device.get()) != 0) {
    return Failure{Code::no_memory, "libfuse does not take the mount's device"};
  }
  (void)device.release();  // the session closes it
  return session;
}

Session::~Session() {
  stop();
}

Status Session::start(uint32_t threads) {
  for (uint32_t i = 0; i < threads; i++) {
    auto worker = std::make_unique<Worker>();
    const int own = fuse_session_fd(session_);
    // Without a queue of its own a worker shares the session's.
    if (auto clone = clone_device(own)) worker->device = std::move(*clone);
    worker->fd = worker->device ? worker->device.get() : own;
    worker->events.reset(::epoll_create1(EPOLL_CLOEXEC));
    void* memory = ::mmap(nullptr, Worker::kMemoryBytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return Code::no_memory;
    worker->memory = static_cast<std::byte*>(memory);
    // Exclusive: one request wakes one worker.
    if (!worker->events ||
        !watch_for(worker->events.get(), worker->fd, EPOLLIN | EPOLLEXCLUSIVE, Event::request) ||
        !watch_for(worker->events.get(), stopper_.get(), EPOLLIN, Event::stop)) {
      return Status::from_errno(errno);
    }
    workers_.push_back(std::move(worker));
  }
  running_.store(threads, std::memory_order_release);
  for (auto& worker : workers_) {
    Outcome<std::thread> thread =
        start_thread("a thread of the mount", [this, &worker] { work(*worker); });
    if (!thread) {
      log::error("{}", thread.error().message);
      return thread.error().status;
    }
    worker->thread = std::move(*thread);
    pthread_setname_np(worker->thread.native_handle(), "penstock-mount");
  }
  return {};
}

void Session::stop() {
  if (!session_) return;
  stopping_.store(true, std::memory_order_relaxed);
  if (stopper_) {
    const uint64_t one = 1;
    (void)!::write(stopper_.get(), &one, sizeof(one));
  }
  for (auto& worker : workers_) {
    if (worker->thread.joinable()) worker->thread.join();
  }
  // With the last descriptor the connection ends; who waits for it gets ENOTCONN.
  workers_.clear();
  fuse_session_destroy(session_);
  session_ = nullptr;
}

bool Session::wait_ended(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  return ended_.wait_until(lock, deadline, [this] { return ended(); });
}

void Session::work(Worker& worker) {
  worker_device = worker.fd;
  worker_payload = worker.payload();
  while (serve_one(worker)) {
  }
  worker_device = -1;
  std::lock_guard lock(mutex_);
  running_.fetch_sub(1, std::memory_order_release);
  ended_.notify_all();
}

// False at the end of the mount.
bool Session::serve_one(Worker& worker) {
  const ssize_t got = ::read(worker.fd, worker.request(), Worker::request_bytes());
  if (got > 0) {
    const std::span request(worker.request(), static_cast<size_t>(got));
    if (before_(context_, worker.fd, request)) return !stopping_.load(std::memory_order_relaxed);
    fuse_buf buffer{};
    buffer.mem = worker.request();
    buffer.size = static_cast<size_t>(got);
    fuse_session_process_buf(session_, &buffer);
    return !stopping_.load(std::memory_order_relaxed);
  }
  const int error = got == 0 ? ENODEV : errno;
  // ENOENT: the request was interrupted before we got it.
  if (error == ENOENT || error == EINTR || error == ENOMEM) return true;
  if (error != EAGAIN) {
    if (error != ENODEV) log::error("mount: a worker ends: {}", std::strerror(error));
    return false;
  }
  epoll_event event[2];
  const int count = ::epoll_wait(worker.events.get(), event, 2, -1);
  for (int i = 0; i < count; i++) {
    if (event[i].data.u32 == static_cast<uint32_t>(Event::stop)) return false;
  }
  return true;
}

int Session::device() const {
  return fuse_session_fd(session_);
}

int Session::drop_inode(InodeId inode, int64_t offset, int64_t length) {
  return fuse_lowlevel_notify_inval_inode(session_, inode.value, offset, length);
}

int Session::drop_entry(InodeId parent, const std::string& name) {
  return fuse_lowlevel_notify_inval_entry(session_, parent.value, name.c_str(), name.size());
}

std::byte* Session::reply_memory() {
  return worker_payload;
}

}  // namespace penstock::fuse
