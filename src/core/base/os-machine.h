/* These tell what this machine has left, and what its system counts. A part of the port; see os.h.
 */
#ifndef CLUTCH_OS_MACHINE_H
#define CLUTCH_OS_MACHINE_H

#include <stddef.h>
#include <stdint.h>

/* Tells what this machine has left to do, and to give. */
typedef struct clu_machine {
  double load;    /* how many processes ran or waited to, over the last minute; -1: not known */
  int64_t memory; /* bytes of memory, without swap; -1: not known */
  int64_t memory_free; /* of these, what can be had without swapping; -1: not known */
} clu_machine;
void clu_os_machine(clu_machine *out);
/* Microseconds, since the system has started, in which some process waited for a processor that
 * others had; -1: not known. */
int64_t clu_os_cpu_stalled(void);
/* Does the same by the text of such a file: that of Linux's /proc/pressure/cpu. For tests. */
int64_t clu_os_cpu_stalled_by(const char *text);
/* The number behind `name` in a text file of the system that has such a line ("oom_kill 3"); -1: it
 * has none. */
int64_t clu_os_count_in_file(const char *path, const char *name);
/* Bytes of this machine's memory, or of what this process may have of it by its control group
 * (where the groups are mounted as usual). */
int64_t clu_os_memory_limit(void);
/* Does the same by the files below the folder `root`, as of another machine. For tests. */
int64_t clu_os_memory_limit_below(const char *root);
/* How many mappings of memory a process may have; INT64_MAX: not known. */
int64_t clu_os_most_mappings(void);
/* Memory of a process, in bytes. */
typedef struct clu_process_pages {
  int64_t given;    /* that it has been given so far, page by page, new or in place of such that it
                     * has shared */
  int64_t resident; /* that it has in memory now, of its own or not */
} clu_process_pages;
/* Milliseconds of user and system time that a process has used; -1: not known. `pages`, which may
 * be NULL, is told by the system with it. */
int64_t clu_os_process_cpu(int64_t pid, clu_process_pages *pages);
/* Bytes that it has in memory with no file behind them, of its own or not; -1: not known. */
int64_t clu_os_process_anonymous(int64_t pid);
/* Tells what it does, by the system's letter: 'R' it computes, 'S', 'D' or 'I' it waits, 'T' or 't'
 * it is stopped; 0: there is no such process, or it has ended; '?': not known. */
char clu_os_process_state(int64_t pid);
/* Linux shares processors among sessions of processes first (autogroups): a process of nice value
 * 19 gives way only to others of its session. This sets the nice value of the session that `pid` is
 * in, unless the caller is in it. Nothing is done where there are no such groups, and none of the
 * caller's user. Blocks for up to 0.4 s where the system allows one change in 0.1 s. */
void clu_os_renice_session(int64_t pid, int nice);
/* From now on up to 64 MB of memory that was freed stay with this process, for one that needs as
 * much again and again: the system would fill each page with zeros anew, 2 MB at a time where pages
 * are huge. It is the GNU C library's way as soon as a block of 32 MB was freed, and it is given
 * one, of which no page is touched. Elsewhere nothing. */
void clu_os_keep_freed(void);
/* The file of the library that has this function, and the function's name there; 0: not known, or
 * there is no room for them. */
int clu_os_symbol_of(void (*fun)(void), char *file, size_t nfile, char *name, size_t nname);

#endif
