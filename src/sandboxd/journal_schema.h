// JournalSchema: the tables of the journal, and how an older journal becomes one of today.
#pragma once

#include "store/sqlite.h"

namespace space {

// In one transaction: all of it, or nothing. conflict: a newer program wrote it.
Result<void> migrate_journal(Sqlite& db);

}  // namespace space
