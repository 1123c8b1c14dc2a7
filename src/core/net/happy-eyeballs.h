/* Connecting to the first of several addresses that answers.
 *
 * The attempts begin in order, each when the one before has failed or has said nothing for 250 ms
 * (RFC 8305), so that an address which swallows packets does not use up the time of the others. The
 * first that succeeds is taken, the others are closed. Nothing here waits longer than it is told
 * to; the deadline is the caller's.
 */
#ifndef CLUTCH_CONNECT_H
#define CLUTCH_CONNECT_H

#include "core/base/os.h"

typedef struct clu_connector clu_connector;

/* `n` from 1 to CLU_MAX_ADDRS; buffers as in clu_os_connect_start(). NULL: not enough memory. */
clu_connector *clu_connector_new(const clu_addr *to, int n, int send_buffer, int receive_buffer,
                                 clu_err *e);
/* Goes on, waiting at most `wait_ns` (0: looks only; not negative). CLU_OK: `*fd` is the caller's,
 * `*to` (may be NULL) is where it leads. CLU_AGAIN: not yet, `e` says what the last failure was, if
 * there was one. CLU_LIMIT: no descriptor is free; to be called again when one may be. Everything
 * else: all addresses have failed, and `e` tells of the first. */
int clu_connector_step(clu_connector *c, int64_t wait_ns, clu_fd *fd, clu_addr *to, clu_err *e);
/* Gives up: closes what is under way. Accepts NULL. */
void clu_connector_free(clu_connector *c);

#endif
