// The way from lines to records.
#include "batch.h"
#include "dump.h"
#include "reachable.h"
#include "structure.h"
#include "text_reader.h"

#include <algorithm>
#include <fmt/format.h>

namespace penstock::meta_text {
namespace {

using engine::KvMode;

// What a load must have made is looked at as a text that nobody reads.
class NoSink final : public Sink {
 public:
  Outcome<void> begin() override { return {}; }
  Outcome<void> write(std::string_view) override { return {}; }
};

class Load {
 public:
  Load(engine::Kv& kv, engine::Random& random, Source& source, const LoadOptions& options)
      : kv_(kv),
        random_(random),
        options_(options),
        text_(source),
        structure_(random),
        batch_(kv) {}

  Outcome<Counts> run();

 private:
  Outcome<void> check_empty();
  Outcome<void> read_version();
  Outcome<void> read_lines();
  Outcome<void> read_end(const EndLine& line);

  // Lines of the body, which the structure has taken.
  Outcome<void> store(const NextLine& line);
  Outcome<void> store(const InodeLine& line);
  Outcome<void> store(const XattrLine& line);
  Outcome<void> store(const EntryLine& line);
  Outcome<void> store(const SessionLine& line);
  // Those of the first and the last line are elsewhere.
  Outcome<void> take(const VersionLine&) { return wrong("a second first line"); }
  Outcome<void> take(const EndLine& line) { return read_end(line); }
  template <class BodyLine>
  Outcome<void> take(const BodyLine& line);
  Outcome<void> store_inode();

  Outcome<void> check_whole();
  Outcome<void> finish();

  Failure wrong(std::string_view what) const {
    return {Code::invalid_argument, fmt::format("line {}: {}", text_.number(), what)};
  }

  engine::Kv& kv_;
  engine::Random& random_;
  const LoadOptions options_;
  const meta::Keys keys_{""};
  TextReader text_;
  Structure structure_;
  Batch batch_;
  std::optional<InodeLine> inode_;  // its record waits for its attributes
  std::optional<EndLine> end_;
};

Outcome<Counts> Load::run() {
  TRY(check_empty());
  TRY(read_version());
  TRY(read_lines());
  TRY(check_whole());
  TRY(finish());
  return structure_.counts();
}

Outcome<void> Load::check_empty() {
  bool empty = true;
  const Status status = kv_.run(KvMode::read, [&](engine::KvTransaction& transaction) -> Status {
    empty = true;
    return transaction.scan("", "", [&](std::string_view, std::string_view) {
      empty = false;
      return false;
    });
  });
  if (!status.ok()) return Failure{status, fmt::format("cannot be read: {}", status.name())};
  if (!empty) return Failure{Code::not_empty, "the database holds something already"};
  return {};
}

Outcome<void> Load::read_version() {
  TRY_ASSIGN(const std::optional<std::string_view> text, text_.next());
  const std::optional<Line> line = text ? parse(*text) : std::nullopt;
  const auto* const version = line ? std::get_if<VersionLine>(&*line) : nullptr;
  if (version == nullptr) return wrong("this is no dump of a namespace");
  if (version->version == kTextVersion) return {};
  return Failure{
      Code::wrong_version,
      fmt::format("the dump has format {}, this program reads format {} (use the program "
                  "that wrote it, or a newer one)",
                  version->version, kTextVersion)};
}

Outcome<void> Load::read_lines() {
  while (true) {
    TRY_ASSIGN(const std::optional<std::string_view> text, text_.next());
    if (!text) break;
    if (end_) return wrong("something behind the last line");
    const std::optional<Line> line = parse(*text);
    if (!line) return wrong("is not as a dump has it");
    TRY(std::visit([&](const auto& any) { return take(any); }, *line));
  }
  if (end_) return {};
  return wrong("the last line is missing: the dump was cut off");
}

template <class BodyLine>
Outcome<void> Load::take(const BodyLine& line) {
  if constexpr (!std::is_same_v<BodyLine, XattrLine>) TRY(store_inode());
  if (Outcome<void> added = structure_.add(line); !added) return wrong(added.error().message);
  return store(line);
}

// From here on the store is not empty, also after a power cut, so that Meta makes no new namespace
// in it.
Outcome<void> Load::store(const NextLine& line) {
  TRY(batch_.put(keys_.system(meta::kNextIdName), meta::encode_number(line.next)));
  return batch_.flush(KvMode::write_durable);
}

Outcome<void> Load::store(const InodeLine& line) {
  ASSERT(!inode_.has_value());
  inode_ = line;
  return {};
}

Outcome<void> Load::store_inode() {
  if (!inode_) return {};
  meta::Inode& inode = inode_->inode;
  const meta::Attributes& attributes = inode.attributes;
  inode.xattr_bytes = structure_.xattr_bytes();
  TRY(batch_.put(keys_.inode(inode.id()), encode(inode)));
  if (inode.is_directory()) {
    TRY(batch_.put(keys_.times(inode.id()),
                   encode(meta::DirectoryTimes{attributes.modified, attributes.changed})));
  }
  if (attributes.links == 0) {
    const uint64_t kind = inode_->nameable ? meta::kOrphanUnnamed : meta::kOrphanRemoved;
    TRY(batch_.put(keys_.orphan(inode.id()), meta::encode_number(kind)));
  }
  inode_.reset();
  return {};
}

Outcome<void> Load::store(const XattrLine& line) {
  ASSERT(inode_ && inode_->inode.id() == line.inode);
  return batch_.put(keys_.xattr(line.inode, line.name), line.value);
}

Outcome<void> Load::store(const EntryLine& line) {
  ASSERT(line.cookie < structure_.next());
  const meta::Dentry dentry{line.entry.inode, line.entry.type, line.cookie};
  TRY(batch_.put(keys_.dentry(line.directory, line.entry.name), encode(dentry)));
  return batch_.put(keys_.cookie(line.directory, line.cookie), encode(line.entry));
}

Outcome<void> Load::store(const SessionLine& line) {
  ASSERT(line.token < structure_.next());
  return batch_.put(keys_.write_session(line.inode), meta::encode_number(line.token));
}

Outcome<void> Load::read_end(const EndLine& line) {
  TRY(store_inode());
  if (line.checksum != text_.checksum()) return wrong("the checksum is not that of the lines");
  if (line.counts != structure_.counts()) return wrong("the counts are not those of the lines");
  if (Outcome<void> finished = structure_.finish(); !finished) {
    return wrong(finished.error().message);
  }
  end_ = line;
  return batch_.flush();
}

// What is stored, read again: a dump of it is the text. Of what a line alone cannot show, two
// entries of one name are found here, and sessions of what is no file.
Outcome<void> Load::check_whole() {
  ASSERT(end_.has_value() && end_->counts == structure_.counts());
  const auto wrong_as_a_whole = [](const Failure& failure) {
    if (failure.status.code() != Code::corrupt) return failure;
    return Failure{Code::invalid_argument, "what the dump says as a whole: " + failure.message};
  };
  NoSink sink;
  const Outcome<Dumped> dumped = dump_records(kv_, random_, sink, false);
  if (!dumped) return wrong_as_a_whole(dumped.error());
  if (dumped->checksum != end_->checksum || dumped->counts != end_->counts) {
    return Failure{Code::corrupt, "what was stored is not what was read"};
  }
  if (Outcome<void> walked = check_reachable(kv_, structure_.directories()); !walked) {
    return wrong_as_a_whole(walked.error());
  }
  if (!options_.has_cluster && structure_.on_cluster() > 0) {
    return Failure{Code::not_supported,
                   fmt::format("{} files and directories of the dump lie on chains of a cluster, "
                               "whose records were lost with the names and are not in a dump: "
                               "nobody would know where their bytes are (bring the directory "
                               "'meta' back from a backup)",
                               structure_.on_cluster())};
  }
  if (options_.chains == 0 || structure_.chains() <= options_.chains) return {};
  return Failure{Code::invalid_argument,
                 fmt::format("files of the dump lie on {} chains, and there are {} here (is it the "
                             "dump of another store?)",
                             structure_.chains(), options_.chains)};
}

Outcome<void> Load::finish() {
  const bool fits = options_.next_gap <= meta::kIdMax - std::min(structure_.next(), meta::kIdMax);
  const uint64_t beyond = fits ? structure_.next() + options_.next_gap : uint64_t{meta::kIdMax};
  const uint64_t next = std::max(beyond, options_.next_min.value);
  if (next > meta::kIdMax - meta::kIdsPerBatch) {
    return Failure{Code::invalid_argument,
                   fmt::format("no file may have a number from {} on", next)};
  }
  TRY(batch_.put(keys_.system(meta::kNextIdName), meta::encode_number(next)));
  TRY(batch_.put(keys_.system(meta::kInodesName), meta::encode_number(structure_.counts().inodes)));
  TRY(batch_.put(keys_.system(meta::kVersionName), meta::encode_number(meta::kFormatVersion)));
  return batch_.flush(KvMode::write_durable);
}

}  // namespace

Outcome<Counts> load(engine::Kv& kv, engine::Random& random, Source& source,
                     const LoadOptions& options) {
  return Load(kv, random, source, options).run();
}

}  // namespace penstock::meta_text
