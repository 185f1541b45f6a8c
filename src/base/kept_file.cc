#include "penstock/base/kept_file.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fcntl.h>
#include <unistd.h>

#include "penstock/base/fd.h"

namespace penstock {

Status keep_file(const std::string& path, std::string_view content, mode_t mode) {
  const std::string temporary = path + ".new";
  {
    const UniqueFd fd(
        ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode));
    if (!fd) return Status::from_errno(errno);
    const ssize_t length = ::write(fd.get(), content.data(), content.size());
    if (length != static_cast<ssize_t>(content.size()) || ::fsync(fd.get()) != 0) {
      const Status status = Status::from_errno(length >= 0 && errno == 0 ? ENOSPC : errno);
      ::unlink(temporary.c_str());
      return status;
    }
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) return Status::from_errno(errno);
  return sync_directory(path.substr(0, path.rfind('/')));
}

Status sync_directory(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd || ::fsync(fd.get()) != 0) return Status::from_errno(errno);
  return Code::ok;
}

Result<std::string> read_kept_file(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd) return Status::from_errno(errno);
  std::string content(kKeptFileBytesMax, '\0');
  const ssize_t length = ::read(fd.get(), content.data(), content.size());
  if (length < 0) return Status::from_errno(errno);
  content.resize(static_cast<size_t>(length));
  return content;
}

std::map<std::string, std::string> words_of(const std::string& text) {
  std::map<std::string, std::string> words;
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    const size_t space = line.find(' ');
    if (space != std::string::npos) words[line.substr(0, space)] = line.substr(space + 1);
    at = end + 1;
  }
  return words;
}

bool parse_number(const std::string& text, uint64_t* value) {
  const char* end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, *value);
  return error == std::errc() && last == end && !text.empty();
}

}  // namespace penstock
