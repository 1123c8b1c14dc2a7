/* Processes of which only the number is known. */
#ifndef CLUTCH_PROCESS_H
#define CLUTCH_PROCESS_H

#include "core/base/os.h"

/* Tells whether it has ended. One that was killed, and whose parent has not asked for its end yet,
 * has. */
int clu_process_is_gone(clu_pid pid);

#endif
