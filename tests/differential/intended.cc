#include "intended.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace penstock::differential {
namespace {

bool asks_for_holes(const Operation& operation) {
  return operation.kind == Kind::seek &&
         (operation.numbers[1] == SEEK_DATA || operation.numbers[1] == SEEK_HOLE);
}

bool holes_or_blocks(const Case& seen) {
  return seen.field == "blocks" || (seen.field == "answer" && asks_for_holes(seen.operation));
}

bool never(const Case&) {
  return false;
}

constexpr Rule kRules[] = {
    {"reserved blocks",
     "fallocate reserves none here, as every update goes to new blocks (docs/posix.md); ext4 fills "
     "small "
     "reserved pieces with zeros when it likes, and calls them data then",
     [](const Case& seen) {
       return seen.note != nullptr && seen.note->reserved && holes_or_blocks(seen);
     }},
    {"holes of files with copies",
     "a chunk that has copies is one piece up to its last byte (docs/posix.md)",
     [](const Case& seen) { return seen.copies && holes_or_blocks(seen); }},
    {"mapped and not synced",
     "what was changed through memory counts as data, and changes times, when it is written back "
     "(docs/posix.md); ext4 says so when the page is touched first",
     [](const Case& seen) {
       return seen.note != nullptr && seen.note->mapped &&
              (holes_or_blocks(seen) || seen.field == "mtime" || seen.field == "ctime");
     }},
    {"time of access of cached pages",
     "the kernel does not tell a FUSE file system of reads that it serves from its own pages "
     "(docs/posix.md). Times that were set are compared",
     [](const Case& seen) { return seen.field == "atime" && S_ISREG(seen.mode); }},
    {"time of access of cached links and listings",
     "the kernel keeps targets and listings, so only the first look counts (docs/posix.md)",
     [](const Case& seen) {
       return seen.field == "atime" && (S_ISLNK(seen.mode) || S_ISDIR(seen.mode));
     }},
    {"times of fifos",
     "the kernel does not tell a FUSE file system who writes to its fifos (docs/posix.md)",
     [](const Case& seen) {
       return S_ISFIFO(seen.mode) &&
              (seen.field == "mtime" || seen.field == "ctime" || seen.field == "atime");
     }},
    {"which of two errors",
     "the kernel looks at the flags of ext4's inodes before it looks at anything else; those of a "
     "FUSE file system it does not know, so another reason to refuse comes first (docs/posix.md)",
     [](const Case& seen) {
       return seen.field == "answer" && seen.operation.kind <= Kind::set_acl &&
              seen.host->error == EPERM && seen.mount->error != 0;
     }},
    {"chown() to nobody of somebody else's set-id file",
     "EPERM there, without effect here (docs/posix.md): the kernel asks for it before their writes",
     [](const Case& seen) {
       const bool chowns =
           seen.operation.kind == Kind::chown || seen.operation.kind == Kind::fchown;
       const bool stranger = seen.operation.actor >= 2;  // The first two are root.
       return seen.field == "answer" && chowns && stranger && seen.operation.numbers[0] == -1 &&
              seen.operation.numbers[1] == -1 && seen.host->error == EPERM &&
              seen.mount->error == 0;
     }},
    {"access() to what is immutable",
     "the kernel does not know that a directory of a FUSE file system is immutable, so it lets "
     "root "
     "write (docs/posix.md); what is tried then is refused",
     [](const Case& seen) {
       return seen.field == "answer" && seen.operation.kind == Kind::access &&
              (seen.operation.numbers[0] & W_OK) != 0 && seen.host->error == EPERM;
     }},
    {"places in directories",
     "hashes there, counts here (docs/posix.md: order of a listing). At ext4's end of a listing, "
     "place and length overflow, so that read() of a directory says EINVAL and not EISDIR, and "
     "sendfile() EOVERFLOW",
     [](const Case& seen) {
       const bool answers = seen.field == "answer";
       const bool reads =
           (seen.operation.kind == Kind::read || seen.operation.kind == Kind::send_file) &&
           answers && seen.host->error == EINVAL && seen.mount->error != 0;
       const bool sends =
           seen.operation.kind == Kind::send_file && answers && seen.host->error == EOVERFLOW;
       return S_ISDIR(seen.mode) && (seen.operation.kind == Kind::seek || reads || sends);
     }},
    {"bytes that sendfile() put into a pipe",
     "the pipe has the page of the file and not its bytes; what is written to the file before the "
     "pipe is read shows in ext4's page, and not where FUSE's has been replaced (docs/posix.md)",
     [](const Case& seen) {
       return seen.operation.kind == Kind::read && seen.field == "answer" && S_ISFIFO(seen.mode) &&
              seen.mount->error == 0 && seen.host->error == 0 &&
              seen.mount->data.size() == seen.host->data.size();
     }},
    {"open without a name",
     "a directory, link or device, or a file known by O_PATH only, that lost its last name has "
     "lost "
     "its attributes, too (docs/posix.md)",
     [](const Case& seen) { return seen.gone; }},
    // Not compared at all, or never asked for, as what follows would differ for ever.
    {"maps and locks, through several mounts",
     "maps may show what was there before another node's write, locks are of one node "
     "(docs/posix.md): none are made",
     never},
    {"place after an append, through several mounts",
     "the kernel counts it from the length that it knows, which may be that before another node's "
     "write (docs/posix.md): the tester goes to the end",
     never},
    {"sendfile() and copy_file_range() through several mounts",
     "the kernel counts up to the length that it knows, and has old pages for a moment "
     "(docs/posix.md): the tester copies within one mount, and asks first",
     never},
    {"appending by RWF_APPEND, through several mounts",
     "the kernel chooses the place by the length that it knows (docs/posix.md): none is done",
     never},
    {"renaming a directory that another node has moved, through several mounts",
     "ESTALE where the kernel knows it at its old place (docs/posix.md): the tester looks first",
     never},
    {"set-group-id given through several mounts",
     "the kernel takes it by the group that it was told last, which another node may have changed "
     "since (docs/posix.md): the tester asks first",
     never},
    {"'..' of an open directory that another node has moved, through several mounts",
     "the kernel has its old parent until it meets the directory at its new place "
     "(docs/posix.md): the tester looks there first",
     never},
    {"fifos of several mounts", "each node has its own pipe (docs/posix.md): none are made", never},
    {"links between mounts", "EXDEV, as between any two: none are made", never},
    {"inode and device numbers", "compared only by which names and files share one", never},
    {"size and blocks of directories", "4,096 always (docs/posix.md)", never},
    {"order of listings, and their places", "by creation here, by hash there (docs/posix.md)",
     never},
    {"idle set-group-id",
     "newer kernels clear it from files without group execution when others write, but not for "
     "FUSE",
     never},
    {"immutable and append-only given to files",
     "open ones go on as they were opened (docs/posix.md): only "
     "directories are given these flags",
     never},
    {"set-group-id when somebody outside of the group sets an ACL",
     "cleared there, kept here (docs/posix.md): only root gives ACLs to such files", never},
    {"fcntl() that changes O_APPEND of an append-only directory",
     "refused there, taken here (docs/posix.md): directories are not asked for it", never},
    {"stored behind the end",
     "what a program stores through memory behind the end of a file shows when the file "
     "grows, as the kernel does not clear it for FUSE (docs/posix.md): none is stored",
     never},
    {"statfs", "two different stores; the length of names is compared", never},
    {"attributes of statx", "the kernel passes none on from a FUSE file system", never},
    {"unaligned O_DIRECT", "taken here, refused there (docs/posix.md): the tester aligns", never},
    {"files beyond 16 TiB", "256 TiB here (docs/posix.md): none is made", never},
    {"extended attributes beyond a block", "64 KiB here (docs/posix.md): small ones are made",
     never},
    {"other flags of inodes, RENAME_WHITEOUT, collapsing and inserting ranges",
     "refused here (docs/posix.md)", never},
};
static_assert(std::size(kRules) <= kRulesMax);

}  // namespace

const Rule* rules() {
  return kRules;
}

size_t rule_count() {
  return std::size(kRules);
}

std::optional<size_t> intended(const Case& seen) {
  for (size_t i = 0; i < std::size(kRules); i++) {
    if (kRules[i].matches(seen)) return i;
  }
  return std::nullopt;
}

}  // namespace penstock::differential
