// GET and HEAD of /files: a file, a part of it or what became of it, in pieces and constant memory.
#pragma once

#include <string>

#include "guest/exchange.h"

namespace space::guest {

Task<void> send_file(Exchange exchange, std::string path);  // absolute

}  // namespace space::guest
