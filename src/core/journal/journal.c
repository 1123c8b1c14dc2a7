#include "core/journal/journal.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/grow.h"
#include "core/journal/index.h"
#include "core/journal/reader.h"
#include "core/journal/syncing.h"

#define BUFFER ((size_t)1 << 18)
#define LARGE (BUFFER / 4)     /* bytes of a record that goes to the file at once */
#define MOST_WAIT 20000000u    /* ns that a record waits */
#define TIME_EVERY 1000000000u /* ns between two TIME records */

struct clu_journal {
  clu_journal *next; /* of those that can be written */
  char *path;
  int refs;
  clu_fd fd;
  int may_write;
  int has_name; /* as the file system says: some do not count the names of a file */
  clu_journal_head head;
  clu_journal_reader reader;
  clu_journal_index index;
  clu_journal_counts counts;
  uint64_t indexed; /* records before this place are in the index */
  uint64_t *jobs;   /* where JOB records are */
  size_t njobs, capjobs;
  uint64_t next_job;
  int no_times;
  unsigned char *buffer;
  size_t n; /* bytes in it, which belong behind the first `written` of the file */
  uint64_t written;
  uint64_t since;               /* when the first of them came */
  uint64_t last_time;           /* when a TIME record was written */
  clu_err error;                /* code CLU_OK: there is none */
  clu_journal_syncing *syncing; /* NULL: there is none */
  uint64_t sync_ns;
};

static clu_journal *writable;

/* ---- what records say ---- */

static int note_job(clu_journal *j, uint64_t at) {
  uint64_t *more = clu_grow(j->jobs, &j->capjobs, j->njobs + 1, sizeof *more);
  if (!more) return CLU_NOMEM;
  j->jobs = more;
  j->jobs[j->njobs++] = at;
  return CLU_OK;
}

static int note(clu_journal *j, uint64_t at, const clu_record *r) {
  j->counts.records++;
  j->counts.drew += (r->flags & CLU_RECORD_DREW) != 0;
  if (r->kind != CLU_RECORD_JOB) return CLU_OK;
  if (r->job >= j->next_job) j->next_job = (uint64_t)r->job + 1;
  return note_job(j, at);
}

static int put_into_index(clu_journal *j, uint64_t at, const clu_record *r) {
  j->indexed = at + clu_record_length(r->size);
  if (r->kind != CLU_RECORD_VALUE && r->kind != CLU_RECORD_ERROR) return CLU_OK;
  return clu_journal_index_put(&j->index, r->key, at, r->kind == CLU_RECORD_ERROR);
}

/* Large ones were written by this process; the others are checked again, which costs little. */
static int is_there(clu_journal *j, uint64_t at, clu_record *r) {
  uint64_t length;
  if (clu_journal_get(j, at, r) != CLU_OK) return 0;
  length = clu_record_length(r->size);
  if (length > LARGE) return length <= j->written - at;
  return clu_journal_reader_is_whole(&j->reader, at, r);
}

/* Brings the index up to date. It is a table larger than the processor's caches: each entry that is
 * put into it takes longer than all else that is done for a small record. So records are read for
 * it from the file when somebody asks. What cannot be read, or has no memory, is computed again. */
static void update_index(clu_journal *j) {
  clu_record r;
  if (j->n > 0) clu_journal_flush(j);
  while (j->indexed < j->written)
    if (!is_there(j, j->indexed, &r) || put_into_index(j, j->indexed, &r) != CLU_OK)
      j->indexed = j->written;
}

/* ---- opened ---- */

static int make_head(clu_journal *j, const clu_journal_options *o, clu_err *e) {
  unsigned char bytes[CLU_JOURNAL_HEAD];
  int rc = clu_os_random(&j->head.salt, sizeof j->head.salt);
  if (rc != CLU_OK) return clu_fail(e, rc, 0, "the system has no random numbers");
  j->head.made = clu_os_date();
  j->head.nr = o->nr;
  if (o->nr > 0) memcpy(j->head.r, o->r, o->nr);
  clu_journal_head_put(bytes, &j->head);
  if ((rc = clu_os_file_cut(j->fd, 0)) != CLU_OK) return clu_fail(e, rc, 0, "it cannot be cut");
  return clu_os_file_write(j->fd, 0, bytes, sizeof bytes, e);
}

static int is_none(const unsigned char *head, uint64_t n, clu_err *e) {
  if (clu_journal_is_other(head, (size_t)n))
    return clu_fail(e, CLU_PROTO, 0, "its format is one of another version of clutch");
  return clu_fail(e, CLU_PROTO, 0, "it is no journal");
}

/* A file that is shorter than a head was being made when its writer ended. */
static int read_head(clu_journal *j, const clu_journal_options *o, uint64_t *size, clu_err *e) {
  unsigned char bytes[CLU_JOURNAL_HEAD];
  int rc = clu_os_file_size(j->fd, size);
  if (rc != CLU_OK) return clu_fail(e, rc, 0, "its size cannot be found out");
  if (*size >= sizeof bytes) {
    rc = clu_os_file_read(j->fd, 0, bytes, sizeof bytes);
    if (rc != CLU_OK) return clu_fail(e, CLU_SYS, 0, "it cannot be read");
    if (!clu_journal_head_get(bytes, &j->head)) return is_none(bytes, sizeof bytes, e);
    return CLU_OK;
  }
  if (*size > 0 && clu_os_file_read(j->fd, 0, bytes, (size_t)*size) != CLU_OK)
    return clu_fail(e, CLU_SYS, 0, "it cannot be read");
  if (*size > 0 && !clu_journal_is_begun(bytes, (size_t)*size)) return is_none(bytes, *size, e);
  if (!o->may_write) return clu_fail(e, CLU_PROTO, 0, "it is empty");
  *size = sizeof bytes;
  return make_head(j, o, e);
}

/* Reads all records. What the system cannot read may be whole, and is not to be cut off. */
static int scan(clu_journal *j, uint64_t size) {
  uint64_t at = CLU_JOURNAL_HEAD;
  clu_record r;
  int rc = CLU_OK;
  while (at < size && rc == CLU_OK) {
    if (clu_journal_reader_is_whole(&j->reader, at, &r)) {
      rc = note(j, at, &r);
      if (rc == CLU_OK) rc = put_into_index(j, at, &r);
      at += clu_record_length(r.size);
    } else {
      uint64_t next = size;
      if (!j->reader.has_failed) next = clu_journal_reader_search(&j->reader, at + 8);
      if (j->reader.has_failed) return CLU_SYS;
      if (next >= size) break;
      j->counts.damaged++;
      j->counts.lost += next - at;
      at = next;
    }
  }
  j->counts.torn = size - at;
  j->written = j->indexed = at;
  clu_journal_reader_cut(&j->reader, at);
  return rc;
}

static int open_file(clu_journal *j, const char *path, const clu_journal_options *o, clu_err *e) {
  uint64_t size;
  int rc = clu_os_file_open(path, o->may_write ? CLU_FILE_WRITE : CLU_FILE_READ, &j->fd, e);
  if (rc != CLU_OK || (rc = read_head(j, o, &size, e)) != CLU_OK) return rc;
  j->has_name = !clu_os_file_is_removed(j->fd);
  rc = clu_journal_reader_init(&j->reader, j->fd, j->head.salt, size);
  if (rc == CLU_OK) rc = scan(j, size);
  if (rc == CLU_SYS) return clu_fail(e, rc, 0, "it cannot be read");
  if (rc != CLU_OK) return clu_fail(e, rc, 0, "not enough memory");
  if (!o->may_write) return CLU_OK;
  if (j->counts.torn > 0 && (rc = clu_os_file_cut(j->fd, j->written)) != CLU_OK)
    return clu_fail(e, rc, 0, "its torn end cannot be cut off");
  j->buffer = malloc(BUFFER);
  j->syncing = clu_journal_syncing_new(j->fd, o->sync_ns, o->touched, o->owner);
  if (!j->buffer || !j->syncing) return clu_fail(e, CLU_NOMEM, 0, "not enough memory");
  return CLU_OK;
}

static char *copy_of(const char *text) {
  char *copy = malloc(strlen(text) + 1);
  return copy ? strcpy(copy, text) : NULL;
}

int clu_journal_open(const char *path, const clu_journal_options *o, clu_journal **out,
                     clu_err *e) {
  clu_journal *j = calloc(1, sizeof *j);
  int rc;
  if (!j) return clu_fail(e, CLU_NOMEM, 0, "not enough memory");
  j->refs = 1;
  j->fd = CLU_NO_FD;
  j->may_write = o->may_write;
  j->sync_ns = o->sync_ns;
  j->no_times = o->no_times;
  rc = open_file(j, path, o, e);
  if (rc == CLU_OK && !(j->path = copy_of(path)))
    rc = clu_fail(e, CLU_NOMEM, 0, "not enough memory");
  if (rc != CLU_OK) {
    clu_journal_unref(j);
    return rc;
  }
  if (o->may_write) {
    j->next = writable;
    writable = j;
  }
  *out = j;
  return CLU_OK;
}

clu_journal *clu_journal_ref(clu_journal *j) {
  j->refs++;
  return j;
}

clu_journal *clu_journal_shared(const char *path) {
  for (clu_journal *j = writable; j; j = j->next)
    if (strcmp(j->path, path) == 0) return clu_journal_ref(j);
  return NULL;
}

static void take_out(clu_journal *j) {
  clu_journal **at = &writable;
  while (*at && *at != j) at = &(*at)->next;
  if (*at) *at = j->next;
}

/* All but the file. */
static void release(clu_journal *j) {
  free(j->path);
  clu_journal_reader_fini(&j->reader);
  clu_journal_index_fini(&j->index);
  free(j->jobs);
  free(j->buffer);
  free(j);
}

void clu_journal_unref(clu_journal *j) {
  if (!j || --j->refs > 0) return;
  take_out(j);
  if (j->buffer) clu_journal_flush(j);
  if (j->syncing)
    clu_journal_syncing_leave(j->syncing);
  else
    clu_os_file_close(j->fd);
  release(j);
  clu_journals_settle(0);
}

void clu_journals_forget(void) {
  clu_journal_syncing_forget_left();
  while (writable) {
    clu_journal *j = writable;
    writable = j->next;
    clu_os_file_close(j->fd);
    clu_journal_syncing_forget(j->syncing);
    release(j);
  }
}

void clu_journals_settle(int wait) { clu_journal_syncing_settle(wait); }

const clu_journal_head *clu_journal_head_of(const clu_journal *j) { return &j->head; }
const clu_err *clu_journal_error(const clu_journal *j) { return j->error.code ? &j->error : NULL; }
uint64_t clu_journal_jobs(const clu_journal *j) { return j->njobs; }
uint64_t clu_journal_next_job(const clu_journal *j) { return j->next_job; }
uint64_t clu_journal_job_at(const clu_journal *j, uint64_t k) { return j->jobs[k]; }

clu_journal_counts clu_journal_count(clu_journal *j) {
  clu_journal_counts c;
  update_index(j);
  c = j->counts;
  c.keys = j->index.n;
  c.size = j->written + j->n;
  return c;
}

/* ---- appending ---- */

static void wrote(clu_journal *j, uint64_t n) {
  j->written += n;
  j->reader.size = j->written;
}

/* Keeps those records of the buffer that were written whole. The others are cut off again.
 * Nothing more is taken. */
static int give_up(clu_journal *j) {
  uint64_t size = 0;
  clu_record r;
  clu_os_file_size(j->fd, &size);
  for (size_t at = 0; at < j->n && clu_record_get(j->buffer + at, &r);) {
    size_t length = (size_t)clu_record_length(r.size);
    if (j->written + length > size) break;
    wrote(j, length);
    at += length;
  }
  clu_os_file_cut(j->fd, j->written);
  j->n = 0;
  return j->error.code;
}

static int write_out(clu_journal *j, const void *p, size_t n, uint64_t at) {
  if (n == 0) return CLU_OK;
  return clu_os_file_write(j->fd, at, p, n, &j->error);
}

/* Tells whether somebody else has written to the file, or removed it: who was away for long may
 * have lost its lock. */
static int is_somebody_elses(clu_journal *j) {
  uint64_t size = 0;
  int is_removed = j->has_name && clu_os_file_is_removed(j->fd);
  if (!is_removed && clu_os_file_size(j->fd, &size) == CLU_OK && size == j->written) return 0;
  clu_fail(&j->error, CLU_SYS, 0,
           is_removed ? "somebody has removed or replaced it" : "somebody else has written to it");
  j->n = 0;
  return 1;
}

int clu_journal_flush(clu_journal *j) {
  if (j->error.code) return j->error.code;
  if (j->n == 0) return CLU_OK;
  if (is_somebody_elses(j)) return j->error.code;
  if (write_out(j, j->buffer, j->n, j->written) != CLU_OK) return give_up(j);
  wrote(j, j->n);
  j->n = 0;
  if (clu_journal_syncing_wrote(j->syncing, &j->error) != CLU_OK) return j->error.code;
  return CLU_OK;
}

int clu_journal_sync(clu_journal *j) {
  int rc = clu_journal_flush(j);
  return rc == CLU_OK ? clu_os_file_sync(j->fd, &j->error) : rc;
}

/* Behind what is in the buffer, in which there is room. */
static void put_small(clu_journal *j, const clu_record *r, const void *payload) {
  unsigned char *p = j->buffer + j->n;
  size_t length = (size_t)clu_record_length(r->size), used = CLU_RECORD_HEAD + (size_t)r->size;
  if (r->size > 0) memcpy(p + CLU_RECORD_HEAD, payload, (size_t)r->size);
  clu_record_put_before(p, r, j->head.salt);
  memset(p + used, 0, length - used);
  j->n += length;
}

static int put_large(clu_journal *j, const clu_record *r, const void *payload) {
  static const unsigned char zeros[8];
  unsigned char head[CLU_RECORD_HEAD];
  uint64_t length = clu_record_length(r->size), at = j->written;
  int rc = clu_journal_flush(j);
  if (rc != CLU_OK) return rc;
  if (is_somebody_elses(j)) return j->error.code;
  at = j->written;
  clu_record_put(head, r, payload, j->head.salt);
  if (write_out(j, head, sizeof head, at) != CLU_OK ||
      write_out(j, payload, (size_t)r->size, at + CLU_RECORD_HEAD) != CLU_OK ||
      write_out(j, zeros, (size_t)(length - CLU_RECORD_HEAD - r->size),
                at + CLU_RECORD_HEAD + r->size) != CLU_OK)
    return give_up(j);
  wrote(j, length);
  return clu_journal_syncing_wrote(j->syncing, &j->error);
}

static void put_time(clu_journal *j, uint64_t now) {
  clu_record r = {.kind = CLU_RECORD_TIME, .size = CLU_RECORD_TIME_SIZE};
  unsigned char date[CLU_RECORD_TIME_SIZE];
  if (j->no_times) return;
  if (j->last_time && now - j->last_time < TIME_EVERY) return;
  j->last_time = now;
  if (j->n + clu_record_length(r.size) > BUFFER) return;
  clu_record_put_time(date, clu_os_date());
  put_small(j, &r, date);
  j->counts.records++;
}

int clu_journal_add(clu_journal *j, const clu_record *r, const void *payload) {
  uint64_t length = clu_record_length(r->size), at, now;
  int rc = CLU_OK;
  if (j->error.code) return j->error.code;
  if (!j->may_write || r->size > CLU_RECORD_MOST)
    return clu_fail(&j->error, CLU_LIMIT, 0, "it takes no such record");
  if (j->n + length > BUFFER && (rc = clu_journal_flush(j)) != CLU_OK) return rc;
  if (j->n == 0) { /* the clock is read once a buffer */
    now = clu_os_now();
    put_time(j, now);
    j->since = now;
  }
  if (length > LARGE && (rc = clu_journal_flush(j)) != CLU_OK) return rc;
  at = j->written + j->n;
  if (length > LARGE)
    rc = put_large(j, r, payload);
  else
    put_small(j, r, payload);
  if (rc != CLU_OK) return rc;
  if (note(j, at, r) != CLU_OK)
    return clu_fail(&j->error, CLU_NOMEM, 0, "not enough memory for its index");
  return j->sync_ns == 0 ? clu_journal_flush(j) : CLU_OK;
}

int64_t clu_journal_tick(clu_journal *j, uint64_t now) {
  if (j->n == 0 || j->error.code) return INT64_MAX;
  if (now - j->since < MOST_WAIT) return (int64_t)(MOST_WAIT - (now - j->since));
  clu_journal_flush(j);
  return INT64_MAX;
}

/* ---- reading ---- */

int clu_journal_is_unread(const clu_journal *j) { return j->reader.has_failed; }

uint64_t clu_journal_find(clu_journal *j, const unsigned char key[CLU_HASH], int *is_error) {
  uint64_t at;
  update_index(j);
  return clu_journal_index_get(&j->index, key, &at, is_error) ? at : 0;
}

int clu_journal_get(clu_journal *j, uint64_t at, clu_record *r) {
  unsigned char head[CLU_RECORD_HEAD];
  int rc = at >= j->written ? clu_journal_flush(j) : CLU_OK;
  if (rc == CLU_OK) rc = clu_journal_reader_bytes(&j->reader, at, head, sizeof head);
  if (rc != CLU_OK) return rc;
  return clu_record_get(head, r) ? CLU_OK : CLU_PROTO;
}

int clu_journal_payload(clu_journal *j, uint64_t at, const clu_record *r, void *to) {
  return clu_journal_reader_bytes(&j->reader, at + CLU_RECORD_HEAD, to, (size_t)r->size);
}

int clu_journal_next(clu_journal *j, uint64_t *at, clu_record *r) {
  uint64_t next = CLU_JOURNAL_HEAD;
  if (*at > 0) {
    clu_record before;
    if (clu_journal_get(j, *at, &before) != CLU_OK) return 0;
    next = *at + clu_record_length(before.size);
  }
  if (next >= j->written) return 0;
  if (!clu_journal_reader_is_whole(&j->reader, next, r)) {
    next = clu_journal_reader_search(&j->reader, next + 8);
    if (next >= j->written || !clu_journal_reader_is_whole(&j->reader, next, r)) return 0;
  }
  *at = next;
  return 1;
}
