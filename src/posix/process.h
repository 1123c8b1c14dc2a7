/* What the files of processes share: signal.c <- follow.c <- process.c. Included after the system's
 * headers. */
#ifndef CLUTCH_POSIX_PROCESS_H
#define CLUTCH_POSIX_PROCESS_H

#include "posix/features.h"

#if defined(CLU_HAVE_VFORK)
/* vfork: a session may hold tens of gigabytes, whose page tables fork() would copy for nothing */
#define fork_to_exec vfork
#else
#define fork_to_exec fork
#endif

/* sigaction() with an empty mask. Async-signal-safe. */
void clu_set_handler(int sig, void (*fn)(int), int flags);

#endif
