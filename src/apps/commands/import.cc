// `penstock import`: copies a directory tree (or one file) into a file system of ours.
#include "commands.h"
#include "node/admin.h"
#include "small_files.h"
#include "transfer.h"
#include "tree.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <sys/stat.h>
#include <unistd.h>

#include "penstock/base.h"
#include "penstock/console.h"
#include "penstock/engine.h"

namespace penstock::apps {
namespace {

// In the same directory, from where a rename takes it; another one at each call.
std::string name_beside(const std::string& path) {
  engine::SeededRandom random(engine::system_seed());
  return path.substr(0, path.rfind('/') + 1) +
         fmt::format(".penstock-import-{:016x}", random.next());
}

class Importer {
 public:
  Importer(penstock_session* session, TransferPool& pool, std::string root, std::string destination,
           console::Progress* progress, Problems* problems)
      : session_(session),
        pool_(pool),
        root_(std::move(root)),
        files_(root_),
        destination_(std::move(destination)),
        progress_(progress),
        problems_(problems) {}

  // False when nothing can be done at all, for example without the destination directory.
  bool run(uint32_t workers);
  uint64_t skipped() const { return skipped_.load(); }

 private:
  std::string destination_of(const TreeEntry& entry) const {
    if (entry.relative.empty()) return destination_;
    return destination_ == "/" ? "/" + entry.relative : destination_ + "/" + entry.relative;
  }
  TreeStep accept(TreeEntry&& entry);
  void work(uint32_t worker);
  void make_small(SmallFiles& small, Transfer* transfer);
  // What came of making something under a name: why it was not made has been told, but not that the
  // name is taken.
  enum class Made { yes, no, taken };
  using Make = std::function<Made(const std::string& path)>;
  bool put(const TreeEntry& entry, const Make& make);
  bool copy_file(const TreeEntry& entry, Transfer* transfer);
  bool copy_content(const TreeEntry& entry, Transfer* transfer);
  Made copy_to(const TreeEntry& entry, int source, const std::string& path, Transfer* transfer);
  int copy_bytes(const TreeEntry& entry, int source, penstock_file file, Transfer* transfer);
  bool copy_symlink(const TreeEntry& entry);
  bool make_link(const TreeEntry& entry, const std::string& first);
  void apply_attributes(const TreeEntry& entry, const std::string& path);
  void finish_directories(uint32_t workers);
  Made made(const TreeEntry& entry, const char* what, int result);
  bool report(const TreeEntry& entry, const char* what, int result);

  penstock_session* const session_;
  TransferPool& pool_;
  const std::string root_;
  const TreeFiles files_;
  const std::string destination_;
  console::Progress* const progress_;
  Problems* const problems_;
  TreeQueue queue_;
  std::atomic<uint64_t> skipped_{0};

  // What is left for the end, touched by the walking thread only. Directories get their modes and
  // times then: what is made inside changes both. Names of one inode beyond its first become links,
  // once all first names exist.
  std::vector<TreeEntry> directories_;
  std::map<std::pair<dev_t, ino_t>, std::string> first_names_;
  std::vector<std::pair<std::string, TreeEntry>> later_links_;
  // First names that the workers could not copy.
  std::mutex not_copied_mutex_;
  std::set<std::string> not_copied_;
};

bool Importer::report(const TreeEntry& entry, const char* what, int result) {
  if (result >= 0) return true;
  const std::string why = penstock_last_error();
  problems_->add(entry.path,
                 std::string(what) + ": " + (why.empty() ? std::strerror(-result) : why));
  return false;
}

// In the walking thread: directories are made here, so that they exist before their children.
TreeStep Importer::accept(TreeEntry&& entry) {
  const mode_t type = entry.st.st_mode & S_IFMT;
  if (type == S_IFDIR) {
    // Writable for us until its children are there; its own mode comes at the end.
    int made = penstock_mkdir(session_, destination_of(entry).c_str(), 0700);
    if (made == -EEXIST) {
      struct stat st {};
      const int found = penstock_lstat(session_, destination_of(entry).c_str(), &st);
      if (found == 0 && S_ISDIR(st.st_mode)) made = 0;
    }
    // Something else has its name, perhaps a link that leads elsewhere.
    if (!report(entry, "make directory", made)) {
      return entry.relative.empty() ? TreeStep::stop : TreeStep::not_below;
    }
    directories_.push_back(std::move(entry));
    return TreeStep::go_on;
  }
  if (type != S_IFREG && type != S_IFLNK) {
    skipped_.fetch_add(1);
    return TreeStep::go_on;
  }
  if (type == S_IFREG && entry.st.st_nlink > 1) {
    const auto [first, fresh] =
        first_names_.try_emplace({entry.st.st_dev, entry.st.st_ino}, destination_of(entry));
    if (!fresh) {
      later_links_.emplace_back(first->second, std::move(entry));
      return TreeStep::go_on;
    }
  }
  return queue_.push(std::move(entry)) ? TreeStep::go_on : TreeStep::stop;
}

int Importer::copy_bytes(const TreeEntry& entry, int source, penstock_file file,
                         Transfer* transfer) {
  const auto size = static_cast<uint64_t>(entry.st.st_size);
  const Transfer::Fill fill = [&](uint64_t offset, std::span<std::byte> memory) {
    size_t got = 0;
    while (got < memory.size()) {
      const ssize_t n = ::pread(source, memory.data() + got, memory.size() - got,
                                static_cast<off_t>(offset + got));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return errno;
      if (n == 0) return ENODATA;  // it shrank while we read it
      got += static_cast<size_t>(n);
    }
    progress_->bytes.fetch_add(memory.size());
    return 0;
  };
  // Holes stay holes. A file system that cannot tell reports one piece of data.
  uint64_t offset = 0;
  while (offset < size) {
    const off_t data = ::lseek(source, static_cast<off_t>(offset), SEEK_DATA);
    if (data < 0 && errno == ENXIO) break;
    const off_t hole = data < 0 ? -1 : ::lseek(source, data, SEEK_HOLE);
    const uint64_t begin = data < 0 ? offset : static_cast<uint64_t>(data);
    const uint64_t end = hole < 0 ? size : std::min<uint64_t>(static_cast<uint64_t>(hole), size);
    progress_->bytes.fetch_add(begin - offset);
    const int result = transfer->write(file, begin, end, fill);
    if (result < 0) return result;
    offset = end;
  }
  if (offset < size) {
    progress_->bytes.fetch_add(size - offset);
    return penstock_ftruncate(session_, file, size);
  }
  return 0;
}

Importer::Made Importer::made(const TreeEntry& entry, const char* what, int result) {
  if (result == -EEXIST) return Made::taken;
  return report(entry, what, result) ? Made::yes : Made::no;
}

// Makes it under its own name, or, where something has that name, beside it: what is there stays
// until it can be replaced in one step, by something whole. Links that are there are not followed.
bool Importer::put(const TreeEntry& entry, const Make& make) {
  const std::string destination = destination_of(entry);
  const Made first = make(destination);
  if (first != Made::taken) return first == Made::yes;
  struct stat there {};
  if (penstock_lstat(session_, destination.c_str(), &there) == 0 && S_ISDIR(there.st_mode)) {
    problems_->add(entry.path, "replace: there is a directory of that name");
    return false;
  }
  const std::string beside = name_beside(destination);
  if (make(beside) != Made::yes) return false;
  const bool replaced =
      report(entry, "replace", penstock_rename(session_, beside.c_str(), destination.c_str()));
  // A rename between two names of one file leaves both.
  penstock_unlink(session_, beside.c_str());
  return replaced;
}

// A part of it would look like the whole: there is all of it, or nothing.
Importer::Made Importer::copy_to(const TreeEntry& entry, int source, const std::string& path,
                                 Transfer* transfer) {
  const penstock_file file =
      penstock_open(session_, path.c_str(), O_WRONLY | O_CREAT | O_EXCL, entry.st.st_mode & 07777);
  const Made opened = made(entry, "create", file);
  if (opened != Made::yes) return opened;
  int result = copy_bytes(entry, source, file, transfer);
  // What a power cut may take must not take the place of something else.
  if (result == 0 && path != destination_of(entry)) result = penstock_fsync(session_, file);
  if (result < 0) problems_->add(entry.path, std::string("copy: ") + std::strerror(-result));
  if (!report(entry, "close", penstock_file_close(session_, file)) || result < 0) {
    penstock_unlink(session_, path.c_str());
    return Made::no;
  }
  apply_attributes(entry, path);
  return Made::yes;
}

bool Importer::copy_file(const TreeEntry& entry, Transfer* transfer) {
  if (copy_content(entry, transfer)) return true;
  // What has its name now, if anything, is not what other names of it are to become links to.
  if (entry.st.st_nlink > 1) {
    const std::lock_guard lock(not_copied_mutex_);
    not_copied_.insert(destination_of(entry));
  }
  return false;
}

bool Importer::copy_content(const TreeEntry& entry, Transfer* transfer) {
  const UniqueFd source = files_.open(entry);
  if (!source) {
    problems_->add(entry.path, std::string("open: ") + std::strerror(errno));
    return false;
  }
  return put(entry,
             [&](const std::string& path) { return copy_to(entry, source.get(), path, transfer); });
}

bool Importer::copy_symlink(const TreeEntry& entry) {
  std::string text(limits::kPathBytesMax, '\0');
  const ssize_t length = ::readlink(entry.path.c_str(), text.data(), text.size());
  if (length < 0) {
    problems_->add(entry.path, std::string("read link: ") + std::strerror(errno));
    return false;
  }
  text.resize(static_cast<size_t>(length));
  return put(entry, [&](const std::string& path) {
    const Made linked =
        made(entry, "make symbolic link", penstock_symlink(session_, text.c_str(), path.c_str()));
    if (linked == Made::yes) apply_attributes(entry, path);
    return linked;
  });
}

bool Importer::make_link(const TreeEntry& entry, const std::string& first) {
  if (not_copied_.contains(first)) {
    problems_->add(entry.path, "make link: its first name, " + first + ", was not copied");
    return false;
  }
  return put(entry, [&](const std::string& path) {
    return made(entry, "make link", penstock_link(session_, first.c_str(), path.c_str()));
  });
}

// Owner first, since changing it clears set-id bits; times last, since everything else changes
// them.
void Importer::apply_attributes(const TreeEntry& entry, const std::string& path) {
  const bool root = ::geteuid() == 0;
  const bool foreign = entry.st.st_uid != 0 || entry.st.st_gid != 0;
  if (root && foreign) {
    report(entry, "set owner",
           penstock_lchown(session_, path.c_str(), entry.st.st_uid, entry.st.st_gid));
  }
  const bool set_id = (entry.st.st_mode & (S_ISUID | S_ISGID)) != 0;
  if (S_ISDIR(entry.st.st_mode) || (S_ISREG(entry.st.st_mode) && set_id && foreign)) {
    report(entry, "set mode", penstock_chmod(session_, path.c_str(), entry.st.st_mode & 07777));
  }
  const timespec times[2] = {entry.st.st_atim, entry.st.st_mtim};
  report(entry, "set times", penstock_utimens(session_, path.c_str(), times));
}

void Importer::make_small(SmallFiles& small, Transfer* transfer) {
  const auto made = [this](const TreeEntry& entry) {
    progress_->bytes.fetch_add(static_cast<uint64_t>(entry.st.st_size));
    progress_->files.fetch_add(1);
  };
  // One by one, with a word about what is wrong.
  for (const SmallFiles::File& file : small.make(made)) {
    if (copy_file(file.entry, transfer)) progress_->files.fetch_add(1);
  }
}

void Importer::work(uint32_t worker) {
  Transfer transfer(pool_, worker);
  auto small = SmallFiles::create(session_);
  for (auto entries = queue_.pop(); !entries.empty(); entries = queue_.pop()) {
    for (TreeEntry& entry : entries) {
      if (small && SmallFiles::takes(entry)) {
        if (!small->has_room_for(entry)) make_small(*small, &transfer);
        if (small->add(files_, entry, destination_of(entry))) continue;
      }
      const bool copied =
          S_ISLNK(entry.st.st_mode) ? copy_symlink(entry) : copy_file(entry, &transfer);
      if (copied) progress_->files.fetch_add(1);
    }
  }
  if (small) make_small(*small, &transfer);
}

bool Importer::run(uint32_t workers) {
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < workers; ++i) threads.emplace_back([this, i] { work(i); });
  const TreeProblem problem = [this](const std::string& path, const std::string& why) {
    problems_->add(path, why);
  };
  bool possible = true;
  walk_tree(
      root_,
      [&](TreeEntry&& entry) {
        const TreeStep step = accept(std::move(entry));
        possible = step != TreeStep::stop;
        return step;
      },
      problem);
  queue_.close();
  for (std::thread& thread : threads) thread.join();
  if (!possible) return false;

  for (auto& [first, entry] : later_links_) {
    if (!make_link(entry, first)) continue;
    progress_->files.fetch_add(1);
    progress_->bytes.fetch_add(static_cast<uint64_t>(entry.st.st_size));
  }
  finish_directories(workers);
  return true;
}

// From the leaves up: a user who may not write into a directory any more may still change it. Those
// that lie equally deep go together, since each takes several trips.
void Importer::finish_directories(uint32_t workers) {
  const auto depth = [](const TreeEntry& entry) {
    return entry.relative.empty()
               ? 0
               : 1 + std::count(entry.relative.begin(), entry.relative.end(), '/');
  };
  std::map<ptrdiff_t, std::vector<const TreeEntry*>, std::greater<>> levels;
  for (const TreeEntry& entry : directories_) levels[depth(entry)].push_back(&entry);
  for (const auto& [deep, level] : levels) {
    std::atomic<size_t> next{0};
    const auto finish = [&] {
      for (size_t i = next++; i < level.size(); i = next++) {
        apply_attributes(*level[i], destination_of(*level[i]));
      }
    };
    std::vector<std::thread> others(std::min<size_t>(workers, level.size()) - 1);
    for (std::thread& thread : others) thread = std::thread(finish);
    finish();
    for (std::thread& thread : others) thread.join();
  }
}

// Makes the parents of the destination, as `mkdir -p` would.
Outcome<void> make_parents(penstock_session* session, const std::string& path) {
  for (size_t slash = path.find('/', 1); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    const std::string parent = path.substr(0, slash);
    const int made = penstock_mkdir(session, parent.c_str(), 0755);
    if (made < 0 && made != -EEXIST) {
      return console::api_failure(made);
    }
  }
  return {};
}

Outcome<void> check_source(const TreeOptions& options) {
  struct stat st {};
  if (::lstat(options.source.c_str(), &st) != 0) {
    return Failure{Status::from_errno(errno), options.source + ": " + std::strerror(errno)};
  }
  if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode)) {
    return Failure{Code::invalid_argument,
                   options.source + ": neither a directory nor a regular file"};
  }
  return {};
}

// A tree that is copied into itself never ends.
Outcome<void> check_outside(const TreeOptions& options, const console::Location& destination) {
  std::error_code error;
  const std::string source = std::filesystem::canonical(options.source, error).string();
  auto from = error ? Outcome<console::Location>(Failure{}) : console::parse_location(source, {});
  if (!from) return {};
  const bool same = std::filesystem::equivalent(from->where, destination.where, error);
  if (!same) return {};
  const std::string inside = from->path == "/" ? from->path : from->path + "/";
  if (destination.path != from->path && !destination.path.starts_with(inside)) return {};
  return Failure{Code::invalid_argument,
                 options.destination + ": lies in " + options.source + ", which is to be copied"};
}

void print_summary(const TreeOptions& options, const console::Progress& progress,
                   const Importer& importer, const Problems& problems) {
  const double seconds = progress.seconds();
  const auto bytes = static_cast<double>(progress.bytes.load());
  if (options.json) {
    const Json line = {{"files", progress.files.load()},
                       {"bytes", progress.bytes.load()},
                       {"seconds", seconds},
                       {"skipped", importer.skipped()},
                       {"problems", problems.count()}};
    std::printf("%s\n", line.dump().c_str());
    return;
  }
  std::printf("imported %lu files, %s in %s (%s)", progress.files.load(),
              console::human_bytes(bytes).c_str(), console::human_duration(seconds).c_str(),
              console::human_rate(bytes / seconds).c_str());
  if (importer.skipped() > 0) {
    std::printf("; skipped %lu devices, sockets and pipes", importer.skipped());
  }
  std::printf("\n");
  if (problems.count() > 0) std::printf("%lu could not be imported\n", problems.count());
}

}  // namespace

int run_import(const TreeOptions& options) {
  auto location = console::parse_location(options.destination, options.store);
  if (!location) return fail("import", location.error());
  if (auto source = check_source(options); !source) return fail("import", source.error());
  if (auto outside = check_outside(options, *location); !outside) {
    return fail("import", outside.error());
  }
  auto session = console::connect_session(location->where);
  if (!session) return fail("import", session.error());
  const uint32_t workers = std::clamp(options.threads, 1u, 64u);
  TransferPool pool(session->get(), workers);
  auto parents = make_parents(session->get(), location->path);
  if (!parents) return fail("import", parents.error());

  Problems problems("import");
  const bool shown = !options.quiet && !options.json;
  console::Progress progress("import", !shown);
  std::atomic<bool> stop_counting{false};
  std::thread counter;
  if (shown) counter = std::thread([&] { count_tree(options.source, stop_counting, &progress); });
  Importer importer(session->get(), pool, options.source, location->path, &progress, &problems);
  const bool possible = importer.run(workers);
  stop_counting.store(true);
  if (shown) counter.join();
  const int synced = possible ? penstock_sync(session->get()) : 0;
  progress.finish();
  if (!possible) return kExitFailed;
  if (synced < 0) {
    return fail("import",
                {Status::from_errno(-synced), std::string("sync: ") + penstock_last_error()});
  }
  print_summary(options, progress, importer, problems);
  return problems.count() == 0 ? kExitOk : kExitFailed;
}

}  // namespace penstock::apps
