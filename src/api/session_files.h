// A session's files as a load, and a save, wants them.
#pragma once

#include "file_state.h"
#include "limits.h"
#include "penstock.h"
#include "session.h"

#include <memory>
#include <string>
#include <vector>

#include "penstock/engine.h"
#include "penstock/load.h"

namespace penstock::api {

// Host memory through which a session's files are read and written, in the calling thread.
class HostSteps {
 public:
  static Outcome<std::unique_ptr<HostSteps>> make(Session& session, engine::Time deadline);
  ~HostSteps();

  // All of it; corrupt when the file ends before.
  Outcome<void> read(penstock_file file, uint64_t offset, MutableBytes to);
  Outcome<void> write(penstock_file file, uint64_t offset, Bytes from);

 private:
  HostSteps(Session& session, engine::Time deadline) : session_(session), deadline_(deadline) {}
  Outcome<uint64_t> run(uint8_t operation, penstock_file file, uint64_t offset, uint64_t length);

  Session& session_;
  const engine::Time deadline_;
  Region* region_ = nullptr;
  Ring* ring_ = nullptr;
};

class SessionFiles final : public load::Files {
 public:
  SessionFiles(Session& session, engine::DeviceMemory& devices, engine::Time deadline)
      : session_(session), devices_(devices), deadline_(deadline) {}
  ~SessionFiles() override;

  Outcome<uint64_t> open(const std::string& path) override;
  Outcome<void> read(uint32_t file, uint64_t offset, MutableBytes to) override;
  Outcome<std::vector<load::Way>> ways(size_t links) override;
  Outcome<void> check_unchanged() override;

 private:
  Session& session_;
  engine::DeviceMemory& devices_;
  const engine::Time deadline_;
  std::unique_ptr<HostSteps> steps_;
  std::vector<penstock_file> files_;
  std::vector<FileState> opened_;  // of each
};

}  // namespace penstock::api
