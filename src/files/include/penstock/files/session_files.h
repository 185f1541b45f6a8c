// A session's files as a load, and a save, wants them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "penstock/engine.h"
#include "penstock/files/file_state.h"
#include "penstock/files/limits.h"
#include "penstock/lanes.h"
#include "penstock/load.h"

namespace penstock::files {

// Host memory through which a session's files are read and written, in the calling thread.
class HostSteps {
 public:
  static Outcome<std::unique_ptr<HostSteps>> make(lanes::Session& session, engine::Time deadline);
  ~HostSteps();

  // All of it; corrupt when the file ends before.
  Outcome<void> read(int32_t file, uint64_t offset, MutableBytes to);
  Outcome<void> write(int32_t file, uint64_t offset, Bytes from);

 private:
  HostSteps(lanes::Session& session, engine::Time deadline)
      : session_(session), deadline_(deadline) {}
  Outcome<uint64_t> run(uint8_t operation, int32_t file, uint64_t offset, uint64_t length);

  lanes::Session& session_;
  const engine::Time deadline_;
  connection::Region* region_ = nullptr;
  lanes::Ring* ring_ = nullptr;
  lanes::Lane* lane_ = nullptr;  // its only one
};

class SessionFiles final : public load::Files {
 public:
  SessionFiles(lanes::Session& session, engine::DeviceMemory& devices, engine::Time deadline)
      : session_(session), devices_(devices), deadline_(deadline) {}
  ~SessionFiles() override;

  Outcome<uint64_t> open(const std::string& path) override;
  Outcome<void> read(uint32_t file, uint64_t offset, MutableBytes to) override;
  Outcome<std::vector<load::FileTransfers>> transfers(size_t links) override;
  Outcome<void> check_unchanged() override;

 private:
  lanes::Session& session_;
  engine::DeviceMemory& devices_;
  const engine::Time deadline_;
  std::unique_ptr<HostSteps> steps_;
  std::vector<int32_t> files_;
  std::vector<FileState> opened_;  // of each
};

}  // namespace penstock::files
