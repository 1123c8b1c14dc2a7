/* Entry points of a socket that is open: bytes, readiness of a set, time limits, the end. As in
 * open.c, R closes the socket when one of them is left by a jump. */
#include "r/socket/socket.h"

#include <string.h>

/* ---- timeouts, shutdown, the end ---- */

SEXP ffi_socket_timeout(SEXP x, SEXP seconds) {
  clu_sock *s = clu_socket_of(x, 0);
  double old = s->timeout_ns < 0 ? R_PosInf : (double)s->timeout_ns / 1e9, t = Rf_asReal(seconds);
  if (t >= 0) s->timeout_ns = clu_ns(t);
  return Rf_ScalarReal(old);
}

SEXP ffi_socket_shutdown(SEXP x, SEXP how) {
  clu_sock *s = clu_socket_of(x, 1);
  clu_err e = {0, 0, ""};
  if (clu_sock_shutdown(s, (unsigned)Rf_asInteger(how), &e) != CLU_OK) clu_raise_socket(s, &e, -1);
  return R_NilValue;
}

static void drop(void *s) { clu_sock_drop(s); }

/* The orderly end, within `seconds`; an interrupt ends it at once. Is never an error. */
SEXP ffi_socket_end(SEXP x, SEXP seconds) {
  SEXP p = clu_socket_pointer(x);
  clu_sock *s = p != R_NilValue ? R_ExternalPtrAddr(p) : clu_connection_socket(x, NULL, NULL, NULL);
  uint64_t deadline = clu_deadline(Rf_asReal(seconds));
  if (!s) return R_NilValue;
  while (clu_sock_end(s, clu_slice(deadline)) == CLU_AGAIN) {
    if (!clu_slice(deadline)) {
      clu_sock_drop(s);
      break;
    }
    clu_check_interrupt(drop, s);
  }
  return R_NilValue;
}

/* Without any wait: after an error. */
SEXP ffi_socket_drop(SEXP x) {
  SEXP p = clu_socket_pointer(x);
  if (p != R_NilValue && R_ExternalPtrAddr(p)) clu_sock_drop(R_ExternalPtrAddr(p));
  return R_NilValue;
}

/* ---- bytes, for socket_read() and socket_write() ---- */

typedef struct {
  clu_sock *s;
  SEXP to;
  size_t got;
} reading;

/* The call has taken nothing. */
static void undo(void *data) {
  reading *r = data;
  if (r->got && clu_sock_unread(r->s, RAW(r->to), r->got) != CLU_OK) r->s->torn = 1;
  r->got = 0;
}

static void undo_on_jump(void *data, Rboolean jump) {
  if (jump) undo(data);
}

static clu_sock *readable(SEXP x) {
  clu_sock *s = clu_socket_of(x, 1);
  clu_raise_if_torn(s);
  return s;
}

static SEXP allocate(void *n) { return Rf_allocVector(RAWSXP, (R_xlen_t) * (size_t *)n); }

/* Room for `n` bytes, which begins with what there is. Not protected. Jumps without memory. */
static SEXP with_room(reading *r, size_t n) {
  SEXP out = r->got ? R_UnwindProtect(allocate, &n, undo_on_jump, r, NULL) : allocate(&n);
  if (r->got) memcpy(RAW(out), RAW(r->to), r->got);
  return out;
}

/* Up to `n` bytes; with `exact` fewer only at the end. NULL: the peer has finished. */
SEXP ffi_socket_read(SEXP x, SEXP n, SEXP exact) {
  clu_sock *s = readable(x);
  double want = Rf_asReal(n);
  int all = Rf_asLogical(exact) == TRUE;
  size_t most = want < (double)R_XLEN_T_MAX ? (size_t)want : (size_t)R_XLEN_T_MAX; /* or Inf */
  uint64_t deadline = clu_deadline_ns(s->timeout_ns);
  reading r = {s, R_NilValue, 0};
  PROTECT_INDEX i;
  int ended = 0;
  /* the answer is made as large as what is there: `n` may be a generous bound */
  PROTECT_WITH_INDEX(r.to = Rf_allocVector(RAWSXP, 0), &i);
  while (r.got < most) {
    clu_err e = {0, 0, ""};
    int rc = CLU_OK;
    size_t there = s->end - s->pos;
    if (there) {
      size_t take = there < most - r.got ? there : most - r.got;
      if (r.got + take > (size_t)XLENGTH(r.to)) {
        size_t room = r.got + take;
        if (all && room < most) room = room * 2 < most ? room * 2 : most;
        REPROTECT(r.to = with_room(&r, room), i); /* nothing of this round is taken yet */
      }
      r.got += clu_sock_take(s, RAW(r.to) + r.got, take);
      clu_sock_keep(s);
      if (!all) break;
      deadline = clu_deadline_ns(s->timeout_ns);
      continue;
    }
    rc = clu_sock_fill(s, &e);
    if (rc == CLU_OK) continue;
    if (rc == CLU_EOF) {
      ended = 1;
      break;
    }
    if (rc == CLU_AGAIN) {
      if (!s->blocking && !all) break;
      if (clu_socket_ready(s, CLU_READ, deadline, undo, &r)) continue;
      undo(&r);
      clu_raise_timeout(s, "nothing has come", (double)s->timeout_ns / 1e9, -1);
    }
    undo(&r);
    clu_raise_socket(s, &e, -1);
  }
  if (!r.got && ended) {
    UNPROTECT(1);
    return R_NilValue;
  }
  if ((size_t)XLENGTH(r.to) > r.got) REPROTECT(r.to = with_room(&r, r.got), i);
  UNPROTECT(1);
  return r.to;
}

/* Returns how many have gone: all, but for a non-blocking handle. */
SEXP ffi_socket_write(SEXP x, SEXP data) {
  clu_sock *s = clu_socket_of(x, 1);
  size_t n = (size_t)XLENGTH(data), put = 0, k;
  uint64_t deadline = clu_deadline_ns(s->timeout_ns);
  while (put < n) {
    clu_err e = {0, 0, ""};
    int rc = clu_sock_put(s, RAW(data) + put, n - put, &k, &e);
    if (rc == CLU_OK) {
      put += k;
      deadline = clu_deadline_ns(s->timeout_ns);
      continue;
    }
    if (rc != CLU_AGAIN) clu_raise_socket(s, &e, (double)put);
    if (!s->blocking) break;
    if (!clu_socket_ready(s, CLU_WRITE, deadline, NULL, NULL))
      clu_raise_timeout(s, "the peer takes nothing", (double)s->timeout_ns / 1e9, (double)put);
  }
  return Rf_ScalarReal((double)put);
}

/* ---- readiness of a set ---- */

SEXP ffi_socket_select(SEXP list, SEXP write, SEXP timeout) {
  int n = (int)XLENGTH(list), some = 0, ready = 0;
  clu_watch *w = (clu_watch *)R_alloc((size_t)n, sizeof *w);
  SEXP out = PROTECT(Rf_allocVector(LGLSXP, n));
  uint64_t deadline = clu_deadline(Rf_asReal(timeout));
  for (int i = 0; i < n; i++) {
    clu_sock *s;
    int pending, listens, to_write = LOGICAL(write)[i] == TRUE;
    w[i].fd = clu_socket_fd(VECTOR_ELT(list, i), &s, &pending, &listens);
    w[i].want = to_write ? CLU_WRITE : CLU_READ;
    LOGICAL(out)[i] = 0;
    if (to_write && listens) {
      Rf_warning("a server socket connection cannot be writeable");
      w[i].fd = CLU_NO_FD;
    } else if (!to_write && pending) {
      LOGICAL(out)[i] = 1;
      some = 1; /* no wait, but the others are checked */
    }
  }
  for (;;) {
    clu_err e = {0, 0, ""};
    if (clu_os_poll(w, n, some ? 0 : clu_slice(deadline), &ready, &e) != CLU_OK)
      clu_raise_socket(NULL, &e, -1);
    if (ready || some || !clu_slice(deadline)) break;
    clu_check_interrupt(NULL, NULL);
  }
  if (ready)
    for (int i = 0; i < n; i++)
      if (w[i].ready) LOGICAL(out)[i] = 1;
  UNPROTECT(1);
  return out;
}
