#include "core/link/near.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/deadline.h"
#include "core/link/proxy.h"
#include "core/link/shake.h"
#include "core/link/views.h"
#include "core/net/tls.h"
#include "core/loop/channel-watch.h"

#define PENDING_NS 10000000000u
#define LAST_WORDS 1000000000u
#define PAUSE_NS 50000000u /* of the listener, when there is no descriptor */
enum { LISTEN_BYTES = CLU_SECRET + 24, ASKED = 64, ASKED_PARTS = 8 };

typedef struct near near;

typedef struct peer {
  struct peer *next;
  near *n;
  clu_shake shake; /* conn NULL: it has left, and is freed at the end of the turn */
  clu_watch_id watch;
  clu_timer deadline;
} peer;

typedef struct host {
  struct host *next;
  near *n;
  uint32_t rank;
  uint64_t pid; /* of its proxy; 0: it has not connected */
  clu_proxy *proxy;
  int state;      /* told to the session */
  uint64_t since; /* it has that state */
  char gone[200]; /* why the session knows that nothing is left there; "": it does not */
  clu_timer given_up;
  clu_near_shown shown;
  struct host *due; /* the next of those whose proxy has something to do */
  int is_due;
} host;

struct near {
  clu_loop loop;
  clu_chan chan;
  clu_watch_id session;
  clu_fd listener;
  clu_watch_id watch;
  clu_timer resume; /* armed while the listener is paused */
  unsigned char secret[CLU_SECRET];
  uint64_t cluster, beat, reconnect;
  clu_tls_keys *keys; /* NULL: connections are not encrypted */
  peer *peers;
  int npeers;
  host *hosts, *due;
  int nhosts;
  clu_near_views views;
  unsigned asked; /* how often hosts were asked what they use */
  int ended;
};

static host *find(const near *n, uint64_t rank) {
  host *h = n->hosts;
  while (h && h->rank != rank) h = h->next;
  return h;
}

/* ---- what the session is told ---- */

static void tell(near *n, const host *h, const clu_proxy_status *st) {
  unsigned char body[33 + 256];
  size_t text = strlen(st->why);
  body[0] = (unsigned char)st->state;
  clu_put64(body + 1, st->bytes_in);
  clu_put64(body + 9, st->bytes_out);
  clu_put64(body + 17, st->cuts);
  clu_put64(body + 25, h->since);
  memcpy(body + 33, st->why, text);
  clu_chan_send_bytes(&n->chan, CLU_K_HOST_STATE, h->rank, body, 33 + text, CLU_NO_FD);
}

/* It was cut off, or has ended a while ago. */
static void give_up(void *self) {
  host *h = self;
  clu_proxy_status st;
  clu_proxy_status_of(h->proxy, &st);
  st.state = CLU_PROXY_ENDED;
  if (h->state == CLU_PROXY_CUT) {
    st.why = *h->gone ? h->gone : "it was cut off for too long";
    h->since = clu_os_now();
  }
  h->state = CLU_PROXY_ENDED;
  tell(h->n, h, &st);
  clu_proxy_free(h->proxy);
  h->proxy = NULL;
}

static void is_due(void *self) {
  host *h = self;
  if (h->is_due) return;
  h->is_due = 1;
  h->due = h->n->due;
  h->n->due = h;
}

static void host_turn(near *n, host *h) {
  clu_proxy_status st;
  if (!h->proxy) return;
  clu_proxy_turn(h->proxy);
  clu_proxy_status_of(h->proxy, &st);
  if (st.state == h->state) return;
  h->state = st.state;
  h->since = clu_os_now();
  tell(n, h, &st);
  if (st.state == CLU_PROXY_UP)
    clu_timer_cancel(&h->given_up);
  else if (st.state == CLU_PROXY_CUT && *h->gone)
    give_up(h);
  else if (st.state == CLU_PROXY_CUT)
    clu_timer_arm(&n->loop, &h->given_up, clu_deadline_after(clu_os_now(), (int64_t)n->reconnect));
  else if (st.state == CLU_PROXY_ENDED) /* what it has to hear still leaves */
    clu_timer_arm(&n->loop, &h->given_up, clu_os_now() + LAST_WORDS);
}

/* ---- what observers are told ---- */

static void show_host(const near *n, const host *h) {
  clu_proxy_status st = {.state = CLU_PROXY_ENDED};
  if (h->proxy) clu_proxy_status_of(h->proxy, &st);
  clu_near_show_state(&n->views, &h->shown, st.state, st.bytes_in, st.bytes_out);
}

static void host_uses(void *self, const clu_proxy_use *u) {
  host *h = self;
  clu_near_show_use(&h->n->views, &h->shown, h->rank, u, clu_os_now());
  show_host(h->n, h);
}

static void host_stack(void *self, const clu_proxy_stack *x) {
  host *h = self;
  clu_near_show_stack(&h->n->views, &h->shown, x, clu_os_now());
}

/* Asks a part of many hosts each time. */
static void ask_hosts(void *self, uint64_t now) {
  near *n = self;
  int parts = n->nhosts <= ASKED ? 1 : ASKED_PARTS, k = 0;
  n->asked++;
  for (host *h = n->hosts; h; h = h->next) {
    show_host(n, h);
    if (h->proxy && (unsigned)k++ % (unsigned)parts == n->asked % (unsigned)parts)
      clu_proxy_ask_use(h->proxy, now);
  }
}

static void ask_stack(void *self, uint64_t number, uint64_t id, uint32_t question) {
  host *h = find(self, number);
  if (h && h->proxy) clu_proxy_ask_stack(h->proxy, id, question);
}

/* An empty message has no descriptor: one that has come already is the next message's. */
static void take_view(near *n, const clu_msg *m) {
  uint64_t size = m->body && m->body->size == 8 ? clu_get64(m->body->data) : 0;
  clu_fd fd = m->body ? clu_chan_take_fd(&n->chan) : CLU_NO_FD;
  clu_near_views_take(&n->views, m->seq, fd, size);
}

/* ---- peers ---- */

/* The session says that there is a host, and starts it. That host may be quicker than what was
 * said: of a number that is not known it has to ask again. */
static int admit(void *data, const clu_hs *hs) {
  host *h = find(data, hs->rank);
  if (!h) return CLU_HS_NOT_YET;
  if (!h->proxy || h->state == CLU_PROXY_ENDED) return CLU_HS_NO_SUCH_RANK;
  return h->pid && h->pid != hs->pid ? CLU_HS_RANK_TAKEN : CLU_HS_ADMITTED;
}

static void peer_leaves(peer *p) {
  clu_timer_cancel(&p->deadline);
  clu_loop_unwatch(&p->n->loop, &p->watch);
  clu_shake_drop(&p->shake);
}

static void sweep_peers(near *n) {
  peer **at = &n->peers, *p;
  while ((p = *at)) {
    if (p->shake.conn) {
      at = &p->next;
      continue;
    }
    *at = p->next;
    n->npeers--;
    free(p);
  }
}

static void peer_ready(void *self, unsigned ready) {
  peer *p = self;
  near *n = p->n;
  host *h;
  int rc = clu_shake_step(&p->shake, admit, n);
  (void)ready;
  if (rc == CLU_AGAIN) {
    clu_loop_interest(&n->loop, p->watch, clu_shake_wants(&p->shake), NULL);
    return;
  }
  h = rc == CLU_OK ? find(n, p->shake.hs.rank) : NULL;
  if (h && h->proxy && admit(n, &p->shake.hs) == CLU_HS_ADMITTED) {
    clu_conn *conn = p->shake.conn;
    clu_loop_unwatch(&n->loop, &p->watch);
    p->shake.conn = NULL;
    h->pid = p->shake.hs.pid;
    clu_proxy_connect(h->proxy, conn);
  }
  peer_leaves(p);
}

static void peer_time_is_up(void *self) { peer_leaves(self); }

static clu_conn *conn_of(const near *n, clu_fd fd) {
  clu_conn *conn = NULL;
  if (!n->keys) return clu_conn_plain(fd);
  return clu_conn_tls_server(fd, n->keys, &conn, NULL) == CLU_OK ? conn : NULL;
}

static void add_peer(near *n, clu_fd fd) {
  unsigned char nonce[CLU_NONCE];
  peer *p = calloc(1, sizeof *p);
  clu_conn *conn = p ? conn_of(n, fd) : NULL;
  if (!conn) {
    free(p);
    clu_os_close(fd);
    return;
  }
  p->n = n;
  p->shake.conn = conn;
  p->next = n->peers;
  n->peers = p;
  n->npeers++;
  clu_os_sockopt_set(fd, CLU_OPT_NODELAY, 1);
  clu_timer_init(&p->deadline, peer_time_is_up, p);
  if (clu_os_secret_bytes(nonce, sizeof nonce) != CLU_OK ||
      clu_loop_watch(&n->loop, fd, CLU_READ | CLU_WRITE, peer_ready, p, &p->watch, NULL) !=
          CLU_OK) {
    peer_leaves(p);
    return;
  }
  clu_timer_arm(&n->loop, &p->deadline, clu_os_now() + PENDING_NS);
  clu_hs_session(&p->shake.hs, n->secret, nonce, n->cluster, clu_os_now() + PENDING_NS);
}

/* The one that came first and has proven nothing makes room. 0: all have. */
static int make_room(near *n) {
  peer *oldest = NULL;
  if (n->npeers < CLU_NEAR_PENDING) return 1;
  for (peer *p = n->peers; p; p = p->next)
    if (p->shake.conn && !clu_hs_is_proven(&p->shake.hs)) oldest = p;
  if (oldest) peer_leaves(oldest);
  return oldest != NULL;
}

static void listener_pause(near *n) {
  clu_loop_interest(&n->loop, n->watch, 0, NULL);
  clu_timer_arm(&n->loop, &n->resume, clu_os_now() + PAUSE_NS);
}

static void listener_resume(void *self) {
  near *n = self;
  if (clu_loop_interest(&n->loop, n->watch, CLU_READ, NULL) != CLU_OK) listener_pause(n);
}

static void listener_ready(void *self, unsigned ready) {
  near *n = self;
  (void)ready;
  for (int k = 0; k < 16; k++) {
    clu_fd fd;
    int rc = clu_os_accept(n->listener, &fd, NULL, NULL);
    if (rc == CLU_AGAIN) return;
    if (rc != CLU_OK) { /* it stays readable: asked again at once it would spin */
      listener_pause(n);
      return;
    }
    if (make_room(n))
      add_peer(n, fd);
    else
      clu_os_close(fd);
  }
}

/* ---- what the session says ---- */

/* Behind the numbers: this side's texts and the certificate of the other, each with its 0. */
static int take_keys(near *n, const unsigned char *p, size_t size) {
  const char *own = (const char *)p;
  size_t k;
  if (size == 0) return CLU_OK;
  if (p[size - 1] != 0) return CLU_PROTO;
  k = strlen(own);
  if (k + 1 >= size) return CLU_PROTO;
  return clu_tls_keys_new(own, own + k + 1, &n->keys, NULL);
}

/* A message that cannot be used ends this process, which the session sees. */
static void listen_there(near *n, const clu_msg *m) {
  clu_fd fd = clu_chan_take_fd(&n->chan);
  const unsigned char *p = m->body ? m->body->data : NULL;
  if (fd == CLU_NO_FD || !p || m->body->size < LISTEN_BYTES || n->listener != CLU_NO_FD ||
      take_keys(n, p + LISTEN_BYTES, m->body->size - LISTEN_BYTES) != CLU_OK) {
    if (fd != CLU_NO_FD) clu_os_close(fd);
    n->ended = 1;
    return;
  }
  memcpy(n->secret, p, CLU_SECRET);
  n->cluster = clu_get64(p + CLU_SECRET);
  n->beat = clu_get64(p + CLU_SECRET + 8);
  n->reconnect = clu_get64(p + CLU_SECRET + 16);
  n->listener = fd;
  if (clu_loop_watch(&n->loop, fd, CLU_READ, listener_ready, n, &n->watch, NULL) != CLU_OK)
    n->ended = 1;
}

/* Where it cannot be had its channel closes, which the session sees. */
static void add_host(near *n, const clu_msg *m) {
  clu_proxy_options how;
  clu_fd fd = clu_chan_take_fd(&n->chan);
  host *h = fd == CLU_NO_FD || find(n, m->seq) ? NULL : calloc(1, sizeof *h);
  if (!h) {
    if (fd != CLU_NO_FD) clu_os_close(fd);
    return;
  }
  memset(&how, 0, sizeof how);
  how.near = 1;
  how.beat = n->beat;
  how.on_due = is_due;
  how.on_use = host_uses;
  how.on_stack = host_stack;
  how.data = h;
  if (clu_os_random(&how.epoch, sizeof how.epoch) != CLU_OK || how.epoch == 0)
    how.epoch = clu_os_now();
  h->n = n;
  h->rank = (uint32_t)m->seq;
  h->since = clu_os_now();
  h->proxy = clu_proxy_new(&n->loop, &how);
  clu_timer_init(&h->given_up, give_up, h);
  if (!h->proxy || clu_proxy_control(h->proxy, fd) != CLU_OK) {
    if (!h->proxy) clu_os_close(fd);
    clu_proxy_free(h->proxy);
    free(h);
    return;
  }
  h->next = n->hosts;
  n->hosts = h;
  n->nhosts++;
}

static void say_state(near *n, uint64_t rank) {
  clu_proxy_status st = {0};
  host *h = find(n, rank);
  if (!h || !h->proxy) return;
  clu_proxy_status_of(h->proxy, &st);
  tell(n, h, &st);
}

/* Nobody is there who would connect again. What has come over the connection still counts. */
static void host_is_gone(near *n, const clu_msg *m) {
  host *h = find(n, m->seq);
  if (!h || !h->proxy) return;
  snprintf(h->gone, sizeof h->gone, "%.*s", (int)m->body->size, (const char *)m->body->data);
  if (h->state != CLU_PROXY_CUT) return;
  clu_timer_cancel(&h->given_up);
  give_up(h);
}

static void session_ready(void *self, unsigned ready) {
  near *n = self;
  (void)ready;
  for (int k = 0; k < 16; k++) {
    int rc = clu_chan_fill(&n->chan), r;
    clu_msg m;
    while ((r = clu_chan_next(&n->chan, &m)) == 1) {
      switch (m.kind) {
      case CLU_K_LISTEN: listen_there(n, &m); break;
      case CLU_K_HOST: add_host(n, &m); break;
      case CLU_K_VIEW: take_view(n, &m); break;
      case CLU_K_HOST_STATE:
        if (m.body)
          host_is_gone(n, &m);
        else
          say_state(n, m.seq);
        break;
      case CLU_K_DONE: n->ended = 1; break;
      }
      if (m.body && m.kind == CLU_K_LISTEN) clu_os_wipe(m.body->data, m.body->size);
      clu_blob_unref(m.body);
    }
    if (rc == CLU_AGAIN && r >= 0) return;
    if (rc != CLU_OK || r < 0) n->ended = 1;
    if (n->ended) return;
  }
}

/* ---- its life ---- */

/* Few of a thousand hosts have something to do at a time. */
static void take_turns(near *n) {
  host *h = n->due;
  n->due = NULL;
  while (h) {
    host *next = h->due;
    h->is_due = 0;
    host_turn(n, h);
    if (h->proxy && clu_proxy_is_due(h->proxy)) is_due(h);
    h = next;
  }
}

static int turn(near *n, clu_err *e) {
  take_turns(n);
  sweep_peers(n);
  clu_chan_watch_flush(&n->loop, &n->chan, n->session);
  return clu_loop_pump(&n->loop, n->ended ? 10000000 : -1, e);
}

static int is_behind(const near *n) {
  for (host *h = n->hosts; h; h = h->next) {
    clu_proxy_status st;
    if (!h->proxy) continue;
    clu_proxy_status_of(h->proxy, &st);
    if (st.state == CLU_PROXY_UP && clu_proxy_is_behind(h->proxy)) return 1;
  }
  return 0;
}

/* All hosts hear that the session has ended. What else was on its way is of no use to them. */
static void say_bye(near *n) {
  uint64_t until = clu_os_now() + LAST_WORDS;
  clu_timer_cancel(&n->resume);
  clu_near_views_fini(&n->views); /* nobody is asked any more */
  clu_loop_unwatch(&n->loop, &n->watch);
  clu_loop_unwatch(&n->loop, &n->session);
  if (n->listener != CLU_NO_FD) clu_os_close(n->listener);
  n->listener = CLU_NO_FD;
  for (host *h = n->hosts; h; h = h->next)
    if (h->proxy) clu_proxy_say_bye(h->proxy, "the session has ended");
  for (int k = 0; (k < 2 || is_behind(n)) && clu_os_now() < until; k++)
    if (turn(n, NULL) != CLU_OK) return;
}

static void fini(near *n) {
  while (n->hosts) {
    host *h = n->hosts;
    n->hosts = h->next;
    clu_timer_cancel(&h->given_up);
    clu_proxy_free(h->proxy);
    free(h);
  }
  for (peer *p = n->peers; p; p = p->next) peer_leaves(p);
  sweep_peers(n);
  clu_near_views_fini(&n->views);
  clu_chan_watch_close(&n->loop, &n->chan, &n->session);
  if (n->listener != CLU_NO_FD) clu_os_close(n->listener);
  clu_loop_fini(&n->loop);
  clu_tls_keys_free(n->keys);
  clu_os_wipe(n->secret, sizeof n->secret);
}

int clu_near_serve(clu_fd session, clu_err *e) {
  near n;
  unsigned char pid[8];
  int rc;
  memset(&n, 0, sizeof n);
  n.listener = CLU_NO_FD;
  clu_timer_init(&n.resume, listener_resume, &n);
  clu_near_views_init(&n.views, &n.loop, ask_hosts, ask_stack, &n);
  clu_proxy_raise_fds();
  clu_os_set_blocking(session, 0);
  if (clu_chan_init(&n.chan, session, 1 << 20, CLU_TAKES_FDS) != CLU_OK) {
    clu_chan_fini(&n.chan);
    return clu_fail(e, CLU_NOMEM, 0, "not enough memory");
  }
  rc = clu_loop_init(&n.loop, e);
  if (rc == CLU_OK)
    rc = clu_loop_watch(&n.loop, session, CLU_READ, session_ready, &n, &n.session, e);
  if (rc == CLU_OK) {
    clu_put64(pid, (uint64_t)clu_os_getpid());
    clu_chan_send_bytes(&n.chan, CLU_K_HELLO, 0, pid, sizeof pid, CLU_NO_FD);
  }
  while (rc == CLU_OK && !n.ended) rc = turn(&n, e);
  if (rc == CLU_OK) say_bye(&n);
  fini(&n);
  return rc;
}
