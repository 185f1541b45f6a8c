#include "generator.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <linux/stat.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utility>

#include "penstock/engine.h"

namespace penstock::differential {
namespace {

constexpr int64_t kSmallFile = 70'000;   // one chunk and a little
constexpr int64_t kLargeFile = 400'000;  // several chunks
constexpr int64_t kFarOffset = 5'000'000'000;

// How often everybody is let in again, and how often everything is compared.
constexpr size_t kRelaxEvery = 80;
constexpr size_t kCompareEvery = 1000;

struct Weight {
  Kind kind;
  uint32_t weight;
};

constexpr Weight kWeights[] = {
    {Kind::open, 110},       {Kind::mkdir, 30},       {Kind::rmdir, 14},
    {Kind::unlink, 30},      {Kind::rename, 36},      {Kind::link, 16},
    {Kind::link_file, 8},    {Kind::symlink, 12},     {Kind::readlink, 6},
    {Kind::mknod, 6},        {Kind::truncate, 12},    {Kind::chmod, 14},
    {Kind::chown, 14},       {Kind::utimens, 10},     {Kind::access, 10},
    {Kind::set_xattr, 12},   {Kind::get_xattr, 8},    {Kind::remove_xattr, 6},
    {Kind::list_xattr, 6},   {Kind::set_acl, 10},     {Kind::stat, 16},
    {Kind::list, 12},        {Kind::statfs, 1},       {Kind::close, 26},
    {Kind::dup, 8},          {Kind::read, 26},        {Kind::write, 40},
    {Kind::pread, 30},       {Kind::pwrite, 50},      {Kind::pwritev2, 12},
    {Kind::ftruncate, 26},   {Kind::fallocate, 26},   {Kind::seek, 30},
    {Kind::fchmod, 8},       {Kind::fchown, 6},       {Kind::futimens, 8},
    {Kind::fsync, 8},        {Kind::flock, 12},       {Kind::lock, 20},
    {Kind::copy_range, 14},  {Kind::send_file, 10},   {Kind::get_flags, 4},
    {Kind::set_flags, 3},    {Kind::get_fl, 4},       {Kind::set_fl, 6},
    {Kind::advise, 8},       {Kind::map, 16},         {Kind::map_write, 20},
    {Kind::map_read, 16},    {Kind::map_sync, 8},     {Kind::unmap, 8},
    {Kind::open_stream, 8},  {Kind::read_stream, 20}, {Kind::seek_stream, 8},
    {Kind::close_stream, 4}, {Kind::umask, 3},
};

class Generator {
 public:
  Generator(uint64_t seed, bool several_users) : random_(seed), several_users_(several_users) {
    for (const Weight& each : kWeights) total_ += each.weight;
  }
  Operation next();

 private:
  uint64_t below(uint64_t bound) { return random_.below(bound); }
  bool one_in(uint64_t n) { return below(n) == 0; }
  template <size_t N>
  int64_t one_of(const int64_t (&values)[N]) {
    return values[below(N)];
  }
  std::string name(bool directory);
  std::string path(bool directory);
  std::string target();
  int64_t mode(int64_t usual) { return one_in(8) ? static_cast<int64_t>(below(010000)) : usual; }
  int64_t length();
  int64_t offset();
  int64_t seconds();
  int64_t user() { return one_of({-1, 0, 1001, 1001, 1002, 1002, 1003}); }
  int64_t seed() { return static_cast<int64_t>(below(1'000'000)); }
  void open_flags(Operation& to);
  void on_names(Operation& to);
  void on_attributes(Operation& to);
  void on_files(Operation& to);
  void on_file_state(Operation& to);
  void on_others(Operation& to);

  engine::SeededRandom random_;
  const bool several_users_;
  uint64_t total_ = 0;
  uint8_t actor_ = 0;
};

// Directories and files mostly have names of their own, so that most paths lead somewhere.
std::string Generator::name(bool directory) {
  static const std::string kFileNames[] = {"a", "b", "c"};
  static const std::string kDirectoryNames[] = {"k", "l", "m"};
  static const std::string kOdd[] = {"k/",
                                     "a/",
                                     "with space",
                                     "h\xc3\xa4\xc3\xbf",
                                     ".hidden",
                                     std::string(255, 'x'),
                                     std::string(256, 'y'),
                                     "..",
                                     ".",
                                     "n\nl"};
  if (one_in(25)) return kOdd[below(std::size(kOdd))];
  if (one_in(8)) directory = !directory;
  return directory ? kDirectoryNames[below(3)] : kFileNames[below(3)];
}

std::string Generator::path(bool directory) {
  std::string text;
  static constexpr int kDepths[] = {0, 0, 0, 1, 1, 1, 2, 2, 3};
  for (int depth = kDepths[below(std::size(kDepths))]; depth > 0; depth--) text += name(true) + "/";
  if (one_in(2000)) text += std::string(4090, 'p') + "/";
  return text + name(directory);
}

std::string Generator::target() {
  if (one_in(20)) return std::string(below(4200), 't');
  if (one_in(12)) return "/proc/nowhere";  // nobody can make it
  return one_in(3) ? "../" + name(one_in(2)) : name(one_in(2));
}

int64_t Generator::length() {
  if (one_in(30)) return 0;
  if (one_in(6)) return static_cast<int64_t>(below(200'000));
  return one_in(3) ? 4096 * static_cast<int64_t>(1 + below(8))
                   : static_cast<int64_t>(below(10'000));
}

int64_t Generator::offset() {
  if (one_in(400)) return kFarOffset + static_cast<int64_t>(below(1'000'000));
  int64_t at = static_cast<int64_t>(below(one_in(4) ? kLargeFile : kSmallFile));
  if (one_in(3)) at &= ~int64_t{4095};
  return one_in(100) ? -at : at;
}

// What utimensat may be told: now, to leave it, or a time; ends of ranges above all. None is a time
// at which a test may run.
int64_t Generator::seconds() {
  if (one_in(4)) return INT64_MAX;  // UTIME_NOW
  if (one_in(4)) return INT64_MIN;  // UTIME_OMIT
  static constexpr int64_t kTimes[] = {0,
                                       1,
                                       -1,
                                       1'000'000'000,
                                       2'147'483'647,
                                       2'147'483'648,
                                       -2'147'483'648,
                                       -2'147'483'649,
                                       4'294'967'295,
                                       8'589'934'592,
                                       15'032'385'535,
                                       15'032'385'536,
                                       100'000'000'000};
  return one_in(2) ? kTimes[below(std::size(kTimes))] : static_cast<int64_t>(below(1'500'000'000));
}

void Generator::open_flags(Operation& to) {
  static constexpr int kFlags[] = {O_RDONLY,
                                   O_RDWR,
                                   O_RDWR,
                                   O_RDWR | O_CREAT,
                                   O_RDWR | O_CREAT,
                                   O_RDWR | O_CREAT,
                                   O_RDWR | O_CREAT | O_EXCL,
                                   O_RDWR | O_TRUNC,
                                   O_WRONLY | O_CREAT | O_TRUNC,
                                   O_WRONLY | O_APPEND | O_CREAT,
                                   O_RDWR | O_CREAT | O_APPEND,
                                   O_RDONLY | O_DIRECTORY,
                                   O_RDONLY | O_DIRECTORY,
                                   O_RDWR | O_NOFOLLOW,
                                   O_RDONLY | O_TRUNC,
                                   O_RDWR | O_CREAT | O_NOFOLLOW,
                                   O_RDWR | O_CREAT | O_SYNC,
                                   O_RDWR | O_CREAT | O_DSYNC,
                                   O_RDWR | O_CREAT | O_DIRECT,
                                   O_RDONLY | O_NOATIME,
                                   O_PATH,
                                   O_PATH | O_NOFOLLOW,
                                   O_PATH | O_DIRECTORY,
                                   O_RDWR | O_TMPFILE,
                                   O_RDWR | O_TMPFILE,
                                   O_WRONLY | O_TMPFILE | O_EXCL,
                                   O_WRONLY | O_CREAT | O_DIRECTORY,
                                   O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW};
  const int flags = kFlags[below(std::size(kFlags))];
  to.numbers = {flags, mode(one_in(2) ? 0666 : 0644)};
  to.path = path((flags & O_DIRECTORY) != 0);
}

void Generator::on_names(Operation& to) {
  const bool directory =
      to.kind == Kind::mkdir || to.kind == Kind::rmdir || (to.kind == Kind::rename && one_in(3));
  to.path = path(directory);
  if (to.kind == Kind::rename || to.kind == Kind::link) to.path2 = path(directory);
  switch (to.kind) {
    case Kind::open:
      return open_flags(to);
    case Kind::mkdir:
      to.numbers[0] = mode(0777);
      return;
    case Kind::rename:
      to.numbers[0] =
          one_in(2)
              ? 0
              : one_of({RENAME_NOREPLACE, RENAME_EXCHANGE, RENAME_NOREPLACE | RENAME_EXCHANGE});
      return;
    case Kind::link:
      to.numbers[0] = one_in(3) ? AT_SYMLINK_FOLLOW : 0;
      return;
    case Kind::symlink:
      to.path2 = target();
      return;
    case Kind::readlink:
      to.numbers[0] = one_in(3) ? static_cast<int64_t>(1 + below(20)) : 4200;
      return;
    case Kind::mknod:
      to.numbers[0] = one_of({S_IFIFO | 0640, S_IFREG | 0604, S_IFSOCK | 0777, S_IFCHR | 0666});
      return;
    default:
      return;
  }
}

void Generator::on_attributes(Operation& to) {
  to.path = path(one_in(3));
  to.other = static_cast<int>(below(8));
  switch (to.kind) {
    case Kind::truncate:
      to.numbers[0] = offset();
      return;
    case Kind::chmod:
      to.numbers[0] = one_in(2) ? 0777 : static_cast<int64_t>(below(010000));
      return;
    case Kind::chown:
      to.numbers = {user(), user()};
      return;
    case Kind::utimens:
      to.numbers = {seconds(), seconds(), one_of({0, 1, 123'456'789, 999'999'999, 1'000'000'001})};
      return;
    case Kind::access:
      to.numbers = {static_cast<int64_t>(below(8)),
                    one_of({0, AT_EACCESS, AT_EACCESS | AT_SYMLINK_NOFOLLOW})};
      return;
    case Kind::set_xattr:
      to.numbers = {static_cast<int64_t>(below(300)), one_of({0, 0, XATTR_CREATE, XATTR_REPLACE}),
                    seed()};
      return;
    case Kind::get_xattr:
    case Kind::list_xattr:
      to.numbers[0] = one_of({0, 20, 150, 4096, 4096});
      return;
    case Kind::set_acl:
      to.numbers = {one_in(2), seed()};
      return;
    case Kind::stat:
      to.numbers[0] = one_of({0, AT_SYMLINK_NOFOLLOW, AT_STATX_FORCE_SYNC, AT_STATX_DONT_SYNC});
      return;
    default:
      return;
  }
}

void Generator::on_files(Operation& to) {
  to.other = static_cast<int>(below(kFiles));
  switch (to.kind) {
    case Kind::read:
      to.numbers[0] = length();
      return;
    case Kind::write:
      to.numbers = {length(), seed()};
      return;
    case Kind::pread:
      to.numbers = {length(), offset()};
      return;
    case Kind::pwrite:
      to.numbers = {length(), offset(), seed()};
      return;
    case Kind::pwritev2:
      to.numbers = {length(), one_in(4) ? -1 : offset(), seed(),
                    one_of({0, RWF_APPEND, RWF_DSYNC, RWF_SYNC, RWF_NOWAIT | RWF_HIPRI})};
      if ((to.numbers[3] & RWF_NOWAIT) != 0) to.numbers[3] = 0;
      return;
    case Kind::ftruncate:
      to.numbers[0] = offset();
      return;
    case Kind::fallocate:
      to.numbers = {one_of({0, FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                            FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, FALLOC_FL_ZERO_RANGE,
                            FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE}),
                    offset(), length()};
      // Room for what lies far out is not needed to say what differs.
      if (to.numbers[1] > kLargeFile) to.numbers[1] = kLargeFile;
      return;
    case Kind::seek:
      to.numbers = {offset(), one_of({SEEK_SET, SEEK_SET, SEEK_CUR, SEEK_END, SEEK_DATA, SEEK_DATA,
                                      SEEK_HOLE, SEEK_HOLE, 7})};
      return;
    case Kind::copy_range:
      to.numbers = {length(), offset(), offset()};
      return;
    case Kind::send_file:
      to.numbers = {length(), one_in(2) ? -1 : offset()};
      return;
    default:
      return on_file_state(to);
  }
}

void Generator::on_file_state(Operation& to) {
  switch (to.kind) {
    case Kind::fchmod:
      to.numbers[0] = static_cast<int64_t>(below(010000));
      return;
    case Kind::fchown:
      to.numbers = {user(), user()};
      return;
    case Kind::futimens:
      to.numbers = {seconds(), seconds(), one_of({0, 123'456'789, 999'999'999})};
      return;
    case Kind::fsync:
      to.numbers[0] = one_in(2);
      return;
    case Kind::flock:
      to.numbers[0] = one_of({LOCK_SH, LOCK_EX, LOCK_UN}) | LOCK_NB;
      return;
    case Kind::lock:
      to.numbers = {one_of({F_SETLK, F_SETLK, F_GETLK, F_OFD_SETLK, F_OFD_SETLK, F_OFD_GETLK}),
                    one_of({F_RDLCK, F_WRLCK, F_UNLCK}), static_cast<int64_t>(below(100)),
                    static_cast<int64_t>(below(50))};
      return;
    case Kind::set_flags:
      to.numbers[0] = one_of({0, FS_IMMUTABLE_FL, FS_APPEND_FL, FS_NODUMP_FL, FS_NOATIME_FL});
      return;
    case Kind::set_fl:
      to.numbers[0] = one_of({0, O_APPEND, O_NOATIME});
      return;
    case Kind::advise:
      to.numbers = {0, one_in(2) ? 0 : length()};
      return;
    default:
      return;
  }
}

void Generator::on_others(Operation& to) {
  switch (to.kind) {
    case Kind::map:
      to.numbers = {4096 * static_cast<int64_t>(below(16)), 1 + static_cast<int64_t>(below(70'000)),
                    !one_in(4)};
      return;
    case Kind::map_write:
      to.numbers = {static_cast<int64_t>(below(70'000)), length(), seed()};
      return;
    case Kind::map_read:
      to.numbers = {static_cast<int64_t>(below(70'000)), length()};
      return;
    case Kind::map_sync:
      to.numbers[0] = one_of({MS_SYNC, MS_SYNC, MS_ASYNC});
      return;
    case Kind::open_stream:
      to.path = one_in(4) ? "." : path(true);
      return;
    case Kind::read_stream:
      to.numbers[0] = one_in(3) ? 1000 : static_cast<int64_t>(1 + below(4));
      return;
    case Kind::seek_stream:
      to.numbers[0] = static_cast<int64_t>(below(6));
      return;
    case Kind::umask:
      to.numbers[0] = one_of({0, 022, 022, 077, 0777});
      return;
    default:
      return;
  }
}

Operation Generator::next() {
  Operation made;
  uint64_t pick = below(total_);
  size_t index = 0;
  while (pick >= kWeights[index].weight) pick -= kWeights[index++].weight;
  made.kind = kWeights[index].kind;
  // The same one mostly goes on for a while.
  if (one_in(4)) actor_ = static_cast<uint8_t>(below(several_users_ ? kActors : 2));
  made.actor = actor_;
  made.slot = static_cast<int>(below(kFiles));
  if (made.kind <= Kind::statfs && one_in(12)) made.at = static_cast<int>(below(kFiles));
  if (made.kind >= Kind::open_stream) made.slot = static_cast<int>(below(kStreams));
  if (made.kind <= Kind::mknod) {
    on_names(made);
  } else if (made.kind <= Kind::statfs) {
    on_attributes(made);
  } else if (made.kind < Kind::map) {
    on_files(made);
  } else {
    made.other = static_cast<int>(below(kMaps));
    on_others(made);
  }
  return made;
}

// What differs between nodes for good (intended.cc), and statfs, whose figures are some seconds
// old.
bool is_of_one_mount(Kind kind) {
  return kind == Kind::flock || kind == Kind::lock || kind == Kind::statfs ||
         kind == Kind::send_file || (kind >= Kind::map && kind <= Kind::unmap);
}

// Deals operations out over mounts, and says when a node goes and comes back. With randomness of
// its own: programs for one mount stay what they were.
class Dealer {
 public:
  Dealer(uint64_t seed, const Wishes& wishes)
      : random_(seed ^ 0x6d6f756e7473ULL), wishes_(wishes) {}

  void deal(Operation& to) {
    if (wishes_.mounts < 2) return;
    to.mount = static_cast<int>(random_.below(wishes_.mounts));
    // "... through several mounts" in intended.cc.
    if (to.kind == Kind::mknod && S_ISFIFO(static_cast<mode_t>(to.numbers[0])))
      to.numbers[0] = S_IFSOCK | 0640;
    if (to.kind == Kind::pwritev2) to.numbers[3] &= ~int64_t{RWF_APPEND};
  }
  std::optional<Operation> order() {
    if (wishes_.mounts < 2 || wishes_.lose_every == 0) return std::nullopt;
    Operation made;
    if (lost_ != 0) {
      if (--left_ > 0) return std::nullopt;
      made.kind = Kind::restore;
      made.mount = std::exchange(lost_, 0);
      return made;
    }
    if (random_.below(wishes_.lose_every) != 0) return std::nullopt;
    made.kind = Kind::lose;
    made.mount = lost_ = 1 + static_cast<int>(random_.below(wishes_.mounts - 1));
    left_ = 2 + random_.below(60);
    // Killed at once, killed in the middle of what follows, or stopped for a while.
    const uint64_t how = random_.below(3);
    made.numbers = {static_cast<int64_t>(how),
                    static_cast<int64_t>(how == 1 ? random_.below(50) : random_.below(20'000))};
    if (how == 0) made.numbers[1] = 0;
    made.numbers[2] = static_cast<int64_t>(random_.below(2));
    return made;
  }

 private:
  engine::SeededRandom random_;
  const Wishes wishes_;
  int lost_ = 0;
  uint64_t left_ = 0;
};

}  // namespace

Program program_of(uint64_t seed, const Wishes& wishes) {
  Generator generator(seed, wishes.several_users);
  Dealer dealer(seed, wishes);
  Program program;
  program.reserve(wishes.length);
  const size_t compare_every = wishes.mounts > 1 ? kCompareEvery / 4 : kCompareEvery;
  while (program.size() + 1 < wishes.length) {
    const size_t step = program.size() + 1;
    Operation made;
    if (step % compare_every == 0) {
      made.kind = Kind::compare;
    } else if (step % kRelaxEvery == 0) {
      made.kind = Kind::relax;
    } else if (const auto order = dealer.order()) {
      program.push_back(*order);
      continue;
    } else {
      do made = generator.next();
      while (wishes.mounts > 1 && is_of_one_mount(made.kind));
    }
    dealer.deal(made);
    program.push_back(made);
  }
  Operation last;
  last.kind = Kind::compare;
  if (wishes.length > 0) program.push_back(last);
  return program;
}

}  // namespace penstock::differential
