// Many files in one request: opened, read and closed together. Each has the rights of the
// process at the other end of the socket, and a result of its own.
#include "session.h"
#include "shard_batch.h"

#include <algorithm>
#include <deque>

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
    out.cached = file.unless_cached && cached != nullptr &&
                 is_resident(*cached, attributes->inode, file.offset, wanted);
    if (out.cached) continue;
    // With all checks once more: the file's rights may have changed since it was looked at.
    Result<client::FileRef> opened = node_.files->open_inode(peer_.credentials, attributes->inode,
                                                             client::OpenFlags{}, true, nullptr);
    if (!opened) {
      out.status = opened.error();
      continue;
    }
    FileOp& op = reads.emplace_back();
    op.file = std::move(*opened);
    op.offset = file.offset;
    op.memory.length = wanted;
    op.region = file.region;
    op.region_offset = file.region_offset;
    op.number = i;
  }
  if (!reads.empty()) run_batch(reads);
  for (FileOp& op : reads) {
    wire::FileRead& out = answer.files[op.number];
    out.status = op.status;
    out.bytes = op.transferred;
    // It was open for reading only: there is nothing to settle that could fail.
    (void)node_.files->close_file(std::move(op.file));
  }
  return wire::ReplyBody{std::move(answer)};
}

}  // namespace penstock::agent
