// Making the mount itself: a connection to the kernel that is attached to a directory.
#pragma once

#include "mount_point.h"

#include "penstock/base.h"
#include "penstock/fuse.h"

namespace penstock::fuse {

// Opens /dev/fuse and mounts it at config.mount_point (canonical): as root by itself, else with
// fusermount3. The connection is not served yet; reading from it waits. Where a dead mount stands
// there, as root only, it makes way without a moment in which a program finds the directory below:
// it goes when the new one is beneath it, which before Linux 6.5 stays on top of it instead.
Outcome<UniqueFd> mount_device(const MountConfig& config, DeadMount dead);

// Gives the mount at config.mount_point, which is there, other options: those in `options`. For
// root.
Outcome<void> change_mount(const MountConfig& config, const MountOptions& options);

// Another descriptor of the same connection, with a queue of its own for requests that were read
// from it and are to be answered; so that workers do not share one lock.
Result<UniqueFd> clone_device(int device);

}  // namespace penstock::fuse
