#include "core/node/acceptor.h"

#include <stdlib.h>
#include <string.h>

#define PAUSE_NS 50000000u     /* of a listener, when no descriptor is free */
#define GRACE_NS 1000000000u   /* after which one who has proven nothing may lose its place */
#define LOOK_NS 20000000u      /* between two looks whether processes have ended */

typedef struct stranger {
  clu_acceptor *m;
  struct stranger *next; /* the oldest first */
  clu_fd fd;             /* CLU_NO_FD: it has gone, freed by the next tick */
  clu_watch_id watch;
  uint64_t born;
  int other; /* a process of another user of this machine */
  clu_hs roll;
} stranger;

typedef struct expected {
  clu_node *nd;
  clu_blob *settings;
  int rank;
} expected;

struct clu_acceptor {
  clu_loop *loop;
  clu_fd fd;
  clu_watch_id watch;
  int paused;
  uint64_t paused_until, looked;
  uint64_t cluster;
  stranger *first, *last;
  int others; /* strangers of other users */
  expected *nodes;
  int n, cap;
  clu_acceptor_report seen;
  unsigned char secret[CLU_SECRET];
};

static void listener_ready(void *self, unsigned ready);
static void pending_peer_ready(void *self, unsigned ready);

/* ---- the listener ---- */

int clu_acceptor_open(clu_session *s, const clu_addr *at, int backlog, const unsigned char *secret, clu_acceptor **out,
                    int *granted, int *port, clu_err *e) {
  clu_listen how = {0, 0, 0};
  clu_addr local;
  char host[CLU_ADDR_TEXT];
  clu_acceptor *m = calloc(1, sizeof *m);
  int rc;
  if (!m) return clu_fail(e, CLU_NOMEM, 0, "not enough memory");
  how.backlog = backlog;
  m->loop = clu_session_loop(s);
  m->fd = CLU_NO_FD;
  if (secret) memcpy(m->secret, secret, sizeof m->secret);
  if ((!secret && clu_os_secret_bytes(m->secret, sizeof m->secret) != CLU_OK) ||
      clu_os_secret_bytes(&m->cluster, sizeof m->cluster) != CLU_OK)
    rc = clu_fail(e, CLU_SYS, 0, "the system gives no random bytes");
  else if ((rc = clu_os_listen(at, &how, &m->fd, granted, e)) == CLU_OK) {
    clu_os_move_high(&m->fd, 1024);
    rc = clu_os_local_addr(m->fd, &local);
    if (rc == CLU_OK) {
      *port = clu_os_addr_host(&local, host, sizeof host);
      rc = clu_loop_watch(m->loop, m->fd, CLU_READ, listener_ready, m, &m->watch, e);
    }
  }
  if (rc != CLU_OK) {
    clu_acceptor_free(m);
    return rc;
  }
  *out = m;
  return CLU_OK;
}

const unsigned char *clu_acceptor_secret(const clu_acceptor *m) { return m->secret; }

int clu_acceptor_expect(clu_acceptor *m, clu_node *nd, int rank, clu_blob *settings) {
  if (m->n == m->cap) {
    int cap = m->cap ? 2 * m->cap : 16;
    expected *more = realloc(m->nodes, (size_t)cap * sizeof *more);
    if (!more) return CLU_NOMEM;
    m->nodes = more;
    m->cap = cap;
  }
  m->nodes[m->n].nd = nd;
  m->nodes[m->n].rank = rank;
  m->nodes[m->n++].settings = settings ? clu_blob_ref(settings) : NULL;
  return CLU_OK;
}

static void listener_pause(clu_acceptor *m) {
  m->paused = 1;
  m->paused_until = clu_os_now() + PAUSE_NS;
  clu_loop_interest(m->loop, m->watch, 0, NULL);
}

static void listener_resume(clu_acceptor *m) {
  if (clu_loop_interest(m->loop, m->watch, CLU_READ, NULL) == CLU_OK) m->paused = 0;
}

/* ---- strangers ---- */

/* Its connection is closed, or a node's. */
static void gone(stranger *s) {
  s->fd = CLU_NO_FD;
  s->m->seen.strangers--;
  s->m->others -= s->other;
}

static void pending_peer_leave(stranger *s) {
  if (s->fd == CLU_NO_FD) return;
  clu_loop_unwatch(s->m->loop, &s->watch);
  clu_os_close(s->fd);
  gone(s);
}

static void pending_peer_failed(stranger *s) {
  if (s->fd == CLU_NO_FD) return;
  s->m->seen.failed[s->roll.why]++;
  pending_peer_leave(s);
}

static expected *of_rank(clu_acceptor *m, uint32_t rank) {
  for (int i = 0; i < m->n; i++)
    if ((uint32_t)m->nodes[i].rank == rank) return &m->nodes[i];
  return NULL;
}

/* A node may come again while it is not ready: it saw its connection break, and this side did not. */
static int verdict(const expected *x, const clu_hs *r) {
  if (!x) return CLU_HS_NO_SUCH_RANK;
  if (!clu_node_is_starting(x->nd)) return CLU_HS_RANK_TAKEN;
  if (clu_node_is_connected(x->nd) && clu_node_pid(x->nd) != (clu_pid)r->pid) return CLU_HS_RANK_TAKEN;
  return CLU_HS_WELCOME_TO;
}

static void pending_peer_joins(stranger *s) {
  clu_acceptor *m = s->m;
  expected *x = of_rank(m, s->roll.rank);
  clu_fd fd = s->fd;
  if (verdict(x, &s->roll) != CLU_HS_WELCOME_TO) { /* another was quicker */
    pending_peer_leave(s);
    return;
  }
  clu_loop_unwatch(m->loop, &s->watch);
  gone(s);
  if (clu_node_connect(x->nd, fd, (clu_pid)s->roll.pid, NULL) != CLU_OK) return; /* it will connect anew */
  clu_node_send(x->nd, CLU_K_SETTINGS, x->settings);
}

static void pending_peer_write(stranger *s) {
  while (s->roll.out_left > 0) {
    clu_iov iov;
    size_t put = 0;
    int rc;
    iov.base = (void *)(uintptr_t)s->roll.out;
    iov.len = s->roll.out_left;
    rc = clu_os_writev(s->fd, &iov, 1, CLU_NO_FD, &put);
    if (rc == CLU_AGAIN) return;
    if (rc != CLU_OK) {
      clu_hs_closed(&s->roll);
      return;
    }
    clu_hs_written(&s->roll, put);
  }
}

static void pending_peer_read(stranger *s) {
  while (clu_hs_want(&s->roll) > 0) {
    unsigned char bytes[CLU_HS_ANSWER];
    clu_iov iov;
    size_t got = 0;
    int rc;
    iov.base = bytes;
    iov.len = clu_hs_want(&s->roll);
    rc = clu_os_readv(s->fd, &iov, 1, &got, NULL, NULL);
    if (rc == CLU_AGAIN) return;
    if (rc != CLU_OK) {
      clu_hs_closed(&s->roll);
      return;
    }
    if (clu_hs_feed(&s->roll, bytes, got) == CLU_HS_PROVEN) {
      clu_hs_admit(&s->roll, verdict(of_rank(s->m, s->roll.rank), &s->roll));
      pending_peer_write(s);
    }
  }
}

/* What the state of the handshake asks for. */
static void pending_peer_settle(stranger *s) {
  unsigned want = CLU_READ;
  if (s->roll.state == CLU_HS_FAILED) {
    pending_peer_failed(s);
    return;
  }
  if (s->roll.state == CLU_HS_DONE) {
    pending_peer_joins(s);
    return;
  }
  if (s->roll.out_left > 0) want |= CLU_WRITE;
  if (clu_loop_interest(s->m->loop, s->watch, want, NULL) != CLU_OK) pending_peer_leave(s);
}

static void pending_peer_ready(void *self, unsigned ready) {
  stranger *s = self;
  if (s->fd == CLU_NO_FD) return;
  if (ready & CLU_WRITE) pending_peer_write(s);
  if (ready & CLU_READ) pending_peer_read(s);
  pending_peer_settle(s);
}

static int unproven(const stranger *s) {
  return s->fd != CLU_NO_FD && s->roll.state == CLU_HS_UNDER_WAY && s->roll.step == 2;
}

/* The oldest that has proven nothing until `before` loses its place, whatever it has sent: a true answer comes in one
 * piece as a rule, and the node whose answer does not tries again. With `other` one of another user. */
static void make_room(clu_acceptor *m, int other, uint64_t before) {
  for (stranger *s = m->first; s; s = s->next) {
    if (!unproven(s) || s->other != other || s->born > before) continue;
    pending_peer_read(s); /* it may be we who were late */
    if (unproven(s)) {
      m->seen.crowded++;
      pending_peer_leave(s);
    } else {
      pending_peer_settle(s);
      if (s->fd != CLU_NO_FD) continue; /* it has proven itself now */
    }
    return;
  }
}

/* Whether there is a place for one more, who is not of another user: those have CLU_OTHERS of their own. */
static int place(clu_acceptor *m) {
  if (m->seen.strangers - m->others >= CLU_PENDING_PEERS) make_room(m, 0, clu_os_now() - GRACE_NS);
  return m->seen.strangers - m->others < CLU_PENDING_PEERS;
}

static void greet(clu_acceptor *m, clu_fd fd) {
  unsigned char nonce[CLU_NONCE];
  stranger *s = calloc(1, sizeof *s);
  uint64_t now = clu_os_now();
  m->seen.accepted++;
  if (!s || clu_os_secret_bytes(nonce, sizeof nonce) != CLU_OK) {
    free(s);
    clu_os_close(fd);
    return;
  }
  clu_os_move_high(&fd, 1024);
  clu_os_sockopt_set(fd, CLU_OPT_NODELAY, 1);
  clu_os_sockopt_set(fd, CLU_OPT_KEEPALIVE, 1);
  s->m = m;
  s->fd = fd;
  s->born = now;
  s->other = clu_os_peer_owner(fd) == CLU_PEER_OTHER;
  if (s->other && m->others >= CLU_OTHERS) make_room(m, 1, now);
  m->others += s->other;
  clu_hs_master(&s->roll, m->secret, nonce, m->cluster, now + CLU_PENDING_PEER_NS);
  if (m->last)
    m->last->next = s;
  else
    m->first = s;
  m->last = s;
  m->seen.strangers++;
  pending_peer_write(s);
  if (clu_loop_watch(m->loop, fd, CLU_READ, pending_peer_ready, s, &s->watch, NULL) != CLU_OK)
    pending_peer_leave(s);
  else
    pending_peer_settle(s);
}

static void listener_ready(void *self, unsigned ready) {
  clu_acceptor *m = self;
  (void)ready;
  for (int k = 0; k < 64; k++) { /* then it is the others' turn */
    clu_fd fd;
    int rc;
    if (!place(m)) {
      listener_pause(m);
      return;
    }
    rc = clu_os_accept(m->fd, &fd, NULL, NULL);
    if (rc == CLU_AGAIN) return;
    if (rc != CLU_OK) { /* it stays readable: asked again at once it would spin */
      m->seen.pauses++;
      listener_pause(m);
      return;
    }
    greet(m, fd);
  }
}

/* ---- time ---- */

static void sweep(clu_acceptor *m, uint64_t now) {
  stranger **at = &m->first, *s;
  m->last = NULL;
  while ((s = *at)) {
    if (s->fd != CLU_NO_FD && now >= s->roll.deadline) {
      pending_peer_read(s); /* this process may have been stopped, and its answer be here */
      clu_hs_time(&s->roll, now);
      pending_peer_settle(s);
    }
    if (s->fd == CLU_NO_FD) {
      *at = s->next;
      clu_os_wipe(s, sizeof *s);
      free(s);
    } else {
      m->last = s;
      at = &s->next;
    }
  }
}

int clu_acceptor_tick(clu_acceptor *m) {
  uint64_t now = clu_os_now();
  int missing = 0, look = now - m->looked >= LOOK_NS;
  sweep(m, now);
  if (m->paused && now >= m->paused_until) listener_resume(m);
  if (look) m->looked = now;
  for (int i = 0; i < m->n; i++) {
    clu_node *nd = m->nodes[i].nd;
    if (look && clu_node_is_starting(nd)) clu_node_check(nd);
    missing += clu_node_is_starting(nd);
  }
  return missing;
}

void clu_acceptor_report_to(const clu_acceptor *m, clu_acceptor_report *out) { *out = m->seen; }

void clu_acceptor_free(clu_acceptor *m) {
  if (!m) return;
  for (stranger *s = m->first; s; s = s->next) pending_peer_leave(s);
  sweep(m, 0);
  if (m->fd != CLU_NO_FD) {
    clu_loop_unwatch(m->loop, &m->watch);
    clu_os_close(m->fd);
  }
  for (int i = 0; i < m->n; i++) clu_blob_unref(m->nodes[i].settings);
  free(m->nodes);
  clu_os_wipe(m->secret, sizeof m->secret);
  free(m);
}
