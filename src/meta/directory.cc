// Listing directories.
#include "namespace.h"

#include "penstock/meta/records/limits.h"

namespace penstock::meta {
namespace {

struct Listed {
  DirectoryEntry entry;
  std::optional<Attributes> attributes;
};

}  // namespace

Status Namespace::read_directory(InodeId directory, uint64_t after_cookie, size_t max_entries,
                                 bool with_attributes, const DirectoryVisitor& visit) {
  if (after_cookie > kIdMax) return Code::invalid_argument;
  const InodeId hidden = directory == kRootInode ? trash_.top() : InodeId();
  uint64_t after = after_cookie;
  while (max_entries > 0) {
    const size_t wanted = std::min(max_entries, kEntriesPerTransaction);
    TRY_ASSIGN(const std::vector<Listed> listed,
               transact(engine::KvMode::read, [&](View& view) -> Result<std::vector<Listed>> {
                 TRY_ASSIGN(const Inode found, view.inode(directory));
                 if (!found.is_directory()) return Code::not_directory;
                 std::vector<Listed> batch;
                 TRY(view.scan_entries(directory, after, [&](uint64_t cookie, CookieEntry& entry) {
                   // The trash is found by its name only.
                   if (entry.inode == hidden) return true;
                   batch.push_back({{std::move(entry.name), entry.inode, entry.type, cookie}, {}});
                   return batch.size() < wanted;
                 }));
                 if (!with_attributes) return batch;
                 std::vector<InodeId> inodes;
                 for (const Listed& each : batch) inodes.push_back(each.entry.inode);
                 TRY_ASSIGN(std::vector<Attributes> attributes, view.named_attributes(inodes));
                 for (size_t i = 0; i < batch.size(); ++i) {
                   batch[i].attributes = std::move(attributes[i]);
                 }
                 return batch;
               }));
    ASSERT(listed.size() <= wanted);
    for (const Listed& each : listed) {
      if (!visit(each.entry, each.attributes ? &*each.attributes : nullptr)) return {};
      after = each.entry.cookie;
    }
    if (listed.size() < wanted) return {};
    max_entries -= listed.size();
  }
  return {};
}

}  // namespace penstock::meta
