#include "many_files.h"

#include <algorithm>
#include <deque>
#include <functional>

namespace penstock::sessions {
namespace {

using arena::kExtentBytes;
using serving::FileOp;

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

void ManyFiles::run(std::deque<serving::FileOp>& ops) const {
  ASSERT(!ops.empty() && ops.size() <= wire::kFilesAtOnceMax);
  const uint32_t shard = context_.next_shard();
  serving::ShardBatch batch(shares_.make(shard, cache_.segment()), ops);
  context_.on_shard(shard, [&](engine::Op& done) { batch.start(done); });
}

void ManyFiles::prepare(const wire::FileToRead& file, const Result<client::Attributes>& attributes,
                        const std::shared_ptr<arena::Segment>& cached, wire::FileRead* out,
                        Reads* reads) const {
  if (!attributes) {
    out->status = attributes.error();
    return;
  }
  out->inode = attributes->inode.value;
  out->size = attributes->length;
  if (file.region == wire::kNoRegion || file.offset >= out->size) return;
  const uint64_t wanted = std::min(file.length, out->size - file.offset);
  if (wanted == 0) return;
  const bool takes_cached = file.unless_cached && cached != nullptr;
  out->cached = takes_cached && is_resident(*cached, attributes->inode, file.offset, wanted);
  if (out->cached) return;
  // Other requests wait for the thread that waits for all of it.
  if (reads->bytes > 0 && reads->bytes + wanted > limits::kIoBytesMax) {
    out->status = Code::busy;
    return;
  }
  reads->bytes += wanted;
  // With all checks once more: the file's rights may have changed since it was looked at.
  Result<client::FileRef> opened = context_.files().open_inode(
      context_.credentials(), attributes->inode, client::OpenFlags{}, true, nullptr);
  if (!opened) {
    out->status = opened.error();
    return;
  }
  FileOp& op = reads->ops.emplace_back();
  op.kind = client::IoKind::read;
  op.file = std::move(*opened);
  op.offset = file.offset;
  op.memory.length = wanted;
  op.region = file.region;
  op.region_offset = file.region_offset;
  op.noted = takes_cached;
  op.fills = takes_cached && note_read(*cached, attributes->inode, file.offset, wanted);
}

Answer ManyFiles::read(const wire::ReadFiles& m) const {
  std::vector<std::string_view> paths;
  paths.reserve(m.files.size());
  for (const wire::FileToRead& file : m.files) paths.push_back(file.path);
  const auto found = context_.files().look_for_reading(context_.credentials(), paths);
  if (!found) return failure_of("read files", found.error());
  ASSERT(found->size() == m.files.size());

  const std::shared_ptr<arena::Segment> cached = cache_.segment();
  wire::FilesRead answer;
  answer.files.resize(m.files.size());
  Reads reads;
  for (size_t i = 0; i < m.files.size(); ++i) {
    const size_t before = reads.ops.size();
    prepare(m.files[i], (*found)[i], cached, &answer.files[i], &reads);
    if (reads.ops.size() > before) reads.ops.back().number = i;
  }
  read_all(reads.ops, [this](std::deque<FileOp>& ops) { run(ops); });
  for (FileOp& op : reads.ops) {
    wire::FileRead& out = answer.files[op.number];
    out.cached = op.fills;
    if (!op.fills) {
      out.status = op.status;
      out.bytes = op.transferred;
    }
    // It was open for reading only: there is nothing to settle that could fail.
    (void)context_.files().close_file(std::move(op.file));
  }
  return wire::ReplyBody{std::move(answer)};
}

Answer ManyFiles::create(const wire::CreateFiles& m) const {
  std::vector<client::NewFile> files(m.files.size());
  for (size_t i = 0; i < files.size(); ++i) {
    files[i].path = m.files[i].path;
    files[i].mode = m.files[i].mode;
    files[i].changes = changes_of(m.files[i]);
    files[i].replace = m.files[i].replace;
  }
  // Its error is that of each file, too.
  (void)context_.files().place_files(context_.credentials(), files);
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
  if (!writes.empty()) run(writes);
  for (FileOp& op : writes) {
    const bool whole = op.transferred == m.files[op.number].length;
    files[op.number].status = op.status.ok() && !whole ? Status(Code::io_error) : op.status;
    op.file.reset();
  }
  (void)context_.files().make_files(context_.credentials(), files, nullptr);
  wire::FilesCreated answer;
  answer.files.reserve(files.size());
  for (const client::NewFile& file : files) answer.files.push_back(file.status);
  return wire::ReplyBody{std::move(answer)};
}

Answer ManyFiles::look_at(const wire::LookAtFiles& m) const {
  const std::vector<std::string_view> paths(m.paths.begin(), m.paths.end());
  const auto found = context_.files().resolve_many(context_.credentials(), paths, false);
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

}  // namespace penstock::sessions
