#include "operation_check.h"

#include <cerrno>

#include "penstock/connection.h"
#include "penstock/lanes/limits.h"

namespace penstock::lanes {
namespace {

// What a flag is allowed with.
bool flags_fit(uint8_t operation, uint8_t flags) {
  switch (operation) {
    case ring::kOperationRead:
      return (flags & ~(ring::kFlagRefuseHoles | ring::kFlagChecksums)) == 0;
    case ring::kOperationWrite:
      return (flags & ~ring::kFlagDurable) == 0;
    case ring::kOperationFill:
      return (flags & ~ring::kFlagLook) == 0;
    default:
      return flags == 0;
  }
}

int check_checksums(const Io& io, const connection::Region& region) {
  if (io.operation != ring::kOperationRead) return 0;
  if ((io.offset | io.length | io.region_offset) % limits::kBlockBytes != 0) {
    return connection::fail_with(EINVAL, "prepare: checksums are of whole blocks of 4096 bytes");
  }
  const uint64_t bytes = wire::checksum_bytes(io.length);
  if (range_within(io.region_offset + io.length, bytes, region.size)) return 0;
  return connection::fail_with(EINVAL, "prepare: the region has no room for the checksums");
}

// Of memory that has no room for them, a transfer of this library says where they go.
int place_checksums(const Io& io, const ChecksumPlace& place, ring::Submission* entry) {
  ASSERT(io.operation == ring::kOperationRead && place.region != nullptr);
  ASSERT((io.offset | io.length) % limits::kBlockBytes == 0);
  ASSERT(place.offset % ring::kChecksumPageBytes == 0);
  ASSERT(range_within(place.offset, wire::checksum_bytes(io.length), place.region->size));
  static_assert(wire::kRegionsMax <= UINT16_MAX + 1);
  entry->checksum_region = static_cast<uint16_t>(place.region->id);
  entry->checksum_page = static_cast<uint32_t>(place.offset / ring::kChecksumPageBytes);
  return 0;
}

int check_region(const Session& session, const Io& io, const ChecksumPlace& place,
                 ring::Submission* entry, connection::Region** device_region) {
  connection::Region* const region = io.region;
  if (region == nullptr || region->table != &session.regions()) {
    return connection::fail_with(EINVAL, "prepare: the region is not of this session");
  }
  if (!range_within(io.region_offset, io.length, region->size)) {
    return connection::fail_with(EINVAL, "prepare: the range leaves the region");
  }
  entry->region = region->id;
  entry->region_offset = io.region_offset;
  if (region->device) {
    *device_region = region;
    if (io.operation != ring::kOperationRead || io.flags == 0) return 0;
    return connection::fail_with(EOPNOTSUPP, "prepare: reads into GPU memory have no flags");
  }
  if (io.route != static_cast<uint8_t>(engine::Route::none)) {
    return connection::fail_with(EINVAL, "prepare: a route can be chosen for GPU memory only");
  }
  if ((io.flags & ring::kFlagChecksums) == 0) return 0;
  return region->for_cards ? place_checksums(io, place, entry) : check_checksums(io, *region);
}

}  // namespace

int check_io(const Session& session, const Io& io, const ChecksumPlace& place,
             ring::Submission* entry, connection::Region** device_region) {
  if (io.operation < ring::kOperationRead || io.operation > ring::kOperationFill ||
      io.reserved != 0 || io.route >= engine::kRouteCount || !flags_fit(io.operation, io.flags)) {
    return connection::fail_with(EINVAL,
                                 "prepare: no such operation, or a flag that does not go with it");
  }
  entry->operation = io.operation;
  entry->flags = io.flags;
  entry->deadline = io.deadline;
  entry->user_data = io.user_data;
  if (io.operation == ring::kOperationNop) return 0;
  if (session.files().access_of(io.file) == 0) {
    return connection::fail_with(EBADF, "prepare: the file is not open");
  }
  entry->file = static_cast<uint32_t>(io.file);
  if (io.operation == ring::kOperationSync) return 0;
  if (io.length == 0 || io.length > limits::kIoBytesMax) {
    return connection::fail_with(EINVAL, "prepare: the length is 0 or over 64 MiB");
  }
  if (!range_within(io.offset, io.length, limits::kFileBytesMax)) {
    return connection::fail_with(EINVAL, "prepare: the range is beyond the largest file");
  }
  entry->offset = io.offset;
  entry->length = io.length;
  if (io.operation == ring::kOperationFill) return 0;
  return check_region(session, io, place, entry, device_region);
}

int check_gather(const Session& session, const Gather& gather) {
  const connection::Region* const region = gather.region;
  if (region == nullptr || region->table != &session.regions()) {
    return connection::fail_with(EINVAL, "prepare: the region is not of this session");
  }
  if (!region->device)
    return connection::fail_with(EOPNOTSUPP, "prepare: lists are for GPU memory");
  if (session.files().access_of(gather.file) == 0) {
    return connection::fail_with(EBADF, "prepare: the file is not open");
  }
  if (gather.pieces == nullptr || gather.count == 0 || gather.count > limits::kGatherPiecesMax) {
    return connection::fail_with(EINVAL, "prepare: a list has 1 to 65536 pieces");
  }
  for (uint32_t i = 0; i < gather.count; ++i) {
    const route::ListEntry& piece = gather.pieces[i];
    if (piece.length == 0 || piece.length > route::kListEntryBytesMax ||
        !range_within(piece.memory_offset, piece.length, region->size) ||
        !range_within(piece.offset, piece.length, limits::kFileBytesMax)) {
      return connection::fail_with(
          EINVAL, "prepare: a piece is empty, over 1 MiB, or leaves region or file");
    }
  }
  return 0;
}

}  // namespace penstock::lanes
