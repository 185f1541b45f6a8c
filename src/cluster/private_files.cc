#include "private_files.h"

#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace penstock::cluster {
namespace {

constexpr std::string_view kBegin = "-----BEGIN ";

// The directory and its files are their owner's alone.
Outcome<void> check_private(const std::string& path, mode_t others) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) return {};
  const bool is_private =
      found.st_uid == ::geteuid() && (found.st_mode & others) == 0 && !S_ISLNK(found.st_mode);
  if (is_private) return {};
  return Failure{Code::not_permitted,
                 fmt::format("{}: others than the user of this process can get at it, and it is a "
                             "secret: give it to that user alone (chown, chmod go=)",
                             path)};
}

}  // namespace

std::string path_of_private(const std::string& directory, const char* file) {
  return directory + "/" + kIdentityName + "/" + file;
}

Failure damaged(const std::string& path, const std::string& why, const std::string& what_to_do) {
  return {Code::corrupt, fmt::format("{}: is damaged ({}); restore the file from a backup, {}",
                                     path, why, what_to_do)};
}

Outcome<std::optional<std::string>> read_private(const std::string& directory, const char* file) {
  constexpr mode_t kOthers = 077;
  TRY(check_private(directory + "/" + kIdentityName, kOthers));
  const std::string path = path_of_private(directory, file);
  TRY(check_private(path, kOthers));
  Result<std::string> text = read_kept_file(path);
  if (!text && text.error() == Code::not_found) return std::optional<std::string>();
  if (!text) {
    return Failure{text.error(), fmt::format("{}: cannot be read: {}", path, text.error().name())};
  }
  return std::optional(std::move(*text));
}

Outcome<void> write_private(const std::string& directory, const char* file,
                            const std::string& text) {
  const std::string home = directory + "/" + kIdentityName;
  if (text.size() >= kKeptFileBytesMax) {
    return Failure{Code::bad_message, home + ": certificates are too long to be kept"};
  }
  if (::mkdir(home.c_str(), 0700) == 0) {
    (void)sync_directory(directory);
  } else if (errno != EEXIST) {
    return Failure{Status::from_errno(errno),
                   fmt::format("{}: cannot be made: {}", home, std::strerror(errno))};
  }
  TRY(check_private(home, 077));
  const std::string path = path_of_private(directory, file);
  // What an earlier try has left may have any mode.
  ::unlink((path + ".new").c_str());
  const Status status = keep_file(path, text, 0600);
  if (status.ok()) return {};
  return Failure{status, fmt::format("{}: cannot be written: {}", path, status.name())};
}

// Texts between "-----BEGIN" and the next one.
std::vector<std::string> parts_of_pem(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t begin = text.find(kBegin); begin != std::string::npos;) {
    const size_t end = text.find(kBegin, begin + kBegin.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return parts;
}

Outcome<void> remove_private(const std::string& directory, const char* file) {
  const std::string path = path_of_private(directory, file);
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    return Failure{Status::from_errno(errno),
                   fmt::format("{}: cannot be removed: {}", path, std::strerror(errno))};
  }
  const Status status = sync_directory(directory + "/" + kIdentityName);
  if (status.ok()) return {};
  return Failure{status, fmt::format("{}: cannot be removed: {}", path, status.name())};
}

}  // namespace penstock::cluster
