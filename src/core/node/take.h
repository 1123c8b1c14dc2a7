/* A session takes a fork server that has stayed after the session before: see
 * core/supervisor/stay.h. */
#ifndef CLUTCH_TAKE_H
#define CLUTCH_TAKE_H

#include "core/node/fork-server.h"

/* Connects to the server that waits at `path`. CLU_OK: it serves this session from now on, and is
 * starting until it answers to SETUP. Else `e` says why not: CLU_REFUSED (nobody listens there),
 * CLU_TIMEOUT (no answer until `deadline`), CLU_RESET (another session was sooner), CLU_PROTO (it
 * is not this user's, or does not know the secret), CLU_SYS. Blocks. */
int clu_server_take(clu_session *session, const char *path, uint64_t deadline, clu_server **out,
                    clu_err *e);
/* Ends who waits at `path`, by CLU_SIG_TERM, and when it is still there at `deadline` by
 * CLU_SIG_KILL. CLU_OK: it was asked to, or killed; `*pid` is its process; as above. Blocks. */
int clu_server_end_kept(const char *path, uint64_t deadline, clu_pid *pid, clu_err *e);

#endif
