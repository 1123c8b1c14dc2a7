/* A fork server that stays when its session has ended waits here for another one of the same user.
 *
 * It listens at a path in a folder that only this user can enter. Beside it, in a file named
 * "<path>.secret", are CLU_SECRET bytes. Who connects has to be a process of this user, says the
 * kernel, and to know these: handshake.h, with the server in the place of the node. That connection
 * is the control channel then. The other side is core/node/take.h.
 *
 * One at a time: others wait in the listener's queue, and hear of an end when it is closed. What
 * the session is told and asks before it has the server is the caller's concern, and may end with
 * the connection; so the listener stays until clu_stay_end().
 */
#ifndef CLUTCH_STAY_H
#define CLUTCH_STAY_H

#include "core/base/os.h"
#include "core/wire/handshake.h"

#define CLU_STAY_SECRET ".secret" /* after the path */

typedef struct clu_stay {
  clu_fd listener; /* CLU_NO_FD: it does not listen */
  char path[108];
  uint64_t id[2]; /* of the socket's file */
  unsigned char secret[CLU_SECRET];
} clu_stay;

/* Begins to listen. What a dead process has left at this path goes. CLU_OK, CLU_UNSUPPORTED (the
 * system does not tell who connects), CLU_IN_USE, CLU_LIMIT, CLU_SYS; then nothing is left. */
int clu_stay_offer(clu_stay *s, const char *path, clu_err *e);
/* Waits until `until`, and reaps what ends meanwhile. `signals`: of clu_os_watch_start(). CLU_OK:
 * `*fd` is the connection to a session that has proven itself, `*session` its process. CLU_TIMEOUT;
 * CLU_CANCELLED: CLU_SIG_TERM came. Blocks. */
int clu_stay_await(clu_stay *s, clu_fd signals, uint64_t until, clu_fd *fd, clu_pid *session);
/* Nobody can connect any more, and the files are gone. Safe after a failed offer, and again. */
void clu_stay_end(clu_stay *s);

#endif
