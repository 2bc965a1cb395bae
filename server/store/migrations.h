/* migrations.h - the tables of the store, as steps from each version to the next.
 *
 * A step is never changed once a release has it: files out there have it behind them. Any thread.
 */
#ifndef SERVER_STORE_MIGRATIONS_H
#define SERVER_STORE_MIGRATIONS_H

#include <sqlite3.h>

#include "acre.h"

/* Refuses what is no store, and those of later versions; changes nothing. */
int migrations_check(sqlite3 *db, struct acre_err *err);

/* Brings the file to the version of this program, all or nothing. Waits for the disk. */
int migrations_run(sqlite3 *db, struct acre_err *err);

#endif
