#include "penstock/files/local_files.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "penstock/connection.h"

namespace penstock::files {

namespace {

// Each link of a load keeps descriptors of its own for every file.
Failure with_advice(Failure failure) {
  if (failure.status.detail() == EMFILE) {
    failure.message += " (raise the limit, 'ulimit -n', or load fewer files at once)";
  }
  return failure;
}

}  // namespace

LocalFiles::~LocalFiles() {
  for (const Known& one : known_) one.link->source().remove(one.number);
}

Outcome<uint64_t> LocalFiles::open(const std::string& path) {
  // Without blocking, should it be a pipe.
  UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return with_advice(connection::failure_of("open", path, errno));
  struct stat facts {};
  if (::fstat(file.get(), &facts) != 0) return connection::failure_of("stat", path, errno);
  if (!S_ISREG(facts.st_mode)) {
    return Failure{S_ISDIR(facts.st_mode) ? Code::is_directory : Code::invalid_argument,
                   "open " + path + ": not a file"};
  }
  files_.push_back({std::move(file), {path, facts}});
  return static_cast<uint64_t>(facts.st_size);
}

Outcome<void> LocalFiles::read(uint32_t file, uint64_t offset, MutableBytes to) {
  for (uint64_t done = 0; done < to.size();) {
    const ssize_t got = ::pread(files_[file].fd.get(), to.data() + done, to.size() - done,
                                static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return Failure{Status::from_errno(errno),
                     fmt::format("read at {}: {}", offset + done, std::strerror(errno))};
    }
    if (got == 0) {
      return Failure{Code::corrupt, fmt::format("it ends at byte {}, too early", offset + done)};
    }
    done += static_cast<uint64_t>(got);
  }
  return {};
}

Outcome<std::vector<load::FileTransfers>> LocalFiles::transfers(size_t links) {
  TRY_ASSIGN(const std::vector<LocalLink*> all, local_links(devices_, threads_, links));
  std::vector<load::FileTransfers> out;
  for (size_t i = 0; i < all.size(); ++i) {
    // A link that comes again knows the files.
    const auto before = std::find(all.begin(), all.begin() + static_cast<ptrdiff_t>(i), all[i]);
    if (before != all.begin() + static_cast<ptrdiff_t>(i)) {
      out.push_back(out[static_cast<size_t>(before - all.begin())]);
      continue;
    }
    load::FileTransfers& link = out.emplace_back();
    link.transfers = &all[i]->transfers();
    for (const File& file : files_) {
      const Outcome<uint32_t> number = all[i]->source().add(file.fd.get());
      if (!number) {
        const Failure& why = number.error();
        return with_advice({why.status, file.opened.path + ": " + why.message});
      }
      known_.push_back({all[i], *number});
      link.files.push_back(*number);
    }
  }
  return out;
}

Outcome<void> LocalFiles::check_unchanged() {
  for (const File& file : files_) {
    const struct stat& before = file.opened.facts;
    struct stat now {};
    if (::fstat(file.fd.get(), &now) != 0)
      return connection::failure_of("stat", file.opened.path, errno);
    // The change time tells what a set-back modification time hides; but losing a name changes it,
    // too, and that is how files are replaced.
    const bool same_inode_time =
        before.st_nlink != now.st_nlink || same_time(before.st_ctim, now.st_ctim);
    if (!same_content(before, now) || !same_inode_time) return was_changed(file.opened.path);
  }
  return {};
}

}  // namespace penstock::files
