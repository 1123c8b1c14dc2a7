#include "core/net/socket.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/addr.h"

#define FIRST_BUFFER 4096u /* grows while reads fill it: thousands of sockets are mostly silent */
#define LARGE_BUFFER (256u << 10)
/* R's own sockets use select() and need descriptors below 1024: it can have 128. */
#define LOW 128   /* those below stay where they are: to move one takes two system calls */
#define HIGH 1024 /* the others go there */

static clu_sock *all;

clu_sock *clu_sock_new(void) {
  clu_sock *s = calloc(1, sizeof *s);
  if (!s) return NULL;
  s->fd = CLU_NO_FD;
  s->timeout_ns = -1;
  s->slot = -1;
  s->owner = clu_os_getpid();
  s->born = clu_os_now();
  s->backlog_asked = s->backlog_granted = -1;
  s->next = all;
  if (all) all->before = s;
  all = s;
  return s;
}

clu_sock *clu_sock_next(const clu_sock *s) { return s ? s->next : all; }

static void stop_connecting(clu_sock *s) {
  clu_resolve_free(s->resolve);
  clu_connector_free(s->connector);
  s->resolve = NULL;
  s->connector = NULL;
}

static int mine(const clu_sock *s) { return s->owner == clu_os_getpid(); }

/* ---- those who are told ---- */

void clu_sock_watch_begin(clu_sock *s, clu_sock_watch *w) {
  w->s = s;
  w->next = s->watches;
  s->watches = w;
}

void clu_sock_watch_end(clu_sock_watch *w) {
  clu_sock_watch **at;
  if (!w->s) return;
  at = &w->s->watches;
  while (*at && *at != w) at = &(*at)->next;
  if (*at) *at = w->next;
}

static void tell_filled(clu_sock *s) {
  if (!s->watches || !mine(s)) return;
  for (clu_sock_watch *w = s->watches; w; w = w->next) w->filled(w);
}

static void tell_closing(clu_sock *s) {
  while (s->watches) {
    clu_sock_watch *w = s->watches;
    s->watches = w->next;
    if (!mine(s)) w->s = NULL;
    if (mine(s)) w->closing(w);
  }
}

/* ---- made and freed ---- */

static void release(clu_sock *s) {
  tell_closing(s); /* while the descriptor is still its own */
  if (s->fd != CLU_NO_FD) clu_os_close(s->fd);
  s->fd = CLU_NO_FD;
  s->closed = 1;
  if (s->path && mine(s)) clu_os_path_remove(s->path, s->path_id);
  free(s->path);
  s->path = NULL;
  free(s->in);
  s->in = NULL;
  s->cap = s->mark = s->pos = s->end = 0;
}

void clu_sock_free(clu_sock *s) {
  if (!s) return;
  clu_sock_drop(s);
  if (s->before)
    s->before->next = s->next;
  else
    all = s->next;
  if (s->next) s->next->before = s->before;
  free(s);
}

const char *clu_sock_text(const clu_sock *s, char *out, size_t cap) {
  char here[CLU_ADDR_TEXT], there[CLU_ADDR_TEXT];
  clu_addr_text(&s->local, here, sizeof here);
  clu_addr_text(&s->peer, there, sizeof there);
  if (s->listening || !s->peer.family)
    snprintf(out, cap, "%s", here);
  else if (!here[0] || !there[0]) /* of a Unix-domain connection one end has a name */
    snprintf(out, cap, "%s%s", here, there);
  else
    snprintf(out, cap, "%s -> %s", here, there);
  return out;
}

static int note(clu_sock *s, int code, const clu_err *e) {
  if (code == CLU_RESET) s->broken = 1;
  if (code == CLU_OK || code == CLU_AGAIN || code == CLU_EOF) return code;
  if (e && e->code == code)
    s->last = *e;
  else
    clu_fail(&s->last, code, 0, "%s", clu_code_text(code));
  return code;
}

/* A failure at this connection, its address in front. */
static int fail(clu_sock *s, int code, clu_err *e) {
  char at[2 * CLU_ADDR_TEXT + 8];
  clu_err mine_e;
  if (!e) e = &mine_e;
  clu_fail(e, code, 0, "%s: %s", clu_sock_text(s, at, sizeof at), clu_code_text(code));
  return note(s, code, e);
}

static void adopt(clu_sock *s, clu_fd fd) {
  if (fd >= LOW) clu_os_move_high(&fd, HIGH);
  s->fd = fd;
  s->born = clu_os_now();
  clu_os_local_addr(fd, &s->local);
}

/* More descriptors, where the hard limit allows it. */
static int raised(void) {
  clu_limits l;
  clu_os_limits(&l);
  if (l.fds_soft < 0 || (l.fds_hard >= 0 && l.fds_soft >= l.fds_hard)) return 0;
  return clu_os_raise_fds(l.fds_soft < 1024 ? 1024 : 2 * l.fds_soft) == CLU_OK ||
         (l.fds_hard >= 0 && clu_os_raise_fds(l.fds_hard) == CLU_OK);
}

/* ---- listening ---- */

int clu_sock_listen(clu_sock *s, const clu_addr *at, int n, const char *path, const clu_listen *how,
                    clu_err *e) {
  int rc = CLU_SYS;
  clu_fd fd = CLU_NO_FD;
  clu_err first = {0, 0, ""};
  if (path && !(s->path = malloc(strlen(path) + 1)))
    return clu_fail(e, CLU_NOMEM, 0, "not enough memory");
  if (path) {
    strcpy(s->path, path);
    if (!how->keep_address) clu_os_path_clear(path);
  }
  for (int i = 0; i < n && fd == CLU_NO_FD; i++) {
    clu_err why = {0, 0, ""};
    rc = clu_os_listen(&at[i], how, &fd, &s->backlog_granted, &why);
    if (rc == CLU_LIMIT && raised())
      rc = clu_os_listen(&at[i], how, &fd, &s->backlog_granted, &why);
    if (rc != CLU_OK && !first.code) first = why;
  }
  if (rc != CLU_OK) {
    free(s->path); /* somebody else's file stays */
    s->path = NULL;
    if (e) *e = first;
    return note(s, first.code, &first);
  }
  if (path) clu_os_path_id(path, s->path_id);
  s->listening = 1;
  s->backlog_asked = how->backlog;
  adopt(s, fd);
  return CLU_OK;
}

int clu_sock_accept(clu_sock *l, clu_sock *s, clu_err *e) {
  clu_fd fd;
  int rc;
  if (l->fd == CLU_NO_FD) return fail(l, CLU_CLOSED, e);
  rc = clu_os_accept(l->fd, &fd, &s->peer, e);
  if (rc == CLU_LIMIT && raised()) rc = clu_os_accept(l->fd, &fd, &s->peer, e);
  if (rc != CLU_OK) return note(l, rc, e);
  l->accepted++;
  adopt(s, fd);
  return CLU_OK;
}

void clu_sock_adopt(clu_sock *s, clu_fd fd) { adopt(s, fd); }

/* ---- connecting ---- */

int clu_sock_connect(clu_sock *s, const char *host, int port, const char *path, int send_buffer,
                     int receive_buffer, clu_err *e) {
  if (path) {
    clu_addr a;
    int rc = clu_os_addr_path(path, &a, e);
    if (rc != CLU_OK) return note(s, rc, e);
    s->connector = clu_connector_new(&a, 1, send_buffer, receive_buffer, e);
    return s->connector ? CLU_OK : CLU_NOMEM;
  }
  s->resolve = clu_resolve_start(host, port, e);
  if (!s->resolve) return note(s, e ? e->code : CLU_NOMEM, e);
  s->send_buffer = send_buffer; /* for the connector, which is made when the name is known */
  s->receive_buffer = receive_buffer;
  return CLU_OK;
}

int clu_sock_connect_step(clu_sock *s, int64_t wait_ns, clu_err *e) {
  clu_fd fd = CLU_NO_FD;
  int rc;
  if (s->resolve) {
    clu_addr to[CLU_MAX_ADDRS];
    int n;
    rc = clu_resolve_wait(s->resolve, wait_ns, to, &n, e);
    if (rc == CLU_AGAIN) return rc;
    clu_resolve_free(s->resolve);
    s->resolve = NULL;
    if (rc != CLU_OK) return note(s, rc, e);
    s->connector = clu_connector_new(to, n, s->send_buffer, s->receive_buffer, e);
    if (!s->connector) return CLU_NOMEM;
  }
  if (!s->connector) return fail(s, CLU_CLOSED, e);
  rc = clu_connector_step(s->connector, wait_ns, &fd, &s->peer, e);
  if (rc == CLU_LIMIT && raised()) return CLU_AGAIN;
  if (rc == CLU_AGAIN) return rc;
  stop_connecting(s);
  if (rc != CLU_OK) return note(s, rc, e);
  adopt(s, fd);
  return CLU_OK;
}

/* ---- bytes ---- */

int clu_sock_wait(clu_sock *s, unsigned want, int64_t wait_ns) {
  clu_watch w;
  int n;
  w.fd = s->fd;
  w.want = want;
  if (s->fd == CLU_NO_FD) return CLU_OK;
  if (clu_os_poll(&w, 1, wait_ns, &n, NULL) != CLU_OK) return CLU_OK;
  return n ? CLU_OK : CLU_AGAIN;
}

/* Room behind `end`. */
static int make_room(clu_sock *s) {
  if (s->pos - s->mark > CLU_SOCK_KEEP) s->mark = s->pos;
  if (s->mark == s->end) {
    s->mark = s->pos = s->end = 0;
  } else if (s->mark && s->cap - s->end < s->cap / 2) {
    memmove(s->in, s->in + s->mark, s->end - s->mark);
    s->pos -= s->mark;
    s->end -= s->mark;
    s->mark = 0;
  }
  if (s->cap - s->end < s->cap / 2 || !s->cap) {
    size_t cap = s->cap ? 2 * s->cap : FIRST_BUFFER;
    unsigned char *p = realloc(s->in, cap);
    if (!p) return CLU_NOMEM;
    s->in = p;
    s->cap = cap;
  }
  return CLU_OK;
}

int clu_sock_get(clu_sock *s, void *out, size_t n, size_t *got, clu_err *e) {
  clu_iov v = {out, n};
  int rc;
  *got = 0;
  if (s->fd == CLU_NO_FD || s->listening) return fail(s, CLU_CLOSED, e);
  if (s->eof || (s->shut & CLU_READ)) return CLU_EOF;
  rc = clu_os_readv(s->fd, &v, 1, got, NULL, NULL);
  if (rc == CLU_EOF && s->broken) rc = CLU_RESET;
  if (rc == CLU_EOF) s->eof = 1;
  if (rc == CLU_AGAIN || rc == CLU_EOF) return rc;
  if (rc != CLU_OK) return fail(s, rc, e);
  s->bytes_in += *got;
  return CLU_OK;
}

int clu_sock_fill(clu_sock *s, clu_err *e) {
  size_t got = 0, most;
  int rc;
  if (make_room(s) != CLU_OK) return clu_fail(e, CLU_NOMEM, 0, "not enough memory");
  most = s->cap - s->end < LARGE_BUFFER ? s->cap - s->end : LARGE_BUFFER;
  rc = clu_sock_get(s, s->in + s->end, most, &got, e);
  if (rc != CLU_OK) return rc;
  s->end += got;
  tell_filled(s);
  /* a full buffer: more comes at a time than expected */
  if (got == most && s->cap < LARGE_BUFFER) {
    unsigned char *p = realloc(s->in, 4 * s->cap);
    if (p) {
      s->in = p;
      s->cap *= 4;
    }
  }
  return CLU_OK;
}

size_t clu_sock_take(clu_sock *s, void *out, size_t n) {
  size_t there = s->end - s->pos;
  if (n > there) n = there;
  if (n) memcpy(out, s->in + s->pos, n);
  s->pos += n;
  return n;
}

int clu_sock_unread(clu_sock *s, const void *data, size_t n) {
  size_t head = s->pos - s->mark, rest = s->end - s->pos;
  if (!n) return CLU_OK;
  if (head + n + rest > s->cap) {
    unsigned char *p = realloc(s->in, head + n + rest);
    if (!p) return CLU_NOMEM;
    s->in = p;
    s->cap = head + n + rest;
  }
  if (s->end + n > s->cap) { /* to the front of the buffer */
    memmove(s->in, s->in + s->mark, head + rest);
    s->mark = 0;
    s->pos = head;
    s->end = head + rest;
  }
  if (rest) memmove(s->in + s->pos + n, s->in + s->pos, rest);
  memcpy(s->in + s->pos, data, n);
  s->end += n;
  tell_filled(s);
  return CLU_OK;
}

void clu_sock_trim(clu_sock *s) {
  size_t n = s->end - s->mark, cap = n > LARGE_BUFFER ? n : LARGE_BUFFER;
  unsigned char *p;
  if (s->cap < 4 * cap) return; /* also: no more than a read of usual size */
  if (n) memmove(s->in, s->in + s->mark, n);
  s->pos -= s->mark;
  s->end = n;
  s->mark = 0;
  if ((p = realloc(s->in, cap))) {
    s->in = p;
    s->cap = cap;
  }
}

int clu_sock_put(clu_sock *s, const void *data, size_t n, size_t *put, clu_err *e) {
  clu_iov v;
  int rc;
  *put = 0;
  if (s->fd == CLU_NO_FD || s->listening || (s->shut & CLU_WRITE)) return fail(s, CLU_CLOSED, e);
  v.base = (void *)data;
  v.len = n;
  rc = clu_os_writev(s->fd, &v, 1, NULL, 0, put);
  if (rc == CLU_AGAIN) return rc;
  if (rc != CLU_OK) return fail(s, rc, e);
  s->bytes_out += *put;
  return CLU_OK;
}

/* ---- the end ---- */

int clu_sock_shutdown(clu_sock *s, unsigned how, clu_err *e) {
  int rc;
  if (s->fd == CLU_NO_FD || s->listening) return fail(s, CLU_CLOSED, e);
  rc = clu_os_shutdown(s->fd, how);
  s->shut |= (int)how;
  return rc == CLU_OK ? CLU_OK : fail(s, rc, e);
}

int clu_sock_end(clu_sock *s, int64_t wait_ns) {
  unsigned char scrap[16384];
  int waited = 0, rc;
  stop_connecting(s);
  if (s->fd == CLU_NO_FD || s->listening || s->abort_at_close || !mine(s)) {
    release(s);
    return CLU_OK;
  }
  if (!s->ending) {
    s->ending = 1;
    clu_os_shutdown(s->fd,
                    CLU_WRITE); /* whatever it answers: the next steps are due all the same */
  }
  for (;;) {
    clu_iov v = {scrap, sizeof scrap};
    size_t got = 0;
    rc = clu_os_readv(s->fd, &v, 1, &got, NULL, NULL);
    if (rc == CLU_OK) {
      s->drained += got;
      if (s->drained < CLU_SOCK_DRAIN) continue;
      break;
    }
    if (rc != CLU_AGAIN) break;             /* the peer has finished, or the connection is broken */
    if (s->local.family == CLU_UNIX) break; /* what was written is the peer's already */
    /* TCP: bytes that the peer's system has not confirmed; the FIN counts as one, and may well be
     * confirmed 40 ms late */
    if (clu_os_unconfirmed(s->fd) <= 1) break;
    if (waited || wait_ns <= 0) return CLU_AGAIN;
    /* nothing wakes us when the last byte is confirmed: a short wait, then another look */
    clu_sock_wait(s, CLU_READ, wait_ns < 2000000 ? wait_ns : 2000000);
    waited = 1;
  }
  if (rc != CLU_EOF) clu_os_shutdown(s->fd, CLU_READ);
  release(s);
  return CLU_OK;
}

void clu_sock_drop(clu_sock *s) {
  if (clu_sock_end(s, 0) == CLU_OK) return;
  clu_os_shutdown(s->fd, CLU_READ);
  release(s);
}
