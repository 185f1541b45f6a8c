// Making many files in one transaction.
#include "namespace.h"
#include "walk.h"

#include <set>

#include "penstock/meta/records/limits.h"

namespace penstock::meta {
namespace {

struct Replaced {
  Dentry dentry;
  Inode inode;
};

// What the name belongs to in `directory`, where a file is to get it: nothing, or with `replace`
// what rename() would replace, with the checks that it makes.
Result<std::optional<Replaced>> find_replaced(View& view, const Credentials& credentials,
                                              const Inode& above, std::string_view name,
                                              bool replace) {
  const Attributes& directory = above.attributes;
  TRY_ASSIGN(const std::optional<Dentry> existing, view.find(directory.inode, name));
  if (existing && !replace) return Code::already_exists;
  TRY(require_addable(above, name));
  TRY(require_add(credentials, directory));
  if (!existing) return std::optional<Replaced>();
  TRY_ASSIGN(Inode inode, view.named_inode(existing->inode));
  TRY(require_take(credentials, directory, inode.attributes));
  if (inode.is_directory()) return Code::is_directory;
  return std::optional<Replaced>({*existing, std::move(inode)});
}

Result<NewFile> place(Walks& walks, View& view, const Credentials& credentials,
                      const WantedPlace& wanted) {
  const std::string_view path = wanted.path;
  TRY(check_path(path));
  const size_t begin = path.rfind('/') + 1;
  const std::string_view name = path.substr(begin);
  if (name.empty() || is_dots(name)) return Code::is_directory;
  TRY(check_name(name));
  const Walks::Directory& above = walks.directory(path.substr(0, begin));
  if (!above.inode) return above.inode.error();
  const Attributes& parent = above.inode->attributes;
  TRY(require(credentials, parent, kAccessExecute));
  TRY_ASSIGN(const std::optional<Replaced> existing,
             find_replaced(view, credentials, *above.inode, name, wanted.replace));
  return NewFile{{}, parent.inode, std::string(name), parent.layout, existing.has_value()};
}

}  // namespace

Result<std::vector<Result<NewFile>>> Namespace::place_files(
    const Credentials& credentials, const std::vector<WantedPlace>& wanted) {
  using All = std::vector<Result<NewFile>>;
  TRY_ASSIGN(All all, transact(engine::KvMode::read, [&](View& view) -> Result<All> {
               All found;
               found.reserve(wanted.size());
               Walks walks(view, credentials);
               for (const WantedPlace& one : wanted) {
                 found.push_back(place(walks, view, credentials, one));
               }
               return found;
             }));
  ASSERT(all.size() == wanted.size());
  for (Result<NewFile>& one : all) {
    if (!one) continue;
    TRY_ASSIGN(const uint64_t id, counters_.new_id());
    one->inode = InodeId(id);
    settle_layout(one->layout, one->inode);
    if (const Status reached = check_reach(one->layout); !reached.ok()) one = reached;
  }
  return all;
}

Result<MadeFile> Namespace::make_complete(View& view, const Credentials& credentials,
                                          const CompleteFile& file, Parents& parents, TrashIds& ids,
                                          Charges& charges) const {
  const NewFile& place = file.place;
  if (file.length > limits::kFileBytesMax) return Code::too_large;
  auto above = parents.find(place.parent);
  if (above == parents.end()) {
    above = parents.emplace(place.parent, view.directory(place.parent)).first;
  }
  if (!above->second) return above->second.error();
  const Inode& directory = *above->second;
  TRY(require(credentials, directory.attributes, kAccessExecute));
  TRY_ASSIGN(std::optional<Replaced> existing,
             find_replaced(view, credentials, directory, place.name, place.replace));
  NewInode what;
  what.mode = file.mode;
  what.layout = place.layout;
  Inode inode = build(credentials, directory, place.inode.value, what);
  inode.attributes.length = file.length;
  inode.attributes.sparse = file.sparse;
  TRY(change(credentials, file.changes, inode.attributes));
  ASSERT(inode.attributes.links == 1 && inode.attributes.type == FileType::regular);
  Charges::Mark before = charges.mark();
  TRY(charges.added(view, inode));
  if (!charges.fits()) {
    charges.back_to(std::move(before));
    return Code::over_quota;
  }
  view.put_new(inode);
  MadeFile made{inode.attributes, {}};
  if (existing) {
    // A name that was there all the time keeps its cookie.
    const uint64_t cookie = existing->dentry.cookie;
    view.put(place.parent, place.name, {inode.id(), FileType::regular, cookie});
    const FileTime now = inode.attributes.created;
    TRY_ASSIGN(made.replaced,
               drop_link(view, existing->inode, {place.parent, place.name, now, ids}, charges));
  } else {
    const uint64_t cookie = place.inode.value;
    view.put_new(place.parent, place.name, {inode.id(), FileType::regular, cookie});
  }
  return made;
}

Status Namespace::create_files(const Credentials& credentials,
                               const std::vector<CompleteFile>& files,
                               std::vector<Result<MadeFile>>* made) {
  const auto replacing = std::count_if(files.begin(), files.end(),
                                       [](const CompleteFile& file) { return file.place.replace; });
  TRY_ASSIGN(TrashIds ids, trash_ids(static_cast<size_t>(replacing)));
  TRY(charged(engine::KvMode::write, [&](View& view, Charges& charges) -> Status {
    ids.begin();
    made->clear();
    made->reserve(files.size());
    Parents parents;
    std::set<InodeId> changed;
    for (const CompleteFile& file : files) {
      made->push_back(make_complete(view, credentials, file, parents, ids, charges));
      if (made->back()) changed.insert(file.place.parent);
    }
    for (const InodeId parent : changed) view.touch(parent, clock_.wall());
    return {};
  }));
  ASSERT(made->size() == files.size());
  counters_.add_inodes(
      std::count_if(made->begin(), made->end(), [](const auto& one) { return one.has_value(); }));
  for (const Result<MadeFile>& one : *made) {
    if (one) note_removed(one->replaced);
  }
  return {};
}

}  // namespace penstock::meta
