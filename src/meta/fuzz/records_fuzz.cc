// Any bytes as any record.
#include "../tests/decode_all.h"
#include "fuzz.h"

namespace penstock::fuzz {

std::vector<std::string> seeds() {
  using namespace meta;
  Inode file;
  file.attributes.inode = InodeId(5);
  file.attributes.mode = 0644;
  file.attributes.links = 1;
  file.attributes.length = 123'456;
  Inode counted = file;
  counted.parent = InodeId(1 << 20);
  Inode link = file;
  link.attributes.type = FileType::symlink;
  link.target = "target";
  Inode directory = file;
  directory.attributes.type = FileType::directory;
  directory.parent = InodeId(1);
  Inode listed = file;
  listed.attributes.layout.chain_count = 9;
  listed.attributes.layout.chains = {ChainId(8), ChainId(300)};
  Inode striped = directory;
  striped.attributes.layout.chain_count = 9;
  striped.attributes.layout.stripe = 4;
  return {encode(file),
          encode(listed),
          encode(striped),
          encode(link),
          encode(directory),
          encode(DirectoryTimes{}),
          encode(Dentry{InodeId(5), FileType::regular, kCookieMin}),
          encode(CookieEntry{"name", InodeId(5), FileType::directory}),
          encode(counted),
          encode(QuotaRecord{{1 << 30, 77}, true, "/a"}),
          encode(UsageRecord{-4096, 1}),
          encode(TrashRecord{7, "/a"}),
          encode_number(1ULL << 40)};
}

}  // namespace penstock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  penstock::meta::decode_all({reinterpret_cast<const char*>(data), size});
  return 0;
}
