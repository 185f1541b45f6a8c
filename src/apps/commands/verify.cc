// `penstock verify`: compares a directory tree with one in a file system of ours, byte for byte,
// reading ours through a ring, or small files many at a time.
#include "commands.h"
#include "node/admin.h"
#include "small_reads.h"
#include "transfer.h"
#include "tree.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <set>
#include <unistd.h>

#include "penstock/console.h"

namespace penstock::apps {
namespace {

// 0 or a positive errno.
int read_at(int fd, uint64_t offset, std::span<std::byte> memory) {
  size_t got = 0;
  while (got < memory.size()) {
    const ssize_t n =
        ::pread(fd, memory.data() + got, memory.size() - got, static_cast<off_t>(offset + got));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n < 0 ? errno : ENODATA;
    got += static_cast<size_t>(n);
  }
  return 0;
}

class Verifier {
 public:
  Verifier(penstock_session* session, TransferPool& pool, std::string root, std::string destination,
           console::Progress* progress, Problems* differences)
      : session_(session),
        pool_(pool),
        root_(std::move(root)),
        files_(root_),
        destination_(std::move(destination)),
        progress_(progress),
        differences_(differences) {}

  void run(uint32_t workers);

 private:
  std::string destination_of(const TreeEntry& entry) const {
    if (entry.relative.empty()) return destination_;
    return destination_ == "/" ? "/" + entry.relative : destination_ + "/" + entry.relative;
  }
  void work(uint32_t worker);
  std::vector<penstock_file_stat> look_at(const std::vector<TreeEntry>& entries) const;
  bool same_attributes(const TreeEntry& entry, const penstock_file_stat& seen);
  void compare_names(const TreeEntry& directory);
  void compare_symlink(const TreeEntry& entry);
  bool same_length(const TreeEntry& entry, const struct stat& ours);
  void compare_file(const TreeEntry& entry, Transfer* transfer);
  void compare_small(const TreeEntry& entry, int error, std::span<const std::byte> ours,
                     std::vector<std::byte>* memory);
  void tell_first_difference(const TreeEntry& entry, uint64_t offset,
                             std::span<const std::byte> ours, std::span<const std::byte> theirs);

  penstock_session* const session_;
  TransferPool& pool_;
  const std::string root_;
  const TreeFiles files_;
  const std::string destination_;
  console::Progress* const progress_;
  Problems* const differences_;
  TreeQueue queue_;
};

// In one trip.
std::vector<penstock_file_stat> Verifier::look_at(const std::vector<TreeEntry>& entries) const {
  std::vector<std::string> destinations;
  destinations.reserve(entries.size());
  for (const TreeEntry& entry : entries) destinations.push_back(destination_of(entry));
  std::vector<penstock_file_stat> seen(entries.size());
  for (size_t i = 0; i < seen.size(); ++i) seen[i].path = destinations[i].c_str();
  // What goes wrong with the whole is each file's own result.
  (void)penstock_lstat_files(session_, seen.data(), seen.size());
  for (penstock_file_stat& one : seen) one.path = nullptr;
  return seen;
}

bool Verifier::same_attributes(const TreeEntry& entry, const penstock_file_stat& seen) {
  const struct stat* const ours = &seen.st;
  if (seen.result != 0) {
    differences_->add(entry.path, std::string("not in the store: ") + std::strerror(-seen.result));
    return false;
  }
  if ((ours->st_mode & S_IFMT) != (entry.st.st_mode & S_IFMT)) {
    differences_->add(entry.path, "another type of file in the store");
    return false;
  }
  const bool mode_counts = !S_ISLNK(entry.st.st_mode);
  if (mode_counts && (ours->st_mode & 07777) != (entry.st.st_mode & 07777)) {
    differences_->add(entry.path, "another mode in the store");
  }
  const bool times_same = ours->st_mtim.tv_sec == entry.st.st_mtim.tv_sec &&
                          ours->st_mtim.tv_nsec == entry.st.st_mtim.tv_nsec;
  if (!times_same) differences_->add(entry.path, "another modification time in the store");
  return true;
}

// Every name of the source is looked up one by one; here the other direction.
void Verifier::compare_names(const TreeEntry& directory) {
  std::set<std::string> theirs;
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::opendir(directory.path.c_str()), ::closedir);
  if (!stream) return;
  while (const dirent* entry = ::readdir(stream.get())) theirs.insert(entry->d_name);
  struct Context {
    const std::set<std::string>* theirs;
    const TreeEntry* directory;
    Problems* differences;
  } context{&theirs, &directory, differences_};
  const int result = penstock_list(
      session_, destination_of(directory).c_str(),
      [](void* pointer, const char* name, uint64_t, unsigned char) {
        auto* c = static_cast<Context*>(pointer);
        if (!c->theirs->contains(name)) {
          c->differences->add(c->directory->path + "/" + name, "only in the store");
        }
        return 0;
      },
      &context);
  if (result < 0) {
    differences_->add(directory.path, std::string("list: ") + penstock_last_error());
  }
}

void Verifier::compare_symlink(const TreeEntry& entry) {
  std::string theirs(limits::kPathBytesMax, '\0'), ours(limits::kPathBytesMax, '\0');
  const ssize_t a = ::readlink(entry.path.c_str(), theirs.data(), theirs.size());
  const ssize_t b =
      penstock_readlink(session_, destination_of(entry).c_str(), ours.data(), ours.size());
  if (a < 0 || a != b || std::memcmp(theirs.data(), ours.data(), static_cast<size_t>(a)) != 0) {
    differences_->add(entry.path, "another link target in the store");
  }
}

bool Verifier::same_length(const TreeEntry& entry, const struct stat& ours) {
  if (ours.st_size == entry.st.st_size) return true;
  differences_->add(entry.path, "length " + std::to_string(ours.st_size) + " in the store, not " +
                                    std::to_string(entry.st.st_size));
  return false;
}

void Verifier::tell_first_difference(const TreeEntry& entry, uint64_t offset,
                                     std::span<const std::byte> ours,
                                     std::span<const std::byte> theirs) {
  const auto [mine, other] = std::mismatch(ours.begin(), ours.end(), theirs.begin());
  differences_->add(entry.path,
                    "other bytes in the store from offset " +
                        std::to_string(offset + static_cast<uint64_t>(mine - ours.begin())));
}

// With memory for the source's bytes that is used again.
void Verifier::compare_small(const TreeEntry& entry, int error, std::span<const std::byte> ours,
                             std::vector<std::byte>* memory) {
  progress_->files.fetch_add(1);
  if (error != 0) {
    differences_->add(entry.path, std::string("read: ") + std::strerror(error));
    return;
  }
  const UniqueFd source = files_.open(entry);
  if (!source) {
    differences_->add(entry.path, std::string("open: ") + std::strerror(errno));
    return;
  }
  if (memory->size() < ours.size()) memory->resize(ours.size());
  const std::span<std::byte> theirs(memory->data(), ours.size());
  const int read = read_at(source.get(), 0, theirs);
  if (read != 0) {
    differences_->add(entry.path, std::string("read: ") + std::strerror(read));
    return;
  }
  progress_->bytes.fetch_add(ours.size());
  if (!ours.empty() && std::memcmp(theirs.data(), ours.data(), ours.size()) != 0) {
    tell_first_difference(entry, 0, ours, theirs);
  }
}

void Verifier::compare_file(const TreeEntry& entry, Transfer* transfer) {
  const UniqueFd source = files_.open(entry);
  if (!source) {
    differences_->add(entry.path, std::string("open: ") + std::strerror(errno));
    return;
  }
  const penstock_file file = penstock_open(session_, destination_of(entry).c_str(), O_RDONLY, 0);
  if (file < 0) {
    differences_->add(entry.path, std::string("open in the store: ") + penstock_last_error());
    return;
  }
  std::vector<std::byte> theirs(TransferPool::kSlotBytes);
  const Transfer::Check check = [&](uint64_t offset, std::span<const std::byte> memory) {
    const std::span<std::byte> same(theirs.data(), memory.size());
    const int read = read_at(source.get(), offset, same);
    if (read != 0) return read;
    progress_->bytes.fetch_add(memory.size());
    if (std::memcmp(theirs.data(), memory.data(), memory.size()) == 0) return 0;
    tell_first_difference(entry, offset, memory, same);
    return ECANCELED;
  };
  const int result = transfer->read(file, static_cast<uint64_t>(entry.st.st_size), check);
  if (result < 0 && result != -ECANCELED) {
    differences_->add(entry.path, std::string("read: ") + std::strerror(-result));
  }
  penstock_file_close(session_, file);
}

void Verifier::work(uint32_t worker) {
  Transfer transfer(pool_, worker);
  auto small = SmallReads::create(session_);
  std::vector<std::byte> theirs;
  const SmallReads::Check check = [&](const TreeEntry& entry, int error,
                                      std::span<const std::byte> bytes) {
    compare_small(entry, error, bytes, &theirs);
  };
  for (auto entries = queue_.pop(); !entries.empty(); entries = queue_.pop()) {
    const std::vector<penstock_file_stat> seen = look_at(entries);
    for (size_t i = 0; i < entries.size(); ++i) {
      TreeEntry& entry = entries[i];
      const bool directory = S_ISDIR(entry.st.st_mode);
      if (same_attributes(entry, seen[i])) {
        if (directory) compare_names(entry);
        if (S_ISLNK(entry.st.st_mode)) compare_symlink(entry);
        if (S_ISREG(entry.st.st_mode) && same_length(entry, seen[i].st)) {
          if (small && SmallReads::takes(entry)) {
            if (!small->has_room_for(entry)) small->read(check);
            std::string destination = destination_of(entry);
            small->add(std::move(entry), std::move(destination));
            continue;
          }
          compare_file(entry, &transfer);
        }
      }
      if (!directory) progress_->files.fetch_add(1);
    }
  }
  if (small) small->read(check);
}

void Verifier::run(uint32_t workers) {
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < workers; ++i) threads.emplace_back([this, i] { work(i); });
  walk_tree(
      root_,
      [&](TreeEntry&& entry) {
        const mode_t type = entry.st.st_mode & S_IFMT;
        const bool compared = type == S_IFREG || type == S_IFLNK || type == S_IFDIR;
        return !compared || queue_.push(std::move(entry)) ? TreeStep::go_on : TreeStep::stop;
      },
      [this](const std::string& path, const std::string& why) { differences_->add(path, why); });
  queue_.close();
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

int run_verify(const TreeOptions& options) {
  auto location = console::parse_location(options.destination, options.store);
  if (!location) return fail("verify", location.error());
  auto session = console::connect_session(location->where);
  if (!session) return fail("verify", session.error());
  const uint32_t workers = std::clamp(options.threads, 1u, 64u);
  TransferPool pool(session->get(), workers);

  Problems differences("verify");
  const bool shown = !options.quiet && !options.json;
  console::Progress progress("verify", !shown);
  std::atomic<bool> stop_counting{false};
  std::thread counter;
  if (shown) counter = std::thread([&] { count_tree(options.source, stop_counting, &progress); });
  Verifier verifier(session->get(), pool, options.source, location->path, &progress, &differences);
  verifier.run(workers);
  stop_counting.store(true);
  if (shown) counter.join();
  progress.finish();

  if (options.json) {
    const Json line = {{"files", progress.files.load()},
                       {"bytes", progress.bytes.load()},
                       {"seconds", progress.seconds()},
                       {"differences", differences.count()}};
    std::printf("%s\n", line.dump().c_str());
  } else if (differences.count() == 0) {
    std::printf("verified %lu files, %s: every byte is equal\n", progress.files.load(),
                console::human_bytes(static_cast<double>(progress.bytes.load())).c_str());
  } else {
    std::printf("%lu differences\n", differences.count());
  }
  return differences.count() == 0 ? kExitOk : kExitDifferent;
}

}  // namespace penstock::apps
