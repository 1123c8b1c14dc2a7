/* Has a file synchronized with the disk now and then, by a thread that is started with the first
 * write. */
#ifndef CLUTCH_JOURNAL_SYNCING_H
#define CLUTCH_JOURNAL_SYNCING_H

#include "core/base/os-files.h"

typedef struct clu_journal_syncing clu_journal_syncing;

/* `every`: ns; 0: clu_journal_syncing_wrote() does it; UINT64_MAX: it is never done. `touched`: a
 * file that says whose the other one is; the thread, which then begins now, touches it every 10 s
 * as long as it says `owner` (NULL: what it says now). `fd` stays the caller's until it is left.
 * NULL without memory, or without the thread. */
clu_journal_syncing *clu_journal_syncing_new(clu_fd fd, uint64_t every, const char *touched,
                                             const char *owner);
/* Something was written. CLU_OK, or why the disk has not taken what was written before. */
int clu_journal_syncing_wrote(clu_journal_syncing *s, clu_err *e);
/* Nothing more is written. What was written is brought to the disk, unless that is never done, `fd`
 * is closed and `s` is freed, now or by clu_journal_syncing_settle(). `touched` is removed now, if
 * it still says that. */
void clu_journal_syncing_leave(clu_journal_syncing *s);
/* Frees what has been left and is done; `wait`: waits for all. By the thread that has left them. */
void clu_journal_syncing_settle(int wait);
/* In a forked child, which has no such thread: this one is forgotten, all that were left are. */
void clu_journal_syncing_forget(clu_journal_syncing *s);
void clu_journal_syncing_forget_left(void);

#endif
