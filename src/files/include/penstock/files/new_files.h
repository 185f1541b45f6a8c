// Files that take the place of others only when they are complete.
#pragma once

#include <memory>
#include <string>

#include "penstock/engine.h"
#include "penstock/files/local_links.h"
#include "penstock/files/session_files.h"
#include "penstock/load.h"

namespace penstock::files {

// What both kinds have in common. `mode` is that of the new file, less the umask. The devices are
// null where nothing is written from GPU memory.
struct NewFileOrder {
  std::string path;
  mode_t mode = 0666;
  engine::DeviceMemory* devices = nullptr;
  engine::Time deadline = engine::kNever;
};

// Beside the path, where a rename can take it from; another one at each call.
std::string temporary_name(const std::string& path);

// In a session's file system.
class SessionNewFile final : public load::NewFile {
 public:
  static Outcome<std::unique_ptr<SessionNewFile>> create(lanes::Session& session,
                                                         NewFileOrder order);
  ~SessionNewFile() override;

  Outcome<void> write(uint64_t offset, Bytes from) override;
  Outcome<load::FileTransfers> transfers() override;
  Outcome<void> commit() override;

 private:
  SessionNewFile(lanes::Session& session, NewFileOrder order)
      : session_(session),
        order_(std::move(order)),
        temporary_(temporary_name(order_.path)),
        epoch_(session.connection().epoch()) {}
  Outcome<void> take_name();

  lanes::Session& session_;
  const NewFileOrder order_;
  const std::string temporary_;
  const uint64_t epoch_;  // of the agent that took the first byte
  int32_t file_ = -1;
  bool committed_ = false;
  std::unique_ptr<HostSteps> steps_;
};

// In any other file system.
class LocalNewFile final : public load::NewFile {
 public:
  static Outcome<std::unique_ptr<LocalNewFile>> create(NewFileOrder order);
  ~LocalNewFile() override;

  Outcome<void> write(uint64_t offset, Bytes from) override;
  Outcome<load::FileTransfers> transfers() override;
  Outcome<void> commit() override;

 private:
  explicit LocalNewFile(NewFileOrder order)
      : order_(std::move(order)), temporary_(temporary_name(order_.path)) {}

  const NewFileOrder order_;
  const std::string temporary_;
  UniqueFd directory_;  // of both names, so that they stay in it when it is renamed
  UniqueFd file_;
  bool committed_ = false;
  LocalLink* link_ = nullptr;
  uint32_t number_ = 0;  // of the file, there
};

}  // namespace penstock::files
