// A whole agent over a store of its own, and one session whose messages, descriptors, ring entries
// and memory are what the input says. The agent must live, and the session end.
#include "fuzz.h"
#include "script.h"

#include <chrono>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

#include "penstock/agent.h"

namespace penstock::fuzz {
namespace {

constexpr uint64_t kRegionBytes = 128 * kKiB;
constexpr ring::Geometry kRing{8, 2};
constexpr auto kPatience = std::chrono::seconds(40);

void require(bool holds) {
  if (!holds) std::abort();
}

// Made once, for all inputs, and never stopped: its threads' own objects go before static ones do.
class Node {
 public:
  static Node& instance() {
    static Node* one = [] {
      std::atexit([] {
        std::error_code ignored;
        std::filesystem::remove_all(instance().path_, ignored);
        // Threads still run, and must not find what static destructors have taken away.
        std::_Exit(0);
      });
      return new Node;
    }();
    return *one;
  }
  agent::Agent& agent() { return *agent_; }

 private:
  Node() {
    log::set_level(log::Level::off);
    require(::mkdtemp(path_.data()) != nullptr);
    agent::AgentConfig config;
    config.directory = path_ + "/store";
    config.spin = std::chrono::microseconds(0);
    config.capacity_bytes = 64 * kMiB;
    config.chunk_bytes = 64 * kKiB;
    config.cache_bytes = 8 * kMiB;
    auto started = agent::Agent::start(config);
    require(started.has_value());
    agent_ = std::move(*started);
  }

  std::string path_ = "/tmp/penstock-fuzz-XXXXXX";
  std::unique_ptr<agent::Agent> agent_;
};

// What an input has at hand.
class Client {
 public:
  explicit Client(UniqueFd socket) : socket_(std::move(socket)) {
    add(memory_of(kRegionBytes, 0));
    add(memory_of(align_up(kRing.total_bytes(), 4096), F_SEAL_SHRINK));
    format_ring(fds_[1].get());
    add(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    add(memory_of(kRegionBytes, F_SEAL_SHRINK));
    add(memory_of(kRegionBytes, F_SEAL_SHRINK | F_SEAL_WRITE));
    add(::open("/dev/null", O_RDWR | O_CLOEXEC));
    add(::open("/", O_PATH | O_CLOEXEC));
    add(::open("/", O_DIRECTORY | O_CLOEXEC));
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) == 0) {
      add(ends[0]);
      add(ends[1]);
    }
  }

  void run(Script script) {
    while (!script.is_over()) {
      switch (static_cast<Act>(script.take<uint8_t>() % kActs)) {
        case Act::message:
          send_message(script);
          break;
        case Act::push:
          push(script);
          break;
        case Act::scribble:
          scribble(script);
          break;
        case Act::resize: {
          const int fd = descriptor(script.take<uint8_t>());
          (void)!::ftruncate(fd, script.take<uint32_t>() % (4 * kRegionBytes));
          break;
        }
        case Act::wake:
          ::eventfd_write(fds_[2].get(), 1);
          break;
        case Act::replies:
          read_replies(1);
          break;
      }
    }
    read_replies(10);
  }

 private:
  void add(int fd) { fds_.emplace_back(fd); }
  int descriptor(size_t which) const {
    which %= fds_.size() + 1;
    return which == fds_.size() ? socket_.get() : fds_[which].get();
  }

  static int memory_of(uint64_t bytes, int seals) {
    const int fd = ::memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    (void)!::ftruncate(fd, static_cast<off_t>(bytes));
    // With its pages, which the agent makes for no client.
    const std::string zeros(bytes, '\0');
    (void)!::pwrite(fd, zeros.data(), zeros.size(), 0);
    ::fcntl(fd, F_ADD_SEALS, seals);
    return fd;
  }
  static void format_ring(int fd) {
    const size_t size = align_up(kRing.total_bytes(), 4096);
    void* base = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    require(base != MAP_FAILED);
    ring::Memory::format(MutableBytes(static_cast<std::byte*>(base), size), kRing);
    ::munmap(base, size);
    put(fd, offsetof(ring::Header, lanes_used), kRing.lanes);
  }
  template <class T>
  static void put(int fd, uint64_t at, const T& value) {
    (void)!::pwrite(fd, &value, sizeof value, static_cast<off_t>(at));
  }

  void send_message(Script& script) {
    const auto first = script.take<uint8_t>();
    const std::string_view bytes = script.take_bytes(script.take<uint16_t>());
    const auto request = wire::decode_request(std::as_bytes(std::span(bytes)));
    const size_t count = request ? wire::descriptors_of(request->body) : first % 4;
    iovec data{const_cast<char*>(bytes.data()), bytes.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(4 * sizeof(int))] = {};
    msghdr header{};
    header.msg_iov = &data;
    header.msg_iovlen = 1;
    if (count > 0) {
      header.msg_control = control;
      header.msg_controllen = CMSG_SPACE(count * sizeof(int));
      cmsghdr* part = CMSG_FIRSTHDR(&header);
      part->cmsg_level = SOL_SOCKET;
      part->cmsg_type = SCM_RIGHTS;
      part->cmsg_len = CMSG_LEN(count * sizeof(int));
      for (size_t i = 0; i < count; ++i) {
        const int fd = descriptor(first + i);
        std::memcpy(CMSG_DATA(part) + i * sizeof fd, &fd, sizeof fd);
      }
    }
    if (::sendmsg(socket_.get(), &header, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) ++unanswered_;
  }

  void push(Script& script) {
    const uint32_t lane = script.take<uint8_t>() % kRing.lanes;
    const auto entry = script.take<ring::Submission>();
    const uint64_t at = ring::kHeaderBytes + lane * kRing.lane_bytes();
    uint32_t& tail = tails_[lane];
    put(fds_[1].get(),
        at + sizeof(ring::LaneControl) + tail % kRing.entries * sizeof(ring::Submission), entry);
    put(fds_[1].get(), at + offsetof(ring::LaneControl, submission_tail), ++tail);
    // Room for all completions that there can be.
    put(fds_[1].get(), at + offsetof(ring::LaneControl, completion_head), tail - kRing.entries);
    ::eventfd_write(fds_[2].get(), 1);
  }
  void scribble(Script& script) {
    const int fd = descriptor(script.take<uint8_t>());
    const uint64_t at = script.take<uint32_t>() % (kRegionBytes / 4) * 4;
    put(fd, at, script.take<uint32_t>());
  }

  // Those that are there, or come within `wait_ms` of the one before.
  void read_replies(int wait_ms) {
    static std::vector<char> buffer(wire::kSessionMessageMax);
    while (unanswered_ > 0) {
      pollfd ready{socket_.get(), POLLIN, 0};
      if (::poll(&ready, 1, wait_ms) != 1) return;
      alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
      iovec data{buffer.data(), buffer.size()};
      msghdr header{};
      header.msg_iov = &data;
      header.msg_iovlen = 1;
      header.msg_control = control;
      header.msg_controllen = sizeof control;
      if (::recvmsg(socket_.get(), &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) <= 0) return;
      --unanswered_;
      if (const cmsghdr* part = CMSG_FIRSTHDR(&header)) {
        int fd = -1;
        std::memcpy(&fd, CMSG_DATA(part), sizeof fd);
        const UniqueFd given(fd);
      }
    }
  }

  UniqueFd socket_;
  std::vector<UniqueFd> fds_;
  uint32_t tails_[kRing.lanes] = {};
  int unanswered_ = 0;
};

ring::Submission entry(uint8_t operation, uint64_t offset, uint64_t length) {
  ring::Submission out{};
  out.operation = operation;
  out.offset = offset;
  out.length = length;
  return out;
}

}  // namespace

std::vector<std::string> seeds() {
  constexpr uint32_t kAll = wire::kOpenRead | wire::kOpenWrite | wire::kOpenCreate;
  const auto begin = [] {
    ScriptWriter script;
    script.message(wire::Hello{})
        .message(wire::RegisterRegion{0, 0, kRegionBytes}, 0)
        .message(wire::CreateRing{0, align_up(kRing.total_bytes(), 4096)}, 1)
        .message(wire::OpenPath{0, "/file", kAll, 0644})
        .act(Act::replies);
    return script;
  };
  ScriptWriter rings = begin(), names = begin(), many = begin(), devices = begin();
  rings.push(0, entry(ring::kOperationWrite, 0, 8192))
      .push(1, entry(ring::kOperationRead, 100, 5000))
      .resize(0, 4096)
      .push(0, entry(ring::kOperationWrite, 4096, 8192))
      .push(1, entry(ring::kOperationSync, 0, 0))
      .push(0, entry(ring::kOperationFill, 0, 65536))
      .scribble(1, 1040, 77)
      .message(wire::CancelOperation{0, 0, 0, 0})
      .message(wire::DestroyRing{0})
      .message(wire::ReleaseRegion{0});
  names.message(wire::MakeDirectory{"/dir", 0755})
      .message(wire::Rename{"/file", "/dir/file"})
      .message(wire::MakeLink{"/dir/file", "/link"})
      .message(wire::MakeSymlink{"dir", "/symlink"})
      .message(wire::ReadSymlink{"/symlink"})
      .message(wire::ListDirectory{"/", 0})
      .message(wire::PathAttributes{"/symlink/file", true})
      .message(wire::ChangeAttributes{"/dir", true, 0700U, 1U, 2U, {}, wire::Time{5, 6}})
      .message(wire::TruncateFile{0, 100'000})
      .message(wire::FileAttributes{0})
      .message(wire::SyncFile{0})
      .message(wire::Remove{"/link", false})
      .message(wire::CloseFile{0})
      .message(wire::SyncAll{});
  many.message(wire::CreateFiles{{{"/n", 0600, 100, 0, 0}, {"/m", 0600, 0}}})
      .message(wire::ReadFiles{{{"/n", 0, 100, 0, 4096}, {"/m"}, {"/none"}}})
      .message(wire::MapCache{})
      .message(wire::MapSlab{0})
      .message(wire::KeepTouchLog{}, 3)
      .push(0, entry(ring::kOperationFill, 0, 65536))
      .scribble(3, 2, 1000)
      .scribble(3, 20, UINT32_MAX);
  devices.message(wire::PublishDevice{{1}, {"handle", 4096, {}, true}}, 5)
      .message(wire::OpenDevice{{1}})
      .message(wire::WithdrawDevice{{1}})
      .message(wire::OpenDescriptor{1}, 5)
      .message(wire::OpenDescriptor{1}, 7)
      .message(wire::RegisterRegion{1, 4096, 8192}, 4)
      .message(wire::AttachRegion{2, "5b2d6d1c-2a0f-4f52-9a52-8b2b6c8f0001"})
      .message(wire::Reopen{2, std::string(32, 't')});
  return {rings.take(), names.take(), many.take(), devices.take()};
}

}  // namespace penstock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock::fuzz;
  auto& agent = Node::instance().agent();
  {
    auto socket = agent.connect_local();
    require(socket.has_value());
    Client(std::move(*socket)).run(Script({reinterpret_cast<const char*>(data), size}));
  }
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!agent.status().sessions.empty()) {
    require(std::chrono::steady_clock::now() < deadline);
    std::this_thread::yield();
  }
  return 0;
}
