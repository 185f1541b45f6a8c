// Making many files in one transaction.
#include "limits.h"
#include "namespace.h"
#include "walk.h"

#include <set>

namespace penstock::meta {
namespace {

Result<NewFile> place(Walks& walks, View& view, const Credentials& credentials,
                      std::string_view path) {
  TRY(check_path(path));
  const size_t begin = path.rfind('/') + 1;
  const std::string_view name = path.substr(begin);
  if (name.empty() || is_dots(name)) return Code::is_directory;
  TRY(check_name(name));
  const Walks::Directory& above = walks.directory(path.substr(0, begin));
  if (!above.inode) return above.inode.error();
  const Attributes& parent = above.inode->attributes;
  TRY(require(credentials, parent, kAccessExecute));
  TRY_ASSIGN(const std::optional<Dentry> existing, view.find(parent.inode, name));
  if (existing) return Code::already_exists;
  TRY(require_add(credentials, parent));
  return NewFile{{}, parent.inode, std::string(name), parent.layout};
}

}  // namespace

Result<std::vector<Result<NewFile>>> Namespace::place_files(
    const Credentials& credentials, const std::vector<std::string_view>& paths) {
  using All = std::vector<Result<NewFile>>;
  TRY_ASSIGN(All all, transact(engine::KvMode::read, [&](View& view) -> Result<All> {
               All found;
               found.reserve(paths.size());
               Walks walks(view, credentials);
               for (const std::string_view path : paths) {
                 found.push_back(place(walks, view, credentials, path));
               }
               return found;
             }));
  for (Result<NewFile>& one : all) {
    if (!one) continue;
    TRY_ASSIGN(const uint64_t id, counters_.new_id());
    one->inode = InodeId(id);
    if (one->layout.seed == 0) one->layout.seed = mix64(id);
  }
  return all;
}

Result<Attributes> Namespace::make_complete(View& view, const Credentials& credentials,
                                            const CompleteFile& file, Parents& parents) const {
  const NewFile& place = file.place;
  if (file.length > limits::kFileBytesMax) return Code::too_large;
  auto above = parents.find(place.parent);
  if (above == parents.end()) {
    above = parents.emplace(place.parent, view.directory(place.parent)).first;
  }
  if (!above->second) return above->second.error();
  const Inode& directory = *above->second;
  TRY(require(credentials, directory.attributes, kAccessExecute));
  TRY_ASSIGN(const std::optional<Dentry> existing, view.find(place.parent, place.name));
  if (existing) return Code::already_exists;
  TRY(require_add(credentials, directory.attributes));
  NewInode what;
  what.mode = file.mode;
  what.layout = place.layout;
  Inode inode = build(credentials, directory, place.inode.value, what);
  inode.attributes.length = file.length;
  TRY(change(credentials, file.changes, inode.attributes));
  view.put(inode);
  view.put(place.parent, place.name, {inode.id(), FileType::regular, place.inode.value});
  return inode.attributes;
}

Result<std::vector<Result<Attributes>>> Namespace::create_files(
    const Credentials& credentials, const std::vector<CompleteFile>& files) {
  using All = std::vector<Result<Attributes>>;
  Result<All> made = transact(engine::KvMode::write, [&](View& view) -> Result<All> {
    All all;
    all.reserve(files.size());
    Parents parents;
    std::set<InodeId> changed;
    for (const CompleteFile& file : files) {
      all.push_back(make_complete(view, credentials, file, parents));
      if (all.back()) changed.insert(file.place.parent);
    }
    for (const InodeId parent : changed) view.touch(parent, clock_.wall());
    return all;
  });
  if (!made) return made;
  const auto good =
      std::count_if(made->begin(), made->end(), [](const auto& one) { return one.has_value(); });
  counters_.add_inodes(good);
  return made;
}

}  // namespace penstock::meta
