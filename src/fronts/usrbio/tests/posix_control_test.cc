// The ioctls of 3FS's mount, as its tools lay them out.
#include "tests/node_fixture.h"

#include <climits>
#include <fcntl.h>
#include <sys/ioctl.h>

namespace penstock::usrbio {
namespace {

struct Hardlink {
  ino_t parent;
  char name[NAME_MAX];
};
struct PunchHole {
  int count;
  size_t flags;
  size_t start[1000];
  size_t end[1000];
};
struct Move {
  uint64_t parent;
  char name[NAME_MAX + 1];
  uint64_t new_parent;
  char new_name[NAME_MAX + 1];
  bool to_trash;
};
struct Remove {
  uint64_t parent;
  char name[NAME_MAX + 1];
  bool recursive;
};

class Controls : public Usrbio {
 protected:
  // errno, or 0.
  template <class T>
  static int ask(int fd, unsigned long command, T* argument) {
    return ::ioctl(fd, command, argument) == 0 ? 0 : errno;
  }
  static int force_fsync(int fd) { return ::ioctl(fd, _IOR('h', 11, uint32_t)) == 0 ? 0 : errno; }
  UniqueFd open_directory(const std::string& name) {
    return UniqueFd(::open(node_->path(name).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  }
  uint64_t inode_of(const std::string& name) {
    struct stat facts {};
    EXPECT_EQ(::stat(node_->path(name).c_str(), &facts), 0) << name;
    return facts.st_ino;
  }
  bool exists(const std::string& name) {
    struct stat facts {};
    return ::lstat(node_->path(name).c_str(), &facts) == 0;
  }
  void make_directory(const std::string& name, mode_t mode = 0755) {
    ASSERT_EQ(::mkdir(node_->path(name).c_str(), mode), 0);
    ASSERT_EQ(::chmod(node_->path(name).c_str(), mode), 0);
  }
  template <class T>
  static T named(uint64_t parent, const char* name) {
    T argument{};
    argument.parent = parent;
    std::strcpy(argument.name, name);
    return argument;
  }
  static int remove(int fd, uint64_t parent, const char* name, bool recursive) {
    Remove argument = named<Remove>(parent, name);
    argument.recursive = recursive;
    return ask(fd, _IOW('h', 15, Remove), &argument);
  }
  static int move(int fd, uint64_t parent, const char* name, uint64_t new_parent,
                  const char* new_name) {
    Move argument = named<Move>(parent, name);
    argument.new_parent = new_parent;
    std::strcpy(argument.new_name, new_name);
    return ask(fd, _IOW('h', 14, Move), &argument);
  }
};

TEST_F(Controls, tell_what_the_mount_is) {
  const int file = make_file("told", "");
  const UniqueFd root = open_directory("");
  for (const int fd : {file, root.get()}) {
    uint32_t value = 0;
    EXPECT_EQ(ask(fd, _IOR('h', 2, uint32_t), &value), 0);
    EXPECT_EQ(value, uint32_t{HF3FS_SUPER_MAGIC});
    EXPECT_EQ(ask(fd, _IOR('h', 3, uint32_t), &value), 0);
    EXPECT_EQ(value, 1u);
    EXPECT_EQ(ask(fd, _IOR('h', 1, uint32_t), &value), 0);
    EXPECT_EQ(value, mount_.size());
    char name[32] = {1};
    EXPECT_EQ(ask(fd, _IOR('h', 0, char[32]), name), 0);
    EXPECT_EQ(::strnlen(name, sizeof name) < sizeof name, true);
    EXPECT_EQ(force_fsync(fd), 0);
    EXPECT_EQ(ask(fd, _IOR('h', 99, uint32_t), &value), ENOTTY);
  }
}

TEST_F(Controls, link_and_punch_the_open_file) {
  const std::string bytes = random_bytes(16384, 41);
  const int file = make_file("first", bytes);
  Hardlink link = named<Hardlink>(inode_of(""), "second");
  EXPECT_EQ(ask(file, _IOW('h', 12, Hardlink), &link), 0);
  EXPECT_EQ(inode_of("second"), inode_of("first"));
  EXPECT_EQ(ask(file, _IOW('h', 12, Hardlink), &link), EEXIST);
  std::strcpy(link.name, "a/b");
  EXPECT_EQ(ask(file, _IOW('h', 12, Hardlink), &link), EINVAL);

  auto holes = std::make_unique<PunchHole>();
  holes->count = 2;
  holes->end[0] = 100;
  holes->start[1] = 8192;
  holes->end[1] = 12288;
  EXPECT_EQ(ask(file, _IOW('h', 13, PunchHole), holes.get()), 0);
  std::string wanted = bytes;
  std::fill_n(wanted.begin(), 100, '\0');
  std::fill_n(wanted.begin() + 8192, 4096, '\0');
  std::string found(16384, 'x');
  EXPECT_EQ(::pread(file, found.data(), found.size(), 0), 16384);
  EXPECT_EQ(found == wanted, true);
  const UniqueFd reader(::open(node_->path("first").c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(ask(reader.get(), _IOW('h', 13, PunchHole), holes.get()), EBADF);
  holes->count = 1001;
  EXPECT_EQ(ask(file, _IOW('h', 13, PunchHole), holes.get()), EINVAL);
}

TEST_F(Controls, move_and_remove_names) {
  make_directory("from");
  make_directory("to");
  make_file("from/file", "x");
  const UniqueFd root = open_directory("");
  const uint64_t from = inode_of("from"), to = inode_of("to");
  EXPECT_EQ(move(root.get(), from, "file", to, "moved"), 0);
  EXPECT_FALSE(exists("from/file"));
  EXPECT_TRUE(exists("to/moved"));
  EXPECT_EQ(move(root.get(), from, "file", to, "moved"), ENOENT);
  EXPECT_EQ(remove(root.get(), inode_of(""), "to", false), ENOTEMPTY);
  EXPECT_EQ(remove(root.get(), to, "moved", false), 0);
  EXPECT_FALSE(exists("to/moved"));
  make_file("to/again", "x");
  EXPECT_EQ(remove(root.get(), inode_of(""), "to", true), 0);
  EXPECT_FALSE(exists("to"));
  EXPECT_EQ(remove(root.get(), inode_of(""), "..", true), EINVAL);
}

TEST_F(Controls, of_a_directory_by_number_need_the_way_to_it) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be two users";
  make_directory("private", 0700);
  make_directory("private/open", 0777);
  make_file("private/open/file", "x");
  const uint64_t inside = inode_of("private/open");
  EXPECT_EQ(in_child([&] {
              if (::setgid(65534) != 0 || ::setuid(65534) != 0) return 255;
              const UniqueFd root = open_directory("");
              return remove(root.get(), inside, "file", false);
            }),
            EACCES);
  EXPECT_TRUE(exists("private/open/file"));
}

}  // namespace
}  // namespace penstock::usrbio
