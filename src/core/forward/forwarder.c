#include "core/forward/forwarder.h"

#include <stdlib.h>

#include "core/wire/frame.h"

enum { PIECE = 1 << 16, QUEUE = 128 };
static const uint64_t PAUSE = 100000000; /* ns, until a listener without descriptors looks again */

/* Bytes of the other end that this one's process has not read. */
typedef struct piece {
  struct piece *next;
  clu_blob *body;
  size_t at;
} piece;

typedef struct conn {
  struct conn *next;
  clu_forwarder *forwarder;
  clu_forward_id id;
  clu_fd fd; /* CLU_NO_FD: it has none yet, or has ended */
  clu_watch_id watch;
  piece *first, **last;
  uint64_t held;   /* bytes in these */
  uint64_t unread; /* bytes that were sent and not taken there */
  int had_fd, ended, other_closed;
  int is_deaf; /* its process takes nothing any more */
} conn;

struct clu_forwarder {
  clu_loop *loop;
  clu_forward_say *say;
  void *to;
  conn *all;
  /* of the clients */
  uint32_t host, last_number;
  int in_use; /* as it has said */
  clu_fd listener;
  clu_watch_id watch;
  clu_timer again;
};

/* ---- messages ---- */

clu_blob *clu_forward_message(clu_forward_id id, int kind) {
  clu_blob *b = clu_blob_new(64);
  unsigned char head[CLU_FORWARD_HEAD];
  clu_put32(head, id.host);
  clu_put32(head + 4, id.number);
  head[8] = (unsigned char)kind;
  if (b) clu_blob_append(b, head, sizeof head); /* there is room */
  return b;
}

int64_t clu_forward_host(const clu_blob *body) {
  return body && body->size >= CLU_FORWARD_HEAD ? (int64_t)clu_get32(body->data) : -1;
}

static void say(clu_forwarder *f, clu_forward_id id, int kind) {
  clu_blob *b = clu_forward_message(id, kind);
  if (b) f->say(f->to, b);
  clu_blob_unref(b);
}

static void say_number(clu_forwarder *f, clu_forward_id id, int kind, uint32_t n) {
  clu_blob *b = clu_forward_message(id, kind);
  unsigned char bytes[4];
  clu_put32(bytes, n);
  if (b && clu_blob_append(b, bytes, sizeof bytes) == 0) f->say(f->to, b);
  clu_blob_unref(b);
}

/* ---- connections ---- */

static conn *find(clu_forwarder *f, clu_forward_id id) {
  for (conn *c = f->all; c; c = c->next)
    if (!c->ended && c->id.number == id.number && c->id.host == id.host) return c;
  return NULL;
}

static conn *add(clu_forwarder *f, clu_forward_id id, clu_fd fd) {
  conn *c = calloc(1, sizeof *c);
  if (!c) return NULL;
  c->forwarder = f;
  c->id = id;
  c->fd = fd;
  c->last = &c->first;
  c->next = f->all;
  f->all = c;
  return c;
}

static void drop_first(conn *c) {
  piece *p = c->first;
  c->first = p->next;
  if (!c->first) c->last = &c->first;
  clu_blob_unref(p->body);
  free(p);
}

/* It is freed by sweep(): its callers may look at it still. */
static void end(conn *c, int tell) {
  if (c->ended) return;
  c->ended = 1;
  while (c->first) drop_first(c);
  clu_loop_unwatch(c->forwarder->loop, &c->watch);
  if (c->fd != CLU_NO_FD) clu_os_close(c->fd);
  c->fd = CLU_NO_FD;
  if (tell) say(c->forwarder, c->id, CLU_FORWARD_CLOSE);
}

static int is_of_delegates(const clu_forwarder *f) { return f->listener == CLU_NO_FD; }

/* Tells the session whether it has connections, where that has changed. */
static void tell_use(clu_forwarder *f) {
  int in_use = f->all != NULL;
  if (is_of_delegates(f) || in_use == f->in_use) return;
  f->in_use = in_use;
  say_number(f, (clu_forward_id){f->host, 0}, CLU_FORWARD_USE, (uint32_t)in_use);
}

/* Frees what has ended, but for that of which clu_forward_ended() is still to tell. */
static void sweep(clu_forwarder *f) {
  for (conn **at = &f->all; *at;) {
    conn *c = *at;
    if (!c->ended || (c->had_fd && is_of_delegates(f))) {
      at = &c->next;
      continue;
    }
    *at = c->next;
    free(c);
  }
  tell_use(f);
}

static void set_interest(conn *c) {
  unsigned read = c->unread < CLU_FORWARD_WINDOW && !c->other_closed ? CLU_READ : 0;
  unsigned write = c->first ? CLU_WRITE : 0;
  if (clu_loop_interest(c->forwarder->loop, c->watch, read | write, NULL) != CLU_OK) end(c, 1);
}

/* Reads once: a connection that has much does not keep the others waiting. */
static void read_some(conn *c) {
  clu_forwarder *f = c->forwarder;
  clu_blob *b = clu_forward_message(c->id, CLU_FORWARD_DATA);
  clu_iov room;
  size_t got = 0;
  int rc = CLU_NOMEM;
  if (b && clu_blob_append(b, NULL, PIECE) == 0) {
    room.base = b->data + CLU_FORWARD_HEAD;
    room.len = PIECE;
    rc = clu_os_readv(c->fd, &room, 1, &got, NULL, NULL);
  }
  if (rc == CLU_OK) {
    b->size = CLU_FORWARD_HEAD + got;
    c->unread += got;
    f->say(f->to, b);
  } else if (rc != CLU_AGAIN) {
    end(c, 1);
  }
  clu_blob_unref(b);
}

/* A process that takes nothing any more may have written something before: that is still read, up
 * to its end. */
static void write_some(conn *c) {
  uint64_t taken = 0;
  int rc = CLU_OK;
  while (c->first && rc == CLU_OK) {
    piece *p = c->first;
    const clu_iov bytes = {p->body->data + p->at, p->body->size - p->at};
    size_t put = 0;
    rc = clu_os_writev(c->fd, &bytes, 1, NULL, 0, &put);
    if (rc != CLU_OK) break;
    taken += put;
    p->at += put;
    if (p->at == p->body->size) drop_first(c);
  }
  c->held -= taken;
  if (taken) say_number(c->forwarder, c->id, CLU_FORWARD_TAKEN, (uint32_t)taken);
  if (rc != CLU_OK && rc != CLU_AGAIN) c->is_deaf = 1;
  while (c->is_deaf && c->first) drop_first(c);
  if (!c->first && c->other_closed) end(c, 0);
}

static void on_ready(void *self, unsigned ready) {
  conn *c = self;
  clu_forwarder *f = c->forwarder;
  if (ready & CLU_WRITE) write_some(c);
  if (!c->ended && (ready & CLU_READ)) read_some(c);
  if (!c->ended) set_interest(c);
  sweep(f);
}

static void watch(conn *c) {
  c->had_fd = 1;
  if (clu_loop_watch(c->forwarder->loop, c->fd, CLU_READ, on_ready, c, &c->watch, NULL) != CLU_OK)
    end(c, 1);
  else
    set_interest(c);
}

/* ---- what the other forwarder says ---- */

static int take_data(conn *c, clu_blob *body) {
  piece *p;
  size_t n = body->size - CLU_FORWARD_HEAD;
  if (c->is_deaf) return CLU_OK;
  if (n == 0 || c->held + n > CLU_FORWARD_WINDOW + PIECE) return CLU_PROTO;
  p = calloc(1, sizeof *p);
  if (!p) return CLU_NOMEM;
  p->body = clu_blob_ref(body);
  p->at = CLU_FORWARD_HEAD;
  *c->last = p;
  c->last = &p->next;
  c->held += n;
  if (c->fd != CLU_NO_FD) write_some(c);
  return CLU_OK;
}

static int heard_of(conn *c, int kind, clu_blob *body) {
  uint64_t n;
  int rc = CLU_OK;
  switch (kind) {
  case CLU_FORWARD_DATA: rc = take_data(c, body); break;
  case CLU_FORWARD_TAKEN:
    if (body->size != CLU_FORWARD_HEAD + 4) return CLU_PROTO;
    n = clu_get32(body->data + CLU_FORWARD_HEAD);
    if (n > c->unread) return CLU_PROTO;
    c->unread -= n;
    break;
  case CLU_FORWARD_CLOSE:
    c->other_closed = 1;
    if (!c->first) end(c, 0);
    break;
  default: return CLU_PROTO;
  }
  if (!c->ended && c->fd != CLU_NO_FD) set_interest(c);
  return rc;
}

/* One that is known, or comes where none is opened, ends. */
static int heard_open(clu_forwarder *f, clu_forward_id id) {
  conn *c = find(f, id);
  if (c)
    end(c, 1);
  else if (!is_of_delegates(f))
    say(f, id, CLU_FORWARD_CLOSE);
  else if (!add(f, id, CLU_NO_FD))
    return CLU_NOMEM;
  return CLU_OK;
}

int clu_forward_heard(clu_forwarder *f, clu_blob *body) {
  clu_forward_id id;
  conn *c;
  int kind, rc = CLU_OK;
  if (!body || body->size < CLU_FORWARD_HEAD) return CLU_PROTO;
  id.host = clu_get32(body->data);
  id.number = clu_get32(body->data + 4);
  kind = body->data[8];
  if (kind == CLU_FORWARD_LOST) {
    for (c = f->all; c; c = c->next)
      if (c->id.host == id.host) end(c, 0);
  } else if (kind == CLU_FORWARD_OPEN) {
    rc = heard_open(f, id);
  } else if ((c = find(f, id)) != NULL && heard_of(c, kind, body) != CLU_OK) {
    end(c, 1);
  }
  sweep(f);
  return rc;
}

/* ---- the forwarder ---- */

static void take_clients(clu_forwarder *f) {
  for (;;) {
    clu_forward_id id = {f->host, f->last_number + 1};
    clu_fd fd;
    clu_pid pid;
    conn *c;
    int rc = clu_os_accept(f->listener, &fd, NULL, NULL);
    if (rc == CLU_AGAIN) return;
    if (rc != CLU_OK) { /* it stays readable */
      clu_loop_interest(f->loop, f->watch, 0, NULL);
      clu_timer_arm(f->loop, &f->again, clu_os_now() + PAUSE);
      return;
    }
    c = clu_os_path_peer(fd, &pid) == CLU_PEER_OTHER ? NULL : add(f, id, fd);
    if (!c) {
      clu_os_close(fd);
      continue;
    }
    f->last_number++;
    say(f, id, CLU_FORWARD_OPEN);
    watch(c);
  }
}

static void on_client(void *self, unsigned ready) {
  (void)ready;
  take_clients(self);
  sweep(self);
}

static void on_again(void *self) {
  clu_forwarder *f = self;
  clu_loop_interest(f->loop, f->watch, CLU_READ, NULL);
}

int clu_forward_new(clu_loop *loop, clu_forward_say *say_to, void *to, clu_forwarder **out) {
  clu_forwarder *f = calloc(1, sizeof *f);
  if (!f) return CLU_NOMEM;
  f->loop = loop;
  f->say = say_to;
  f->to = to;
  f->listener = CLU_NO_FD;
  clu_timer_init(&f->again, on_again, f);
  *out = f;
  return CLU_OK;
}

int clu_forward_listen(clu_forwarder *f, uint32_t host, const char *path, clu_err *e) {
  clu_listen how = {QUEUE, 0, 0};
  clu_addr at;
  clu_fd fd;
  int granted, rc = clu_os_addr_path(path, &at, e);
  if (rc == CLU_OK) rc = clu_os_listen(&at, &how, &fd, &granted, e);
  if (rc != CLU_OK) return rc;
  rc = clu_loop_watch(f->loop, fd, CLU_READ, on_client, f, &f->watch, e);
  if (rc != CLU_OK) {
    clu_os_close(fd);
    return rc;
  }
  f->listener = fd;
  f->host = host;
  say_number(f, (clu_forward_id){host, 0}, CLU_FORWARD_USE, 0);
  return CLU_OK;
}

int clu_forward_wants(const clu_forwarder *f, clu_forward_id *id) {
  for (const conn *c = f->all; c; c = c->next)
    if (!c->ended && !c->had_fd) {
      *id = c->id;
      return 1;
    }
  return 0;
}

void clu_forward_attach(clu_forwarder *f, clu_forward_id id, clu_fd fd) {
  conn *c = find(f, id);
  if (!c) {
    if (fd != CLU_NO_FD) clu_os_close(fd);
    return;
  }
  c->fd = fd;
  if (fd == CLU_NO_FD)
    end(c, 1);
  else
    watch(c);
  if (!c->ended && c->first) write_some(c);
  if (!c->ended) set_interest(c);
  sweep(f);
}

int clu_forward_ended(clu_forwarder *f, clu_forward_id *id) {
  for (conn *c = f->all; c; c = c->next)
    if (c->ended && c->had_fd) {
      *id = c->id;
      c->had_fd = 0;
      sweep(f);
      return 1;
    }
  return 0;
}

void clu_forward_free(clu_forwarder *f) {
  if (!f) return;
  for (conn *c = f->all; c; c = c->next) end(c, 0);
  for (conn *c = f->all; c; c = c->next) c->had_fd = 0;
  sweep(f);
  clu_timer_cancel(&f->again);
  clu_loop_unwatch(f->loop, &f->watch);
  if (f->listener != CLU_NO_FD) clu_os_close(f->listener);
  free(f);
}
