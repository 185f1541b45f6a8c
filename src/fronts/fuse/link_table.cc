#include "link_table.h"

#include "limits.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

namespace penstock::fuse {
namespace {

template <class Number>
bool parse_number(std::string_view text, Number* value) {
  const char* end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, *value);
  return error == std::errc() && last == end && !text.empty();
}

// 32 hexadecimal digits, with or without the usual hyphens.
Result<std::string> parse_uuid(std::string_view text) {
  std::string digits;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '-' && (i == 8 || i == 13 || i == 18 || i == 23)) continue;
    const bool digit = c >= '0' && c <= '9';
    const bool lower = c >= 'a' && c <= 'f';
    const bool upper = c >= 'A' && c <= 'F';
    if (!digit && !lower && !upper) return Code::invalid_argument;
    digits += upper ? static_cast<char>(c - 'A' + 'a') : c;
  }
  const size_t hyphens = text.size() - digits.size();
  if (digits.size() != 32 || (hyphens != 0 && hyphens != 4)) return Code::invalid_argument;
  return digits;
}

bool parse_suffix(std::string_view suffix, LinkName* name) {
  if (suffix == "ph" || suffix == "pl") {
    name->priority = suffix == "ph" ? 1 : -1;
    return true;
  }
  if (suffix == "gdr") {
    name->is_device = true;
    return true;
  }
  if (suffix.empty()) return false;
  const std::string_view rest = suffix.substr(1);
  switch (suffix[0]) {
    case 'b':
      return parse_number(rest, &name->block_bytes);
    case 'r':
    case 'w':
      name->is_ring = true;
      name->for_read = suffix[0] == 'r';
      return rest.empty() || parse_number(rest, &name->depth);
    case 't':
      return parse_number(rest, &name->timeout_ms);
    case 'f':
      return parse_number(rest, &name->flags);
    case 'd': {
      uint32_t gpu = 0;
      return name->is_device && parse_number(rest, &gpu);
    }
    default:
      return false;
  }
}

// "/dev/shm/NAME" with one plain component: nothing that leads elsewhere.
bool is_shared_memory_path(std::string_view target) {
  constexpr std::string_view kPrefix = "/dev/shm/";
  if (!target.starts_with(kPrefix)) return false;
  const std::string_view name = target.substr(kPrefix.size());
  return !name.empty() && name.size() <= limits::kNameBytesMax && name != "." && name != ".." &&
         name.find('/') == std::string_view::npos && name.find('\0') == std::string_view::npos;
}

bool may_use(const client::Credentials& who, const struct stat& file) {
  constexpr mode_t kReadWrite = 6;
  if (who.uid == 0) return true;
  if (file.st_uid == who.uid) return ((file.st_mode >> 6) & kReadWrite) == kReadWrite;
  const bool in_group = file.st_gid == who.gid || std::find(who.groups.begin(), who.groups.end(),
                                                            file.st_gid) != who.groups.end();
  const mode_t shift = in_group ? 3 : 0;
  return ((file.st_mode >> shift) & kReadWrite) == kReadWrite;
}

bool is_same_file(int a, int b) {
  struct stat of_a {
  }, of_b{};
  return ::fstat(a, &of_a) == 0 && ::fstat(b, &of_b) == 0 && of_a.st_dev == of_b.st_dev &&
         of_a.st_ino == of_b.st_ino;
}

// Opened with our rights, then checked against the caller's: what was opened is what is checked.
Result<sessions::RegionLinks::Opened> open_as(const client::Credentials& who,
                                              const std::string& target) {
  if (!is_shared_memory_path(target)) return Code::invalid_argument;
  UniqueFd fd(::open(target.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd) return Status::from_errno(errno);
  struct stat facts {};
  if (::fstat(fd.get(), &facts) != 0) return Status::from_errno(errno);
  if (!S_ISREG(facts.st_mode)) return Code::invalid_argument;
  if (!may_use(who, facts)) return Code::access_denied;
  return sessions::RegionLinks::Opened{std::move(fd), static_cast<uint64_t>(facts.st_size)};
}

// Why no link to `target` could be made and what to do, for people.
std::string trouble(Status status, const std::string& target) {
  if (status == Code::not_found) {
    return target +
           ": this node finds no such file, or another one than the application does (in a "
           "container: share the machine's /dev/shm, as docker run --ipc=host does)";
  }
  if (status == Code::access_denied) {
    return target +
           ": its owner and mode do not let this user read and write it (ids are those of the "
           "node's machine, not of a container)";
  }
  return fmt::format("{}: {}", target, status.name());
}

}  // namespace

Result<LinkName> parse_link_name(std::string_view name) {
  if (name.size() > limits::kNameBytesMax) return Code::name_too_long;
  LinkName out;
  size_t at = std::min(name.find('.'), name.size());
  TRY_ASSIGN(out.uuid, parse_uuid(name.substr(0, at)));
  while (at < name.size()) {
    const size_t next = std::min(name.find('.', at + 1), name.size());
    if (!parse_suffix(name.substr(at + 1, next - at - 1), &out)) return Code::invalid_argument;
    at = next;
  }
  return out;
}

uint64_t LinkTable::Memory::heap_bytes() const {
  return kLinkHeapBytes + name.size() + target.size();
}

Outcome<void> LinkTable::add(const client::Credentials& credentials, const std::string& name,
                             const std::string& target, int memory) {
  const Status added = try_add(credentials, name, target, memory);
  if (added.ok()) return {};
  return Failure{added, trouble(added, target)};
}

Status LinkTable::try_add(const client::Credentials& credentials, const std::string& name,
                          const std::string& target, int memory) {
  Result<LinkName> parsed = parse_link_name(name);
  if (!parsed) return parsed.error();
  if (parsed->is_device) return Code::not_supported;
  const Result<Opened> opened = open_as(credentials, target);
  if (!opened) return opened.error();
  if (memory >= 0 && !is_same_file(opened->fd.get(), memory)) return Code::not_found;
  const std::lock_guard lock(mutex_);
  const Key key{credentials.uid, parsed->uuid};
  if (links_.contains(key)) return Code::already_exists;
  const auto known = users_.find(credentials.uid);
  User user =
      known != users_.end() ? known->second : User{accounts_->open(credentials.uid), uint32_t{0}};
  if (user.links >= kLinksPerUserMax) return Code::busy;
  Memory link{name, target, parsed->is_ring};
  TRY(user.account->charge(resources::Resource::heap_bytes, link.heap_bytes()));
  links_.emplace(key, std::move(link));
  ++user.links;
  users_[credentials.uid] = std::move(user);
  return Code::ok;
}

Status LinkTable::remove(const client::Credentials& credentials, const std::string& name) {
  Result<LinkName> parsed = parse_link_name(name);
  if (!parsed) return parsed.error();
  if (parsed->is_device) return Code::not_found;
  const std::lock_guard lock(mutex_);
  Links::const_iterator found = links_.find({credentials.uid, parsed->uuid});
  if (found == links_.end()) found = find_of_any(credentials, *parsed, name);
  if (found == links_.end()) return Code::not_found;
  const auto user = users_.find(found->first.first);
  user->second.account->release(resources::Resource::heap_bytes, found->second.heap_bytes());
  if (--user->second.links == 0) users_.erase(user);
  links_.erase(found);
  return Code::ok;
}

// Root sees the links of all users and may remove them; users who have any are few.
LinkTable::Links::const_iterator LinkTable::find_of_any(const client::Credentials& credentials,
                                                        const LinkName& parsed,
                                                        const std::string& name) const {
  if (credentials.uid != 0) return links_.end();
  for (const auto& [uid, user] : users_) {
    const auto found = links_.find({uid, parsed.uuid});
    if (found != links_.end() && found->second.name == name) return found;
  }
  return links_.end();
}

std::optional<LinkTable::Link> LinkTable::find(const client::Credentials& credentials,
                                               const std::string& name) const {
  const Result<LinkName> parsed = parse_link_name(name);
  if (!parsed || parsed->is_device) return std::nullopt;
  const std::lock_guard lock(mutex_);
  auto found = links_.find({credentials.uid, parsed->uuid});
  if (found == links_.end() || found->second.name != name) {
    found = find_of_any(credentials, *parsed, name);
  }
  if (found == links_.end()) return std::nullopt;
  return Link{found->second.name, found->second.target, found->first.first};
}

std::vector<LinkTable::Link> LinkTable::list(const client::Credentials& credentials) const {
  std::vector<Link> out;
  const std::lock_guard lock(mutex_);
  for (const auto& [key, link] : links_) {
    if (credentials.uid != 0 && key.first != credentials.uid) continue;
    out.push_back({link.name, link.target, key.first});
  }
  return out;
}

Result<sessions::RegionLinks::Opened> LinkTable::open(const client::Credentials& credentials,
                                                      const std::string& name) const {
  Result<LinkName> parsed = parse_link_name(name);
  if (!parsed) return parsed.error();
  if (parsed->is_device) return Code::not_found;
  std::string target;
  {
    const std::lock_guard lock(mutex_);
    const auto found = links_.find({credentials.uid, parsed->uuid});
    if (found == links_.end() || found->second.is_ring) return Code::not_found;
    target = found->second.target;
  }
  return open_as(credentials, target);
}

}  // namespace penstock::fuse
