// Mounts by descriptor: made of an opened file or folder while root can still see it, put in place in a
// namespace where nothing else is left. No path from outside is ever looked up.
#pragma once

#include "base/fd.h"

namespace space::priv {

enum class Runs { programs, nothing };

// A detached mount of what `fd` is: read-only, no set-user-id, no devices, and where nothing runs no programs
// either.
Result<Fd> detached_mount(const Fd& fd, Runs runs);
// Nothing mounted or unmounted in this namespace shows in another, or the other way round.
Result<void> make_mounts_private();
// Puts `tree` over what `name` is beneath `folder`.
Result<void> attach_mount(const Fd& tree, int folder, const char* name);
// `tree` becomes the root of this process's own mount namespace, and all other mounts leave it. `scratch` is
// any folder of the old root.
Result<void> become_root(const Fd& tree, const char* scratch);

}  // namespace space::priv
