/* The files of processes share this: signal.c <- follow.c, process.c; machine.c <- heap.c. */
#ifndef CLUTCH_POSIX_PROCESS_H
#define CLUTCH_POSIX_PROCESS_H

#include <stddef.h>
#include <stdint.h>

/* sigaction() with an empty mask. Async-signal-safe. */
void clu_set_handler(int sig, void (*fn)(int), int flags);
/* Ends the watch of clu_os_watch_start(), however often it was started. */
void clu_watch_drop(void);

/* Where there is /proc: reads "/proc/<pid>/stat" into `text`, whose `room` should be 1024 bytes.
 * From its third field on, the state: the name of the program before it may have blanks and
 * brackets in it. NULL: no such process. */
char *clu_read_stat(int64_t pid, char *text, size_t room);
/* Where the field is that is so many after this one. NULL: there is none. */
char *clu_skip_fields(char *at, int fields);

#endif
