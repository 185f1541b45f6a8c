// A mount: the file system for every program that knows nothing of rings.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <utility>
#include <vector>

#include "penstock/agent.h"
#include "penstock/client.h"
#include "penstock/telemetry.h"

namespace penstock::fuse {

// The type of a mount that is to be taken for one of 3FS, for programs that look for those in the
// table of mounts.
inline constexpr const char* kMountTypeOf3fs = "fuse.hf3fs";
// Whether the mount is one of ours. 3FS's own mounts have a name for a source, ours a path.
bool is_ours(const MountEntry& mount);

// What is said after -o (docs/mounting.md).
struct MountOptions {
  bool read_only = false;
  bool set_ids = false;  // suid: programs of the mount may run with other ids
  bool devices = false;  // dev: device files of the mount are devices
  bool programs = true;  // exec: programs of the mount may run
  client::AccessTimes access_times;
  bool synchronous = false;            // each write is on stable storage when it returns
  bool directory_synchronous = false;  // each change of names is
  bool allow_other = false;            // for all users; an ordinary user needs
                                       // user_allow_other in /etc/fuse.conf
  bool like_3fs = false;               // type=hf3fs: its type is kMountTypeOf3fs
  friend bool operator==(const MountOptions&, const MountOptions&) = default;
};

struct ParsedMountOptions {
  MountOptions options;
  bool remount = false;  // of a mount that is there
};
// Applies a list as after -o, its words in turn, to `base`. A Failure names the word that is not
// known or makes no sense.
Outcome<ParsedMountOptions> parse_mount_options(std::string_view list, const MountOptions& base);
// The list that stands for them, in the words of /proc/mounts.
std::string to_text(const MountOptions& options);

struct MountConfig {
  std::string mount_point;  // an empty directory; made absolute
  std::string source;       // the absolute store directory, shown as the mounted "device"
  MountOptions options;
  uint32_t threads = 0;  // workers, each serves one request at a time; 0: chosen here
  // How long the kernel may keep attributes and names. It never shows stale ones: a change that is
  // not made through this mount waits until the kernel has dropped what it knew.
  std::chrono::seconds cache{3600};
  // How much the kernel reads ahead of sequential readers, where we may choose (as root).
  uint64_t read_ahead_bytes = 4 * kMiB;
  // How long stop() waits for open files to be closed.
  std::chrono::milliseconds stop_deadline{2000};
};

// What stop() did.
enum class StopOutcome : uint8_t {
  unmounted,  // cleanly, now or before by another program
  detached,   // it stayed busy: the name is free, programs with open files get ENOTCONN
};

// Directories that exist in a mount with an agent only; see the README for what they do. The name
// is found by lookup, never by listing the root.
inline constexpr const char* kVirtualDirectory = "3fs-virt";

// start() and stop() from one thread, the rest is thread safe. The file system and the agent
// outlive the mount.
class Mount {
 public:
  // The mount is usable when this returns. A null `agent`: no virtual directory. Failures name the
  // mount point and what to do about it. A mount of the same source whose process has died is taken
  // over; where root mounts no program finds the directory below meanwhile.
  static Outcome<std::unique_ptr<Mount>> start(client::FileSystem& files, agent::Agent* agent,
                                               MountConfig config);
  virtual ~Mount() = default;  // stops
  // Writes back what programs have mapped, unmounts and ends the workers. When files are still open
  // after the deadline it detaches the mount and cuts them off, and logs that. Idempotent.
  virtual StopOutcome stop() = 0;

  // Gives the mount other options, as `mount -o remount`. Without effect after a Failure, which
  // says what is in the way.
  virtual Outcome<void> change(const MountOptions& options) = 0;
  virtual MountOptions options() const = 0;

  virtual const std::string& path() const = 0;  // absolute
  virtual dev_t device() const = 0;             // st_dev of everything in the mount
  virtual bool alive() const = 0;               // false once it is unmounted
};

// Unmounts whatever penstock mount is at `path`, also one whose process has died: what
// `penstock unmount` does. `lazy` detaches a busy one.
Outcome<void> unmount(const std::string& path, bool lazy);

// What the requests of this process's mounts took so far, by the kernel's name of the operation,
// from the worker that has read one to its reply; and how many were answered with which error
// number.
struct RequestsServed {
  std::vector<std::pair<const char*, telemetry::LatencySample>> operations;
  std::map<int, uint64_t> errors;
};
// Thread safe.
RequestsServed requests_served();

}  // namespace penstock::fuse
