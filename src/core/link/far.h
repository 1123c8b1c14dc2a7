/* The proxy on another host: it connects to the link process of the session (near.h), proves that
 * it knows the secret, and proxies between it and the fork server here, which is its child.
 *
 *   connecting --> up --cut--> connecting ... --> ended
 *
 * Cut: it connects again at once, then with pauses that grow from 0.1 s to 5 s, each longer or
 * shorter by chance by up to a half. Meanwhile fork server and nodes go on. It ends, and all here
 * with it,
 *   when the session says so, or has closed the control channel;
 *   when it is told to by CLU_SIG_TERM, as Slurm does, and the session hears so: it is no cut;
 *   when the address that it was connected to refuses: nobody listens there, so the session has
 * gone; when it has not been connected for `reconnect` ns;
 *   before the first connection: after `connect` ns, or when who has started it has gone, as ssh is
 * where the start of a cluster has failed;
 *   when the fork server has ended and that has been told.
 * The fork server gets 2 s to end with its nodes, and is killed then.
 */
#ifndef CLUTCH_FAR_H
#define CLUTCH_FAR_H

#include "core/base/os.h"

/* The session hears this then. */
#define CLU_FAR_TOLD "it was told to end (SIGTERM)"

typedef struct clu_far_options {
  const char *const *hosts; /* names or addresses of the session's host, tried in this order */
  int nhosts;
  int port;
  uint32_t rank;
  const unsigned char *secret;
  uint32_t r_version;
  const char *own, *certificate;     /* texts of core/net/tls.h; NULL: it is not encrypted */
  uint64_t connect, beat, reconnect; /* ns */
  clu_fd control;                    /* of the fork server; taken over */
  clu_pid server;                    /* its process, a child of this one */
  clu_fd starter; /* who has started this process reads what is written here; or CLU_NO_FD */
} clu_far_options;

/* Blocks until the end. CLU_OK: it, or the fork server, was asked to; else why it has ended. */
int clu_far_serve(const clu_far_options *how, clu_err *e);

#endif
