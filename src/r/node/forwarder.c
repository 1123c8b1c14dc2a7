/* A node that is a forwarder (core/forward/forwarder.h) until it ends.
 *
 * That of the clients is on their host. That of the delegates is on the session's machine: it forks
 * one for each connection, which serves it (R/forward-serve.R) and has nothing else of this node's.
 * When the connection has ended, the delegate is interrupted, as it may be at something, and killed
 * after a while. All of them end with the forwarder. */
#include "r/node/channel-only.h"

#include <stdio.h>

#include "core/base/grow.h"
#include "core/forward/forwarder.h"

static const int64_t LOOK_EVERY = 200000000; /* ns, while there are delegates */
static const uint64_t GRACE = 2000000000;    /* ns that they have to end */

typedef struct delegate {
  clu_forward_id of;
  clu_pid pid;
  uint64_t end_at; /* 0: it serves */
} delegate;

static struct {
  clu_channel_only only;
  clu_forwarder *forwarder;
  delegate *delegates;
  size_t n, cap;
} self;

static void say(void *to, clu_blob *body) {
  (void)to;
  clu_only_say(&self.only, body);
}

static int hear(clu_blob *body) { return clu_forward_heard(self.forwarder, body); }

static int begin(clu_err *e) {
  int rc = clu_only_begin(&self.only, CLU_K_FORWARD, hear, e);
  if (rc == CLU_OK) rc = clu_forward_new(&self.only.loop, say, NULL, &self.forwarder);
  return rc;
}

static void end(void) {
  clu_forward_free(self.forwarder);
  clu_only_end(&self.only);
  free(self.delegates);
  memset(&self, 0, sizeof self);
}

/* Takes clients at that path until the node ends, as host number `host`. */
SEXP ffi_forward_clients(SEXP host, SEXP path) {
  clu_err e = {0};
  int rc = begin(&e);
  if (rc == CLU_OK)
    rc = clu_forward_listen(self.forwarder, (uint32_t)Rf_asInteger(host), CHAR(STRING_ELT(path, 0)),
                            &e);
  while (rc == CLU_OK && !self.only.ended) rc = clu_only_pump(&self.only, -1, &e);
  end();
  clu_me.asked_to_end = clu_me.closed = 1; /* the session sees that it has ended */
  return R_NilValue;
}

/* This process has a connection to one now, or none. */
SEXP ffi_forward_linked(SEXP has) {
  clu_me.has_link = Rf_asLogical(has) == 1;
  return R_NilValue;
}

/* ---- of the delegates ---- */

/* Starts those that are wanted. The descriptor that one of them serves, in that process; else
 * CLU_NO_FD. */
static clu_fd start_delegates(void) {
  clu_forward_id id;
  clu_pid parent = clu_os_getpid();
  while (clu_forward_wants(self.forwarder, &id)) {
    delegate *more = clu_grow(self.delegates, &self.cap, self.n + 1, sizeof *more);
    clu_fd pair[2] = {CLU_NO_FD, CLU_NO_FD};
    clu_pid pid;
    if (more) self.delegates = more;
    fflush(NULL);
    if (!more || clu_os_pair(pair, NULL) != CLU_OK || clu_os_fork(&pid, NULL) != CLU_OK) {
      if (pair[1] != CLU_NO_FD) clu_os_close(pair[1]);
      clu_forward_attach(self.forwarder, id, CLU_NO_FD);
      if (pair[0] != CLU_NO_FD) clu_os_close(pair[0]);
      continue;
    }
    if (pid == 0) {
      if (clu_os_follow_parent(parent, 1) == CLU_DEAD) clu_os_end_self();
      clu_node_leave(pair[1], "clutch: for a process of another host");
      return pair[1];
    }
    clu_os_close(pair[1]);
    self.delegates[self.n++] = (delegate){id, pid, 0};
    clu_forward_attach(self.forwarder, id, pair[0]);
  }
  return CLU_NO_FD;
}

static void end_delegates(void) {
  clu_forward_id id;
  uint64_t now = clu_os_now();
  clu_exit how;
  while (clu_forward_ended(self.forwarder, &id))
    for (size_t i = 0; i < self.n; i++) {
      delegate *x = &self.delegates[i];
      if (x->of.host != id.host || x->of.number != id.number) continue;
      clu_os_kill(x->pid, CLU_SIG_INT, 0);
      x->end_at = now + GRACE;
    }
  for (size_t i = 0; i < self.n; i++) {
    delegate *x = &self.delegates[i];
    if (x->end_at && now >= x->end_at) clu_os_kill(x->pid, CLU_SIG_KILL, 0);
    if (clu_os_reap(x->pid, 0, &how) != CLU_AGAIN) self.delegates[i--] = self.delegates[--self.n];
  }
}

/* Serves until the node ends: NULL. In a delegate: the descriptor of its connection. */
SEXP ffi_forward_delegates(void) {
  clu_err e = {0};
  int rc = begin(&e);
  while (rc == CLU_OK && !self.only.ended) {
    clu_fd fd;
    rc = clu_only_pump(&self.only, self.n ? LOOK_EVERY : -1, &e);
    fd = start_delegates();
    if (fd != CLU_NO_FD) return Rf_ScalarInteger((int)fd);
    end_delegates();
  }
  for (size_t i = 0; i < self.n; i++) clu_os_kill(self.delegates[i].pid, CLU_SIG_KILL, 0);
  end();
  clu_me.asked_to_end = clu_me.closed = 1;
  return R_NilValue;
}
