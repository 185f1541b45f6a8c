// A node's process that is stopped for longer than its lease while another node changes what its
// programs read: after it goes on, and meanwhile from the memory that it shares with them, they
// find nothing that is older than what somebody was told.
#include "cluster_mounted.h"
#include "penstock.h"

#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <map>
#include <mutex>
#include <optional>
#include <sys/stat.h>

#include "penstock/base.h"

namespace penstock::test {
namespace {

using std::chrono::milliseconds;

constexpr size_t kFileBytes = 256 * 1024;
constexpr penstock_route kRouteCache = 6;

// One program's way to find out a version; nothing: an error.
using Look = std::function<std::optional<uint64_t>()>;

// Programs that look all the while, each in a thread. A version that is older than what was told
// when the look began is a fault.
class Programs {
 public:
  ~Programs() {
    stop_.store(true);
    for (std::thread& thread : threads_) thread.join();
  }
  void start(const std::string& name, Look look) {
    Program& program = programs_[name];
    threads_.emplace_back([this, &program, look = std::move(look)] {
      while (!stop_.load()) {
        const uint64_t least = told.load();
        const std::optional<uint64_t> found = look();
        if (!found) {
          ++program.errors;
          std::this_thread::sleep_for(milliseconds(1));
          continue;
        }
        if (*found < least) ++program.old;
        program.newest = *found;
      }
    });
  }
  // Whether each has seen this version.
  bool have_seen(uint64_t version) const {
    return std::all_of(programs_.begin(), programs_.end(),
                       [&](const auto& one) { return one.second.newest.load() == version; });
  }
  void expect_nothing_old() const {
    for (const auto& [name, program] : programs_) {
      EXPECT_EQ(program.old.load(), 0u) << name << " found what is old";
    }
  }
  std::string describe() const {
    std::string text;
    for (const auto& [name, program] : programs_) {
      text += name + ": version " + std::to_string(program.newest.load()) + ", " +
              std::to_string(program.errors.load()) + " errors\n";
    }
    return text;
  }

  std::atomic<uint64_t> told{0};

 private:
  struct Program {
    std::atomic<uint64_t> newest{0};
    std::atomic<uint64_t> old{0};
    std::atomic<uint64_t> errors{0};
  };
  std::map<std::string, Program> programs_;
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

// All of a file's words are its version.
std::optional<uint64_t> version_in(const void* bytes, int64_t length) {
  if (length != static_cast<int64_t>(kFileBytes)) return std::nullopt;
  uint64_t first = 0;
  std::memcpy(&first, bytes, sizeof(first));
  return first;
}

// Of rings and calls, in the test's own process.
class Application {
 public:
  explicit Application(const std::string& where) {
    EXPECT_EQ(penstock_connect(where.c_str(), &session_), 0) << penstock_last_error();
    EXPECT_EQ(penstock_region_create(session_, kFileBytes, &region_), 0);
    EXPECT_EQ(penstock_ring_create(session_, 8, 1, &ring_), 0);
    file_ = penstock_open(session_, "/bytes", O_RDONLY, 0);
    EXPECT_GE(file_, 0) << penstock_last_error();
  }
  ~Application() { penstock_close(session_); }
  Application(const Application&) = delete;
  Application& operator=(const Application&) = delete;

  penstock_completion run(uint8_t operation) {
    penstock_io io{};
    io.operation = operation;
    io.file = file_;
    io.length = kFileBytes;
    io.region = region_;
    penstock_completion done{};
    EXPECT_EQ(penstock_prepare(ring_, &io), 0);
    EXPECT_EQ(penstock_submit(ring_), 1);
    EXPECT_EQ(penstock_wait(ring_, &done, 1, 1, PENSTOCK_FOREVER), 1);
    return done;
  }
  std::optional<uint64_t> read_by_ring() {
    const penstock_completion done = run(PENSTOCK_READ);
    if (done.route == kRouteCache) {
      ++hits_;
    } else {
      run(PENSTOCK_WARM);
    }
    return version_in(penstock_region_base(region_), done.result);
  }
  std::optional<uint64_t> read_by_name() {
    std::vector<std::byte> bytes(kFileBytes);
    penstock_file_read one{};
    one.path = "/bytes";
    one.buffer = bytes.data();
    one.length = bytes.size();
    if (penstock_read_files(session_, &one, 1) != 1) return std::nullopt;
    return version_in(bytes.data(), one.result);
  }
  std::optional<uint64_t> look_at_length() {
    struct stat found {};
    if (penstock_stat(session_, "/length", &found) != 0) return std::nullopt;
    return static_cast<uint64_t>(found.st_size);
  }
  uint64_t hits() const { return hits_.load(); }

 private:
  penstock_session* session_ = nullptr;
  penstock_region* region_ = nullptr;
  penstock_ring* ring_ = nullptr;
  penstock_file file_ = -1;
  std::atomic<uint64_t> hits_{0};
};

class ClusterStopped : public MountedCluster {
 protected:
  ClusterStopped() : MountedCluster({"a", "b"}) {}
  void SetUp() override {
    MountedCluster::SetUp();
    if (IsSkipped()) return;
    up("first", {"--listen", free_address(), "--mount", place("a")});
    join("second", {"--mount", place("b"), "--cache", "64M"});
    bytes_.reset(::open((place("a") + "/bytes").c_str(), O_RDWR | O_CREAT, 0644));
    length_.reset(::open((place("a") + "/length").c_str(), O_RDWR | O_CREAT, 0644));
    ASSERT_TRUE(bytes_ && length_);
  }

  // On the first node; it has happened when this returns.
  void change(uint64_t version) {
    const std::vector<uint64_t> words(kFileBytes / sizeof(uint64_t), version);
    ASSERT_EQ(::pwrite(bytes_.get(), words.data(), kFileBytes, 0),
              static_cast<ssize_t>(kFileBytes));
    ASSERT_EQ(::ftruncate(length_.get(), static_cast<off_t>(version)), 0);
    // Its name says the version, too, and there is one at a time.
    const std::string made = place("a") + "/made";
    write_file(made, std::to_string(version));
    ASSERT_EQ(::rename(made.c_str(), (place("a") + "/named").c_str()), 0);
  }

  void start_programs(Programs& programs, Application& ring, Application& names) {
    const std::string b = place("b");
    programs.start("read() of an open file",
                   [file = std::make_shared<UniqueFd>(::open((b + "/bytes").c_str(), O_RDONLY))] {
                     std::vector<std::byte> bytes(kFileBytes);
                     return version_in(bytes.data(),
                                       ::pread(file->get(), bytes.data(), bytes.size(), 0));
                   });
    programs.start("stat()", [b]() -> std::optional<uint64_t> {
      struct stat found {};
      if (::stat((b + "/length").c_str(), &found) != 0) return std::nullopt;
      return static_cast<uint64_t>(found.st_size);
    });
    programs.start("a name", [b]() -> std::optional<uint64_t> {
      const UniqueFd file(::open((b + "/named").c_str(), O_RDONLY));
      char text[8] = {};
      if (!file || ::pread(file.get(), text, sizeof(text) - 1, 0) <= 0) return std::nullopt;
      return std::strtoull(text, nullptr, 10);
    });
    programs.start("a ring", [&ring] { return ring.read_by_ring(); });
    programs.start("read_files()", [&names] { return names.read_by_name(); });
    programs.start("penstock_stat()", [&names] { return names.look_at_length(); });
  }

 private:
  UniqueFd bytes_, length_;
};

TEST_F(ClusterStopped, gives_out_nothing_old) {
  change(1);
  Application ring(place("second")), names(place("second"));
  Programs programs;
  programs.told.store(1);
  start_programs(programs, ring, names);
  ASSERT_TRUE(eventually([&] { return programs.have_seen(1); })) << programs.describe();
  // What the second node's programs read comes from memory that the node shares with them.
  ASSERT_TRUE(eventually([&] { return ring.hits() > 100; })) << ring.hits();

  const pid_t second = ask("status", "second").value("pid", 0);
  ASSERT_GT(second, 0);
  ASSERT_EQ(::kill(second, SIGSTOP), 0);
  change(2);
  programs.told.store(2);
  // Those that do not ask the stopped process go on.
  std::this_thread::sleep_for(milliseconds(300));
  ASSERT_EQ(::kill(second, SIGCONT), 0);
  EXPECT_TRUE(eventually([&] { return programs.have_seen(2); })) << programs.describe();
  change(3);
  programs.told.store(3);
  EXPECT_TRUE(eventually([&] { return programs.have_seen(3); })) << programs.describe();
  programs.expect_nothing_old();
}

}  // namespace
}  // namespace penstock::test
