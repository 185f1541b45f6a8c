#include "open.h"

#include "convert.h"
#include "load_maps.h"
#include "replay.h"

#include <algorithm>

namespace penstock::store {

using engine::KvMode;
using engine::KvTransaction;

namespace {

Failure failure(const Core& core, Status status, const std::string& why) {
  return {status, fmt::format("{}: {}", core.config.directory, why)};
}

struct DatabaseState {
  bool empty = true;
  bool has_identity = false;
  std::string identity;
  std::optional<std::string> log;
};

Outcome<DatabaseState> look_at_database(Core& core) {
  DatabaseState state;
  const Status status = core.kv.run(KvMode::read, [&](KvTransaction& transaction) -> Status {
    state.empty = true;
    TRY_ASSIGN(const auto identity, transaction.get(kIdentityKey));
    state.has_identity = identity.has_value();
    state.identity = identity.value_or("");
    TRY_ASSIGN(state.log, transaction.get(kLogKey));
    return transaction.scan("", "", [&](std::string_view, std::string_view) {
      state.empty = false;
      return false;
    });
  });
  if (!status.ok()) {
    return failure(core, status, fmt::format("cannot read the database: {}", status.name()));
  }
  return state;
}

// Names that are no target's data: hidden files, and what a file system puts into its root.
bool ignorable(const std::string& name) {
  return name.starts_with(".") || name == "lost+found";
}

Outcome<bool> make(Core& core, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (ignorable(name)) continue;
    return failure(core, Code::not_empty,
                   fmt::format("holds '{}' but is no target (use an empty directory)", name));
  }
  core.identity.id = core.config.id;
  for (size_t i = 0; i < core.identity.uuid.size(); i += 8) {
    const uint64_t random = core.loop.random().next();
    for (size_t b = 0; b < 8; ++b) {
      core.identity.uuid[i + b] = static_cast<uint8_t>(random >> (8 * b));
    }
  }
  const std::string path = core.config.directory + "/" + kSuperblockName;
  Status status = core.disk.replace_file(path, encode_superblock(core.identity));
  if (!status.ok())
    return failure(core, status, fmt::format("cannot write to it: {}", status.name()));
  status = core.kv.run(KvMode::write_durable, [&](KvTransaction& transaction) -> Status {
    transaction.put(kIdentityKey, encode_identity(core.identity));
    return Code::ok;
  });
  if (!status.ok()) {
    return failure(core, status, fmt::format("cannot write to the database: {}", status.name()));
  }
  return true;
}

// The formats in which the superblock and the identity were written. They differ while a target is
// converted: the superblock comes first, the identity last.
struct Formats {
  uint32_t superblock = kFormatVersion;
  uint32_t database = kFormatVersion;
};

// A log without a mark: its making was interrupted, and nothing was ever written to it.
void remove_unfinished_log(Core& core) {
  const std::string path = core.config.directory + "/" + kLogFileName;
  const Status removed = core.disk.remove(path);
  if (removed.ok()) return;
  log::warning("store: {}: cannot remove '{}', which is of no use: {}", core.config.directory,
               kLogFileName, removed.name());
}

Failure unknown_format(const Core& core, Status status) {
  return failure(core, status,
                 fmt::format("was written in format {}, this program knows formats {} to {} (use "
                             "the program version that wrote it)",
                             status.detail(), kOldFormatVersion, kFormatVersion));
}

bool is_old(Status status) {
  return status.code() == Code::wrong_version && status.detail() >= kOldFormatVersion &&
         status.detail() < kFormatVersion;
}

Outcome<Identity> read_superblock(Core& core, uint32_t& format) {
  const std::string path = core.config.directory + "/" + kSuperblockName;
  const Result<std::string> text = core.disk.read_file(path);
  if (!text) {
    return failure(core, text.error(),
                   fmt::format("cannot read '{}': {}", kSuperblockName, text.error().name()));
  }
  Result<Identity> own = decode_superblock(*text);
  if (!own && is_old(own.error())) {
    format = own.error().detail();
    own = decode_superblock(*text, format);
  }
  if (!own && own.error().code() == Code::wrong_version) return unknown_format(core, own.error());
  if (!own) {
    return failure(
        core, own.error(),
        fmt::format("its file '{}' is damaged (restore it from a backup)", kSuperblockName));
  }
  if (own->id != core.config.id) {
    return failure(core, Code::invalid_argument,
                   fmt::format("holds target {}, not {} (is the right disk mounted?)",
                               own->id.value, core.config.id.value));
  }
  return *own;
}

Outcome<Formats> check_identity(Core& core, const DatabaseState& database, bool has_data) {
  Formats formats;
  TRY_ASSIGN(const Identity own, read_superblock(core, formats.superblock));
  if (database.empty && !has_data) {
    return failure(core, Code::corrupt,
                   "its making was interrupted (remove the directory and start again)");
  }
  if (!database.has_identity) {
    return failure(core, Code::corrupt,
                   "its database is missing or lost its content (restore the database from a "
                   "backup; without it the data files cannot be read)");
  }
  Result<Identity> theirs = decode_identity(database.identity);
  if (!theirs && is_old(theirs.error())) {
    formats.database = theirs.error().detail();
    theirs = decode_identity(database.identity, formats.database);
  }
  if (!theirs && theirs.error().code() == Code::wrong_version) {
    return unknown_format(core, theirs.error());
  }
  if (!theirs) {
    return failure(core, theirs.error(),
                   fmt::format("the identity in its database: {}", theirs.error().name()));
  }
  if (*theirs != own) {
    return failure(core, Code::invalid_argument,
                   "the database belongs to another target (is the right disk mounted?)");
  }
  if (formats.superblock < formats.database) {
    return failure(core, Code::corrupt,
                   fmt::format("its file '{}' is older than its database (restore both from one "
                               "backup)",
                               kSuperblockName));
  }
  core.identity = own;
  return formats;
}

// Records of kinds that this program does not know are the work of another version.
Outcome<bool> check_kinds(Core& core) {
  // In the order of keys. What has one record has this key; the others begin with it.
  struct Kind {
    std::string_view key;
    bool many;
  };
  constexpr Kind kKinds[] = {{"B", true}, {"C", true}, {"K", true}, {kLogKey, false},
                             {"M", true}, {"P", true}, {"S", true}, {kIdentityKey, false}};
  std::string unknown;
  const Status status = core.kv.run(KvMode::read, [&](KvTransaction& transaction) -> Status {
    unknown.clear();
    std::string begin;
    const auto look = [&](std::string_view end) {
      return transaction.scan(begin, end, [&](std::string_view key, std::string_view) {
        unknown = key;
        return false;
      });
    };
    for (const Kind& kind : kKinds) {
      TRY(look(kind.key));
      begin = kind.key;
      if (kind.many) {
        ++begin.back();
      } else {
        begin.push_back('\0');
      }
    }
    return look("");
  });
  if (!status.ok()) {
    return failure(core, status, fmt::format("cannot read the database: {}", status.name()));
  }
  if (unknown.empty()) return true;
  return failure(core, Code::wrong_version,
                 fmt::format("a record of a kind that this program does not know ({:#04x}) was "
                             "written by another version of this program, most likely a newer one "
                             "(use that one)",
                             static_cast<unsigned char>(unknown[0])));
}

// Pending updates use blocks; slots are in memory.
Outcome<bool> load_chains(Core& core) {
  std::string bad;
  const Status status = core.chains.load(bad);
  if (status.ok()) return true;
  return map_failure(core, status, bad);
}

}  // namespace

Outcome<bool> open_target(Core& core) {
  const uint64_t alignment = core.disk.facts().alignment;
  if (!is_power_of_two(alignment) || alignment > limits::kBlockBytes) {
    return failure(core, Code::not_supported,
                   fmt::format("the disk wants transfers aligned to {} bytes", alignment));
  }
  if (core.config.capacity_bytes > limits::kTargetBlocksMax * limits::kBlockBytes) {
    return failure(
        core, Code::invalid_argument,
        fmt::format("is to hold {} bytes, and a target holds 1 PiB at most (make several "
                    "targets of the disk)",
                    core.config.capacity_bytes));
  }
  // This opening builds on what an earlier one committed, and writes to blocks that it freed: a
  // power cut must not take those commits back from now on.
  if (const Status synced = core.kv.sync(); !synced.ok()) {
    return failure(core, synced, fmt::format("its database cannot be synced: {}", synced.name()));
  }
  TRY_ASSIGN(const DatabaseState database, look_at_database(core));
  Result<std::vector<std::string>> names = core.disk.list(core.config.directory);
  if (!names && names.error().code() == Code::not_found && database.empty) {
    const Status made = core.disk.make_directory(core.config.directory);
    if (!made.ok()) return failure(core, made, fmt::format("cannot be made: {}", made.name()));
    names = core.disk.list(core.config.directory);
  }
  if (!names) {
    return failure(core, names.error(), fmt::format("cannot be read: {}", names.error().name()));
  }
  auto lock = core.disk.lock_directory(core.config.directory);
  if (!lock && lock.error().code() == Code::in_use) {
    return failure(core, Code::in_use, "is in use by another process (stop that one first)");
  }
  if (!lock)
    return failure(core, lock.error(), fmt::format("cannot be locked: {}", lock.error().name()));
  core.lock = std::move(*lock);

  const auto has = [&](const std::string& name) {
    return std::find(names->begin(), names->end(), name) != names->end();
  };
  if (!has(kSuperblockName)) {
    if (!database.empty) {
      return failure(core, Code::not_found,
                     "holds no target, but the database belongs to one (is the disk mounted?)");
    }
    return make(core, *names);
  }
  TRY_ASSIGN(const Formats formats, check_identity(core, database, has(DataFiles::name(0))));
  if (database.log) TRY(replay_log(core, *database.log, formats.database, *names));
  TRY(core.files.open(*names));
  TRY(check_kinds(core));
  // Before the maps: once these are known the defragmenter may look for room.
  TRY(load_chains(core));
  const bool is_old = formats.database != kFormatVersion;
  TRY(load_maps(core));
  TRY(is_old ? check_old_maps(core, formats.database) : expect_no_old_maps(core));
  if (!database.log && has(kLogFileName)) remove_unfinished_log(core);
  return is_old ? convert_target(core, formats.database) : Outcome<bool>(true);
}

}  // namespace penstock::store
