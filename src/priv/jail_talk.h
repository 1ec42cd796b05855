// What a process on its way into the jail and its parent say to each other, one datagram each. The child's
// side; the parent's is oversee_jail in jail.h. Blocking: either end sees the other's death.
#pragma once

#include "base/result.h"
#include "priv/jail.h"

namespace space::priv {

Result<void> await_leave(int parent);
Result<void> ask_for_user_mapping(int parent);
Result<void> tell_worn(int parent, const Worn& worn);
void tell_failure(int parent, const Error& error);

}  // namespace space::priv
