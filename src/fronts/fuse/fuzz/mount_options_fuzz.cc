// Any text as the words after `mount -o`: what is taken says the same when it is written out and
// read again.
#include "fuzz.h"

#include <cstdlib>

#include "penstock/fuse.h"

namespace penstock::fuzz {

std::vector<std::string> seeds() {
  return {"ro,nosuid,nodev,noexec", "rw,suid,dev,exec,noatime", "remount,ro,strictatime,nodiratime",
          "sync,dirsync,allow_other,type=hf3fs,x-systemd.automount,comment=a"};
}

}  // namespace penstock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto parsed = fuse::parse_mount_options(text, {});
  if (!parsed) return 0;
  // As in /proc/mounts, where everything is allowed that is not said to be forbidden.
  fuse::MountOptions base;
  base.set_ids = base.devices = true;
  const auto again = fuse::parse_mount_options(fuse::to_text(parsed->options), base);
  if (!again || again->options != parsed->options) std::abort();
  return 0;
}
