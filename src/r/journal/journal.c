/* Journals, as R has them: external pointers, each with a reference of its own. */
#include <stdlib.h>
#include <string.h>

#include "core/base/rng-stream.h"
#include "core/journal/journal.h"
#include "core/wire/task-message.h"
#include "r/journal/keys.h"
#include "r/serialize/serialize.h"
#include "r/serialize/travel.h"
#include "r/tasks/tasks.h"
#include "r/base/turn.h"

/* ---- keys ---- */

static const unsigned char *start_of(SEXP start) {
  return start == R_NilValue ? NULL : RAW_RO(start);
}

/* The key of an object, as raw vector. `start`: the key with which it begins, or NULL. `all`,
 * `made`: see clu_key_of(). */
SEXP ffi_key(SEXP x, SEXP start, SEXP all, SEXP made) {
  unsigned char key[CLU_HASH];
  SEXP out;
  clu_key_of(x, start_of(start), Rf_asLogical(all) == 1, made, key);
  out = Rf_allocVector(RAWSXP, CLU_HASH);
  memcpy(RAW(out), key, CLU_HASH);
  return out;
}

/* Returns the keys of all elements, one behind the other. `elements`: a list or a plain vector. */
SEXP ffi_element_keys(SEXP elements, SEXP start, SEXP made) {
  R_xlen_t n = Rf_xlength(elements);
  SEXP out = PROTECT(Rf_allocVector(RAWSXP, n * CLU_HASH));
  for (R_xlen_t i = 0; i < n; i++) {
    if (i % 65536 == 65535) R_CheckUserInterrupt();
    clu_key_of_element(elements, i, start_of(start), made, RAW(out) + i * CLU_HASH);
  }
  UNPROTECT(1);
  return out;
}

/* ---- the handle ---- */

static void free_journal(void *p) { clu_journal_unref(p); }
static clu_handle_kind journals = {.name = "clutch_journal", .free = free_journal};

static clu_journal *get(SEXP x) {
  if (!clu_handle_is(x, &journals) || !R_ExternalPtrAddr(x) || !clu_handle_is_ours(x))
    clu_raise("argument", "the journal is closed");
  return R_ExternalPtrAddr(x);
}

/* R's header, as it writes it in front of each object. */
static clu_blob *r_header(void) {
  clu_blob *b = clu_serialize(NULL, R_NilValue);
  b->size -= sizeof(int);
  return b;
}

/* Opens a journal. `sync`: seconds. `lock`: the path of the file that says whose it is, which is
 * touched now and then, and removed at last, and behind that, where it is known, what it says;
 * NULL: it is only read. `like`: a journal whose records
 * will be copied to it, so that its objects have the same header; or NULL. */
SEXP ffi_journal_open(SEXP path, SEXP sync, SEXP lock, SEXP like) {
  const char *file = Rf_translateCharUTF8(STRING_ELT(path, 0));
  double seconds = Rf_asReal(sync);
  clu_journal_options o = {.may_write = lock != R_NilValue, .sync_ns = UINT64_MAX};
  clu_blob *header = r_header();
  clu_journal *j = NULL;
  clu_err e = {0};
  SEXP x;
  int rc;
  if (seconds < 1e9) o.sync_ns = (uint64_t)(1e9 * seconds);
  if (o.may_write) o.touched = Rf_translateCharUTF8(STRING_ELT(lock, 0));
  if (Rf_length(lock) > 1) o.owner = CHAR(STRING_ELT(lock, 1)); /* as ffi_file_new() writes it */
  if (like != R_NilValue) {
    o.nr = clu_journal_head_of(get(like))->nr;
    o.r = clu_journal_head_of(get(like))->r;
    o.no_times = 1;
  } else if (header->size <= CLU_JOURNAL_R_HEAD) {
    o.nr = (uint32_t)header->size;
    o.r = header->data;
  }
  clu_need_session();
  x = PROTECT(clu_handle_new(&journals, R_NilValue));
  rc = clu_journal_open(file, &o, &j, &e);
  clu_blob_unref(header);
  if (rc != CLU_OK) clu_raise("journal", "journal %s: %s", file, e.text);
  clu_handle_set(x, j);
  UNPROTECT(1);
  return x;
}

/* Another handle of one that this session has open; NULL: it has none. */
SEXP ffi_journal_shared(SEXP path) {
  SEXP x;
  clu_journal *j;
  clu_need_session();
  x = PROTECT(clu_handle_new(&journals, R_NilValue));
  j = clu_journal_shared(Rf_translateCharUTF8(STRING_ELT(path, 0)));
  if (j) clu_handle_set(x, j);
  UNPROTECT(1);
  return j ? x : R_NilValue;
}

/* Why it takes nothing more; NULL: it does. `flush`: what waits is written first. */
SEXP ffi_journal_error(SEXP x, SEXP flush) {
  clu_journal *j = get(x);
  const clu_err *e;
  if (Rf_asLogical(flush) == 1) clu_journal_flush(j);
  e = clu_journal_error(j);
  return e ? Rf_mkString(e->text) : R_NilValue;
}

/* list(records, keys, size, damaged, lost, torn, drew, made), see clu_journal_counts. */
SEXP ffi_journal_counts(SEXP x) {
  static const char *names[] = {"records", "keys", "size", "damaged", "lost",
                                "torn",    "drew", "made", ""};
  clu_journal *j = get(x);
  clu_journal_counts c = clu_journal_count(j);
  double values[] = {
      (double)c.records, (double)c.keys, (double)c.size, (double)c.damaged,
      (double)c.lost,    (double)c.torn, (double)c.drew, clu_journal_head_of(j)->made};
  SEXP out = PROTECT(Rf_mkNamed(VECSXP, names));
  for (int i = 0; i < 8; i++) SET_VECTOR_ELT(out, i, Rf_ScalarReal(values[i]));
  UNPROTECT(1);
  return out;
}

/* ---- objects ---- */

/* The payload of a record, as object. May jump: nothing is held meanwhile but what R frees. */
static SEXP object_at(clu_journal *j, uint64_t at, const clu_record *r) {
  const clu_journal_head *head = clu_journal_head_of(j);
  size_t nhead = r->flags & CLU_RECORD_HEADED ? 0 : head->nr;
  unsigned char few[2048];
  clu_blob *b;
  if (nhead + r->size <= sizeof few) {
    memcpy(few, head->r, nhead);
    if (clu_journal_payload(j, at, r, few + nhead) != CLU_OK)
      clu_raise("journal", "the journal cannot be read");
    return clu_unserialize_bytes(few, nhead + (size_t)r->size);
  }
  b = clu_blob_new(nhead + (size_t)r->size);
  if (!b) clu_raise("memory", "not enough memory");
  clu_blob_append(b, head->r, nhead); /* there is room */
  clu_blob_append(b, NULL, (size_t)r->size);
  if (clu_journal_payload(j, at, r, b->data + nhead) != CLU_OK) {
    clu_blob_unref(b);
    clu_raise("journal", "the journal cannot be read");
  }
  return clu_unserialize(b, 0);
}

/* A JOB record with this key: its number. */
SEXP ffi_journal_add_job(SEXP x, SEXP key, SEXP object) {
  clu_journal *j = get(x);
  clu_blob *b = clu_serialize(NULL, object);
  clu_record r = {.kind = CLU_RECORD_JOB};
  size_t skip = clu_record_r_header(clu_journal_head_of(j), b->data, b->size);
  uint64_t number = clu_journal_next_job(j);
  int rc;
  memcpy(r.key, RAW_RO(key), CLU_HASH);
  if (skip == 0) r.flags = CLU_RECORD_HEADED;
  r.size = b->size - skip;
  r.job = (uint16_t)number;
  rc = clu_journal_add(j, &r, b->data + skip);
  clu_blob_unref(b);
  if (rc != CLU_OK) clu_raise("journal", "the journal: %s", clu_journal_error(j)->text);
  return Rf_ScalarReal((double)number);
}

/* How many JOB records there are. */
SEXP ffi_journal_jobs(SEXP x) { return Rf_ScalarReal((double)clu_journal_jobs(get(x))); }

/* JOB record `k`, from 0: list(key, object, its number). */
SEXP ffi_journal_job(SEXP x, SEXP k) {
  clu_journal *j = get(x);
  double which = Rf_asReal(k);
  clu_record r;
  uint64_t at;
  SEXP out = PROTECT(Rf_allocVector(VECSXP, 3)), key = Rf_allocVector(RAWSXP, CLU_HASH);
  SET_VECTOR_ELT(out, 0, key);
  if (which < 0 || which >= (double)clu_journal_jobs(j))
    clu_raise("argument", "there is no such record");
  at = clu_journal_job_at(j, (uint64_t)which);
  if (clu_journal_get(j, at, &r) != CLU_OK) clu_raise("journal", "the journal cannot be read");
  memcpy(RAW(key), r.key, CLU_HASH);
  SET_VECTOR_ELT(out, 1, object_at(j, at, &r));
  SET_VECTOR_ELT(out, 2, Rf_ScalarReal(r.job));
  UNPROTECT(1);
  return out;
}

/* The object of the record at byte `at`. */
SEXP ffi_journal_object(SEXP x, SEXP at) {
  clu_journal *j = get(x);
  clu_record r;
  if (clu_journal_get(j, (uint64_t)Rf_asReal(at), &r) != CLU_OK)
    clu_raise("journal", "the journal cannot be read");
  return object_at(j, (uint64_t)Rf_asReal(at), &r);
}

static SEXP column(SEXP list, int k, SEXPTYPE type, R_xlen_t n) {
  SET_VECTOR_ELT(list, k, Rf_allocVector(type, n));
  return VECTOR_ELT(list, k);
}

static SEXP hex(const unsigned char *key) {
  static const char digits[] = "0123456789abcdef";
  char text[2 * CLU_HASH];
  for (int i = 0; i < CLU_HASH; i++) {
    text[2 * i] = digits[key[i] >> 4];
    text[2 * i + 1] = digits[key[i] & 15];
  }
  return Rf_mkCharLen(text, sizeof text);
}

/* All records of elements, in the order of the file: a list of columns: at, key, kind, flags,
 * attempt, element, seconds, node, job, time (seconds since 1970), size. */
SEXP ffi_journal_rows(SEXP x) {
  static const char *names[] = {"at",      "key",  "kind", "flags", "attempt", "element",
                                "seconds", "node", "job",  "time",  "size",    ""};
  clu_journal *j = get(x);
  R_xlen_t most = (R_xlen_t)clu_journal_count(j).records, n = 0;
  SEXP out = PROTECT(Rf_mkNamed(VECSXP, names));
  SEXP at = column(out, 0, REALSXP, most), key = column(out, 1, STRSXP, most);
  SEXP numbers[9];
  double time = clu_journal_head_of(j)->made;
  clu_record r;
  for (int k = 0; k < 9; k++) numbers[k] = column(out, k + 2, REALSXP, most);
  for (uint64_t p = 0; n < most && clu_journal_next(j, &p, &r);) {
    double values[9] = {r.kind, r.flags, r.attempt, r.element,     r.seconds,
                        r.node, r.job,   time,      (double)r.size};
    if (r.kind == CLU_RECORD_TIME && r.size == CLU_RECORD_TIME_SIZE) {
      unsigned char date[CLU_RECORD_TIME_SIZE];
      if (clu_journal_payload(j, p, &r, date) == CLU_OK) time = clu_record_get_time(date);
    }
    if (r.kind != CLU_RECORD_VALUE && r.kind != CLU_RECORD_ERROR) continue;
    REAL(at)[n] = (double)p;
    SET_STRING_ELT(key, n, hex(r.key));
    for (int k = 0; k < 9; k++) REAL(numbers[k])[n] = values[k];
    n++;
  }
  if (clu_journal_is_unread(j)) clu_raise("journal", "the journal cannot be read");
  for (int k = 0; k < 11; k++) SET_VECTOR_ELT(out, k, Rf_xlengthgets(VECTOR_ELT(out, k), n));
  UNPROTECT(1);
  return out;
}

/* Appends to `to` what counts in `from`: JOB and TIME records, and of each key the last result. */
SEXP ffi_journal_copy(SEXP from, SEXP to) {
  clu_journal *a = get(from), *b = get(to);
  clu_record r;
  int rc = CLU_OK, is_error;
  for (uint64_t at = 0; rc == CLU_OK && clu_journal_next(a, &at, &r);) {
    void *payload;
    int is_result = r.kind == CLU_RECORD_VALUE || r.kind == CLU_RECORD_ERROR;
    if (is_result && clu_journal_find(a, r.key, &is_error) != at) continue;
    payload = malloc((size_t)r.size + 1);
    rc = payload ? clu_journal_payload(a, at, &r, payload) : CLU_NOMEM;
    if (rc == CLU_OK) rc = clu_journal_add(b, &r, payload);
    free(payload);
  }
  if (rc == CLU_OK && clu_journal_is_unread(a)) rc = CLU_SYS; /* and some are left out */
  if (rc == CLU_OK) rc = clu_journal_sync(b); /* it will take the place of another file */
  if (rc != CLU_OK) clu_raise("journal", "the journal cannot be copied: %s", clu_code_text(rc));
  return R_NilValue;
}

/* ---- a job and its journal ---- */

typedef struct finding {
  clu_journal *j;
  SEXP keys;
  uint32_t seed[6];
  uint64_t seed_at; /* the element whose stream that is, from 0 */
  int seeded, drew, errors;
  int later; /* values are read when they are wanted: ffi_journal_kept() */
  clu_task_recorded as;
} finding;

/* The record with the key of element `i` that has used random numbers. */
static uint64_t find_drawn(finding *f, R_xlen_t i, unsigned char *key, int *is_error) {
  uint32_t place[6];
  if (f->seeded) {
    clu_stream_jump(f->seed, (uint64_t)i - f->seed_at);
    f->seed_at = (uint64_t)i;
  } else {
    clu_task_place(place, &f->as, (uint64_t)i);
  }
  clu_record_key_of_stream(key, f->seeded ? f->seed : place);
  return clu_journal_find(f->j, key, is_error);
}

/* The record of element `i` that can be taken; 0: there is none. */
static uint64_t find(finding *f, R_xlen_t i, int *is_error) {
  unsigned char key[CLU_HASH];
  uint64_t at = 0, drawn;
  int drawn_is_error = 0;
  memcpy(key, RAW_RO(f->keys) + i * CLU_HASH, CLU_HASH);
  *is_error = 0;
  if (!f->as.draws) at = clu_journal_find(f->j, key, is_error);
  /* it may have failed before it has used any, and then not */
  if (f->drew && (!at || *is_error)) {
    drawn = find_drawn(f, i, key, &drawn_is_error);
    if (drawn && (!at || !drawn_is_error)) {
      at = drawn;
      *is_error = drawn_is_error;
    }
  }
  return *is_error && !f->errors ? 0 : at;
}

/* Finds the record of element `i`, whose payload can be used: where it is; 0: there is none. */
static uint64_t find_usable(finding *f, R_xlen_t i, clu_record *r, int *is_error) {
  uint64_t at = find(f, i, is_error);
  if (!at || clu_journal_get(f->j, at, r) != CLU_OK) return 0;
  if (*is_error && (r->size == 0 || (r->flags & (CLU_RECORD_DIED | CLU_RECORD_TIMEOUT)))) return 0;
  return at;
}

static SEXP kept_symbol(void) { return Rf_install("clutch_kept"); }

/* Stands for the object of the record at `at`. */
static SEXP kept_at(uint64_t at) {
  return R_MakeExternalPtr((void *)(uintptr_t)at, kept_symbol(), R_NilValue);
}

/* The value that this stands for; anything else stands for itself. */
SEXP ffi_journal_kept(SEXP x, SEXP kept) {
  clu_journal *j = get(x);
  clu_record r;
  uint64_t at;
  SEXP value;
  if (TYPEOF(kept) != EXTPTRSXP || R_ExternalPtrTag(kept) != kept_symbol()) return kept;
  at = (uint64_t)(uintptr_t)R_ExternalPtrAddr(kept);
  if (clu_journal_get(j, at, &r) != CLU_OK) clu_raise("journal", "the journal cannot be read");
  value = PROTECT(object_at(j, at, &r));
  if (r.flags & CLU_RECORD_LOG) value = VECTOR_ELT(value, 0);
  UNPROTECT(1);
  return clu_is_packed(value) ? clu_unpack("unpack_result", value) : value;
}

/* Takes what has the value of element `i` into the job: its log at once, the value later. */
static void take_later(finding *f, clu_task_job *job, SEXP prot, R_xlen_t i, uint64_t at,
                       const clu_record *r) {
  SEXP kept = PROTECT(kept_at(at)), both;
  if (!(r->flags & CLU_RECORD_LOG)) {
    clu_job_set_value(job, prot, (uint64_t)i, 0, kept);
    UNPROTECT(1);
    return;
  }
  both = PROTECT(object_at(f->j, at, r));
  SET_VECTOR_ELT(both, 0, kept);
  clu_job_set_value(job, prot, (uint64_t)i, CLU_RESULT_LOG, both);
  UNPROTECT(2);
}

/* Takes the value of element `i` into the job: 1, or 0: it has none that can be used. */
static int take(finding *f, clu_task_job *job, SEXP prot, R_xlen_t i, unsigned char *done) {
  int is_error = 0;
  clu_record r;
  uint64_t at = find_usable(f, i, &r, &is_error);
  if (!at) return 0;
  done[i] = 1;
  if (f->later && !is_error) {
    take_later(f, job, prot, i, at, &r);
  } else if (is_error || !f->as.only) {
    uint32_t flags = r.flags & CLU_RECORD_LOG ? CLU_RESULT_LOG : 0;
    SEXP value = PROTECT(object_at(f->j, at, &r));
    clu_job_set_value(job, prot, (uint64_t)i, flags, value);
    UNPROTECT(1);
  }
  if (is_error) clu_task_job_fail_before(job, (uint64_t)i, r.attempt);
  return 1;
}

/* `as`: numbers, see ffi_job_record(). */
static finding finding_of(SEXP journal, SEXP keys, SEXP as, SEXP seed, R_xlen_t n) {
  finding f = {.j = get(journal), .keys = keys, .seeded = seed != R_NilValue};
  const double *number = REAL(as);
  if (Rf_xlength(keys) != n * CLU_HASH) clu_raise("argument", "the keys are not those of the job");
  f.as.number = (uint32_t)number[0];
  f.as.run = (uint32_t)number[1];
  f.as.first = (uint64_t)number[2];
  f.as.draws = number[3] != 0;
  f.errors = number[4] != 0;
  f.as.only = number[5] != 0;
  f.later = number[6] != 0;
  f.drew = clu_journal_count(f.j).drew > 0;
  for (int i = 0; i < 6 && f.seeded; i++) f.seed[i] = (uint32_t)INTEGER(seed)[i];
  return f;
}

/* A job that has not begun records in the journal from now on. `keys`: of ffi_element_keys(). `as`:
 * number of its JOB record, run, number of its first element, whether all draw, whether elements
 * that have failed count as done, whether values are for the journal only, and whether those that
 * it has are read later, by ffi_journal_kept(). `seed`: six
 * integers, the stream of the first element, or NULL. Elements that the journal has get their
 * values from it: how many. */
SEXP ffi_job_record(SEXP handle, SEXP journal, SEXP keys, SEXP as, SEXP seed) {
  clu_task_job *job = clu_job_get(handle);
  R_xlen_t n = (R_xlen_t)clu_task_job_size(job), kept = 0;
  finding f = finding_of(journal, keys, as, seed, n);
  SEXP done = PROTECT(Rf_allocVector(RAWSXP, n)), prot = R_ExternalPtrProtected(handle);
  unsigned char *own_keys, *own_done;
  int has_results = clu_journal_count(f.j).keys > 0;
  memset(RAW(done), 0, (size_t)n);
  for (R_xlen_t i = 0; i < n && has_results; i++) {
    if (i % 65536 == 65535) R_CheckUserInterrupt();
    kept += take(&f, job, prot, i, RAW(done));
  }
  own_keys = malloc((size_t)n * CLU_HASH + 1);
  own_done = malloc((size_t)n + 1);
  if (!own_keys || !own_done) {
    free(own_keys);
    free(own_done);
    clu_raise("memory", "not enough memory");
  }
  memcpy(own_keys, RAW(keys), (size_t)n * CLU_HASH);
  memcpy(own_done, RAW(done), (size_t)n);
  if (clu_task_job_record(job, f.j, own_keys, own_done, &f.as) != CLU_OK)
    clu_raise("memory", "not enough memory");
  UNPROTECT(1);
  return Rf_ScalarReal((double)kept);
}

/* Reads what the journal has of these elements, as for ffi_job_record(): list(values, logs,
 * states). For each element: its value, or what is known of its error; what it has said, or NULL;
 * 0: the journal has nothing, 1: a value, 2: an error. `wants`: FALSE: the states only. */
SEXP ffi_journal_values(SEXP journal, SEXP keys, SEXP as, SEXP seed, SEXP wants) {
  static const char *names[] = {"values", "logs", "states", ""};
  R_xlen_t n = Rf_xlength(keys) / CLU_HASH;
  finding f = finding_of(journal, keys, as, seed, n);
  int wanted = Rf_asLogical(wants) == 1;
  SEXP out = PROTECT(Rf_mkNamed(VECSXP, names)), values = R_NilValue, logs = R_NilValue, states;
  states = column(out, 2, RAWSXP, n);
  memset(RAW(states), 0, (size_t)n);
  if (wanted) {
    values = column(out, 0, VECSXP, n);
    logs = column(out, 1, VECSXP, n);
  }
  for (R_xlen_t i = 0; i < n; i++) {
    int is_error = 0;
    clu_record r;
    uint64_t at = find_usable(&f, i, &r, &is_error);
    if (i % 65536 == 65535) R_CheckUserInterrupt();
    if (!at) continue;
    RAW(states)[i] = is_error ? 2 : 1;
    if (!wanted) continue;
    SET_VECTOR_ELT(values, i, object_at(f.j, at, &r));
    if (!(r.flags & CLU_RECORD_LOG)) continue;
    SET_VECTOR_ELT(logs, i, VECTOR_ELT(VECTOR_ELT(values, i), 1));
    SET_VECTOR_ELT(values, i, VECTOR_ELT(VECTOR_ELT(values, i), 0));
  }
  UNPROTECT(1);
  return out;
}

/* Makes a file with this text where there is none, whoever else tries it at the same time: TRUE;
 * FALSE: there is one. */
SEXP ffi_file_new(SEXP path, SEXP text) {
  const char *file = Rf_translateCharUTF8(STRING_ELT(path, 0));
  const char *p = CHAR(STRING_ELT(text, 0));
  clu_fd fd;
  clu_err e = {0};
  int rc = clu_os_file_open(file, CLU_FILE_NEW, &fd, &e);
  if (rc == CLU_IN_USE) return Rf_ScalarLogical(0);
  if (rc == CLU_OK) {
    rc = clu_os_file_write(fd, 0, p, strlen(p), &e);
    clu_os_file_close(fd);
    if (rc != CLU_OK) clu_os_file_remove(file); /* it is this call's */
  }
  if (rc != CLU_OK) clu_raise("journal", "%s: %s", file, e.text);
  return Rf_ScalarLogical(1);
}
