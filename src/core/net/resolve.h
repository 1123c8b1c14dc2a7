/* Names to addresses.
 *
 * The system's resolver blocks as long as it likes and cannot be interrupted, so it runs in
 * threads. Who asks waits for a look-up, which is shared by all that want the same name at the
 * time. One that nobody wants any more goes on until the resolver has answered, for a thread cannot
 * be ended; but there are never more than 16 threads, and further names wait for one of them. A
 * look-up uses no descriptor. Numbers and "localhost" need none of this: they are known at once.
 *
 * Look-ups are asked for by one thread (R's). In a forked child none of the parent's is in use, and
 * new ones can be started. Threads end when no name waits, and are joined by the next call here:
 * when clu_resolve_threads() says 0, none is in code of this library.
 */
#ifndef CLUTCH_RESOLVE_H
#define CLUTCH_RESOLVE_H

#include "core/base/os.h"

typedef struct clu_resolve clu_resolve;

/* Begins to ask for the addresses of `host`; NULL: those of a listener for all addresses, IPv6
 * first. Does not block. NULL and `e`: CLU_NOMEM, CLU_LIMIT (no thread can be started). The caller
 * frees it. */
clu_resolve *clu_resolve_start(const char *host, int port, clu_err *e);
/* Waits at most `wait_ns` (< 0: for ever). Blocks. CLU_OK: `*n` (> 0) addresses in the order in
 * which they should be tried; CLU_AGAIN: not known yet; CLU_DNS: there are none; CLU_CLOSED: the
 * parent of this process had asked. */
int clu_resolve_wait(clu_resolve *r, int64_t wait_ns, clu_addr out[CLU_MAX_ADDRS], int *n,
                     clu_err *e);
/* Also while it is under way: its answer is thrown away then. Accepts NULL. */
void clu_resolve_free(clu_resolve *r);
/* Threads that are still asking. While there is one, this library must not be unloaded. */
int clu_resolve_threads(void);

/* The addresses of `host` within `wait_ns`, or an error: the three calls above in one. Blocks.
 * CLU_TIMEOUT: not known in time. */
int clu_resolve_now(const char *host, int port, int64_t wait_ns, clu_addr out[CLU_MAX_ADDRS],
                    int *n, clu_err *e);

/* Where a listener for all addresses of this machine is bound, with port 0: one for IPv6, which
 * takes IPv4, too; where the system has no IPv6, one for IPv4. */
void clu_resolve_any(clu_addr *out);
/* Where a listener at `host` (numbers, a name, or "": all addresses) is bound, with port 0: the
 * name's first address. Blocks, 5 s at most. Codes as those of clu_resolve_now(). */
int clu_resolve_listener(const char *host, clu_addr *out, clu_err *e);

#endif
