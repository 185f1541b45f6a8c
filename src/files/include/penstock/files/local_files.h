// Files of other file systems as a load wants them.
#pragma once

#include <string>
#include <vector>

#include "penstock/engine.h"
#include "penstock/files/file_state.h"
#include "penstock/files/local_links.h"
#include "penstock/load.h"

namespace penstock::files {

class LocalFiles final : public load::Files {
 public:
  // So many threads read for each link.
  LocalFiles(engine::DeviceMemory& devices, uint32_t threads)
      : devices_(devices), threads_(threads) {}
  ~LocalFiles() override;

  Outcome<uint64_t> open(const std::string& path) override;
  Outcome<void> read(uint32_t file, uint64_t offset, MutableBytes to) override;
  Outcome<std::vector<load::FileTransfers>> transfers(size_t links) override;
  Outcome<void> check_unchanged() override;

 private:
  struct File {
    UniqueFd fd;
    FileState opened;
  };
  struct Known {
    LocalLink* link = nullptr;
    uint32_t number = 0;
  };

  engine::DeviceMemory& devices_;
  const uint32_t threads_;
  std::vector<File> files_;
  std::vector<Known> known_;  // what the links know of
};

}  // namespace penstock::files
