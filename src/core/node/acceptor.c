#include "core/node/acceptor.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/grow.h"

#define PAUSE_NS 50000000u      /* of the listener, when there is no descriptor or no place */
#define GRACE_NS 1000000000u    /* after which a peer that has proven nothing may lose its place */
#define POLL_EVERY_NS 20000000u /* whether processes of expected nodes have ended */
#define ACCEPTS_A_TURN 64       /* then it is the others' turn */

typedef struct peer {
  clu_acceptor *acceptor;
  struct peer *next; /* the oldest first */
  clu_fd fd;         /* CLU_NO_FD: closed or a node's; freed in the next pump */
  clu_watch_id watch;
  clu_timer deadline;
  uint64_t since;
  int other; /* a process of another user of this machine */
  clu_hs hs;
} peer;

typedef struct expected {
  clu_node *nd;
  clu_blob *settings;
  int rank;
} expected;

struct clu_acceptor {
  clu_loop *loop;
  clu_fd fd;
  clu_watch_id watch;
  clu_timer resume; /* armed while the listener is paused */
  clu_timer poll;   /* armed while expected nodes are starting */
  clu_timer sweep;  /* armed while peers are to be freed */
  uint64_t cluster;
  peer *first, *last;
  int others; /* pending peers of other users */
  expected *nodes;
  int n;
  size_t cap;
  clu_acceptor_report seen;
  unsigned char secret[CLU_SECRET];
};

/* ---- pending peers: their places ---- */

/* Its connection is closed, or a node's. The memory is freed later: a caller may still have the
 * pointer. */
static void peer_left(peer *p) {
  clu_acceptor *a = p->acceptor;
  p->fd = CLU_NO_FD;
  clu_timer_cancel(&p->deadline);
  clu_timer_arm_by(a->loop, &a->sweep, 0);
  a->seen.pending--;
  a->others -= p->other;
}

static void peer_close(peer *p) {
  if (p->fd == CLU_NO_FD) return;
  clu_loop_unwatch(p->acceptor->loop, &p->watch);
  clu_os_close(p->fd);
  peer_left(p);
}

static void sweep(void *self) {
  clu_acceptor *a = self;
  peer **at = &a->first, *p;
  a->last = NULL;
  while ((p = *at)) {
    if (p->fd != CLU_NO_FD) {
      a->last = p;
      at = &p->next;
      continue;
    }
    *at = p->next;
    clu_os_wipe(p, sizeof *p);
    free(p);
  }
}

/* ---- pending peers: the handshake ---- */

static expected *of_rank(clu_acceptor *a, uint32_t rank) {
  for (int i = 0; i < a->n; i++)
    if ((uint32_t)a->nodes[i].rank == rank) return &a->nodes[i];
  return NULL;
}

/* A node may come again while it is not ready: it saw its connection break, and this side did
 * not. */
static int verdict(const expected *x, const clu_hs *hs) {
  if (!x) return CLU_HS_NO_SUCH_RANK;
  if (!clu_node_is_starting(x->nd)) return CLU_HS_RANK_TAKEN;
  if (clu_node_is_connected(x->nd) && clu_node_pid(x->nd) != (clu_pid)hs->pid)
    return CLU_HS_RANK_TAKEN;
  return CLU_HS_ADMITTED;
}

/* Its connection becomes the channel of its node. */
static void peer_becomes_node(peer *p) {
  clu_acceptor *a = p->acceptor;
  expected *x = of_rank(a, p->hs.rank);
  clu_fd fd = p->fd;
  if (verdict(x, &p->hs) != CLU_HS_ADMITTED) { /* another was quicker */
    peer_close(p);
    return;
  }
  clu_loop_unwatch(a->loop, &p->watch);
  peer_left(p);
  if (clu_node_connect(x->nd, fd, (clu_pid)p->hs.pid, NULL) != CLU_OK)
    return; /* it will connect anew */
  clu_node_send(x->nd, CLU_K_SETTINGS, x->settings);
}

static void peer_write(peer *p) {
  while (p->hs.out_left > 0) {
    clu_iov iov;
    size_t put = 0;
    int rc;
    iov.base = (void *)(uintptr_t)p->hs.out;
    iov.len = p->hs.out_left;
    rc = clu_os_writev(p->fd, &iov, 1, NULL, 0, &put);
    if (rc == CLU_AGAIN) return;
    if (rc != CLU_OK) {
      clu_hs_closed(&p->hs);
      return;
    }
    clu_hs_written(&p->hs, put);
  }
}

static void peer_read(peer *p) {
  while (clu_hs_want(&p->hs) > 0) {
    unsigned char bytes[CLU_HS_RESPONSE];
    clu_iov iov;
    size_t got = 0;
    int rc;
    iov.base = bytes;
    iov.len = clu_hs_want(&p->hs);
    rc = clu_os_readv(p->fd, &iov, 1, &got, NULL, NULL);
    if (rc == CLU_AGAIN) return;
    if (rc != CLU_OK) {
      clu_hs_closed(&p->hs);
      return;
    }
    if (clu_hs_feed(&p->hs, bytes, got) == CLU_HS_PROVEN) {
      clu_hs_admit(&p->hs, verdict(of_rank(p->acceptor, p->hs.rank), &p->hs));
      peer_write(p);
    }
  }
}

/* Does what the state of the handshake asks for. */
static void peer_settle(peer *p) {
  switch (p->hs.state) {
  case CLU_HS_FAILED:
    p->acceptor->seen.failed[p->hs.why]++;
    peer_close(p);
    break;
  case CLU_HS_DONE: peer_becomes_node(p); break;
  default:
    if (clu_loop_interest(p->acceptor->loop, p->watch,
                          CLU_READ | (p->hs.out_left > 0 ? CLU_WRITE : 0), NULL) != CLU_OK)
      peer_close(p);
  }
}

static void peer_ready(void *self, unsigned ready) {
  peer *p = self;
  if (ready & CLU_WRITE) peer_write(p);
  if (ready & CLU_READ) peer_read(p);
  peer_settle(p);
}

static void peer_time_is_up(void *self) {
  peer *p = self;
  peer_read(p); /* this process may have been stopped, and the response be here */
  clu_hs_time(&p->hs, clu_os_now());
  peer_settle(p);
}

static int unproven(const peer *p) {
  return p->fd != CLU_NO_FD && p->hs.state == CLU_HS_UNDER_WAY && !clu_hs_is_proven(&p->hs);
}

/* The oldest that has proven nothing until `before` loses its place, whatever it has sent: a
 * true response comes in one piece as a rule, and the node whose response does not tries again.
 * With `other` one of another user. */
static void make_room(clu_acceptor *a, int other, uint64_t before) {
  for (peer *p = a->first; p; p = p->next) {
    if (!unproven(p) || p->other != other || p->since > before) continue;
    peer_read(p); /* it may be this process that was late */
    if (unproven(p)) {
      a->seen.crowded++;
      peer_close(p);
      return;
    }
    peer_settle(p);
    if (p->fd == CLU_NO_FD) return; /* else it has proven itself now */
  }
}

/* Tells whether there is a place for one more that is not of another user. */
static int has_place(clu_acceptor *a) {
  if (a->seen.pending - a->others >= CLU_PENDING_PEERS) make_room(a, 0, clu_os_now() - GRACE_NS);
  return a->seen.pending - a->others < CLU_PENDING_PEERS;
}

static void add_peer(clu_acceptor *a, clu_fd fd) {
  unsigned char nonce[CLU_NONCE];
  peer *p = calloc(1, sizeof *p);
  uint64_t now = clu_os_now();
  a->seen.accepted++;
  if (!p || clu_os_secret_bytes(nonce, sizeof nonce) != CLU_OK) {
    free(p);
    clu_os_close(fd);
    return;
  }
  clu_os_move_high(&fd, 1024);
  clu_os_sockopt_set(fd, CLU_OPT_NODELAY, 1);
  clu_os_sockopt_set(fd, CLU_OPT_KEEPALIVE, 1);
  p->acceptor = a;
  p->fd = fd;
  p->since = now;
  p->other = clu_os_peer_user(fd) == CLU_PEER_OTHER;
  if (p->other && a->others >= CLU_PENDING_OTHERS) make_room(a, 1, now);
  a->others += p->other;
  a->seen.pending++;
  if (a->last)
    a->last->next = p;
  else
    a->first = p;
  a->last = p;
  clu_hs_session(&p->hs, a->secret, nonce, a->cluster, now + CLU_PENDING_PEER_NS);
  clu_timer_init(&p->deadline, peer_time_is_up, p);
  clu_timer_arm(a->loop, &p->deadline, p->hs.deadline);
  peer_write(p);
  if (clu_loop_watch(a->loop, fd, CLU_READ, peer_ready, p, &p->watch, NULL) == CLU_OK)
    peer_settle(p);
  else
    peer_close(p);
}

/* ---- the listener ---- */

static void listener_pause(clu_acceptor *a) {
  clu_loop_interest(a->loop, a->watch, 0, NULL);
  clu_timer_arm(a->loop, &a->resume, clu_os_now() + PAUSE_NS);
}

static void listener_resume(void *self) {
  clu_acceptor *a = self;
  if (clu_loop_interest(a->loop, a->watch, CLU_READ, NULL) != CLU_OK) listener_pause(a);
}

static void listener_ready(void *self, unsigned ready) {
  clu_acceptor *a = self;
  (void)ready;
  for (int k = 0; k < ACCEPTS_A_TURN; k++) {
    clu_fd fd;
    int rc;
    if (!has_place(a)) {
      listener_pause(a);
      return;
    }
    rc = clu_os_accept(a->fd, &fd, NULL, NULL);
    if (rc == CLU_AGAIN) return;
    if (rc != CLU_OK) { /* it stays readable: asked again at once it would spin */
      a->seen.pauses++;
      listener_pause(a);
      return;
    }
    add_peer(a, fd);
  }
}

static void poll_processes(void *self) {
  clu_acceptor *a = self;
  for (int i = 0; i < a->n; i++)
    if (clu_node_is_starting(a->nodes[i].nd)) clu_node_check(a->nodes[i].nd);
  if (clu_acceptor_missing(a)) clu_timer_arm(a->loop, &a->poll, clu_os_now() + POLL_EVERY_NS);
}

/* ---- what others call ---- */

static int listen_at(clu_acceptor *a, const clu_addr *at, int backlog, int *granted, int *port,
                     clu_err *e) {
  clu_listen how = {0, 0, 0};
  clu_addr local;
  char host[CLU_ADDR_TEXT];
  int rc;
  how.backlog = backlog;
  if ((rc = clu_os_listen(at, &how, &a->fd, granted, e)) != CLU_OK) return rc;
  clu_os_move_high(&a->fd, 1024);
  if ((rc = clu_os_local_addr(a->fd, &local)) != CLU_OK) return rc;
  *port = clu_os_addr_host(&local, host, sizeof host);
  return clu_loop_watch(a->loop, a->fd, CLU_READ, listener_ready, a, &a->watch, e);
}

int clu_acceptor_open(clu_session *s, const clu_addr *at, int backlog, const unsigned char *secret,
                      clu_acceptor **out, int *granted, int *port, clu_err *e) {
  clu_acceptor *a = calloc(1, sizeof *a);
  int rc;
  if (!a) return clu_fail(e, CLU_NOMEM, 0, "not enough memory");
  a->loop = clu_session_loop(s);
  a->fd = CLU_NO_FD;
  clu_timer_init(&a->resume, listener_resume, a);
  clu_timer_init(&a->poll, poll_processes, a);
  clu_timer_init(&a->sweep, sweep, a);
  if (secret) memcpy(a->secret, secret, sizeof a->secret);
  if ((!secret && clu_os_secret_bytes(a->secret, sizeof a->secret) != CLU_OK) ||
      clu_os_secret_bytes(&a->cluster, sizeof a->cluster) != CLU_OK)
    rc = clu_fail(e, CLU_SYS, 0, "the system gives no random bytes");
  else
    rc = listen_at(a, at, backlog, granted, port, e);
  if (rc != CLU_OK) {
    clu_acceptor_free(a);
    return rc;
  }
  *out = a;
  return CLU_OK;
}

const unsigned char *clu_acceptor_secret(const clu_acceptor *a) { return a->secret; }

int clu_acceptor_expect(clu_acceptor *a, clu_node *nd, int rank, clu_blob *settings) {
  expected *more = clu_grow(a->nodes, &a->cap, (size_t)a->n + 1, sizeof *more);
  if (!more) return CLU_NOMEM;
  a->nodes = more;
  a->nodes[a->n].nd = nd;
  a->nodes[a->n].rank = rank;
  a->nodes[a->n++].settings = settings ? clu_blob_ref(settings) : NULL;
  clu_timer_arm_by(a->loop, &a->poll, clu_os_now() + POLL_EVERY_NS);
  return CLU_OK;
}

int clu_acceptor_missing(const clu_acceptor *a) {
  int n = 0;
  for (int i = 0; i < a->n; i++) n += clu_node_is_starting(a->nodes[i].nd);
  return n;
}

void clu_acceptor_report_to(const clu_acceptor *a, clu_acceptor_report *out) { *out = a->seen; }

void clu_acceptor_free(clu_acceptor *a) {
  if (!a) return;
  for (peer *p = a->first; p; p = p->next) peer_close(p);
  sweep(a);
  clu_timer_cancel(&a->resume);
  clu_timer_cancel(&a->poll);
  clu_timer_cancel(&a->sweep);
  clu_loop_unwatch(a->loop, &a->watch);
  if (a->fd != CLU_NO_FD) clu_os_close(a->fd);
  for (int i = 0; i < a->n; i++) clu_blob_unref(a->nodes[i].settings);
  free(a->nodes);
  clu_os_wipe(a->secret, sizeof a->secret);
  free(a);
}
