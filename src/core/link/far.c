#include "core/link/far.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/deadline.h"
#include "core/link/proxy.h"
#include "core/link/shake.h"
#include "core/net/resolve.h"
#include "core/net/tls.h"

#define MS 1000000ull
#define FIRST_PAUSE (100 * MS)
#define LONGEST_PAUSE (5000 * MS)
#define TRY_NS (5000 * MS)       /* for one connection, with its handshake */
#define FIRST_TRY_NS (1000 * MS) /* the same, where it is not known which address is of use */
#define END_NS (2000 * MS)       /* for the fork server's end */
#define LAST_WORDS (500 * MS)
#define STARTER_NS (200 * MS) /* until it is looked again whether who has started this is there */
enum { MOST = 4 * CLU_MAX_ADDRS };

typedef struct far {
  const clu_far_options *how;
  clu_loop loop;
  clu_proxy *proxy;
  clu_tls_keys *keys;
  clu_addr to[MOST];
  int n, next;
  int good; /* the address that it was connected to; -1: none yet */
  /* a connection under way */
  clu_fd fd;
  clu_shake shake;
  clu_watch_id watch;
  clu_timer again;   /* the next try, or the end of this one */
  clu_timer starter; /* armed until there was a connection */
  uint64_t pause, try_ns;
  uint64_t until; /* it gives up */
  clu_fd signals;
  clu_watch_id told;
  uint64_t leave_by; /* it was told to end; 0: it was not */
  int ended;
  clu_err *e;
} far;

static void try_now(far *f);

/* ---- connecting ---- */

static uint64_t jittered(uint64_t ns) {
  uint32_t x = 0;
  clu_os_random(&x, sizeof x);
  return ns / 2 + (uint64_t)((double)ns * (x / 4294967296.0));
}

static void close_try(far *f) {
  clu_loop_unwatch(&f->loop, &f->watch);
  if (f->shake.conn)
    clu_shake_drop(&f->shake);
  else if (f->fd != CLU_NO_FD)
    clu_os_close(f->fd);
  f->fd = CLU_NO_FD;
}

static void end(far *f, int code, const char *why) {
  if (!f->ended && code != CLU_OK) clu_fail(f->e, code, 0, "%s", why);
  f->ended = 1;
}

static void failed(far *f, int code) {
  uint64_t now = clu_os_now();
  close_try(f);
  if (code == CLU_REFUSED && f->good >= 0 && f->next == f->good) {
    end(f, CLU_DEAD, "nobody listens for it any more: the session has ended");
    return;
  }
  if (now >= f->until) {
    if (!f->e->code) clu_fail(f->e, CLU_TIMEOUT, 0, "the session does not answer");
    f->ended = 1;
    return;
  }
  /* all addresses at once; then a pause */
  f->next = (f->next + 1) % f->n;
  if (f->next == (f->good < 0 ? 0 : f->good)) {
    uint64_t then = now + jittered(f->pause);
    f->try_ns = 2 * f->try_ns < TRY_NS ? 2 * f->try_ns : TRY_NS;
    clu_timer_arm(&f->loop, &f->again, then < f->until ? then : f->until);
    f->pause = 2 * f->pause < LONGEST_PAUSE ? 2 * f->pause : LONGEST_PAUSE;
  } else {
    clu_timer_arm(&f->loop, &f->again, now);
  }
}

static void connected(far *f) {
  clu_conn *conn = f->shake.conn;
  clu_loop_unwatch(&f->loop, &f->watch);
  clu_timer_cancel(&f->again);
  clu_timer_cancel(&f->starter);
  f->shake.conn = NULL;
  f->fd = CLU_NO_FD;
  f->good = f->next;
  f->until = UINT64_MAX; /* look() sees a cut, too, that comes before its first turn */
  f->pause = FIRST_PAUSE;
  f->try_ns = TRY_NS;
  f->e->code = CLU_OK;
  clu_proxy_connect(f->proxy, conn);
}

/* By the session, which has proven itself. */
static void refused(far *f, int verdict) {
  const char *why = clu_hs_verdict_text(verdict);
  if (verdict != CLU_HS_NOT_YET) {
    end(f, CLU_PROTO, why);
    return;
  }
  clu_fail(f->e, CLU_TIMEOUT, 0, "%s", why);
  failed(f, CLU_AGAIN);
}

static void shaking_ready(void *self, unsigned ready) {
  far *f = self;
  int rc = clu_shake_step(&f->shake, NULL, NULL);
  (void)ready;
  if (rc == CLU_OK) {
    connected(f);
  } else if (rc == CLU_AGAIN) {
    clu_loop_interest(&f->loop, f->watch, clu_shake_wants(&f->shake), NULL);
  } else if (f->shake.hs.state == CLU_HS_FAILED && f->shake.hs.why == CLU_HS_REFUSED) {
    refused(f, f->shake.hs.verdict);
  } else {
    char why[200];
    const clu_hs *hs = &f->shake.hs;
    clu_hs_explain(hs, why, sizeof why);
    clu_fail(f->e, rc, 0, "who listens at the session's address %s",
             hs->state == CLU_HS_FAILED ? why : f->shake.conn->err.text);
    if (hs->state == CLU_HS_FAILED && hs->why == CLU_HS_VERSION_DIFFERS)
      f->ended = 1; /* it will not be another one later */
    else
      failed(f, CLU_AGAIN);
  }
}

static clu_conn *conn_of(far *f) {
  clu_conn *conn = NULL;
  if (!f->keys) return clu_conn_plain(f->fd);
  return clu_conn_tls_client(f->fd, f->keys, &conn, f->e) == CLU_OK ? conn : NULL;
}

static void shake(far *f) {
  unsigned char nonce[CLU_NONCE];
  const clu_far_options *how = f->how;
  clu_loop_unwatch(&f->loop, &f->watch);
  clu_os_sockopt_set(f->fd, CLU_OPT_NODELAY, 1);
  f->shake.encrypted = 0;
  f->shake.conn = conn_of(f);
  if (!f->shake.conn || clu_os_secret_bytes(nonce, sizeof nonce) != CLU_OK ||
      clu_loop_watch(&f->loop, f->fd, CLU_READ | CLU_WRITE, shaking_ready, f, &f->watch, f->e) !=
          CLU_OK) {
    failed(f, CLU_NOMEM);
    return;
  }
  clu_hs_node(&f->shake.hs, how->secret, nonce, how->rank, (uint64_t)clu_os_getpid(),
              how->r_version, clu_os_now() + TRY_NS);
}

static void connecting_ready(void *self, unsigned ready) {
  far *f = self;
  int rc = clu_os_connect_finish(f->fd, &f->to[f->next], f->e);
  (void)ready;
  if (rc == CLU_OK)
    shake(f);
  else if (rc != CLU_AGAIN)
    failed(f, rc);
}

static void time_is_up(void *self) {
  far *f = self;
  if (f->leave_by) return; /* see look() */
  if (f->fd == CLU_NO_FD) {
    try_now(f);
    return;
  }
  clu_fail(f->e, CLU_TIMEOUT, 0, "nobody answers at the session's address");
  failed(f, CLU_TIMEOUT);
}

static void try_now(far *f) {
  uint64_t end_of_try;
  int rc;
  if (f->ended || f->fd != CLU_NO_FD) return;
  rc = clu_os_connect_start(&f->to[f->next], 0, 0, &f->fd, f->e);
  if (rc != CLU_OK && rc != CLU_AGAIN) {
    f->fd = CLU_NO_FD;
    failed(f, rc);
    return;
  }
  end_of_try = clu_os_now() + f->try_ns;
  clu_timer_arm(&f->loop, &f->again, end_of_try < f->until ? end_of_try : f->until);
  if (rc == CLU_OK)
    shake(f);
  else if (clu_loop_watch(&f->loop, f->fd, CLU_WRITE, connecting_ready, f, &f->watch, f->e) !=
           CLU_OK)
    failed(f, CLU_SYS);
}

/* The one who has started this process may have given up, and can tell it by nothing else. */
static void look_for_starter(void *self) {
  far *f = self;
  if (clu_os_reader_has_gone(f->how->starter))
    end(f, CLU_DEAD, "who has started it has gone");
  else
    clu_timer_arm(&f->loop, &f->starter, clu_os_now() + STARTER_NS);
}

/* All addresses of all names. */
static int resolve(far *f, uint64_t until) {
  int rc = CLU_DNS;
  for (int i = 0; i < f->how->nhosts && f->n < MOST; i++) {
    clu_addr found[CLU_MAX_ADDRS];
    int n = 0;
    int64_t left = clu_deadline_left(until, clu_os_now(), 10000 * (int64_t)MS);
    int one = clu_resolve_now(f->how->hosts[i], f->how->port, left, found, &n, f->e);
    if (one != CLU_OK) continue;
    rc = CLU_OK;
    for (int k = 0; k < n && f->n < MOST; k++) f->to[f->n++] = found[k];
  }
  if (rc == CLU_OK) f->e->code = CLU_OK;
  return rc;
}

/* ---- its life ---- */

/* By CLU_SIG_TERM, as from who manages this host: a connection that just ended would look like a
 * cut. */
static void told_to_end(void *self, unsigned ready) {
  far *f = self;
  int term = 0;
  (void)ready;
  clu_os_watch_clear(&term);
  if (!term || f->leave_by) return;
  f->leave_by = clu_os_now() + LAST_WORDS;
  clu_proxy_say_bye(f->proxy, CLU_FAR_TOLD);
  clu_timer_arm(&f->loop, &f->again, f->leave_by);
}

static int watch_signals(far *f) {
  int rc = clu_os_watch_start(&f->signals, f->e);
  if (rc == CLU_OK)
    return clu_loop_watch(&f->loop, f->signals, CLU_READ, told_to_end, f, &f->told, f->e);
  f->signals = CLU_NO_FD;
  return rc;
}

/* Tells whether the session, or the fork server, has ended. */
static void look(far *f) {
  clu_proxy_status st;
  if (clu_proxy_turn(f->proxy) != CLU_OK) {
    clu_proxy_status_of(f->proxy, &st);
    end(f, CLU_PROTO, st.why);
    return;
  }
  clu_proxy_status_of(f->proxy, &st);
  if (f->leave_by && (!st.connected || st.has_said_bye || clu_os_now() >= f->leave_by)) {
    end(f, CLU_DEAD, CLU_FAR_TOLD);
    return;
  }
  if (st.state == CLU_PROXY_ENDED) {
    if (!clu_proxy_is_behind(f->proxy) || !st.connected) end(f, CLU_OK, NULL);
    return;
  }
  if (!st.connected && f->until == UINT64_MAX) { /* it was cut just now */
    f->until = clu_deadline_after(clu_os_now(), (int64_t)f->how->reconnect);
    f->next = f->good;
    try_now(f);
  }
}

/* Its own end may be why this one ends. */
static void tell_server_end(const far *f, const clu_exit *how) {
  if (f->e->code != CLU_OK) return;
  if (how->by_signal)
    clu_fail(f->e, CLU_DEAD, 0, "its fork server was killed by signal %d", how->code);
  else if (how->code)
    clu_fail(f->e, CLU_DEAD, 0, "its fork server ended with exit status %d", how->code);
}

/* The fork server ends because its channel has. It is killed when it does not. */
static void end_server(const far *f) {
  uint64_t until = clu_os_now() + END_NS;
  clu_exit how = {0, 0};
  int rc;
  while ((rc = clu_os_reap(f->how->server, 0, &how)) == CLU_AGAIN) {
    if (clu_os_now() > until) {
      clu_os_kill(f->how->server, CLU_SIG_KILL, 0); /* its nodes follow it */
      until = UINT64_MAX;
    }
    clu_os_pause(5 * MS);
  }
  if (rc == CLU_OK && until != UINT64_MAX) tell_server_end(f, &how);
}

int clu_far_serve(const clu_far_options *how, clu_err *e) {
  clu_proxy_options options = {.beat = how->beat};
  clu_err unused = {0, 0, ""};
  far f;
  int rc;
  memset(&f, 0, sizeof f);
  f.how = how;
  f.e = e ? e : &unused;
  f.e->code = CLU_OK;
  clu_proxy_raise_fds();
  f.fd = CLU_NO_FD;
  f.good = -1;
  f.pause = FIRST_PAUSE;
  f.try_ns = FIRST_TRY_NS;
  f.signals = CLU_NO_FD;
  f.until = clu_deadline_after(clu_os_now(), (int64_t)how->connect);
  clu_timer_init(&f.again, time_is_up, &f);
  clu_timer_init(&f.starter, look_for_starter, &f);
  rc = clu_loop_init(&f.loop, f.e);
  if (rc == CLU_OK && !(f.proxy = clu_proxy_new(&f.loop, &options)))
    rc = clu_fail(f.e, CLU_NOMEM, 0, "not enough memory");
  if (rc != CLU_OK)
    clu_os_close(how->control);
  else if (clu_proxy_control(f.proxy, how->control) != CLU_OK)
    rc = clu_fail(f.e, CLU_NOMEM, 0, "not enough memory");
  if (rc == CLU_OK) rc = watch_signals(&f);
  if (rc == CLU_OK && how->own) rc = clu_tls_keys_new(how->own, how->certificate, &f.keys, f.e);
  if (rc == CLU_OK) rc = resolve(&f, f.until);
  if (rc == CLU_OK && how->starter != CLU_NO_FD) look_for_starter(&f);
  if (rc == CLU_OK) try_now(&f);
  while (rc == CLU_OK && !f.ended) {
    look(&f);
    if (!f.ended) rc = clu_loop_pump(&f.loop, -1, f.e);
  }
  clu_timer_cancel(&f.again);
  clu_timer_cancel(&f.starter);
  if (f.signals != CLU_NO_FD) clu_loop_unwatch(&f.loop, &f.told);
  close_try(&f);
  clu_proxy_free(f.proxy);
  clu_tls_keys_free(f.keys);
  end_server(&f);
  if (f.signals != CLU_NO_FD) clu_os_watch_end();
  clu_loop_fini(&f.loop);
  return rc != CLU_OK ? rc : f.e->code;
}
