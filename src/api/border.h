// What the C border speaks of.
#pragma once

#include "penstock/connection.h"
#include "penstock/files.h"
#include "penstock/lanes.h"
#include "penstock/proxy.h"

namespace penstock::api {

// NOLINTBEGIN(misc-unused-using-decls)
using connection::CallsEndBy;
using connection::Connection;
using connection::fail;
using connection::fail_with;
using connection::find_socket;
using connection::last_error;
using connection::PublishedMemory;
using connection::Region;
using connection::Regions;
using files::ask;
using files::attributes_of;
using files::check_path;
using files::create_files;
using files::creation_mode;
using files::kReplace;
using files::ListedLook;
using files::ListedNewFile;
using files::ListedRead;
using files::LocalFiles;
using files::LocalNewFile;
using files::look_at_files;
using files::NewFileOrder;
using files::open_path;
using files::read_files;
using files::read_files_packed;
using files::SessionFiles;
using files::SessionNewFile;
using files::StagingPool;
using files::stat_of;
using files::to_timespec;
using files::with_grace;
using lanes::Completion;
using lanes::Gather;
using lanes::Io;
using lanes::Lane;
using lanes::Ring;
using lanes::Session;
using proxy::DeviceRing;
using proxy::DeviceRings;
using proxy::FileService;
using proxy::FileServiceStats;
// NOLINTEND(misc-unused-using-decls)

}  // namespace penstock::api
