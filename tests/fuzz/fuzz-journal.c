/* A journal's file, whatever is in it: it is opened or refused, only whole records are found in it,
 * and what is appended then is found by the next who opens it. A valid head comes first, unless the
 * first byte says otherwise; the checks of records are not known to who changes bytes, so those
 * with a right one come from the seeds. */
#include "fuzz.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/journal/journal.h"

/* The file has no name: each opening is another descriptor of it. */
static int memory;
static char path[64];

static clu_journal *opened(int may_write) {
  clu_journal_options o = {.may_write = may_write, .sync_ns = UINT64_MAX};
  clu_journal *j = NULL;
  clu_err e = {0};
  int rc = clu_journal_open(path, &o, &j, &e);
  FUZZ_CHECK((rc == CLU_OK) == (j != NULL));
  FUZZ_CHECK(rc == CLU_OK || e.code == rc);
  return j;
}

/* All that is there is in its place, and can be read. */
static uint64_t walk(clu_journal *j) {
  clu_record r;
  uint64_t n = 0, end = CLU_JOURNAL_HEAD;
  for (uint64_t at = 0; clu_journal_next(j, &at, &r); n++) {
    unsigned char *p;
    FUZZ_CHECK(at % 8 == 0 && at >= end && r.size < (1 << 20));
    end = at + clu_record_length(r.size);
    p = malloc((size_t)r.size + 1);
    FUZZ_CHECK(p && clu_journal_payload(j, at, &r, p) == CLU_OK);
    free(p);
  }
  return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  clu_record r = {.kind = CLU_RECORD_VALUE, .size = 3, .key = {1, 2, 3}};
  clu_journal_head head = {.salt = 77};
  unsigned char bytes[CLU_JOURNAL_HEAD];
  uint64_t before;
  clu_journal *j;
  int is_error;
  if (n < 1 || n > 60000) return 0;
  memory = memfd_create("journal", MFD_CLOEXEC);
  FUZZ_CHECK(memory >= 0);
  snprintf(path, sizeof path, "/proc/self/fd/%d", memory);
  clu_journal_head_put(bytes, &head);
  if (data[0]) FUZZ_CHECK(write(memory, bytes, sizeof bytes) == sizeof bytes);
  if (n > 1) FUZZ_CHECK(write(memory, data + 1, n - 1) == (ssize_t)(n - 1));
  if ((j = opened(0))) {
    before = walk(j);
    FUZZ_CHECK(before == clu_journal_count(j).records);
    clu_journal_unref(j);
  }
  if ((j = opened(1))) {
    FUZZ_CHECK(clu_journal_add(j, &r, "abc") == CLU_OK);
    FUZZ_CHECK(clu_journal_find(j, r.key, &is_error) && !is_error);
    before = clu_journal_count(j).records;
    clu_journal_unref(j);
    FUZZ_CHECK((j = opened(0)) != NULL);
    FUZZ_CHECK(clu_journal_count(j).records == before && walk(j) == before);
    FUZZ_CHECK(clu_journal_count(j).torn == 0 && clu_journal_find(j, r.key, &is_error));
    clu_journal_unref(j);
  }
  clu_journals_settle(1);
  close(memory);
  return 0;
}
