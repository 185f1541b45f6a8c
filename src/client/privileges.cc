#include "privileges.h"

namespace penstock::client {

void Privileges::begin_giving(Inode& inode) {
  DASSERT(inode.control.is_held());
  {
    // Bytes that write-behind took before this are as good as written before.
    const std::lock_guard taking(inode.behind.mutex);
    // Release pairs with the acquire of writers.
    inode.privilege_changes.fetch_add(1, std::memory_order_release);
  }
  close_gate(core_, inode);
}

Status Privileges::giving(InodeId id, const std::function<Status()>& apply) {
  const std::shared_ptr<Inode> inode = core_.table.acquire(id);
  Status status;
  {
    const std::lock_guard lock(inode->control);
    begin_giving(*inode);
    status = apply();
    inode->gate.open();
  }
  closer_.give_back(inode);
  return status;
}

Status Privileges::take_for(const OpenFile& file, const FileWriter* writer) {
  DASSERT(file.inode().control.is_held());
  const FileWriter* const payer = file.dropper(writer);
  return payer == nullptr ? Status() : core_.lengths.drop_privileges(file.inode(), *payer);
}

}  // namespace penstock::client
