// Which of a file's directories it is counted in, as its names come and go: decision 0065. The
// record of the file is the caller's to put.
#pragma once

#include "view.h"

namespace penstock::meta {

// One more, in `directory`, of a file that has names; before its links are counted up.
Status note_name_added(View& view, Inode& inode, InodeId directory);
// One less; after its links are counted down. With the last one nothing changes.
Status note_name_removed(View& view, Inode& inode, InodeId directory);
// From one directory to another one.
Status note_name_moved(View& view, Inode& inode, InodeId from, InodeId to);

}  // namespace penstock::meta
