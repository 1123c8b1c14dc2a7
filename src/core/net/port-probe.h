/* Which of many ports has somebody listening: all are asked at once, a bounded number under way at
 * a time. */
#ifndef CLUTCH_PROBE_H
#define CLUTCH_PROBE_H

#include "core/base/os.h"

typedef struct clu_probe clu_probe;

/* `n` addresses to ask; `to` is copied. NULL: not enough memory. */
clu_probe *clu_probe_new(const clu_addr *to, int n, clu_err *e);
/* Goes on, waiting at most `wait_ns` (0: looks only). CLU_OK: all have answered; CLU_AGAIN: not
 * yet; CLU_LIMIT: not even one descriptor is free. */
int clu_probe_step(clu_probe *p, int64_t wait_ns, clu_err *e);
/* 1: somebody listens at the i-th; 0: nobody; -1: no answer yet. */
int clu_probe_answer(const clu_probe *p, int i);
/* Closes all that is under way. Accepts NULL. */
void clu_probe_free(clu_probe *p);

#endif
