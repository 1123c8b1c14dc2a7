#include "r/base/wait.h"
#include "r/serialize/serialize.h"
#include "r/state/state.h"

/* Takes what a function of the core has returned. 1: it is to be called again; an R error where it
 * has failed. */
static int again(int rc) {
  if (rc == CLU_TIMEOUT) clu_check_interrupt_now(NULL, NULL);
  if (rc == CLU_LIMIT)
    clu_raise("memory", "the table is full, or a row has more than 256 MB as bytes");
  if (rc == CLU_NOMEM) clu_raise("memory", "not enough memory for the table");
  if (rc == CLU_PROTO) clu_raise("protocol", "the memory of the table is damaged");
  if (rc == CLU_SYS) clu_raise("system", "the system refuses the table's mutex");
  if (rc == CLU_DEAD) clu_raise("argument", "the table has no such row");
  return rc == CLU_TIMEOUT;
}

/* An object as bytes, which survive an R error. */
static clu_blob *bytes;
static void serialize(SEXP value) {
  clu_blob_unref(bytes);
  bytes = NULL;
  bytes = clu_serialize(NULL, value);
}

SEXP ffi_table_append(SEXP x, SEXP value) {
  clu_state *s = clu_state_of(x, CLU_STATE_TABLE);
  uint64_t id = 0;
  serialize(value);
  while (again(clu_table_append(s, bytes->data, bytes->size, &id))) continue;
  return Rf_ScalarReal((double)id);
}

SEXP ffi_table_set(SEXP x, SEXP id, SEXP value) {
  clu_state *s = clu_state_of(x, CLU_STATE_TABLE);
  serialize(value);
  while (again(clu_table_set(s, (uint64_t)Rf_asReal(id), bytes->data, bytes->size))) continue;
  return R_NilValue;
}

/* The bytes are copied first: another row may be looked at while R code runs, as a finalizer may.
 */
static SEXP object(const unsigned char *p, size_t n) {
  clu_blob_unref(bytes);
  bytes = clu_blob_new(n);
  if (!bytes || clu_blob_append(bytes, p, n) != 0) clu_raise("memory", "not enough memory");
  return clu_unserialize(clu_blob_ref(bytes), 0);
}

/* list(id, value) of the row that was taken; NULL: none within `timeout` seconds. */
SEXP ffi_table_pop(SEXP x, SEXP timeout) {
  static const char *names[] = {"id", "value", ""};
  clu_state *s = clu_state_of(x, CLU_STATE_TABLE);
  uint64_t deadline = clu_deadline(Rf_asReal(timeout));
  clu_row r;
  SEXP out;
  for (;;) {
    uint32_t events = clu_table_events(s);
    int rc = clu_table_pop(s, &r);
    if (rc == CLU_OK) break;
    if (rc != CLU_AGAIN) {
      again(rc);
      continue;
    }
    if (clu_os_now() >= deadline) return R_NilValue;
    clu_table_wait(s, events, (uint64_t)clu_slice(deadline));
    clu_check_interrupt_now(NULL, NULL);
  }
  out = PROTECT(Rf_mkNamed(VECSXP, names));
  SET_VECTOR_ELT(out, 0, Rf_ScalarReal((double)r.id));
  SET_VECTOR_ELT(out, 1, object(r.bytes[0], r.n[0]));
  UNPROTECT(1);
  return out;
}

enum { OF_ID, OF_STATE, OF_PID, OF_VALUE, OF_SET, OF_CHANGES };

/* How many rows have changed since. */
static R_xlen_t count_changed(clu_state *s, uint64_t rows, uint64_t since) {
  R_xlen_t n = 0;
  clu_row r;
  for (uint64_t id = 1; id <= rows; id++) {
    again(clu_table_row(s, id, &r));
    n += r.changed > since;
  }
  return n;
}

static void put_row(SEXP out, R_xlen_t i, const clu_row *r, clu_state *s) {
  clu_row later;
  REAL(VECTOR_ELT(out, OF_ID))[i] = (double)r->id;
  INTEGER(VECTOR_ELT(out, OF_STATE))[i] = r->state;
  INTEGER(VECTOR_ELT(out, OF_PID))[i] = r->taker ? (int)r->taker : NA_INTEGER;
  if (r->bytes[0]) SET_VECTOR_ELT(VECTOR_ELT(out, OF_VALUE), i, object(r->bytes[0], r->n[0]));
  if (!r->bytes[1]) return;
  again(clu_table_row(s, r->id, &later)); /* R code may have moved the first one's bytes */
  if (later.bytes[1])
    SET_VECTOR_ELT(VECTOR_ELT(out, OF_SET), i, object(later.bytes[1], later.n[1]));
}

/* Columns of the rows that have changed since change number `since`, and the number of the last
 * change that they have. Those that change meanwhile may be in it, and are so the next time. */
SEXP ffi_table_read(SEXP x, SEXP since) {
  static const char *names[] = {"id", "state", "pid", "value", "set", "changes", ""};
  static const SEXPTYPE types[] = {REALSXP, INTSXP, INTSXP, VECSXP, VECSXP};
  clu_state *s = clu_state_of(x, CLU_STATE_TABLE);
  uint64_t from = (uint64_t)Rf_asReal(since), changes = clu_table_changes(s);
  uint64_t rows = clu_table_count(s), id = 1;
  R_xlen_t n = from < changes ? count_changed(s, rows, from) : 0;
  SEXP out = PROTECT(Rf_mkNamed(VECSXP, names));
  for (int c = 0; c < OF_CHANGES; c++) SET_VECTOR_ELT(out, c, Rf_allocVector(types[c], n));
  SET_VECTOR_ELT(out, OF_CHANGES, Rf_ScalarReal((double)changes));
  for (R_xlen_t i = 0; i < n; id++) {
    clu_row r;
    again(clu_table_row(s, id, &r));
    if (r.changed > from) put_row(out, i++, &r, s);
    if (id % 1024 == 0) clu_check_interrupt(NULL, NULL);
  }
  UNPROTECT(1);
  return out;
}

SEXP ffi_table_count(SEXP x) {
  return Rf_ScalarReal((double)clu_table_count(clu_state_of(x, CLU_STATE_TABLE)));
}

static int is_gone(clu_pid pid) { return clu_os_kill(pid, 0, 0) != 0; }

/* How many rows it has opened again. */
SEXP ffi_table_reopen(SEXP x) {
  clu_state *s = clu_state_of(x, CLU_STATE_TABLE);
  uint64_t n = 0;
  while (again(clu_table_reopen(s, is_gone, &n))) continue;
  return Rf_ScalarReal((double)n);
}
