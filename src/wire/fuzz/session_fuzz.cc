// Foreign bytes as session messages: what decodes must be within the limits and survive the way out
// and in again.
#include "fuzz.h"

#include <cstdlib>

#include "penstock/wire.h"

namespace penstock::fuzz {
namespace {

using namespace wire;

Time some_time() {
  return {-5, 999'999'999};
}

std::vector<RequestBody> requests() {
  const DeviceHandle handle{"handle", 4096, {1, 2}, true};
  return {Hello{3, 5, 1},
          RegisterRegion{1, 4096, 65536, "name.b4096", "/dev/shm/name"},
          AttachRegion{2, "name"},
          ReleaseRegion{1},
          CreateRing{3, 16384},
          DestroyRing{3},
          CancelOperation{1, 2, 3, 4},
          OpenPath{4, "/a/path", kOpenRead | kOpenWrite | kOpenCreate, 0644},
          OpenDescriptor{5},
          Reopen{6, std::string(44, 't')},
          CloseFile{4},
          FileAttributes{4},
          TruncateFile{4, 1 << 20},
          SyncFile{4},
          PathAttributes{"/a", false},
          ChangeAttributes{"/a", false, 0600U, 1U, 2U, some_time(), some_time(), true, true},
          MakeDirectory{"/d", 0755},
          Remove{"/d", true},
          Rename{"/from", "/to"},
          MakeLink{"/from", "/to"},
          MakeSymlink{"target", "/link"},
          ReadSymlink{"/link"},
          ListDirectory{"/", 77},
          SyncAll{},
          MapCache{},
          MapSlab{3},
          KeepTouchLog{},
          PublishDevice{{1, 2, 3}, handle},
          WithdrawDevice{{1, 2, 3}},
          OpenDevice{{1, 2, 3}},
          ReadFiles{{{"/a", 0, 4096, 1, 8192, true}, {"/b", 1, 2, kNoRegion, 0, false}}},
          CreateFiles{{{"/n", 0600, 100, 1, 0, 7U, 8U, some_time(), some_time(), true}, {"/m"}}},
          LookAtFiles{{"/a", "/b"}},
          RegisterDevice{3, 512, 65536}};
}

std::vector<ReplyBody> replies() {
  Attributes attributes;
  attributes.length = 1 << 30;
  attributes.created = some_time();
  return {Welcome{3, 9, 0, 3, 3, 0},
          Opened{1234, kOpenRead, "token"},
          attributes,
          Target{"target"},
          Page{{{"name", 5, 8, 6}, {"other", 7, 4, 8}}, true},
          Mapping{1 << 21},
          DeviceHandle{"handle", 4096, {}, false},
          FilesRead{{{Status(), 5, 100, 100, true}, {Code::not_found, 0, 0, 0, false}}},
          FilesCreated{{Status(), Code::no_space}},
          FilesSeen{{{Status(), attributes}, {Code::not_found, {}}}}};
}

}  // namespace

std::vector<std::string> seeds() {
  std::vector<std::string> out;
  for (RequestBody& body : requests()) out.push_back(*encode(Request{7, std::move(body)}));
  for (ReplyBody& body : replies()) out.push_back(*encode(Reply{7, {}, "", std::move(body)}));
  out.push_back(*encode(Reply{7, Code::busy, "why", {}}));
  return out;
}

}  // namespace penstock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  const Bytes bytes = std::as_bytes(std::span(data, size));
  if (Result<wire::Request> request = wire::decode_request(bytes)) {
    const Result<std::string> again = wire::encode(*request);
    if (!again || !wire::decode_request(std::as_bytes(std::span(*again)))) std::abort();
    if (wire::descriptors_of(request->body) > wire::kSessionDescriptorsMax) std::abort();
  }
  if (Result<wire::Reply> reply = wire::decode_reply(bytes)) (void)wire::encode(*reply);
  return 0;
}
