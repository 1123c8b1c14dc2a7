/* The files of processes share this: signal.c <- follow.c, process.c. */
#ifndef CLUTCH_POSIX_PROCESS_H
#define CLUTCH_POSIX_PROCESS_H

/* sigaction() with an empty mask. Async-signal-safe. */
void clu_set_handler(int sig, void (*fn)(int), int flags);

#endif
