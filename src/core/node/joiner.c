#include "core/node/joiner.h"

#include <string.h>

#include "core/base/deadline.h"
#include "core/net/happy-eyeballs.h"
#include "core/net/resolve.h"

#define MS 1000000u
#define SLICE (100 * MS)
#define REFUSED_NS (2000ull * MS) /* nobody has listened: there is no session any more */

/* How a try ended. */
enum { JOINED, AGAIN, NEVER };

typedef struct try_state {
  const clu_join *j;
  clu_err *e;
  uint64_t until; /* of this try */
} try_state;

static int go_on(const try_state *t) {
  return (!t->j->go_on || t->j->go_on())
             ? 1
             : (clu_fail(t->e, CLU_CANCELLED, 0, "the session that started this node has ended"),
                0);
}

/* Returns what is left of the time until `until`, a slice at most; 0: nothing. */
static int64_t slice(uint64_t until) { return clu_deadline_left(until, clu_os_now(), SLICE); }

static int wait_for(const try_state *t, clu_fd fd, unsigned want, uint64_t until) {
  clu_watch w;
  int n = 0;
  int64_t left;
  w.fd = fd;
  w.want = want;
  while ((left = slice(until)) > 0) {
    if (!go_on(t)) return NEVER;
    if (clu_os_poll(&w, 1, left, &n, NULL) == CLU_OK && n > 0) return JOINED;
  }
  /* this process may have been stopped meanwhile */
  return clu_os_poll(&w, 1, 0, &n, NULL) == CLU_OK && n > 0 ? JOINED : AGAIN;
}

static int connect_once(const try_state *t, clu_fd *fd) {
  clu_resolve *r = clu_resolve_start(t->j->host, t->j->port, t->e);
  clu_connector *c;
  clu_addr to[CLU_MAX_ADDRS];
  int n = 0, rc = CLU_DNS;
  int64_t left = 1;
  if (!r) return NEVER;
  while (left > 0 && (rc = clu_resolve_wait(r, left = slice(t->until), to, &n, t->e)) == CLU_AGAIN)
    if (!go_on(t)) break;
  clu_resolve_free(r);
  if (rc != CLU_OK) return t->e->code == CLU_CANCELLED ? NEVER : AGAIN;
  c = clu_connector_new(to, n, 0, 0, t->e);
  if (!c) return NEVER;
  do {
    left = slice(t->until);
    rc = clu_connector_step(c, left, fd, NULL, t->e);
    if (rc == CLU_AGAIN && !go_on(t)) {
      clu_connector_free(c);
      return NEVER;
    }
  } while (rc == CLU_AGAIN && left > 0);
  clu_connector_free(c);
  if (rc == CLU_AGAIN && !t->e->code)
    clu_fail(t->e, CLU_TIMEOUT, 0, "nobody answers at %s, port %d", t->j->host, t->j->port);
  return rc == CLU_OK ? JOINED : AGAIN;
}

static int shake_hands(const try_state *t, clu_fd fd) {
  unsigned char nonce[CLU_NONCE];
  clu_hs r;
  if (clu_os_secret_bytes(nonce, sizeof nonce) != CLU_OK) {
    clu_fail(t->e, CLU_SYS, 0, "the system gives no random bytes");
    return NEVER;
  }
  clu_hs_node(&r, t->j->secret, nonce, t->j->rank, (uint64_t)clu_os_getpid(), t->j->r_version,
              t->until);
  while (r.state != CLU_HS_FAILED && !(r.state == CLU_HS_DONE && r.out_left == 0)) {
    unsigned char bytes[CLU_HS_HELLO > CLU_HS_VERDICT ? CLU_HS_HELLO : CLU_HS_VERDICT];
    clu_iov iov;
    size_t done = 0;
    int rc, writing = r.out_left > 0, w;
    iov.base = writing ? (void *)(uintptr_t)r.out : bytes;
    iov.len = writing ? r.out_left : clu_hs_want(&r);
    rc = writing ? clu_os_writev(fd, &iov, 1, NULL, 0, &done)
                 : clu_os_readv(fd, &iov, 1, &done, NULL, NULL);
    if (rc == CLU_OK && writing)
      clu_hs_written(&r, done);
    else if (rc == CLU_OK)
      clu_hs_feed(&r, bytes, done);
    else if (rc != CLU_AGAIN) {
      if (r.state == CLU_HS_DONE) r.state = CLU_HS_UNDER_WAY; /* its CONFIRM has not left */
      clu_hs_closed(&r);
    } else if ((w = wait_for(t, fd, writing ? CLU_WRITE : CLU_READ, t->until)) == NEVER)
      return NEVER;
    else if (w == AGAIN)
      clu_hs_time(&r, UINT64_MAX - 1);
  }
  if (r.state == CLU_HS_DONE) return JOINED;
  if (r.why == CLU_HS_REFUSED) {
    clu_fail(t->e, CLU_PROTO, 0, "the session does not want this node: %s",
             clu_hs_verdict_text(r.verdict));
    return NEVER;
  }
  clu_fail(t->e, CLU_TIMEOUT, 0, "who listens at %s, port %d, %s", t->j->host, t->j->port,
           clu_hs_why_text(r.why));
  return AGAIN;
}

/* The session is who it is: it has time until the end. */
static int get_settings(const try_state *t, clu_chan *c, clu_msg *settings) {
  for (;;) {
    int rc = clu_chan_fill(c), r = clu_chan_next(c, settings), w;
    if (r == 1 && settings->kind == CLU_K_SETTINGS) return JOINED;
    if (r == 1) clu_blob_unref(settings->body);
    if (r == 1 && settings->kind == CLU_K_DONE) {
      clu_fail(t->e, CLU_CANCELLED, 0, "the session has ended the cluster");
      return NEVER;
    }
    if (r < 0 || (rc != CLU_OK && rc != CLU_AGAIN)) {
      clu_fail(t->e, CLU_TIMEOUT, 0,
               "the connection to the session broke before the settings had come");
      return AGAIN;
    }
    if (rc == CLU_AGAIN && (w = wait_for(t, c->fd, CLU_READ, t->j->deadline)) != JOINED) {
      if (w == AGAIN) clu_fail(t->e, CLU_TIMEOUT, 0, "the session sent no settings in time");
      return w;
    }
  }
}

static int try_once(const try_state *t, clu_chan *c, clu_msg *settings) {
  clu_fd fd = CLU_NO_FD;
  int how = connect_once(t, &fd);
  if (how != JOINED) return how;
  clu_os_sockopt_set(fd, CLU_OPT_NODELAY, 1);
  clu_os_sockopt_set(fd, CLU_OPT_KEEPALIVE, 1);
  if ((how = shake_hands(t, fd)) != JOINED) {
    clu_os_close(fd);
    return how;
  }
  if (clu_chan_init(c, fd, INT64_MAX, 0) != CLU_OK) {
    clu_chan_fini(c);
    clu_fail(t->e, CLU_NOMEM, 0, "not enough memory");
    return NEVER;
  }
  if ((how = get_settings(t, c, settings)) != JOINED) clu_chan_fini(c);
  return how;
}

int clu_join_cluster(const clu_join *j, clu_chan *c, clu_msg *settings, clu_err *e) {
  uint64_t patience = 1200 * MS, pause = 100 * MS, refused = 0;
  clu_err last = {0, 0, ""};
  for (;;) {
    try_state t;
    uint64_t now = clu_os_now(), until;
    int how;
    memset(&last, 0, sizeof last);
    t.j = j;
    t.e = &last;
    t.until = now + patience < j->deadline ? now + patience : j->deadline;
    how = try_once(&t, c, settings);
    if (how == JOINED) return CLU_OK;
    if (how == NEVER) break;
    if (last.code != CLU_REFUSED)
      refused = 0;
    else if (!refused)
      refused = now;
    else if (clu_os_now() - refused > REFUSED_NS)
      break;
    patience += 200 * MS;
    until = clu_os_now() + pause;
    if (pause < 2000 * MS)
      pause += pause / 2; /* a session that is late is not to wait long for it */
    while (slice(until) > 0 && go_on(&t)) clu_os_pause((uint64_t)slice(until));
    if (last.code == CLU_CANCELLED) break;
    if (clu_os_now() >= j->deadline) {
      last.code = CLU_TIMEOUT;
      break;
    }
  }
  if (e) *e = last;
  return last.code ? last.code : CLU_SYS;
}
