/* A journal: a file to which results are appended as they come, and from which they are read again.
 * The format: core/journal/record.h.
 *
 * Appending. Records gather in memory, up to 256 kB; large ones go to the file at once.
 * clu_journal_flush() hands all of them to the kernel: after that they survive the end of this
 * process, whatever ends it. A thread of the journal's own has them synchronized with the disk, so
 * often as was asked for: after that they survive the machine's end. When a write fails the file is
 * cut back to its last whole record, and the journal takes nothing more: clu_journal_error().
 *
 * Reading. When it is opened, every record is read and checked. Where one is damaged the next whole
 * one is searched for; what is behind the last whole one is cut off, since it was being written
 * when its writer ended. Both are counted. Where the system cannot read the file it is not opened.
 *
 * One writer at a time: whoever opens a journal to write has seen to it that nobody else does
 * (R/journal-lock.R). Functions are for one thread; all block for the disk, but none waits for
 * anything else. What a journal holds belongs to the process that has opened it: in a forked child
 * only clu_journals_forget() may be called. A job of an engine has a reference to its journal.
 */
#ifndef CLUTCH_JOURNAL_H
#define CLUTCH_JOURNAL_H

#include "core/base/os-files.h"
#include "core/journal/record.h"

typedef struct clu_journal clu_journal;

typedef struct clu_journal_options {
  int may_write;       /* else it is only read, and has to be there */
  uint64_t sync_ns;    /* at the most so long after a flush it is on the disk; 0: each flush waits
                          for that; UINT64_MAX: never */
  const char *touched; /* a file that is touched every 10 s, or NULL */
  const char *owner;   /* as long as it says this; NULL: what it says now */
  int no_times;        /* records are copied to it, which have TIME records of their own */
  uint32_t nr;         /* of a new one: R's header */
  const unsigned char *r;
} clu_journal_options;

/* A journal with one reference. CLU_OK, CLU_NOMEM, CLU_SYS; CLU_PROTO: it is a file of another
 * kind. */
int clu_journal_open(const char *path, const clu_journal_options *o, clu_journal **out, clu_err *e);
clu_journal *clu_journal_ref(clu_journal *j);
/* With the last reference it is flushed and closed; `touched` is removed. What is not on the disk
 * yet the thread still sees to: clu_journals_settle(). Accepts NULL. */
void clu_journal_unref(clu_journal *j);
/* One that is open already to be written, by another reference; NULL: this process has none. */
clu_journal *clu_journal_shared(const char *path);
/* In a forked child: its copies of all journals that can be written are freed, whatever refers to
 * them, and their files are left alone. */
void clu_journals_forget(void);
/* Sees to what closed journals have left to be done: frees what is done, and waits for the rest
 * if `wait`. */
void clu_journals_settle(int wait);
const clu_journal_head *clu_journal_head_of(const clu_journal *j);

typedef struct clu_journal_counts {
  uint64_t records, keys; /* whole ones; different keys of results */
  uint64_t size;          /* bytes of the file, what waits to be written included */
  uint64_t damaged, lost; /* places with damage, when it was opened; bytes there */
  uint64_t torn;          /* bytes that were cut off its end */
  uint64_t drew;          /* records with CLU_RECORD_DREW */
} clu_journal_counts;
clu_journal_counts clu_journal_count(clu_journal *j);

/* ---- appending ---- */

/* `r->size` bytes follow at `payload`. CLU_OK, or why nothing is taken any more. */
int clu_journal_add(clu_journal *j, const clu_record *r, const void *payload);
int clu_journal_flush(clu_journal *j);
/* Does the same, and waits until all of it is on the disk. */
int clu_journal_sync(clu_journal *j);
/* Flushes if something has waited for 20 ms. ns until it will have; INT64_MAX: nothing waits. */
int64_t clu_journal_tick(clu_journal *j, uint64_t now);
/* Why nothing is taken any more; NULL: it is. The journal's. */
const clu_err *clu_journal_error(const clu_journal *j);
/* JOB records so far. */
uint64_t clu_journal_jobs(const clu_journal *j);
/* The number that the next one gets. */
uint64_t clu_journal_next_job(const clu_journal *j);
/* Where the k-th (from 0) is. */
uint64_t clu_journal_job_at(const clu_journal *j, uint64_t k);

/* ---- reading ---- */

/* Where the last result with this key is; 0: there is none. A value goes before an error. */
uint64_t clu_journal_find(clu_journal *j, const unsigned char key[CLU_HASH], int *is_error);
/* The record at `at`. */
int clu_journal_get(clu_journal *j, uint64_t at, clu_record *r);
/* Its payload, `r->size` bytes. What is read in the order of the file is read in large pieces. */
int clu_journal_payload(clu_journal *j, uint64_t at, const clu_record *r, void *to);
/* Tells whether bytes of the file could not be read since it was opened: what was asked for then
 * may be there all the same. */
int clu_journal_is_unread(const clu_journal *j);
/* All that can be read, in order: `*at` is 0 before the first, and then where the record is. 1, or
 * 0: there is none behind it. */
int clu_journal_next(clu_journal *j, uint64_t *at, clu_record *r);

#endif
