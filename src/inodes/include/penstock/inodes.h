// What all opens of a file share, and the parts that work on it; for the libraries that move its
// bytes and answer for it. Others need no more than penstock/open_files.h.
#pragma once

#include "penstock/inodes/access_times.h"
#include "penstock/inodes/chain_addresses.h"
#include "penstock/inodes/chain_tables.h"
#include "penstock/inodes/drop_queue.h"
#include "penstock/inodes/gate.h"
#include "penstock/inodes/inode.h"
#include "penstock/inodes/inode_table.h"
#include "penstock/inodes/layout.h"
#include "penstock/inodes/lengths.h"
#include "penstock/inodes/limits.h"
#include "penstock/inodes/observers.h"
#include "penstock/inodes/open_file.h"
#include "penstock/inodes/recent_bytes.h"
#include "penstock/inodes/target_calls.h"
#include "penstock/inodes/write_behind.h"
#include "penstock/inodes/written_ids.h"
#include "penstock/open_files.h"
