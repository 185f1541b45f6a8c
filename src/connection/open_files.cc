#include "penstock/connection/open_files.h"

namespace penstock::connection {

OpenFiles::OpenFiles(Connection& connection)
    : connection_(connection),
      access_table_(std::make_unique<std::array<std::atomic<uint8_t>, wire::kFilesMax>>()),
      access_(*access_table_),
      inodes_(wire::kFilesMax) {}

Outcome<int32_t> OpenFiles::open(const std::function<wire::RequestBody(uint32_t)>& request,
                                 const std::vector<int>& descriptors) {
  uint32_t id = 0;
  {
    const std::lock_guard lock(mutex_);
    if (files_.size() >= wire::kFilesMax) {
      return Failure{Code::busy, fmt::format("open: this session has {} files open, which is the "
                                             "limit",
                                             files_.size())};
    }
    // The number after the last one given, so that a stale number is noticed more often.
    while (files_.contains(next_ % wire::kFilesMax)) ++next_;
    id = next_++ % wire::kFilesMax;
    files_[id] = {};
  }
  const auto keep = [&](const wire::ReplyBody& body) {
    const auto* opened = std::get_if<wire::Opened>(&body);
    if (opened == nullptr) return;
    const std::lock_guard lock(mutex_);
    // Reserved above, and not closed, as its number is not known yet.
    ASSERT(files_.contains(id) && access_[id].load(std::memory_order_relaxed) == 0);
    files_[id] = {opened->token, true};
    inodes_[id].store(opened->inode, std::memory_order_relaxed);
    access_[id].store(static_cast<uint8_t>(opened->access), std::memory_order_relaxed);
  };
  const auto again = [&](const wire::ReplyBody& body) -> wire::RequestBody {
    const auto* opened = std::get_if<wire::Opened>(&body);
    return wire::Reopen{id, opened != nullptr ? opened->token : std::string()};
  };
  const Connection::Answer answer = connection_.establish(request(id), descriptors, keep, again);
  if (answer) return static_cast<int32_t>(id);
  forget(id);
  return answer.error();
}

void OpenFiles::forget(uint32_t id) {
  const std::lock_guard lock(mutex_);
  ASSERT(access_[id].load(std::memory_order_relaxed) == 0);
  const size_t erased = files_.erase(id);
  ASSERT(erased == 1);
}

Outcome<void> OpenFiles::begin_close(int32_t file) {
  const uint32_t id = static_cast<uint32_t>(file);
  const std::lock_guard lock(mutex_);
  const auto found = files_.find(id);
  if (file < 0 || found == files_.end() || !found->second.ready) {
    return Failure{Code::bad_handle, "close: the file is not open"};
  }
  found->second.ready = false;
  access_[id].store(0, std::memory_order_relaxed);
  return {};
}

Outcome<void> OpenFiles::close_later(int32_t file) {
  TRY(begin_close(file));
  const uint32_t id = static_cast<uint32_t>(file);
  // The number is free again when the agent has answered.
  const auto ended = [this, id](const wire::Reply* reply) {
    if (reply != nullptr && !reply->status.ok()) log::warning("file {}: {}", id, reply->text);
    forget(id);
  };
  std::string why;
  const Status told = connection_.tell(wire::CloseFile{id}, ended, &why);
  if (told.ok()) return {};
  return Failure{told, "close: " + why};
}

Outcome<void> OpenFiles::close(int32_t file) {
  TRY(begin_close(file));
  const uint32_t id = static_cast<uint32_t>(file);
  const Connection::Answer answer = connection_.call(wire::CloseFile{id}, false);
  forget(id);
  if (!answer) return answer.error();
  return {};
}

Status OpenFiles::set_up_again(const Ask& ask) {
  const std::lock_guard lock(mutex_);
  for (const auto& [id, file] : files_) {
    if (!file.ready) continue;
    const Status opened = ask(wire::Reopen{id, file.token}, {});
    // A file that was removed meanwhile: its operations end with EBADF.
    if (opened == Code::peer_gone || opened == Code::timed_out) return opened;
    if (!opened.ok()) log::warning("file {} cannot be opened again: {}", id, opened.name());
  }
  return Code::ok;
}

}  // namespace penstock::connection
