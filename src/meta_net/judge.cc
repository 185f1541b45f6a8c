// How calls of a node that is restricted are judged, one rule each.
#include "limited.h"

#include <algorithm>

namespace penstock::meta_net {

// Before a call is carried out.
class Judge {
 public:
  explicit Judge(Limited& of) : of_(of) {}

  // ---- fields ----

  void on(Credentials& who) {
    if (status_.ok()) status_ = of_.admit_user(who);
  }
  void on(InodeId& inode) {
    if (inode == meta::kRootInode && root_ != InodeId()) inode = root_;
  }

  Status fields(Request& request) {
    if (of_.has_subtree()) {
      TRY_ASSIGN(root_, of_.root());
    }
    Fields<Judge> all(*this);
    std::visit([&](auto& asked) { asked.fields(all, asked); }, request);
    return status_;
  }

  // ---- calls ----

  Status on_call(ask::Lookup& asked) {
    TRY(of_.require_inside(asked.parent));
    if (asked.name == ".." && asked.parent == root_) asked.name = ".";
    return Code::ok;
  }
  // Paths are walked by Limited::run(), or are those of all files.
  Status on_call(ask::Resolve&) { return Code::ok; }
  Status on_call(ask::ResolveMany&) { return Code::ok; }
  Status on_call(ask::ResolveParent&) { return Code::ok; }
  Status on_call(ask::PlaceFiles&) { return Code::ok; }

  Status on_call(ask::GetAttributes& asked) { return of_.require_named(asked.inode); }
  Status on_call(ask::ReadSymlink& asked) { return of_.require_named(asked.inode); }
  Status on_call(ask::GetXattr& asked) { return of_.require_named(asked.inode); }
  Status on_call(ask::ListXattrs& asked) { return of_.require_named(asked.inode); }
  Status on_call(ask::IsUnsettled& asked) { return of_.require_named(asked.inode); }
  Status on_call(ask::SetXattr& asked) { return of_.require_named(asked.inode); }
  Status on_call(ask::RemoveXattr& asked) { return of_.require_named(asked.inode); }
  Status on_call(ask::SetLayout& asked) { return of_.require_inside(asked.directory); }
  Status on_call(ask::SetAttributes& asked) {
    TRY(of_.require_named(asked.inode));
    // An open file is the right to cut it, whatever its mode is by now.
    meta::SetAttributes others = asked.changes;
    others.length.reset();
    others.modified_now = others.leaves_blocks = false;
    others.keeps_set_ids.reset();
    const bool only_cuts = asked.changes.length && says_nothing(others);
    if (only_cuts && of_.has(asked.inode, kProvenWrite)) asked.who.enforce = false;
    return require_owners(asked.changes);
  }
  Status on_call(ask::Access& asked) {
    const bool writes = (asked.wanted & meta::kAccessWrite) != 0;
    if (writes && of_.limits().what.read_only) return Code::read_only;
    // What was proven stays: it may be asked for an open file.
    uint8_t bits = 0;
    if (writes) bits |= kProvenWrite;
    if ((asked.wanted & meta::kAccessRead) != 0) bits |= kProvenRead;
    if ((asked.wanted & meta::kAccessExecute) != 0) bits |= kProvenEnter;
    if (bits != 0 && of_.has(asked.inode, bits)) asked.who.enforce = false;
    return of_.require_named(asked.inode);
  }

  Status on_call(ask::ReadDirectory& asked) {
    TRY(of_.require_inside(asked.directory));
    if (!of_.limits().what.limits_users()) return Code::ok;
    return of_.has(asked.directory, kProvenRead) ? Code::ok : Code::access_denied;
  }

  Status on_call(ask::DropPrivileges& asked) {
    return of_.require_proven(asked.inode, kProvenWrite);
  }
  Status on_call(ask::BeginWrite& asked) { return of_.require_proven(asked.inode, kProvenWrite); }
  Status on_call(ask::Settle& asked) { return of_.require_proven(asked.inode, kProvenWrite); }
  Status on_call(ask::EndWrite& asked) { return of_.require_proven(asked.inode, kProvenWrite); }
  // What it does not know is no matter of its own.
  Status on_call(ask::RecordAccessed& asked) {
    const bool reads = of_.limits().what.read_only;
    std::erase_if(asked.each, [&](const meta::Meta::Accessed& one) {
      return reads || !of_.has(one.inode, kProvenName);
    });
    return Code::ok;
  }

  Status on_call(ask::Create& asked) {
    TRY(require_number(asked.how.id));
    return of_.require_inside(asked.parent);
  }
  Status on_call(ask::CreateUnnamed& asked) {
    TRY(require_number(asked.id));
    return of_.require_inside(asked.parent);
  }
  Status on_call(ask::MakeDirectory& asked) { return of_.require_inside(asked.parent); }
  Status on_call(ask::MakeNode& asked) { return of_.require_inside(asked.parent); }
  Status on_call(ask::MakeSymlink& asked) { return of_.require_inside(asked.parent); }
  Status on_call(ask::Unlink& asked) { return of_.require_inside(asked.parent); }
  Status on_call(ask::RemoveDirectory& asked) { return of_.require_inside(asked.parent); }
  Status on_call(ask::Link& asked) {
    if (!of_.has(asked.inode, kProvenName)) return Code::stale;
    return of_.require_inside(asked.parent);
  }
  Status on_call(ask::Rename& asked) {
    TRY(of_.require_inside(asked.parent));
    return of_.require_inside(asked.new_parent);
  }
  Status on_call(ask::CreateFiles& asked) {
    for (const meta::CompleteFile& file : asked.files) {
      if (file.place.inode == InodeId()) return Code::invalid_argument;
      TRY(require_number(file.place.inode));
      TRY(of_.require_inside(file.place.parent));
      TRY(require_owners(file.changes));
    }
    return Code::ok;
  }

  Status on_call(ask::QuotaOf& asked) { return of_.require_named(asked.directory); }
  Status on_call(ask::TrashOf& asked) { return of_.require_named(asked.inode); }
  Status on_call(ask::Reserve& asked) { return of_.require_proven(asked.inode, kProvenWrite); }

  // No right is checked there: such a node asks for each name by whom it looks.
  Status on_call(ask::Look&) { return Code::not_supported; }

  // Of the file system as a whole, or of nothing in it.
  Status on_call(ask::SetQuota&) { return Code::access_denied; }
  Status on_call(ask::DeleteQuota&) { return Code::access_denied; }
  Status on_call(ask::ListQuotas&) { return Code::access_denied; }
  Status on_call(ask::CheckQuota&) { return Code::access_denied; }
  Status on_call(ask::SetTrash&) { return Code::access_denied; }
  Status on_call(ask::ListTrash&) { return Code::access_denied; }
  Status on_call(ask::EmptyTrash&) { return Code::access_denied; }
  Status on_call(ask::Unsettled&) { return Code::access_denied; }
  Status on_call(ask::Orphans&) { return Code::access_denied; }
  Status on_call(ask::Forget&) { return Code::access_denied; }
  Status on_call(ask::Prove&) { return Code::ok; }
  Status on_call(ask::Capability&) { return Code::ok; }
  Status on_call(ask::UnusedId&) { return Code::ok; }
  Status on_call(ask::NewestCookie&) { return Code::ok; }
  Status on_call(ask::Sync&) { return Code::ok; }
  Status on_call(ask::Counts&) { return Code::ok; }
  Status on_call(ask::OwnChains&) { return Code::ok; }

 private:
  static bool says_nothing(const meta::SetAttributes& changes) {
    return !changes.mode && !changes.uid && !changes.gid && !changes.accessed &&
           !changes.modified && !changes.flags && !changes.accessed_now && !changes.chown_to_nobody;
  }
  // A number for a new file is one that this node was given.
  Status require_number(InodeId id) {
    if (id == InodeId() || of_.has(id, kProvenWrite)) return Code::ok;
    return Code::invalid_argument;
  }
  Status require_owners(const meta::SetAttributes& changes) {
    const rights::Restriction& what = of_.limits().what;
    if (!what.limits_users()) return Code::ok;
    const bool is_good = (!changes.uid || rights::may_own(what, *changes.uid)) &&
                         (!changes.gid || rights::may_own_group(what, *changes.gid));
    return is_good ? Code::ok : Code::not_permitted;
  }

  Limited& of_;
  InodeId root_;
  Status status_;
};

Status Limited::admit(Request& request) {
  // Times of access of a node that only reads are left out, rather than refused.
  const bool is_access = std::holds_alternative<ask::RecordAccessed>(request);
  if (limits_->what.read_only && changes(request) && !is_access) return Code::read_only;
  Judge judge(*this);
  TRY(judge.fields(request));
  return std::visit([&](auto& asked) { return judge.on_call(asked); }, request);
}

}  // namespace penstock::meta_net
