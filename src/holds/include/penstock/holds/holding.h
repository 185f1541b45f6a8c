// What a file system asks of the part of its process that has holds, and what that asks of it.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/holds/words.h"

namespace penstock::holds {

// By what an operation is known that runs under a hold.
struct Ticket {
  InodeId inode;
  AgentId session;
  uint64_t generation = 0;
};

// Whose caches and open files the holds are of: the file system of the process. What it is told
// comes from a thread or loop that must not be blocked; it calls `done` from any thread, perhaps at
// once, exactly once.
class Keeping {
 public:
  virtual ~Keeping() = default;
  // Nothing runs under the hold. What was written behind gets into the targets, length and times to
  // meta; with `leave` none, what was kept of the inode is gone, or cannot be found any more
  // without asking.
  virtual void drop(InodeId inode, Hold leave, std::function<void()> done) = 0;
  // What was written behind gets into the targets, and length and times to meta, while operations
  // go on.
  virtual void settle(InodeId inode, std::function<void()> done) = 0;
  // Another agent is about to change these names in a directory, or where one is empty the
  // attributes of the inode: what was kept of them goes, while operations go on.
  virtual void drop_names(InodeId inode, std::vector<std::string> names,
                          std::function<void()> done) = 0;
  // Nothing runs under a hold that is not exclusive. What was kept of all inodes but those goes; or
  // where all is lost, of all, and what was written behind is lost with it.
  virtual void drop_all(bool is_lost, std::function<void()> done) = 0;
};

// Entries of directories that are kept here, and by kernels that were told of them. Thread safe;
// nothing blocks.
class KeptEntries {
 public:
  virtual ~KeptEntries() = default;
  // Whether this process would be told before the entry leads elsewhere than there, or with no
  // inode is made: then it is given on until that time.
  virtual bool give(InodeId directory, std::string_view name, InodeId inode,
                    engine::Time until) = 0;
  // Until when a kernel may have the entry by what it was given, also if that was taken back: it
  // moves with the name, when the kernel renames it. Past: it has none.
  virtual engine::Time given(InodeId directory, std::string_view name) = 0;
  // A kernel is about to rename something to that. As by give(), whatever it leads to; by who has
  // a hold of the directory.
  virtual void give_renamed(InodeId directory, std::string_view name, engine::Time until) = 0;
  // Whether both the entry and the attributes of the inode are at hand.
  virtual bool is_kept(InodeId directory, std::string_view name, InodeId inode) = 0;
  // Which ones are given yet, of those names or of all, and until when; they are taken back.
  struct Given {
    std::vector<std::string> names;
    engine::Time until{};
    uint64_t as_of = 0;  // what is given later is not meant
  };
  virtual Given take_given(InodeId directory, const std::vector<std::string>* names) = 0;
  // Kernels have them no more. Until then they are taken again by whoever asks, who waits for the
  // kernel as well.
  virtual void told(InodeId directory, const Given& given) = 0;
  // Until when any of any directory is given.
  virtual engine::Time given_until() = 0;
};

// The holds of one agent. Thread safe; nothing blocks.
class Holding {
 public:
  // Of an operation that cannot begin. Completes, on its loop, with ok: where it has `entered`, it
  // runs by `ticket` as if enter() had said so, and ends with leave(), else another try is worth
  // it. Or with `closed`: no try will be; or with what a node that is restricted is refused it: it
  // is stale to this node, or read_only.
  struct Waiter : engine::Op {
    engine::Loop* loop = nullptr;
    InodeId inode;
    Hold hold = Hold::shared;
    bool is_waiting = false;  // of the implementation
    bool entered = false;     // out, with the ticket
    Ticket ticket;
  };

  virtual ~Holding() = default;

  // An operation begins that needs at least this of the inode. True: it may, and ends with leave().
  // False: wait().
  virtual bool enter(InodeId inode, Hold hold, Ticket& ticket) = 0;
  virtual void leave(const Ticket& ticket) = 0;
  virtual void wait(Waiter& waiter) = 0;
  // True if it was waiting: then it is not completed. False: it completes, and may have entered.
  virtual bool cancel(Waiter& waiter) = 0;
  // Whether what an operation found may be given out, or kept. To be asked when it has its bytes.
  virtual bool is_good(const Ticket& ticket) = 0;

  // The inode is used often, though nothing waits for it: a shared hold of it comes, perhaps, where
  // nobody changes it; who has it exclusive is asked to keep no more than that, for the next time.
  virtual void want(InodeId inode) = 0;

  // An open, or a region, has the inode in use; or has no more. While somebody has, the chunks of a
  // removed file stay.
  virtual void use(InodeId inode) = 0;
  virtual void unuse(InodeId inode) = 0;

  // How long, from now on, what is kept may be found without asking is_good(), if it is not
  // recalled: zero or less where there is no lease. Takes no lock.
  virtual engine::Duration lease_left() = 0;
  // Whose session it is now: updates of chunks name it.
  virtual AgentId session() = 0;
};

}  // namespace penstock::holds
