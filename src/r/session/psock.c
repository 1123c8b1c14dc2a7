/* Base R's own workers (parallel:::.workRSOCK) as nodes. Their protocol is one serialized R object
 * after the other over a socket, without frames.
 *
 * A wait may be interrupted at any time, also half-way in an object. So what is to be sent is
 * queued, what has come is kept until the object is complete, and the next call continues there.
 * Each queued request has a number (epoch), by which the caller knows whether its answer is still
 * wanted.
 *
 * A worker's socket belongs to its handle. ffi_psock_ready(), _flush() and _recv() block, for a
 * bounded time, and check R's interrupts. */
#include "r/session/session.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/grow.h"
#include "core/net/socket.h"
#include "core/node/transports.h"

#define PIECE ((size_t)256 << 10) /* read at a time */

typedef struct worker {
  clu_sock *s;
  clu_blob *out; /* being sent, of which `sent` bytes have left; NULL: nothing */
  size_t sent;
  unsigned char *in; /* [0, end) has come, of which the object at hand has read `pos` */
  size_t cap, pos, end;
  int was_left;   /* the last read was left by a jump while it waited: nothing is lost */
  size_t tried;   /* so many bytes were found to be too few for an object */
  uint64_t heard; /* when the last byte came */
  double *epochs; /* of requests without answer, the oldest first */
  int n;
  size_t room;
} worker;

static void free_worker(void *p) {
  worker *w = p;
  clu_sock_free(w->s);
  clu_blob_unref(w->out);
  free(w->in);
  free(w->epochs);
  free(w);
}

static clu_handle_kind workers = {
    .name = "clutch_psock", .free = free_worker, .forget = free_worker};

static worker *get_psock(SEXP x) {
  if (!clu_handle_is(x, &workers)) clu_raise("argument", "this is no worker's socket");
  clu_need_session_of(x);
  if (!R_ExternalPtrAddr(x)) clu_raise("stopped", "this worker's connection is closed");
  return R_ExternalPtrAddr(x);
}

/* The socket exists, but is not open. */
static SEXP new_psock(void) {
  SEXP x = PROTECT(clu_handle_new(&workers, R_NilValue));
  worker *w = calloc(1, sizeof *w);
  if (!w || !(w->s = clu_sock_new())) {
    free(w);
    clu_raise("memory", "not enough memory");
  }
  clu_handle_set(x, w);
  UNPROTECT(1);
  return x;
}

/* A handle of the node number `rank`, whose worker has not answered yet. */
SEXP ffi_psock_node(SEXP rank) {
  clu_err e = {0, 0, ""};
  clu_node *nd = NULL;
  SEXP x;
  clu_need_session();
  x = PROTECT(clu_node_handle_new());
  if (clu_node_new_psock(clu_the_session, &nd, &e) != CLU_OK) clu_raise_err(&e);
  clu_node_set_rank(nd, Rf_asInteger(rank));
  clu_node_handle_set(x, nd);
  UNPROTECT(1);
  return x;
}

/* Starts its process: see clu_process_init(). */
SEXP ffi_psock_spawn(SEXP handle, SEXP argv, SEXP envp, SEXP how) {
  clu_err e = {0, 0, ""};
  clu_node *nd = clu_get_node(handle);
  clu_process process;
  clu_process_init(&process, argv, envp, how);
  if (clu_process_start(&process, nd, NULL, &e) != CLU_OK) clu_raise_err(&e);
  return R_NilValue;
}

/* Writes `text` to its standard input, see `hold` of run_command(). */
SEXP ffi_psock_say(SEXP handle, SEXP text) {
  const char *s = CHAR(STRING_ELT(text, 0));
  clu_node_say(clu_get_node(handle), s, strlen(s));
  return R_NilValue;
}

/* list(handle, port): listens at `host` (as clu_resolve_listener()) at the first
 * of `ports` that is free; or, when none is, a string that says why. `backlog` NA: the most the
 * system allows. */
SEXP ffi_psock_listen(SEXP host, SEXP ports, SEXP backlog) {
  static const char *names[] = {"handle", "port", ""};
  const char *h = CHAR(STRING_ELT(host, 0));
  clu_err e = {0, 0, ""};
  clu_addr at;
  clu_listen how = {-1, 0, 0};
  char text[CLU_ADDR_TEXT];
  int rc = CLU_DNS;
  SEXP out, x;
  clu_sock *s;
  clu_need_session();
  x = PROTECT(new_psock());
  out = PROTECT(Rf_mkNamed(VECSXP, names));
  s = ((worker *)R_ExternalPtrAddr(x))->s;
  if (Rf_asInteger(backlog) != NA_INTEGER) how.backlog = Rf_asInteger(backlog);
  if (clu_resolve_listener(h, &at, &e) != CLU_OK) clu_raise_err(&e);
  for (R_xlen_t i = 0; i < Rf_xlength(ports); i++) {
    clu_os_addr_set_port(&at, INTEGER(ports)[i]);
    if ((rc = clu_sock_listen(s, &at, 1, NULL, &how, &e)) != CLU_IN_USE) break;
  }
  if (rc != CLU_OK) {
    UNPROTECT(2);
    return Rf_mkString(e.text);
  }
  SET_VECTOR_ELT(out, 0, x);
  SET_VECTOR_ELT(out, 1, Rf_ScalarInteger(clu_os_addr_host(&s->local, text, sizeof text)));
  UNPROTECT(2);
  return out;
}

/* The next connection, or NULL: there is none now. */
SEXP ffi_psock_accept(SEXP listener) {
  clu_sock *l = get_psock(listener)->s, *s;
  SEXP x = PROTECT(new_psock());
  int rc;
  s = ((worker *)R_ExternalPtrAddr(x))->s;
  rc = clu_sock_accept(l, s, NULL);
  if (rc == CLU_OK) {
    clu_os_move_high(&s->fd, 1024);
    clu_os_sockopt_set(s->fd, CLU_OPT_NODELAY, 1);
    clu_os_sockopt_set(s->fd, CLU_OPT_KEEPALIVE, 1);
  }
  UNPROTECT(1);
  return rc == CLU_OK ? x : R_NilValue;
}

/* Numbers of those that have sent something new, after at most `seconds`; an interrupt ends it. */
SEXP ffi_psock_ready(SEXP list, SEXP seconds) {
  R_xlen_t n = Rf_xlength(list), k = 0;
  uint64_t deadline = clu_in_seconds(seconds);
  clu_watch *w = (clu_watch *)R_alloc((size_t)n + 1, sizeof *w);
  SEXP out;
  int ready = 0, more;
  for (R_xlen_t i = 0; i < n; i++) {
    worker *one = get_psock(VECTOR_ELT(list, i));
    w[i].fd = one->s->fd;
    w[i].want = CLU_READ;
    w[i].ready = 0;
    if (one->end > one->tried) ready++;
  }
  if (ready) clu_os_poll(w, (int)n, 0, &more, NULL); /* others may have sent something, too */
  while (!ready) {
    uint64_t now = clu_os_now();
    int64_t wait = clu_deadline_left(deadline, now, CLU_SLICE);
    clu_os_poll(w, (int)n, wait, &ready, NULL);
    if (ready || now >= deadline) break;
    R_CheckUserInterrupt();
  }
  out = PROTECT(Rf_allocVector(INTSXP, n));
  for (R_xlen_t i = 0; i < n; i++) {
    worker *one = get_psock(VECTOR_ELT(list, i));
    if ((w[i].ready & CLU_READ) || one->end > one->tried) INTEGER(out)[k++] = (int)i + 1;
  }
  out = Rf_lengthgets(out, k);
  UNPROTECT(1);
  return out;
}

/* Reads once. CLU_OK: there is more. */
static int fill(worker *w) {
  size_t got = 0;
  int rc;
  unsigned char *in = clu_grow(w->in, &w->cap, w->end + PIECE, 1);
  if (!in) return CLU_NOMEM;
  w->in = in;
  rc = clu_sock_get(w->s, w->in + w->end, w->cap - w->end, &got, NULL);
  if (rc != CLU_OK) return rc;
  w->end += got;
  w->heard = clu_os_now();
  return CLU_OK;
}

/* Queues a message, behind which nothing may be queued yet. `epoch`: of a request, which will be
 * answered; else NA. */
SEXP ffi_psock_queue(SEXP x, SEXP object, SEXP epoch) {
  worker *w = get_psock(x);
  double number = Rf_asReal(epoch), *more;
  if (w->out) clu_raise("argument", "a message is on its way already");
  more = clu_grow(w->epochs, &w->room, (size_t)w->n + 1, sizeof *more);
  if (!more) clu_raise("memory", "not enough memory");
  w->epochs = more;
  w->out = clu_serialize(NULL, object);
  w->sent = 0;
  if (!ISNAN(number)) w->epochs[w->n++] = number;
  return R_NilValue;
}

/* Sends what is queued: TRUE when all has left; FALSE when the connection is of no more use, or
 * nothing could be sent for `seconds`. What comes meanwhile is read: a worker whose answer is not
 * read does not read either. */
SEXP ffi_psock_flush(SEXP x, SEXP seconds) {
  worker *w = get_psock(x);
  uint64_t moved = clu_os_now(), patience = clu_in_seconds(seconds) - moved;
  while (w->out && w->sent < w->out->size) {
    size_t put = 0, most = w->out->size - w->sent;
    int rc = clu_sock_put(w->s, w->out->data + w->sent, most < PIECE ? most : PIECE, &put, NULL);
    if (rc == CLU_OK) {
      w->sent += put;
      moved = clu_os_now();
      R_CheckUserInterrupt();
      continue;
    }
    if (rc != CLU_AGAIN || clu_os_now() - moved >= patience) return Rf_ScalarLogical(FALSE);
    rc = fill(w);
    if (rc != CLU_OK && rc != CLU_AGAIN) return Rf_ScalarLogical(FALSE);
    if (rc == CLU_OK)
      moved = clu_os_now();
    else
      clu_sock_wait(w->s, CLU_READ | CLU_WRITE,
                    patience < CLU_SLICE ? (int64_t)patience : CLU_SLICE);
    R_CheckUserInterrupt();
  }
  clu_blob_unref(w->out);
  w->out = NULL;
  return Rf_ScalarLogical(TRUE);
}

typedef struct {
  worker *w;
  uint64_t from, patience;
  size_t most;
} reading;

static int next_bytes(void *data, void *p, size_t n) {
  reading *r = data;
  worker *w = r->w;
  if (n > r->most - w->pos) return CLU_PROTO;
  while (n > w->end - w->pos) {
    uint64_t now = clu_os_now(), since = w->heard > r->from ? w->heard : r->from;
    int rc = fill(w);
    if (rc == CLU_AGAIN) {
      if (now - since >= r->patience) {
        w->tried = w->end;
        clu_raise("incomplete", "the rest of an object has not come yet");
      }
      clu_sock_wait(w->s, CLU_READ, r->patience < CLU_SLICE ? (int64_t)r->patience : CLU_SLICE);
    } else if (rc != CLU_OK) {
      return rc == CLU_EOF ? CLU_RESET : rc;
    }
    w->was_left = 1;
    R_CheckUserInterrupt(); /* what has come is kept */
    w->was_left = 0;
  }
  memcpy(p, w->in + w->pos, n);
  w->pos += n;
  return CLU_OK;
}

/* The object at hand has been read. */
static void consume(worker *w) {
  w->end -= w->pos;
  if (w->end) memmove(w->in, w->in + w->pos, w->end);
  w->pos = w->tried = 0;
  if (!w->end && w->cap > 4 * PIECE) {
    free(w->in);
    w->in = NULL;
    w->cap = 0;
  }
}

/* list(value, epoch): the next object. An error of class clutch_incomplete when nothing more of it
 * comes for `seconds`: what has come is kept for the next call, as where a time limit of R's ends
 * the wait (ffi_psock_awaited() tells of that). After any other error, as when it is longer than
 * `bytes`, the connection is of no more use. `node`: the handle whose answer is counted, or NULL.
 */
SEXP ffi_psock_recv(SEXP x, SEXP seconds, SEXP bytes, SEXP node) {
  static const char *names[] = {"value", "epoch", ""};
  reading r;
  SEXP out;
  double most = Rf_asReal(bytes);
  r.w = get_psock(x);
  if (r.w->s->fd == CLU_NO_FD) clu_raise("stopped", "this worker's connection is closed");
  r.from = clu_os_now();
  r.patience = clu_in_seconds(seconds) - r.from;
  r.most = most < 1e15 ? (size_t)most : SIZE_MAX;
  r.w->pos = 0;
  r.w->was_left = 0;
  out = PROTECT(Rf_mkNamed(VECSXP, names));
  SET_VECTOR_ELT(out, 1, Rf_ScalarReal(r.w->n ? r.w->epochs[0] : NA_REAL));
  SET_VECTOR_ELT(out, 0, clu_unserialize_from(next_bytes, &r, NULL));
  consume(r.w);
  if (r.w->n) memmove(r.w->epochs, r.w->epochs + 1, (size_t)--r.w->n * sizeof *r.w->epochs);
  if (node != R_NilValue) clu_node_count_done(clu_get_node(node));
  UNPROTECT(1);
  return out;
}

/* c(requests without answer, seconds since the last byte of one that has come in part, or 0,
 * whether the last read was left by an interrupt or a time limit) */
SEXP ffi_psock_awaited(SEXP x) {
  worker *w = get_psock(x);
  SEXP out = Rf_allocVector(REALSXP, 3);
  REAL(out)[0] = w->n;
  REAL(out)[1] = w->end ? 1e-9 * (double)(clu_os_now() - w->heard) : 0;
  REAL(out)[2] = w->was_left;
  return out;
}

SEXP ffi_psock_close(SEXP x) {
  worker *w = get_psock(x);
  clu_sock_drop(w->s);
  clu_blob_unref(w->out);
  w->out = NULL;
  return R_NilValue;
}

/* A worker has answered: it is process `pid`. */
SEXP ffi_psock_is_ready(SEXP handle, SEXP pid) {
  clu_node_psock_ready(clu_get_node(handle), Rf_asInteger(pid));
  return R_NilValue;
}
