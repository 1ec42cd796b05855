// What a file on the pool alone holds: the bytes that come back when it goes.
#pragma once

#include <cstdint>

#include "base/deadline.h"
#include "base/result.h"

namespace space::vmm {

// Extents no other file, snapshot or clone refers to. Of the file as it lies on the disk: what is only in
// memory yet is not counted. An extent of which another still has a part counts as shared. Needs a descriptor
// open for reading and no power; blocks for as long as the file has pieces (some 100,000 a second), so not on
// a loop's thread. unavailable: the file system does not say. deadline. exhausted: more than 4 million
// pieces.
Result<std::uint64_t> exclusive_bytes(int file, Deadline deadline);

}  // namespace space::vmm
