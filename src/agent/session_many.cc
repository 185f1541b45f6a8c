// Many files in one request: opened, read and closed together, or made. Each has the rights of the
// process at the other end of the socket, and a result of its own.
#include "session.h"
#include "shard_batch.h"

#include <algorithm>
#include <deque>
#include <functional>

namespace penstock::agent {
namespace {

using arena::kExtentBytes;

// Whether all of a range is in the segment.
bool is_resident(const arena::Segment& segment, InodeId inode, uint64_t offset, uint64_t length) {
  const uint64_t end = offset + length;
  for (uint64_t at = offset; at < end;) {
    const uint64_t number = at / kExtentBytes;
    const uint64_t stop = std::min(end, (number + 1) * kExtentBytes);
    const uint64_t there = segment.resident({inode, static_cast<uint32_t>(number)});
    if (number * kExtentBytes + there < stop) return false;
    at = stop;
  }
  return true;
}

// Tells the segment that a range is read; true if that was read before, so that it is worth to be
// kept.
bool note_read(arena::Segment& segment, InodeId inode, uint64_t offset, uint64_t length) {
  bool again = false;
  const uint64_t end = offset + length;
  for (uint64_t at = offset; at < end;) {
    const uint64_t number = at / kExtentBytes;
    const uint64_t begins = number * kExtentBytes;
    const uint64_t stop = std::min(end, begins + kExtentBytes);
    const auto first = static_cast<uint32_t>((at - begins) / arena::kBlockBytes);
    const auto last = static_cast<uint32_t>((stop - 1 - begins) / arena::kBlockBytes);
    again |= segment.touch({inode, static_cast<uint32_t>(number)}, first, last + 1);
    at = stop;
  }
  return again;
}

meta::FileTime to_time(const wire::Time& time) {
  return {time.seconds, int64_t{time.nanoseconds}};
}

meta::SetAttributes changes_of(const wire::NewFile& file) {
  meta::SetAttributes changes;
  changes.uid = file.uid;
  changes.gid = file.gid;
  // A change of the owner takes them away.
  constexpr uint32_t kSetIdBits = 06000;
  if ((file.uid || file.gid) && (file.mode & kSetIdBits) != 0) changes.mode = file.mode;
  if (file.accessed) changes.accessed = to_time(*file.accessed);
  if (file.modified) changes.modified = to_time(*file.modified);
  return changes;
}

// What was read before comes into the cache, from where the application takes it: its bytes leave
// the disk once. Where that did not work it is read as the others are.
void read_all(std::deque<FileOp>& reads, const std::function<void(std::deque<FileOp>&)>& run) {
  if (!reads.empty()) run(reads);
  std::deque<FileOp> others;
  for (FileOp& op : reads) {
    if (!op.fills || (op.status.ok() && op.transferred == op.memory.length)) continue;
    FileOp& other = others.emplace_back();
    other.kind = client::IoKind::read;
    other.file = op.file;
    other.offset = op.offset;
    other.memory.length = op.memory.length;
    other.region = op.region;
    other.region_offset = op.region_offset;
    other.noted = true;
    other.number = op.number;
  }
  if (others.empty()) return;
  run(others);
  // In their places, so that each is there once.
  size_t next = 0;
  for (FileOp& op : reads) {
    if (next == others.size() || op.number != others[next].number) continue;
    op.fills = false;
    op.status = others[next].status;
    op.transferred = others[next].transferred;
    ++next;
  }
}

}  // namespace

void Session::run_batch(std::deque<FileOp>& ops) {
  const uint32_t shard = node_.next_shard.fetch_add(1, std::memory_order_relaxed) %
                         static_cast<uint32_t>(node_.shards.size());
  ShardShare* share = nullptr;
  {
    const std::unique_lock publishing(publishing_);
    share = &share_on(shard);
  }
  ShardBatch batch(*share, ops);
  on_shard(shard, [&](engine::Op& done) { batch.start(done); });
}

Session::Answer Session::on(const wire::ReadFiles& m) {
  std::vector<std::string_view> paths;
  paths.reserve(m.files.size());
  for (const wire::FileToRead& file : m.files) paths.push_back(file.path);
  const auto found = node_.files->look_for_reading(peer_.credentials, paths);
  if (!found) return failure_of("read files", found.error());

  const std::shared_ptr<arena::Segment> cached = segment();
  wire::FilesRead answer;
  answer.files.resize(m.files.size());
  std::deque<FileOp> reads;
  uint64_t bytes = 0;
  for (size_t i = 0; i < m.files.size(); ++i) {
    const wire::FileToRead& file = m.files[i];
    wire::FileRead& out = answer.files[i];
    const Result<client::Attributes>& attributes = (*found)[i];
    if (!attributes) {
      out.status = attributes.error();
      continue;
    }
    out.inode = attributes->inode.value;
    out.size = attributes->length;
    if (file.region == wire::kNoRegion || file.offset >= out.size) continue;
    const uint64_t wanted = std::min(file.length, out.size - file.offset);
    if (wanted == 0) continue;
    const bool takes_cached = file.unless_cached && cached != nullptr;
    out.cached = takes_cached && is_resident(*cached, attributes->inode, file.offset, wanted);
    if (out.cached) continue;
    // Others wait for the thread that waits for all of it.
    if (bytes > 0 && bytes + wanted > limits::kIoBytesMax) {
      out.status = Code::busy;
      continue;
    }
    bytes += wanted;
    // With all checks once more: the file's rights may have changed since it was looked at.
    Result<client::FileRef> opened = node_.files->open_inode(peer_.credentials, attributes->inode,
                                                             client::OpenFlags{}, true, nullptr);
    if (!opened) {
      out.status = opened.error();
      continue;
    }
    FileOp& op = reads.emplace_back();
    op.kind = client::IoKind::read;
    op.file = std::move(*opened);
    op.offset = file.offset;
    op.memory.length = wanted;
    op.region = file.region;
    op.region_offset = file.region_offset;
    op.noted = takes_cached;
    op.fills = takes_cached && note_read(*cached, attributes->inode, file.offset, wanted);
    op.number = i;
  }
  read_all(reads, [this](std::deque<FileOp>& ops) { run_batch(ops); });
  for (FileOp& op : reads) {
    wire::FileRead& out = answer.files[op.number];
    out.cached = op.fills;
    if (!op.fills) {
      out.status = op.status;
      out.bytes = op.transferred;
    }
    // It was open for reading only: there is nothing to settle that could fail.
    (void)node_.files->close_file(std::move(op.file));
  }
  return wire::ReplyBody{std::move(answer)};
}

Session::Answer Session::on(const wire::CreateFiles& m) {
  std::vector<client::NewFile> files(m.files.size());
  for (size_t i = 0; i < files.size(); ++i) {
    files[i].path = m.files[i].path;
    files[i].mode = m.files[i].mode;
    files[i].changes = changes_of(m.files[i]);
    files[i].replace = m.files[i].replace;
  }
  // Its error is that of each file, too.
  (void)node_.files->place_files(peer_.credentials, files);
  std::deque<FileOp> writes;
  for (size_t i = 0; i < files.size(); ++i) {
    if (files[i].file == nullptr || m.files[i].length == 0) continue;
    FileOp& op = writes.emplace_back();
    op.kind = client::IoKind::write;
    op.file = files[i].file;
    op.memory.length = m.files[i].length;
    op.region = m.files[i].region;
    op.region_offset = m.files[i].region_offset;
    op.number = i;
  }
  if (!writes.empty()) run_batch(writes);
  for (FileOp& op : writes) {
    const bool whole = op.transferred == m.files[op.number].length;
    files[op.number].status = op.status.ok() && !whole ? Status(Code::io_error) : op.status;
    op.file.reset();
  }
  (void)node_.files->make_files(peer_.credentials, files, nullptr);
  wire::FilesCreated answer;
  answer.files.reserve(files.size());
  for (const client::NewFile& file : files) answer.files.push_back(file.status);
  return wire::ReplyBody{std::move(answer)};
}

Session::Answer Session::on(const wire::LookAtFiles& m) {
  const std::vector<std::string_view> paths(m.paths.begin(), m.paths.end());
  const auto found = node_.files->resolve_many(peer_.credentials, paths, false);
  if (!found) return failure_of("look at files", found.error());
  wire::FilesSeen answer;
  answer.files.reserve(found->size());
  for (const Result<client::Attributes>& one : *found) {
    wire::FileSeen& file = answer.files.emplace_back();
    if (one) {
      file.attributes = to_wire(*one);
    } else {
      file.status = one.error();
    }
  }
  return wire::ReplyBody{std::move(answer)};
}

}  // namespace penstock::agent
