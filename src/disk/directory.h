// Blocking operations on directories and small files, for start, stop and rare growth.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "penstock/engine.h"

namespace penstock::disk {

// The Status for errno as it is now.
Status last_error();

// Makes the entries of the directory that holds `path` durable.
Status sync_parent(const std::string& path);

Status make_directory(const std::string& path);
Result<std::vector<std::string>> list_directory(const std::string& path);
Status remove_file(const std::string& path);
Result<std::string> read_small_file(const std::string& path);
Status replace_file(const std::string& path, const std::string& content);
Result<std::unique_ptr<engine::DirectoryLock>> lock_directory(const std::string& path);
Result<engine::DiskSpace> space_of(const std::string& path);

}  // namespace penstock::disk
