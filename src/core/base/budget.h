/* A budget of cores: tokens that all processes of a user on this machine share. Who computes on a
 * core that others may want, too, has one.
 *
 * A token is a lock of a file. The system gives it back when its holder ends, whatever ends it.
 * Nothing here waits for a token, so nobody can wait for one that never comes. A process that is
 * forked has none of its parent's.
 *
 * Only R's thread uses this. */
#ifndef CLUTCH_BUDGET_H
#define CLUTCH_BUDGET_H

#define CLU_BUDGET_MOST 1024 /* tokens of a process */

/* Takes as many of `n` tokens as are free, of a budget of `of` that is in a folder of the user's
 * under `under`: how many. All `n`, without a token, where the system has no such locks or the
 * folder is of no use. */
int clu_budget_take(int n, int of, const char *under);
/* Gives `n` of those back that this process has, the last first. */
void clu_budget_give(int n);
/* How many tokens this process has. */
int clu_budget_held(void);

#endif
