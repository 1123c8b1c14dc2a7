/* A node's files share this: its state, the answer to the request at hand, the bytes of the message
 * that has begun. */
#include "r/node/node.h"

#include <R_ext/GraphicsEngine.h>
#include <string.h>

clu_this_node clu_me;

/* The cancel word of the shared memory is looked at whenever a signal interrupts the write. */
void clu_node_answer(uint8_t kind, clu_blob *body) {
  uint64_t seq = clu_me.seq;
  int rc, tries = 0;
  if (kind != CLU_K_CANCELLED && *clu_me.boot.cancel == seq) {
    kind = CLU_K_CANCELLED;
    body = NULL;
  }
  if (clu_chan_send(&clu_me.chan, kind, seq, body, CLU_NO_FD) != CLU_OK) {
    clu_me.closed = 1;
    return;
  }
  clu_me.sending = 1;
  while ((rc = clu_chan_flush(&clu_me.chan)) == CLU_AGAIN) { /* a signal */
    if (kind != CLU_K_CANCELLED && *clu_me.boot.cancel == seq && !tries++ &&
        clu_chan_withdraw(&clu_me.chan, kind, seq))
      clu_chan_send(&clu_me.chan, CLU_K_CANCELLED, seq, NULL, CLU_NO_FD);
  }
  clu_me.sending = 0;
  clu_activity_end(clu_me.boot.activity);
  clu_me.seq = 0;
  clu_me.task = CLU_TASK_NONE;
  if (rc != CLU_OK) clu_me.closed = 1;
  if (rc == CLU_SYS) clu_me.fd_closed = 1;
}

clu_blob *clu_node_serialize(clu_blob *b, SEXP x) {
  return clu_serialize_for(b, x, clu_me.chan.takes_fds == CLU_TAKES_SEGMENTS);
}

static void check_interrupt(void *unused) {
  (void)unused;
  R_CheckUserInterrupt();
}

/* An interrupt that was postponed is not the next task's. R may have one that no handler of ours
 * has seen: it waits in select() with its own. */
void clu_node_stop_running(void) {
  if (clu_me.forked) clu_os_end_self(); /* a child of the node came back from the call */
  clu_me.running = 0;
  clu_me.interrupt_at = 0;
  if (clu_me.interrupted || R_interrupts_pending) {
    clu_me.interrupted = 0;
    R_ToplevelExec(check_interrupt, NULL);
  }
}

static int read_piece(void *unused, void *p, size_t n) {
  (void)unused;
  return clu_me.read_error = clu_chan_read(&clu_me.chan, p, n);
}

void clu_node_read(void *p, size_t n) {
  if (read_piece(NULL, p, n) != CLU_OK) clu_raise("protocol", "a call arrived incomplete");
}

SEXP clu_node_read_object(uint64_t n) {
  unsigned char few[CLU_MOST_FUN];
  clu_expect_values(n);
  if (n > sizeof few || clu_me.chan.segments.n > 0)
    return clu_unserialize_from(read_piece, NULL, &clu_me.chan.segments);
  clu_node_read(few, (size_t)n);
  return clu_unserialize_bytes(few, (size_t)n);
}

/* Bytes that are the same as before are the same function: they name no environment but the
 * workspace and base R's. */
SEXP clu_node_read_function(uint32_t n) {
  static unsigned char bytes[CLU_MOST_FUN];
  static uint32_t size;
  static SEXP cell; /* preserved, holds it */
  unsigned char now[CLU_MOST_FUN];
  SEXP fun;
  if (n > sizeof now) clu_raise("protocol", "a function arrived damaged");
  clu_node_read(now, n);
  if (size == n && memcmp(now, bytes, n) == 0) return CAR(cell);
  if (!cell) {
    cell = Rf_cons(R_NilValue, R_NilValue);
    R_PreserveObject(cell);
  }
  size = 0;
  fun = clu_unserialize_bytes(now, n);
  SETCAR(cell, fun);
  memcpy(bytes, now, n);
  size = n;
  return fun;
}

SEXP clu_node_r(const char *fun, SEXP x) {
  SEXP call = PROTECT(Rf_lang2(Rf_install(fun), x)), out = Rf_eval(call, clu_namespace());
  UNPROTECT(1);
  return out;
}
