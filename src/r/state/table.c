#include "core/base/process.h"
#include "r/base/turn.h"
#include "r/base/wait.h"
#include "r/serialize/serialize.h"
#include "r/state/state.h"

static void drop(void *bytes) { clu_blob_unref(bytes); }

/* Takes what a function of the core has returned. 1: it is to be called again; an R error where it
 * has failed: then, and where an interrupt jumps, `bytes` (may be NULL) are given back. */
static int again(int rc, clu_blob *bytes) {
  if (rc == CLU_OK) return 0;
  if (rc == CLU_TIMEOUT) {
    clu_check_interrupt_now(drop, bytes);
    return 1;
  }
  clu_blob_unref(bytes);
  switch (rc) {
  case CLU_LIMIT: clu_raise("memory", "the table is full, or a row has more than 256 MB as bytes");
  case CLU_NOMEM: clu_raise("memory", "not enough memory for the table");
  case CLU_PROTO: clu_raise("protocol", "the memory of the table is damaged");
  case CLU_DEAD: clu_raise("argument", "the table has no such row");
  default: clu_raise("system", "the system refuses the table's mutex");
  }
}

/* Returns the table of an object that had one before its bytes were made; R's collector may have
 * run since. */
static clu_state *still(SEXP x, clu_blob *b) {
  clu_state *s = clu_state_here(x, CLU_STATE_TABLE);
  if (s) return s;
  clu_blob_unref(b);
  return clu_state_of(x, CLU_STATE_TABLE); /* an R error, which says why */
}

SEXP ffi_table_append(SEXP x, SEXP value) {
  clu_blob *b;
  uint64_t id = 0;
  if (!clu_state_or_elsewhere(x, CLU_STATE_TABLE)) return R_NilValue;
  b = clu_serialize(NULL, value);
  while (again(clu_table_append(still(x, b), b->data, b->size, &id), b)) continue;
  clu_blob_unref(b);
  return Rf_ScalarReal((double)id);
}

SEXP ffi_table_set(SEXP x, SEXP id, SEXP value) {
  uint64_t row = (uint64_t)Rf_asReal(id);
  clu_blob *b;
  if (!clu_state_or_elsewhere(x, CLU_STATE_TABLE)) return R_NilValue;
  b = clu_serialize(NULL, value);
  while (again(clu_table_set(still(x, b), row, b->data, b->size), b)) continue;
  clu_blob_unref(b);
  return Rf_ScalarLogical(1);
}

/* The bytes are copied first: R code may run meanwhile, a finalizer, that looks at another row. */
static SEXP object(const unsigned char *p, size_t n) {
  clu_blob *b = clu_blob_new(n);
  if (!b || clu_blob_append(b, p, n) != 0) {
    clu_blob_unref(b);
    clu_raise("memory", "not enough memory");
  }
  return clu_unserialize(b, 0);
}

typedef struct popped {
  SEXP x;
  clu_row row;
} popped;

static SEXP value_of(void *data) {
  const clu_row *r = &((popped *)data)->row;
  return object(r->bytes[0], r->n[0]);
}

static void give_row_back(SEXP x, uint64_t id) {
  clu_state *s = clu_state_here(x, CLU_STATE_TABLE);
  for (int i = 0; s && i < 50 && clu_table_give_back(s, id) == CLU_TIMEOUT; i++) continue;
}

/* A row whose value could not be read, or that was interrupted, is open again. */
static void give_back(void *data, Rboolean jump) {
  const popped *p = data;
  if (jump) give_row_back(p->x, p->row.id);
}

/* Gives back the lock, if this process has it, or the row `id` of the table, which it has taken. */
SEXP ffi_state_give_back(SEXP x, SEXP id) {
  clu_state *lock = clu_state_here(x, CLU_STATE_LOCK);
  if (lock && clu_lock_depth(lock) > 0) clu_lock_give(lock);
  if (id != R_NilValue) give_row_back(x, (uint64_t)Rf_asReal(id));
  return R_NilValue;
}

/* list(id, value) of the row that was taken; FALSE: none within `timeout` seconds. */
SEXP ffi_table_pop(SEXP x, SEXP timeout) {
  static const char *names[] = {"id", "value", ""};
  uint64_t deadline = clu_deadline(Rf_asReal(timeout));
  popped p = {.x = x};
  SEXP out, value;
  for (;;) {
    clu_state *s = clu_state_or_elsewhere(x, CLU_STATE_TABLE);
    uint32_t events;
    int rc;
    if (!s) return R_NilValue;
    events = clu_table_events(s);
    rc = clu_table_pop(s, &p.row);
    if (rc == CLU_OK) break;
    if (rc != CLU_AGAIN) {
      again(rc, NULL);
      continue;
    }
    if (clu_os_now() >= deadline) return Rf_ScalarLogical(0);
    clu_table_wait(s, events, (uint64_t)clu_slice(deadline));
    clu_check_interrupt_now(NULL, NULL);
    clu_turn_pass();
  }
  value = PROTECT(R_UnwindProtect(value_of, &p, give_back, &p, NULL));
  out = PROTECT(Rf_mkNamed(VECSXP, names));
  SET_VECTOR_ELT(out, 0, Rf_ScalarReal((double)p.row.id));
  SET_VECTOR_ELT(out, 1, value);
  UNPROTECT(2);
  return out;
}

enum { OF_ID, OF_STATE, OF_PID, OF_VALUE, OF_SET, OF_CHANGES };

/* Finds the rows that have changed since; R frees the list. */
static R_xlen_t find_changed(clu_state *s, uint64_t since, uint64_t **ids) {
  uint64_t rows = clu_table_count(s), cap = 64, n = 0;
  clu_row r;
  *ids = (uint64_t *)(void *)R_alloc((size_t)cap, sizeof **ids);
  for (uint64_t id = 1; id <= rows; id++) {
    if (clu_table_row(s, id, &r) != CLU_OK || r.changed <= since) continue;
    if (n == cap) {
      *ids = (uint64_t *)(void *)S_realloc((char *)*ids, (long)(2 * cap), (long)cap, sizeof **ids);
      cap *= 2;
    }
    (*ids)[n++] = id;
  }
  return (R_xlen_t)n;
}

/* Each object that is made may run R's collector, so the row is looked up again. */
static void put_row(SEXP out, R_xlen_t i, uint64_t id, SEXP x) {
  clu_row r;
  for (int which = 0; which < 2; which++) {
    again(clu_table_row(clu_state_of(x, CLU_STATE_TABLE), id, &r), NULL);
    if (which == 0) {
      REAL(VECTOR_ELT(out, OF_ID))[i] = (double)id;
      INTEGER(VECTOR_ELT(out, OF_STATE))[i] = r.state;
      INTEGER(VECTOR_ELT(out, OF_PID))[i] = r.taker ? (int)r.taker : NA_INTEGER;
    }
    if (r.bytes[which])
      SET_VECTOR_ELT(VECTOR_ELT(out, OF_VALUE + which), i, object(r.bytes[which], r.n[which]));
  }
}

/* Columns of the rows that have changed since change number `since`, and the number of the last
 * change that they have. Those that change meanwhile may be in it, and are so the next time. */
SEXP ffi_table_read(SEXP x, SEXP since) {
  static const char *names[] = {"id", "state", "pid", "value", "set", "changes", ""};
  static const SEXPTYPE types[] = {REALSXP, INTSXP, INTSXP, VECSXP, VECSXP};
  clu_state *s = clu_state_or_elsewhere(x, CLU_STATE_TABLE);
  uint64_t changes, *ids;
  R_xlen_t n;
  SEXP out;
  if (!s) return R_NilValue;
  changes = clu_table_changes(s); /* before the rows are looked at */
  n = find_changed(s, (uint64_t)Rf_asReal(since), &ids);
  out = PROTECT(Rf_mkNamed(VECSXP, names));
  for (int c = 0; c < OF_CHANGES; c++) SET_VECTOR_ELT(out, c, Rf_allocVector(types[c], n));
  SET_VECTOR_ELT(out, OF_CHANGES, Rf_ScalarReal((double)changes));
  for (R_xlen_t i = 0; i < n; i++) {
    put_row(out, i, ids[i], x);
    if (i % 1024 == 0) clu_check_interrupt(NULL, NULL);
  }
  UNPROTECT(1);
  return out;
}

SEXP ffi_table_count(SEXP x) {
  clu_state *s = clu_state_or_elsewhere(x, CLU_STATE_TABLE);
  return s ? Rf_ScalarReal((double)clu_table_count(s)) : R_NilValue;
}

/* How many rows it has opened again. */
SEXP ffi_table_reopen(SEXP x) {
  uint64_t n = 0;
  if (!clu_state_or_elsewhere(x, CLU_STATE_TABLE)) return R_NilValue;
  while (again(clu_table_reopen(clu_state_of(x, CLU_STATE_TABLE), clu_process_is_gone, &n), NULL))
    continue;
  return Rf_ScalarReal((double)n);
}
