#include "session.h"

#define FUSE_USE_VERSION 312
#include "device.h"
#include "limits.h"

#include <cerrno>
#include <cstring>
#include <fuse3/fuse_lowlevel.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

namespace penstock::fuse {

// One thread with its own queue of the connection and its own memory.
struct Session::Worker {
  UniqueFd device;  // a clone; empty: the session's own
  int fd = -1;
  std::byte* memory = nullptr;
  // It waits for a request, or is about to or has just done. Relaxed, as both: a hint.
  std::atomic<bool> reading{false};
  bool ended = false;  // under the session's mutex
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
thread_local void (*worker_after)(std::span<const iovec> reply) = nullptr;

ssize_t write_reply(int fd, iovec* parts, int count, void*) {
  if (worker_after) worker_after({parts, static_cast<size_t>(count)});
  const ssize_t written = ::writev(worker_device >= 0 ? worker_device : fd, parts, count);
  // After the end of the mount a reply goes nowhere, and libfuse should not log that as a fault:
  // ENOENT it takes for an interrupted request.
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

// What interrupts a worker that waits for a request. Nothing else of this process uses it.
int stop_signal() {
  return SIGRTMAX - 2;
}

bool listen_to_stop_signal() {
  struct sigaction action {};
  // It has done its work when the system call has ended, which it would not if that were restarted.
  action.sa_handler = [](int) {};
  return ::sigaction(stop_signal(), &action, nullptr) == 0;
}

void let_stop_signal_through() {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, stop_signal());
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

}  // namespace

Outcome<std::unique_ptr<Session>> Session::make(UniqueFd device,
                                                const fuse_lowlevel_ops& operations, void* context,
                                                Intercept intercept) {
  fuse_set_log_func(log_line);
  std::unique_ptr<Session> session(new Session);
  session->context_ = context;
  session->intercept_ = intercept;
  // libfuse wants to hear of the mount's limit, though it does not mount.
  std::string limit = fmt::format("-omax_read={}", kRequestBytesMax);
  std::string name = "penstock";
  char* arguments[] = {name.data(), limit.data(), nullptr};
  fuse_args args = FUSE_ARGS_INIT(2, arguments);
  session->session_ = fuse_session_new(&args, &operations, sizeof(operations), context);
  fuse_opt_free_args(&args);
  if (!session->session_) {
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
  const int shared = fuse_session_fd(session_);
  if (!listen_to_stop_signal()) return Status::from_errno(errno);
  for (uint32_t i = 0; i < threads; i++) {
    auto worker = std::make_unique<Worker>();
    // Without a queue of its own a worker shares the session's.
    if (auto clone = clone_device(shared)) worker->device = std::move(*clone);
    worker->fd = worker->device ? worker->device.get() : shared;
    void* memory = ::mmap(nullptr, Worker::kMemoryBytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return Code::no_memory;
    worker->memory = static_cast<std::byte*>(memory);
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

void Session::end_workers() {
  if (!session_) return;
  stopping_.store(true, std::memory_order_relaxed);
  for (auto& worker : workers_) {
    if (!worker->thread.joinable()) continue;
    interrupt(*worker);
    worker->thread.join();
  }
}

void Session::stop() {
  if (!session_) return;
  end_workers();
  // With the last descriptor the connection ends; programs that wait for an answer get ENOTCONN.
  workers_.clear();
  fuse_session_destroy(session_);
  session_ = nullptr;
}

// Until it has ended: a signal that comes before it waits is lost.
void Session::interrupt(Worker& worker) {
  std::unique_lock lock(mutex_);
  do {
    if (worker.reading.load(std::memory_order_relaxed)) {
      (void)::pthread_kill(worker.thread.native_handle(), stop_signal());
    }
  } while (!ended_.wait_for(lock, kInterruptEvery, [&worker] { return worker.ended; }));
}

bool Session::wait_ended(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  return ended_.wait_until(lock, deadline, [this] { return ended(); });
}

void Session::work(Worker& worker) {
  worker_device = worker.fd;
  worker_payload = worker.payload();
  worker_after = intercept_.after;
  let_stop_signal_through();
  while (serve_one(worker)) {
  }
  worker_device = -1;
  worker_after = nullptr;
  std::lock_guard lock(mutex_);
  worker.ended = true;
  running_.fetch_sub(1, std::memory_order_release);
  ended_.notify_all();
}

// False at the end of the mount.
bool Session::serve_one(Worker& worker) {
  worker.reading.store(true, std::memory_order_relaxed);
  if (stopping_.load(std::memory_order_relaxed)) return false;
  const ssize_t got = ::read(worker.fd, worker.request(), Worker::request_bytes());
  worker.reading.store(false, std::memory_order_relaxed);
  if (got > 0) {
    const std::span request(worker.request(), static_cast<size_t>(got));
    if (intercept_.before(context_, worker.fd, request)) return true;
    fuse_buf buffer{};
    buffer.mem = worker.request();
    buffer.size = static_cast<size_t>(got);
    fuse_session_process_buf(session_, &buffer);
    return true;
  }
  const int error = got == 0 ? ENODEV : errno;
  // ENOENT: the request was interrupted before it was read. EINTR: perhaps the worker is to stop.
  if (error == ENOENT || error == EINTR || error == ENOMEM) return true;
  if (error != ENODEV) log::error("mount: a worker ends: {}", std::strerror(error));
  return false;
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

int Session::device_of_worker() {
  return worker_device;
}

Session::ReplyOn::ReplyOn(int device) : before_(std::exchange(worker_device, device)) {}

Session::ReplyOn::~ReplyOn() {
  worker_device = before_;
}

std::byte* Session::reply_memory() {
  return worker_payload;
}

}  // namespace penstock::fuse
