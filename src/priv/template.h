// Templates: images/<digest>, made by the build, become read-only subvolumes of the pool.
#pragma once

#include <string>

#include "base/fd.h"
#include "priv/layout.h"
#include "priv/permit.h"
#include "priv/pool.h"

namespace space::priv {

// Copies and makes it durable: seconds. Appears whole or not at all; success when it is there already.
// One at a time for a digest.
Result<void> import_template(const Layout& layout, const Pool& pool, const TemplatePermit& wanted);
Result<Fd> open_manifest(const Pool& pool, const TemplatePermit& wanted);
// Success when there is none. Clones of it live on.
Result<void> remove_template(const Pool& pool, const TemplatePermit& wanted);

// Copies the data of a sparse file and leaves its holes; `to` is empty. Ends with fsync.
Result<void> copy_sparse(int from, int to);

}  // namespace space::priv
