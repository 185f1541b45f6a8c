// Finding inodes by name and path.
#include "limits.h"
#include "namespace.h"

namespace penstock::meta {
namespace {

// Walks paths inside one transaction.
class Walk {
 public:
  Walk(View& view, const Credentials& credentials) : view_(view), credentials_(credentials) {}

  // From `directory` (which is known to be one), for every component of `path`; symbolic links are
  // followed, the last one only if `follow_last` or a slash comes after it.
  Result<Inode> to(Inode directory, std::string path, bool follow_last) {
    Inode here = std::move(directory);
    std::string rest = std::move(path);
    size_t at = 0;
    while (true) {
      while (at < rest.size() && rest[at] == '/') ++at;
      if (at == rest.size()) break;
      const size_t slash = std::min(rest.find('/', at), rest.size());
      const std::string_view name = std::string_view(rest).substr(at, slash - at);
      TRY_ASSIGN(Inode next, step(here, name));
      at = slash;
      const bool last = at == rest.size();
      if (next.attributes.type == FileType::symlink && (!last || follow_last)) {
        if (++followed_ > limits::kSymlinksFollowedMax) return Code::too_many_symlinks;
        rest = next.target + rest.substr(at);
        at = 0;
        if (rest.front() == '/') {
          TRY_ASSIGN(here, view_.directory(kRootInode));
        }
        continue;
      }
      if (!last && !next.is_directory()) return Code::not_directory;
      here = std::move(next);
    }
    return here;
  }

  // One component, not followed.
  Result<Inode> step(const Inode& directory, std::string_view name) {
    TRY(check_name(name));
    TRY(require(credentials_, directory.attributes, kAccessExecute));
    if (name == ".") return directory;
    if (name == "..") return view_.directory(directory.parent);
    TRY_ASSIGN(const std::optional<Dentry> dentry, view_.find(directory.id(), name));
    if (!dentry) return Code::not_found;
    return view_.named_inode(dentry->inode);
  }

 private:
  View& view_;
  const Credentials& credentials_;
  uint32_t followed_ = 0;
};

Status check_path(std::string_view path) {
  if (path.empty()) return Code::not_found;
  if (path.size() > limits::kPathBytesMax) return Code::name_too_long;
  if (path.front() != '/' || path.find('\0') != std::string_view::npos) {
    return Code::invalid_argument;
  }
  return {};
}

}  // namespace

Result<Attributes> Namespace::lookup(const Credentials& credentials, InodeId parent,
                                     std::string_view name) {
  return transact(engine::KvMode::read, [&](View& view) -> Result<Attributes> {
    TRY_ASSIGN(const Inode directory, view.directory(parent));
    TRY_ASSIGN(const Inode found, Walk(view, credentials).step(directory, name));
    return view.attributes(found);
  });
}

Result<Attributes> Namespace::resolve(const Credentials& credentials, std::string_view path,
                                      bool follow_last) {
  TRY(check_path(path));
  return transact(engine::KvMode::read, [&](View& view) -> Result<Attributes> {
    TRY_ASSIGN(Inode root, view.directory(kRootInode));
    TRY_ASSIGN(const Inode found,
               Walk(view, credentials).to(std::move(root), std::string(path), follow_last));
    return view.attributes(found);
  });
}

Result<ResolvedParent> Namespace::resolve_parent(const Credentials& credentials,
                                                 std::string_view path) {
  TRY(check_path(path));
  size_t end = path.size();
  while (end > 0 && path[end - 1] == '/') --end;
  const size_t begin = end == 0 ? 0 : path.rfind('/', end - 1) + 1;
  ResolvedParent resolved;
  resolved.must_be_directory = end != path.size();
  resolved.name = end == 0 ? "." : std::string(path.substr(begin, end - begin));
  TRY(check_name(resolved.name));
  // With a slash at the end, so that a link there is followed and must lead to a directory.
  const std::string parent = std::string(path.substr(0, begin)) + "/";
  TRY_ASSIGN(resolved.parent, transact(engine::KvMode::read, [&](View& view) -> Result<Attributes> {
               TRY_ASSIGN(Inode root, view.directory(kRootInode));
               TRY_ASSIGN(const Inode found,
                          Walk(view, credentials).to(std::move(root), parent, true));
               return view.attributes(found);
             }));
  return resolved;
}

Result<Attributes> Namespace::attributes(InodeId inode) {
  return transact(engine::KvMode::read, [&](View& view) -> Result<Attributes> {
    TRY_ASSIGN(const Inode found, view.inode(inode));
    return view.attributes(found);
  });
}

Result<std::string> Namespace::read_symlink(InodeId inode) {
  return transact(engine::KvMode::read, [&](View& view) -> Result<std::string> {
    TRY_ASSIGN(const Inode found, view.inode(inode));
    if (found.attributes.type != FileType::symlink) return Code::invalid_argument;
    return found.target;
  });
}

}  // namespace penstock::meta
