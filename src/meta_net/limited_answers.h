// What answers to a node that is restricted prove, and how they are said to it.
#pragma once

#include "answers.h"
#include "limited.h"

namespace penstock::meta_net {

// What an answer shows is named from now on; then the subtree's root is said as the root.
class Showing {
 public:
  Showing(std::vector<InodeId>& shown, InodeId root) : shown_(shown), root_(root) {}

  void on(Attributes& attributes) { shown_.push_back(attributes.inode); }
  void on(InodeId& inode) {
    if (root_ != InodeId() && inode == root_) inode = meta::kRootInode;
  }

 private:
  std::vector<InodeId>& shown_;
  const InodeId root_;
};

// Rights beyond the name that follow from a call that has ended well.
template <class Call>
void prove_more(const Call&, const typename Call::Answer&, const auto&) {}

inline constexpr uint8_t kProvenAll = kProvenName | kProvenRead | kProvenWrite;

inline void prove_more(const ask::Create&, const Created& made, const auto& prove) {
  if (made.created) prove(made.attributes.inode, kProvenAll);
}
inline void prove_more(const ask::CreateUnnamed&, const Attributes& made, const auto& prove) {
  prove(made.inode, kProvenAll);
}
inline void prove_more(const ask::UnusedId&, const Number& number, const auto& prove) {
  prove(InodeId(number.value), kProvenAll);
}
inline void prove_more(const ask::PlaceFiles&, const Places& places, const auto& prove) {
  for (const auto& place : places.each) {
    if (place) prove(place->inode, kProvenAll);
  }
}
// Meta has looked whether the user may write.
inline void prove_more(const ask::SetAttributes& asked, const Attributes&, const auto& prove) {
  if (asked.changes.length) prove(asked.inode, kProvenName | kProvenWrite);
}
inline void prove_more(const ask::Access& asked, const Text&, const auto& prove) {
  uint8_t bits = kProvenName;
  if ((asked.wanted & meta::kAccessRead) != 0) bits |= kProvenRead;
  if ((asked.wanted & meta::kAccessWrite) != 0) bits |= kProvenWrite;
  if ((asked.wanted & meta::kAccessExecute) != 0) bits |= kProvenEnter;
  prove(asked.inode, bits);
}

template <class Call>
void Limited::take(const Call& asked, Result<typename Call::Answer>& answer) {
  if (!answer) return;
  prove_more(asked, *answer, [this](InodeId inode, uint8_t bits) { prove(inode, bits); });
  bool shows_names = true;
  if constexpr (std::is_same_v<Call, ask::ReadDirectory>) {
    // To list names is not to look them up.
    shows_names = !limits_->what.limits_users() || has(asked.directory, kProvenEnter);
  }
  InodeId root;
  {
    const std::lock_guard lock(mutex_);
    root = has_subtree() ? root_ : InodeId();
  }
  std::vector<InodeId> shown;
  Showing showing(shown, root);
  Fields<Showing>(showing).one(*answer);
  if (!shows_names) return;
  const std::lock_guard lock(mutex_);
  for (const InodeId inode : shown) proven_.add(inode, kProvenName);
}

}  // namespace penstock::meta_net
