#include "penstock/files/new_files.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "penstock/connection.h"
#include "penstock/files/file_calls.h"

namespace penstock::files {

namespace {

std::string directory_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string name_of(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

Outcome<void> check_name(const std::string& path) {
  const std::string name = name_of(path);
  if (!name.empty() && name != "." && name != "..") return {};
  return Failure{Code::is_directory, path + ": names a directory"};
}

// What is there already is replaced by a rename: a device or a pipe would become a file.
Outcome<void> check_replaceable(const std::string& path, mode_t mode) {
  if (S_ISREG(mode)) return {};
  if (S_ISDIR(mode)) return Failure{Code::is_directory, path + ": is a directory"};
  return Failure{Code::invalid_argument, path + ": is no regular file (save to a name of its own)"};
}

// Where a path leads that names a symbolic link, so that the link stays; else the path itself.
Outcome<std::string> without_links(const std::string& path) {
  struct stat facts {};
  if (::lstat(path.c_str(), &facts) != 0 || !S_ISLNK(facts.st_mode)) return path;
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr),
                                                         &std::free);
  if (real == nullptr) return connection::failure_of("follow", path, errno);
  return std::string(real.get());
}

Failure not_durable(const std::string& path, const std::string& why) {
  return {
      Code::may_have_happened,
      fmt::format("{} has its new content, but a power cut may still undo that: {}", path, why)};
}

Failure unknown(const std::string& path, const std::string& why) {
  return {Code::may_have_happened,
          fmt::format("{} has its old content or, whole, the new one: {} (look at it before it is "
                      "saved again)",
                      path, why)};
}

}  // namespace

std::string temporary_name(const std::string& path) {
  engine::SeededRandom random(engine::system_seed());
  const std::string name = fmt::format(".penstock-save-{:016x}", random.next());
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? name : path.substr(0, slash + 1) + name;
}

// ---- in a session ----

Outcome<std::unique_ptr<SessionNewFile>> SessionNewFile::create(lanes::Session& session,
                                                                NewFileOrder order) {
  TRY(check_name(order.path));
  std::unique_ptr<SessionNewFile> made(new SessionNewFile(session, std::move(order)));
  const std::string& path = made->order_.path;
  const Outcome<struct stat> before = stat_of(session, wire::PathAttributes{path, false});
  if (before) TRY(check_replaceable(path, before->st_mode));
  const int bad = check_path(made->temporary_.c_str(), "open");
  if (bad != 0) return connection::last_failure(bad);
  TRY_ASSIGN(made->file_, open_path(session, made->temporary_,
                                    wire::kOpenWrite | wire::kOpenCreate | wire::kOpenExclusive,
                                    creation_mode(made->order_.mode)));
  if (before) {
    // Which users may read it is not changed by new content.
    wire::ChangeAttributes changes;
    changes.path = made->temporary_;
    changes.mode = before->st_mode & 0777;
    TRY(ask(session, changes, false));
  }
  TRY_ASSIGN(made->steps_, HostSteps::make(session, made->order_.deadline));
  return made;
}

SessionNewFile::~SessionNewFile() {
  if (file_ < 0) return;
  (void)session_.files().close(file_);
  if (!committed_) (void)ask(session_, wire::Remove{temporary_, false}, false);
}

Outcome<void> SessionNewFile::write(uint64_t offset, Bytes from) {
  return steps_->write(file_, offset, from);
}

Outcome<load::FileTransfers> SessionNewFile::transfers() {
  TRY_ASSIGN(const std::vector<route::Transfers*> transfers,
             session_.transfers().for_links(*order_.devices, 1));
  return load::FileTransfers{transfers.front(), {static_cast<uint32_t>(file_)}};
}

// An answer that does not come says nothing: the agent may have died after it had renamed the file.
Outcome<void> SessionNewFile::take_name() {
  const std::string& path = order_.path;
  const Outcome<void> renamed = ask(session_, wire::Rename{temporary_, path}, false);
  committed_ = renamed.has_value();
  if (committed_) return {};
  const Failure& failure = renamed.error();
  const int error = failure.status.to_errno();
  if (error == ECONNRESET || error == ETIMEDOUT) {
    const Outcome<struct stat> there = stat_of(session_, wire::PathAttributes{path, false});
    const InodeId mine = session_.files().inode_of(static_cast<uint32_t>(file_));
    committed_ = there && there->st_ino == mine.value;
    const bool is_known = there || there.error().status.to_errno() == ENOENT;
    // One that is late may still rename it.
    if (!committed_ && (!is_known || error == ETIMEDOUT)) return unknown(path, failure.message);
  }
  if (committed_) return {};
  return failure;
}

Outcome<void> SessionNewFile::commit() {
  Outcome<void> synced = ask(session_, wire::SyncFile{static_cast<uint32_t>(file_)}, false);
  if (synced && session_.connection().epoch() != epoch_) {
    // What an agent had taken and not yet synced died with it; its successor knows nothing of that.
    return Failure{Code::peer_gone,
                   "the node was restarted while the file was written: save it again"};
  }
  TRY(synced);
  TRY(take_name());
  // Names become durable with everything else.
  const Outcome<void> durable = ask(session_, wire::SyncAll{}, false);
  if (!durable) return not_durable(order_.path, durable.error().message);
  return {};
}

// ---- elsewhere ----

Outcome<std::unique_ptr<LocalNewFile>> LocalNewFile::create(NewFileOrder order) {
  TRY(check_name(order.path));
  TRY_ASSIGN(order.path, without_links(order.path));
  std::unique_ptr<LocalNewFile> made(new LocalNewFile(std::move(order)));
  const std::string& path = made->order_.path;
  const std::string directory = directory_of(path);
  made->directory_.reset(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!made->directory_) return connection::failure_of("open directory", directory, errno);
  struct stat facts {};
  const std::string name = name_of(path);
  const int at = made->directory_.get();
  const bool exists = ::fstatat(at, name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) == 0;
  if (exists) TRY(check_replaceable(path, facts.st_mode));
  const std::string temporary = name_of(made->temporary_);
  made->file_.reset(
      ::openat(at, temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, made->order_.mode));
  if (!made->file_) return connection::failure_of("create", made->temporary_, errno);
  // New content does not change which users may read the file.
  if (exists && ::fchmod(made->file_.get(), facts.st_mode & 0777) != 0) {
    return connection::failure_of("set the mode of", made->temporary_, errno);
  }
  return made;
}

LocalNewFile::~LocalNewFile() {
  if (link_ != nullptr) link_->source().remove(number_);
  if (file_ && !committed_) ::unlinkat(directory_.get(), name_of(temporary_).c_str(), 0);
}

Outcome<void> LocalNewFile::write(uint64_t offset, Bytes from) {
  for (uint64_t done = 0; done < from.size();) {
    const ssize_t put = ::pwrite(file_.get(), from.data() + done, from.size() - done,
                                 static_cast<off_t>(offset + done));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && errno == EFAULT) {
      return Failure{Code::invalid_argument, order_.path + ": a tensor's memory is not there"};
    }
    if (put <= 0) return connection::failure_of("write", order_.path, put < 0 ? errno : EIO);
    done += static_cast<uint64_t>(put);
  }
  return {};
}

Outcome<load::FileTransfers> LocalNewFile::transfers() {
  TRY_ASSIGN(const std::vector<LocalLink*> links,
             local_links(*order_.devices, limits::kLocalThreads, 1));
  TRY_ASSIGN(number_, links.front()->source().add(file_.get()));
  link_ = links.front();
  return load::FileTransfers{&link_->transfers(), {number_}};
}

Outcome<void> LocalNewFile::commit() {
  if (::fsync(file_.get()) != 0) return connection::failure_of("sync", order_.path, errno);
  const int at = directory_.get();
  const std::string name = name_of(order_.path);
  if (::renameat(at, name_of(temporary_).c_str(), at, name.c_str()) != 0) {
    return connection::failure_of("rename to", order_.path, errno);
  }
  committed_ = true;
  if (::fsync(at) != 0) return not_durable(order_.path, std::strerror(errno));
  return {};
}

}  // namespace penstock::files
