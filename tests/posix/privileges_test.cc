// What lets a file run as somebody else (set-id bits, security.capability) goes when the file
// changes, by the rules of the machine's own file system.
#include "mounted_node.h"
#include "users.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/core.h>
#include <linux/capability.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <thread>

namespace penstock::posix {
namespace {

constexpr off_t kLength = 8192;
constexpr const char* kCapability = "security.capability";

// A capability that may be stored: CAP_NET_BIND_SERVICE, in the second form.
constexpr std::array<uint32_t, 5> kCapabilityValue{0x0200'0001, 1U << 10, 0, 0, 0};

// An operation on a file, by its path; 0 or an errno.
struct Action {
  const char* name;
  int (*run)(const std::string& path);
  // The kernel tells a mount whether the caller has CAP_FSETID.
  bool says_fsetid = false;
  // A mount cannot refuse it to who may not do it. We change nothing; the kernel takes a
  // capability.
  bool is_not_refused = false;
};

int error_of(int64_t result) {
  return result < 0 ? errno : 0;
}
int with_file(const std::string& path, int flags, int64_t (*run)(int fd)) {
  const UniqueFd fd(::open(path.c_str(), flags | O_CLOEXEC, 0666));
  return fd ? error_of(run(fd.get())) : errno;
}
template <int kMode, off_t kOffset, off_t kCount>
int allocate(const std::string& path) {
  return with_file(path, O_WRONLY,
                   [](int fd) { return int64_t{::fallocate(fd, kMode, kOffset, kCount)}; });
}
int64_t write_directly(int fd) {
  alignas(4096) static char page[4096];
  return ::pwrite(fd, page, sizeof page, 0);
}
int64_t store_to_mapping(int fd) {
  void* const page = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (page == MAP_FAILED) return -1;
  std::memcpy(page, "mapped", 6);
  const int synced = ::msync(page, 4096, MS_SYNC);
  ::munmap(page, 4096);
  return synced;
}
int64_t write_much(int fd) {
  const std::string bytes(300'000, 'm');
  return ::pwrite(fd, bytes.data(), bytes.size(), 0);
}

const Action kActions[] = {
    {"write",
     [](const std::string& p) {
       return with_file(p, O_WRONLY, [](int fd) { return int64_t{::write(fd, "y", 1)}; });
     },
     true},
    {"append",
     [](const std::string& p) {
       return with_file(p, O_WRONLY | O_APPEND,
                        [](int fd) { return int64_t{::write(fd, "y", 1)}; });
     },
     true},
    {"write of nothing",
     [](const std::string& p) {
       return with_file(p, O_WRONLY, [](int fd) { return int64_t{::write(fd, "y", 0)}; });
     }},
    {"long write", [](const std::string& p) { return with_file(p, O_WRONLY, write_much); }, true},
    {"O_DIRECT",
     [](const std::string& p) { return with_file(p, O_WRONLY | O_DIRECT, write_directly); }, true},
    {"O_SYNC",
     [](const std::string& p) {
       return with_file(p, O_WRONLY | O_SYNC, [](int fd) { return int64_t{::write(fd, "y", 1)}; });
     },
     true},
    {"mapping", [](const std::string& p) { return with_file(p, O_RDWR, store_to_mapping); }},
    {"truncate", [](const std::string& p) { return error_of(::truncate(p.c_str(), 5)); }, true},
    {"truncate to the same",
     [](const std::string& p) { return error_of(::truncate(p.c_str(), kLength)); }, true},
    {"truncate upwards",
     [](const std::string& p) { return error_of(::truncate(p.c_str(), 20'000)); }, true},
    {"O_TRUNC",
     [](const std::string& p) {
       return with_file(p, O_WRONLY | O_TRUNC, [](int) { return int64_t{0}; });
     },
     true},
    {"O_CREAT | O_TRUNC",
     [](const std::string& p) {
       return with_file(p, O_WRONLY | O_CREAT | O_TRUNC, [](int) { return int64_t{0}; });
     },
     true},
    {"chown to nobody else",
     [](const std::string& p) {
       return error_of(::chown(p.c_str(), static_cast<uid_t>(-1), static_cast<gid_t>(-1)));
     },
     false, true},
    {"chown to the owner",
     [](const std::string& p) {
       return error_of(::chown(p.c_str(), kAlice, static_cast<gid_t>(-1)));
     }},
    {"change of group",
     [](const std::string& p) {
       return error_of(::chown(p.c_str(), static_cast<uid_t>(-1), ::getegid()));
     }},
    {"fallocate", allocate<0, 0, 4096>},
    {"fallocate behind the end", allocate<0, 0, 100'000>},
    {"fallocate, length kept", allocate<FALLOC_FL_KEEP_SIZE, 0, 100'000>},
    {"punch", allocate<FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096>},
    {"zero", allocate<FALLOC_FL_ZERO_RANGE, 0, 4096>},
    {"utimensat",
     [](const std::string& p) { return error_of(::utimensat(AT_FDCWD, p.c_str(), nullptr, 0)); }},
    {"chmod", [](const std::string& p) { return error_of(::chmod(p.c_str(), 06755)); }},
};

struct User {
  const char* name;
  uid_t id;
  std::vector<gid_t> groups;  // beside his own
  bool without_fsetid = false;
};
const User kUsers[] = {
    {"root", 0, {}},       {"root without CAP_FSETID", 0, {}, true}, {"the owner", kAlice, {}},
    {"another", kBob, {}}, {"one of the group", kBob, {kAlice}},
};

bool drop_fsetid() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> data{};
  if (::syscall(SYS_capget, &header, data.data()) != 0) return false;
  data[0].effective &= ~(1U << CAP_FSETID);
  return ::syscall(SYS_capset, &header, data.data()) == 0;
}

int run_as(const User& user, const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (user.id != 0 && (::setgroups(user.groups.size(), user.groups.data()) != 0 ||
                         ::setgid(user.id) != 0 || ::setuid(user.id) != 0)) {
      ::_exit(255);
    }
    if (user.without_fsetid && !drop_fsetid()) ::_exit(254);
    ::_exit(body());
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool has_capability(const std::string& path) {
  return ::getxattr(path.c_str(), kCapability, nullptr, 0) > 0;
}
std::string privileges_of(const std::string& path) {
  struct stat stat {};
  if (::stat(path.c_str(), &stat) != 0) return std::strerror(errno);
  return fmt::format("{:o}{}", stat.st_mode & 07777,
                     has_capability(path) ? " and capabilities" : "");
}

class PrivilegesTest : public PosixTest {
 protected:
  void SetUp() override {
    PosixTest::SetUp();
    if (IsSkipped()) return;
    if (::geteuid() != 0) GTEST_SKIP() << "it needs root, to be several users";
    top_ = directory("privileges");
    host_ = node().host() + "/privileges";
    remove_all(host_);
    ASSERT_EQ(::mkdir(host_.c_str(), 0777), 0);
    ASSERT_EQ(::chmod(host_.c_str(), 0777), 0);
  }

  // Alice's file with these privileges, made anew.
  static void make(const std::string& path, mode_t mode, bool capability) {
    ::unlink(path.c_str());
    const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    ASSERT_TRUE(fd) << std::strerror(errno);
    const std::string bytes(kLength, 'x');
    ASSERT_EQ(::write(fd.get(), bytes.data(), bytes.size()), kLength);
    ASSERT_EQ(::fchown(fd.get(), kAlice, kAlice), 0);
    if (capability) {
      ASSERT_EQ(
          ::fsetxattr(fd.get(), kCapability, kCapabilityValue.data(), sizeof kCapabilityValue, 0),
          0)
          << std::strerror(errno);
    }
    ASSERT_EQ(::fchmod(fd.get(), mode), 0);
  }
  static std::string outcome(const std::string& path, const Action& action, const User& user) {
    const int error = run_as(user, [&] { return action.run(path); });
    if (error == 0 || action.is_not_refused) return privileges_of(path);
    return fmt::format("{} ({})", privileges_of(path), std::strerror(error));
  }

  std::string top_, host_;
};

// The rows of docs/posix.md about this.
bool is_known_to_differ(const User& user, const Action& action, mode_t mode, bool capability) {
  if (user.without_fsetid && !action.says_fsetid) return true;
  if (user.id == kBob && action.is_not_refused && capability) return true;
  return user.id == 0 && capability && (mode & S_ISUID) != 0;
}

TEST_F(PrivilegesTest, go_with_what_takes_them_on_the_host) {
  for (const mode_t mode : {mode_t{06777}, mode_t{02767}, mode_t{0777}}) {
    for (const bool capability : {false, true}) {
      for (const User& user : kUsers) {
        for (const Action& action : kActions) {
          if (is_known_to_differ(user, action, mode, capability)) continue;
          make(host_ + "/f", mode, capability);
          make(top_ + "/f", mode, capability);
          // The kernel knows the file, as where a program is replaced that has run.
          (void)privileges_of(top_ + "/f");
          EXPECT_EQ(outcome(top_ + "/f", action, user), outcome(host_ + "/f", action, user))
              << action.name << " by " << user.name << " of a file with "
              << privileges_of(host_ + "/f") << " now, " << fmt::format("{:o}", mode)
              << (capability ? " and capabilities" : "") << " before";
        }
      }
    }
  }
}

TEST_F(PrivilegesTest, of_what_is_no_file_go_with_its_owner) {
  for (const bool fifo : {false, true}) {
    for (const User& user : kUsers) {
      if (user.without_fsetid) continue;
      const auto answer = [&](const std::string& path) {
        ::unlink(path.c_str());
        ::rmdir(path.c_str());
        EXPECT_EQ(fifo ? ::mkfifo(path.c_str(), 0600) : ::mkdir(path.c_str(), 0700), 0);
        EXPECT_EQ(::chown(path.c_str(), kAlice, kAlice), 0);
        EXPECT_EQ(::chmod(path.c_str(), 06777), 0);
        return outcome(
            path,
            {"",
             [](const std::string& p) {
               return error_of(::chown(p.c_str(), static_cast<uid_t>(-1), static_cast<gid_t>(-1)));
             },
             false, true},
            user);
      };
      EXPECT_EQ(answer(top_ + "/other"), answer(host_ + "/other")) << fifo << " " << user.name;
    }
  }
}

TEST_F(PrivilegesTest, given_by_others_go_with_the_next_write) {
  const std::string path = top_ + "/f";
  make(path, 0777, false);
  const auto id = node().files().resolve({}, "/privileges/f", true)->inode;
  int to_child[2], to_parent[2];
  ASSERT_EQ(::pipe(to_child), 0);
  ASSERT_EQ(::pipe(to_parent), 0);
  // Bob writes on and on; between two writes somebody gives the file what lets it run as Alice, by
  // another way than this mount.
  constexpr int kRounds = 20;
  std::thread bob([&] {
    EXPECT_EQ(as_user(kBob,
                      [&] {
                        const UniqueFd fd(::open(path.c_str(), O_WRONLY));
                        char turn = 0;
                        for (int i = 0; i < kRounds; ++i) {
                          if (::read(to_child[0], &turn, 1) != 1) return errno;
                          if (::write(fd.get(), "y", 1) != 1) return errno;
                          // What he sees at once.
                          struct stat stat {};
                          if (::fstat(fd.get(), &stat) != 0) return errno;
                          if ((stat.st_mode & 07777) != 0777) return 253;
                          if (::write(to_parent[1], &turn, 1) != 1) return errno;
                        }
                        return 0;
                      }),
              0);
  });
  char turn = 0;
  for (int i = 0; i < kRounds; ++i) {
    if (i % 2 == 0) {
      meta::SetAttributes changes;
      changes.mode = 06777;
      ASSERT_TRUE(node().files().set_attributes({}, id, changes, nullptr));
    } else {
      const std::string_view value(reinterpret_cast<const char*>(kCapabilityValue.data()),
                                   sizeof kCapabilityValue);
      ASSERT_TRUE(
          node()
              .files()
              .set_xattr({}, id, meta::kCapabilityXattr, value, meta::XattrMode::any, nullptr)
              .ok());
    }
    ASSERT_EQ(::write(to_child[1], &turn, 1), 1);
    ASSERT_EQ(::read(to_parent[0], &turn, 1), 1);
    EXPECT_EQ(privileges_of(path), "777") << i;
  }
  bob.join();
  for (const int fd : {to_child[0], to_child[1], to_parent[0], to_parent[1]}) ::close(fd);
}

TEST_F(PrivilegesTest, are_looked_for_once_and_not_at_each_write) {
  const auto asked = [] {
    uint64_t count = 0;
    for (const metrics::Sample& sample : metrics::snapshot()) {
      if (sample.name == "fuse.xattr.gets") count = sample.value;
    }
    return count;
  };
  make(top_ + "/f", 0644, false);
  const UniqueFd fd(::open((top_ + "/f").c_str(), O_WRONLY));
  ASSERT_EQ(::write(fd.get(), "x", 1), 1);
  const uint64_t before = asked();
  for (int i = 0; i < 100; ++i) ASSERT_EQ(::write(fd.get(), "x", 1), 1);
  EXPECT_EQ(asked(), before);
}

}  // namespace
}  // namespace penstock::posix
