/* The handshake (core/wire/handshake.h) over a connection, from its beginning to its end. */
#ifndef CLUTCH_MEET_H
#define CLUTCH_MEET_H

#include "core/base/os.h"
#include "core/wire/handshake.h"

/* `h` was begun just now; its deadline is what bounds this. A session admits whoever has proven
 * itself. CLU_OK: both have proven themselves, and nothing beyond the handshake was read.
 * CLU_CANCELLED: `stop` has become readable; CLU_NO_FD: there is none. CLU_PROTO: `h->why` says why
 * not. The descriptor stays the caller's. */
int clu_hs_meet(clu_hs *h, clu_fd fd, clu_fd stop);

#endif
