#include "layouts.h"

#include <bit>
#include <fmt/format.h>

namespace penstock::client {
namespace {

std::string in_words(uint32_t copies, meta::Media media) {
  std::string words = fmt::format("{} {}", copies, copies == 1 ? "copy" : "copies");
  if (media != meta::Media::any) words += fmt::format(" on {}", name_of(media));
  return words;
}

}  // namespace

std::vector<ChainTable> Layouts::tables() const {
  if (core_.config.tables == nullptr) return {};
  return core_.config.tables->all();
}

// A table is chosen only where it matters: what says nothing of copies and media keeps its chains.
Status Layouts::apply(const LayoutChange& change, meta::Layout& layout) const {
  if (change.chunk_bytes) {
    if (!std::has_single_bit(*change.chunk_bytes)) return Code::invalid_argument;
    layout.chunk_bytes_log2 = static_cast<uint32_t>(std::countr_zero(*change.chunk_bytes));
  }
  if (change.stripe) layout.stripe = *change.stripe;
  if (change.copies) {
    if (*change.copies == 0 || *change.copies > meta::kCopiesMax) return Code::invalid_argument;
    layout.copies = static_cast<uint8_t>(*change.copies);
  }
  if (change.media) layout.media = *change.media;
  if (change.copies || change.media) {
    if (core_.config.tables == nullptr) return Code::not_supported;
    const std::optional<ChainTable> table = core_.config.tables->choose(
        {.copies = layout.copies, .media = layout.media, .present = layout.table});
    if (!table) return Code::not_supported;
    ASSERT(table->copies == layout.copies && table->chain_count > 0);
    layout.table = table->id;
    layout.chain_first = table->chain_first;
    layout.chain_count = table->chain_count;
  }
  return meta::layout_is_good(layout) ? Code::ok : Code::invalid_argument;
}

Failure Layouts::none_like(const meta::Layout& wanted) const {
  std::string there;
  for (const ChainTable& table : tables()) {
    if (!there.empty()) there += ", ";
    there += fmt::format("{} ({} chains)", in_words(table.copies, table.media), table.chain_count);
  }
  return {Code::not_supported,
          fmt::format("no table of chains has {}; there {}", in_words(wanted.copies, wanted.media),
                      there.empty() ? "is none to choose from" : "is: " + there)};
}

Outcome<Attributes> Layouts::set(const Credentials& credentials, InodeId directory,
                                 const LayoutChange& change, Observer* self) {
  meta::Layout wanted;
  const Result<Attributes> set =
      core_.meta.set_layout(credentials, directory, [&](meta::Layout& layout) {
        ASSERT(layout.chains.empty());  // a directory's
        const Status applied = apply(change, layout);
        wanted = layout;
        return applied;
      });
  if (set) {
    ASSERT(set->type == meta::FileType::directory && set->layout == wanted);
    notifier_.changed(directory, 0, 0, self);
    return *set;
  }
  switch (set.error().code()) {
    case Code::not_supported:
      return none_like(wanted);
    case Code::not_directory:
      return Failure{set.error(),
                     "it is no directory: a file keeps the layout that it was made with; set that "
                     "of its directory, and make it anew"};
    case Code::not_permitted:
      return Failure{set.error(), "only the owner of a directory may set the layout of its files"};
    case Code::invalid_argument:
      return Failure{
          set.error(),
          fmt::format("a chunk has {} to {} bytes, a power of two; a stripe 1 to {} chains, or all "
                      "of its table's ({}); there are 1 to {} copies",
                      limits::kChunkBytesMin, limits::kChunkBytesMax, meta::kListedChainsMax,
                      wanted.chain_count, meta::kCopiesMax)};
    default:
      return Failure{set.error(), std::string(set.error().name())};
  }
}

bool Layouts::is_one(std::string_view xattr) {
  return xattr == kLayoutXattr || xattr == kTablesXattr;
}

Status Layouts::set_text(const Credentials& credentials, InodeId directory, std::string_view xattr,
                         std::string_view value, Observer* self) {
  if (xattr != kLayoutXattr) return Code::not_supported;
  TRY_ASSIGN(const LayoutChange change, parse_layout_change(value));
  // A kernel that checks permissions for a mount asks only for the right to write.
  Credentials checked = credentials;
  checked.enforce = true;
  const Outcome<Attributes> set = this->set(checked, directory, change, self);
  return set ? Status() : set.error().status;
}

Result<std::string> Layouts::get_text(InodeId inode, std::string_view xattr) {
  ASSERT(is_one(xattr));
  TRY_ASSIGN(const Attributes found, core_.meta.attributes(inode));
  const bool is_directory = found.type == meta::FileType::directory;
  if (!is_directory && found.type != meta::FileType::regular) return Code::no_data;
  if (xattr == kLayoutXattr) return text_of(found.layout, is_directory);
  std::string all;
  for (const ChainTable& table : tables()) {
    if (!all.empty()) all += '\n';
    all += text_of(table);
  }
  return all;
}

}  // namespace penstock::client
