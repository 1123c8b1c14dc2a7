/* Waking an R that is idle: a descriptor that becomes readable when there is something to do for
 * tasks that are waited for, whoever has found that out: R's thread in a call about something else,
 * or another thread. R waits for it beside the event loop's own (R/task-idle.R).
 *
 * The pair of sockets behind it is made when it is first asked for, and stays as long as the
 * process. What was signalled and not seen is not signalled again: one byte at most.
 */
#ifndef CLUTCH_WAKE_H
#define CLUTCH_WAKE_H

#include "core/base/os.h"

/* CLU_NO_FD: there is none. */
clu_fd clu_wake_descriptor(void);
/* It becomes readable. Any thread; does not block. Nothing happens before it was asked for. */
void clu_wake(void);
/* Until clu_wake_seen() nothing is signalled: R's thread is about to look. */
void clu_wake_hold(void);
/* It is not readable any more. R's thread, before it takes the news: what comes after that signals
 * again. */
void clu_wake_seen(void);
/* In a forked child: the pair is the parent's. Another one is made when it is asked for. */
void clu_wake_forget(void);

#endif
