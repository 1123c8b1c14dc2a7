/* Journals: what is appended is found again, whatever becomes of the writer and of the file. */
// link: -Wl,--wrap=clu_os_file_write -Wl,--wrap=clu_os_file_read
// threads
#include "test.h"

#ifndef TEST_NO_FORK
#include <sys/resource.h>
#endif

#include "core/base/os-folders.h"
#include "core/journal/index.h"
#include "core/journal/journal.h"

/* Where each system call takes long, not each byte and bit is tried. */
#if defined(__SANITIZE_THREAD__) || defined(TEST_SLOW_CALLS)
#define SLOW 1
#else
#define SLOW TEST_SANITIZED
#endif

static char folder[64], path[96];
static long room = -1; /* bytes that the disk still takes; -1: any number */

int __real_clu_os_file_write(clu_fd fd, uint64_t at, const void *p, size_t n, clu_err *e);
int __wrap_clu_os_file_write(clu_fd fd, uint64_t at, const void *p, size_t n, clu_err *e);
int __wrap_clu_os_file_write(clu_fd fd, uint64_t at, const void *p, size_t n, clu_err *e) {
  if (room < 0 || n <= (size_t)room) {
    if (room >= 0) room -= (long)n;
    return __real_clu_os_file_write(fd, at, p, n, e);
  }
  __real_clu_os_file_write(fd, at, p, (size_t)room, e);
  room = 0;
  return clu_fail(e, CLU_SYS, ENOSPC, "no space left");
}

static uint64_t readable = UINT64_MAX; /* bytes of a file that can be read */

int __real_clu_os_file_read(clu_fd fd, uint64_t at, void *p, size_t n);
int __wrap_clu_os_file_read(clu_fd fd, uint64_t at, void *p, size_t n);
int __wrap_clu_os_file_read(clu_fd fd, uint64_t at, void *p, size_t n) {
  return at + n > readable ? CLU_SYS : __real_clu_os_file_read(fd, at, p, n);
}

static void begin(void) {
  if (clu_os_make_temp(TEST_TEMP, folder, sizeof folder, NULL) != CLU_OK) return;
  snprintf(path, sizeof path, "%s/j", folder);
}

static void end(void) {
  clu_journals_settle(1);
  clu_os_remove_tree(folder);
}

static clu_journal *opened(int may_write) {
  clu_journal_options o = {.may_write = may_write, .sync_ns = UINT64_MAX, .nr = 3};
  clu_journal *j = NULL;
  clu_err e = {0};
  o.r = (const unsigned char *)"B\n!";
  if (clu_journal_open(path, &o, &j, &e) != CLU_OK) fprintf(stderr, "%s\n", e.text);
  return j;
}

static void key_of(uint32_t i, unsigned char key[CLU_HASH]) {
  clu_hash h;
  clu_hash_begin(&h, NULL);
  clu_hash_add(&h, &i, sizeof i);
  clu_hash_end(&h, key);
}

static size_t size_of(uint32_t i) { return i * 2654435761u % 61; }
static unsigned char byte_of(uint32_t i, size_t k) { return (unsigned char)(i * 31 + k * 7 + 1); }

static int add(clu_journal *j, uint32_t i, size_t n) {
  clu_record r = {.kind = CLU_RECORD_VALUE, .attempt = 1, .element = i, .seconds = 0.5f};
  unsigned char *p = malloc(n + 1);
  int rc;
  for (size_t k = 0; k < n; k++) p[k] = byte_of(i, k);
  r.size = n;
  r.node = 3;
  key_of(i, r.key);
  rc = clu_journal_add(j, &r, p);
  free(p);
  return rc;
}

/* 1: it is there as it was added; 0: it is not there; -1: it is there and wrong. */
static int has(clu_journal *j, uint32_t i, size_t n) {
  unsigned char key[CLU_HASH], *p;
  clu_record r;
  int is_error, right;
  uint64_t at;
  key_of(i, key);
  if (!(at = clu_journal_find(j, key, &is_error))) return 0;
  if (is_error || clu_journal_get(j, at, &r) != CLU_OK || r.size != n || r.element != i) return -1;
  p = malloc(n + 1);
  right = clu_journal_payload(j, at, &r, p) == CLU_OK;
  for (size_t k = 0; k < n && right; k++) right = p[k] == byte_of(i, k);
  free(p);
  return right ? 1 : -1;
}

TEST(the_hash_is_murmurhash3_and_does_not_depend_on_how_bytes_come) {
  /* of "The quick brown fox jumps over the lazy dog", as SMHasher's x64 variant has it */
  static const unsigned char known[CLU_HASH] = {0x6c, 0x1b, 0x07, 0xbc, 0x7b, 0xbc, 0x4b, 0xe3,
                                                0x47, 0x93, 0x9a, 0xc4, 0xa9, 0x3c, 0x43, 0x7a};
  const char *text = "The quick brown fox jumps over the lazy dog";
  size_t n = strlen(text);
  for (size_t cut = 0; cut <= n; cut++) {
    unsigned char out[CLU_HASH];
    clu_hash h;
    clu_hash_begin(&h, NULL);
    clu_hash_add(&h, text, cut);
    clu_hash_add(&h, text + cut, n - cut);
    clu_hash_end(&h, out);
    CHECK(memcmp(out, known, sizeof out) == 0);
  }
  for (size_t length = 0; length <= n; length++) {
    unsigned char out[CLU_HASH], at_once[CLU_HASH];
    clu_hash h;
    clu_hash_begin(&h, known);
    clu_hash_add(&h, text, length);
    clu_hash_end(&h, out);
    clu_hash_of(known, text, length, at_once);
    CHECK(memcmp(out, at_once, sizeof out) == 0);
  }
}

TEST(what_is_appended_is_found_at_once_and_by_the_next_who_opens) {
  clu_journal *j;
  begin();
  REQUIRE(j = opened(1));
  for (uint32_t i = 0; i < 5000; i++) REQUIRE(add(j, i, size_of(i)) == CLU_OK);
  for (uint32_t i = 0; i < 5000; i++) CHECK(has(j, i, size_of(i)) == 1);
  CHECK(has(j, 5000, 0) == 0);
  clu_journal_unref(j);
  REQUIRE(j = opened(1));
  CHECK_INT_EQ(clu_journal_count(j).keys, 5000);
  CHECK_INT_EQ(clu_journal_count(j).torn, 0);
  CHECK_INT_EQ(clu_journal_count(j).damaged, 0);
  CHECK(memcmp(clu_journal_head_of(j)->r, "B\n!", 3) == 0);
  for (uint32_t i = 0; i < 5000; i++) CHECK(has(j, i, size_of(i)) == 1);
  REQUIRE(add(j, 5000, 9) == CLU_OK);
  CHECK(has(j, 5000, 9) == 1);
  clu_journal_unref(j);
  end();
}

static void write_lock(const char *lock, const char *text) {
  FILE *f = fopen(lock, "wb");
  REQUIRE(f != NULL);
  fputs(text, f);
  fclose(f);
}

static int is_there(const char *file) {
  FILE *f = fopen(file, "r");
  if (f) fclose(f);
  return f != NULL;
}

/* There may have been no descriptor at that moment. */
TEST(the_lock_is_removed_though_it_could_not_be_read_at_first) {
  char lock[120];
  clu_journal_options o = {.may_write = 1, .sync_ns = UINT64_MAX, .touched = lock, .owner = "me\n"};
  static const char *says[] = {"me\n", "you\n"};
  begin();
  snprintf(lock, sizeof lock, "%s.lock", path);
  for (int i = 0; i < 2; i++) {
    clu_journal *j = NULL;
    REQUIRE(clu_journal_open(path, &o, &j, NULL) == CLU_OK);
    write_lock(lock, says[i]);
    clu_journal_unref(j);
    CHECK_INT_EQ(is_there(lock), i); /* another's stays */
  }
  clu_os_file_remove(lock);
  end();
}

TEST(large_records_go_between_small_ones) {
  clu_journal *j;
  begin();
  REQUIRE(j = opened(1));
  for (uint32_t i = 0; i < 40; i++) REQUIRE(add(j, i, i % 4 ? 100 : 3000000 + i) == CLU_OK);
  for (int again = 0; again < 2; again++) {
    for (uint32_t i = 0; i < 40; i++) CHECK(has(j, i, i % 4 ? 100 : 3000000 + i) == 1);
    clu_journal_unref(j);
    REQUIRE(j = opened(again));
  }
  clu_journal_unref(j);
  end();
}

TEST(a_value_goes_before_an_error_and_the_last_value_before_the_others) {
  clu_journal_index x = {0};
  unsigned char key[CLU_HASH];
  uint64_t at;
  int is_error;
  key_of(1, key);
  CHECK(!clu_journal_index_get(&x, key, &at, &is_error));
  CHECK(clu_journal_index_put(&x, key, 8, 1) == CLU_OK);
  CHECK(clu_journal_index_get(&x, key, &at, &is_error) && at == 8 && is_error);
  CHECK(clu_journal_index_put(&x, key, 16, 0) == CLU_OK);
  CHECK(clu_journal_index_put(&x, key, 24, 1) == CLU_OK);
  CHECK(clu_journal_index_get(&x, key, &at, &is_error) && at == 16 && !is_error);
  CHECK(clu_journal_index_put(&x, key, 32, 0) == CLU_OK);
  CHECK(clu_journal_index_get(&x, key, &at, &is_error) && at == 32);
  CHECK_INT_EQ(x.n, 1);
  clu_journal_index_fini(&x);
}

/* Copies the file's bytes; the caller frees them. */
static unsigned char *contents(size_t *n) {
  FILE *f = fopen(path, "rb");
  unsigned char *p = malloc(1 << 20);
  *n = fread(p, 1, 1 << 20, f);
  fclose(f);
  return p;
}

static void put_contents(const unsigned char *p, size_t n) {
  FILE *f = fopen(path, "wb");
  fwrite(p, 1, n, f);
  fclose(f);
}

TEST(a_file_that_ends_at_any_byte_has_all_that_was_whole) {
  unsigned char *all;
  size_t n;
  clu_journal *j;
  begin();
  REQUIRE(j = opened(1));
  for (uint32_t i = 0; i < 30; i++) add(j, i, size_of(i));
  clu_journal_unref(j);
  all = contents(&n);
  for (size_t cut = 0; cut <= n; cut += SLOW && cut + 13 <= n ? 13 : 1) {
    uint32_t there = 0;
    int wrong = 0;
    put_contents(all, cut);
    REQUIRE(j = opened(1));
    for (uint32_t i = 0; i < 30; i++) {
      int h = has(j, i, size_of(i));
      wrong |= h < 0 || (h == 1 && i != there); /* those before it are there, too */
      there += h == 1;
    }
    CHECK(!wrong);
    CHECK(cut < n || there == 30);
    REQUIRE(add(j, 77, 8) == CLU_OK);
    CHECK(has(j, 77, 8) == 1); /* it is where the torn end was, which has been read */
    clu_journal_unref(j);
    REQUIRE(j = opened(0));
    CHECK_INT_EQ(clu_journal_count(j).torn, 0);
    CHECK_INT_EQ(clu_journal_count(j).keys, there + 1);
    CHECK(has(j, 77, 8) == 1);
    clu_journal_unref(j);
  }
  free(all);
  end();
}

TEST(a_flipped_bit_loses_one_record_and_no_other) {
  unsigned char *all;
  size_t n;
  clu_journal *j;
  begin();
  REQUIRE(j = opened(1));
  for (uint32_t i = 0; i < 60; i++) add(j, i, size_of(i));
  clu_journal_unref(j);
  all = contents(&n);
  for (size_t bit = 8 * CLU_JOURNAL_HEAD; bit < 8 * n; bit += SLOW ? 97 : 3) {
    int lost = 0, wrong = 0;
    all[bit / 8] ^= (unsigned char)(1 << bit % 8);
    put_contents(all, n);
    all[bit / 8] ^= (unsigned char)(1 << bit % 8);
    REQUIRE(j = opened(0));
    for (uint32_t i = 0; i < 60; i++) {
      int h = has(j, i, size_of(i));
      wrong |= h < 0;
      lost += h == 0;
    }
    if (wrong || lost > 1) CHECK_INT_EQ(bit, -1);
    if (lost) CHECK(clu_journal_count(j).damaged == 1 || clu_journal_count(j).torn > 0);
    clu_journal_unref(j);
  }
  free(all);
  end();
}

TEST(a_full_disk_at_any_byte_leaves_whole_records_and_is_told) {
  clu_journal *j;
  begin();
  for (long size = 0; size < 2000; size += 7) {
    uint32_t taken = 0, there = 0;
    int failed = 0;
    clu_journals_settle(1); /* a file that is open would go when it is closed, on Windows */
    unlink(path);
    room = -1;
    REQUIRE(j = opened(1));
    room = size;
    for (uint32_t i = 0; i < 50; i++) {
      if (add(j, i, size_of(i)) != CLU_OK || clu_journal_flush(j) != CLU_OK) {
        failed = 1;
        break;
      }
      taken++;
    }
    CHECK(failed == (clu_journal_error(j) != NULL));
    CHECK(failed || taken == 50);
    CHECK(!failed || clu_journal_error(j)->sys == ENOSPC);
    clu_journal_unref(j);
    room = -1;
    REQUIRE(j = opened(0));
    CHECK_INT_EQ(clu_journal_count(j).torn, 0);
    CHECK_INT_EQ(clu_journal_count(j).damaged, 0);
    for (uint32_t i = 0; i < 50; i++) there += has(j, i, size_of(i)) == 1;
    CHECK_INT_EQ(there, taken);
    clu_journal_unref(j);
  }
  end();
}

TEST(what_the_disk_does_not_give_is_not_cut_off) {
  clu_journal_options o = {.may_write = 1, .sync_ns = UINT64_MAX};
  clu_journal *j;
  clu_record r;
  clu_err e = {0};
  uint64_t at = 0;
  begin();
  REQUIRE(j = opened(1));
  for (uint32_t i = 0; i < 30; i++) REQUIRE(add(j, i, 100000) == CLU_OK);
  clu_journal_unref(j);
  readable = 1500000;
  CHECK_INT_EQ(clu_journal_open(path, &o, &j, &e), CLU_SYS);
  CHECK_STR_EQ(e.text, "it cannot be read");
  readable = UINT64_MAX;
  REQUIRE(j = opened(1));
  CHECK_INT_EQ(clu_journal_count(j).torn, 0);
  for (uint32_t i = 0; i < 30; i++) CHECK(has(j, i, 100000) == 1);
  CHECK(!clu_journal_is_unread(j));
  readable = 1500000; /* from now on: who goes through it is told that this was not all */
  while (clu_journal_next(j, &at, &r)) CHECK(at < readable);
  CHECK(clu_journal_is_unread(j));
  clu_journal_unref(j);
  readable = UINT64_MAX;
  end();
}

TEST(another_file_is_refused_and_left_as_it_is) {
  clu_journal_options o = {.may_write = 1, .sync_ns = UINT64_MAX};
  clu_journal *j = NULL;
  unsigned char *p;
  size_t n;
  clu_err e = {0};
  begin();
  put_contents((const unsigned char *)"x,y\n1,2\n", 8);
  CHECK_INT_EQ(clu_journal_open(path, &o, &j, &e), CLU_PROTO);
  p = contents(&n);
  CHECK(n == 8 && memcmp(p, "x,y\n1,2\n", 8) == 0);
  free(p);
  o.may_write = 0;
  unlink(path);
  CHECK_INT_EQ(clu_journal_open(path, &o, &j, &e), CLU_SYS);
  end();
}

TEST(records_wait_for_20_ms_at_the_most_and_the_disk_is_asked_by_a_thread) {
  clu_journal_options o = {.may_write = 1, .sync_ns = 1000000};
  clu_journal *j = NULL, *other;
  int64_t wait;
  begin();
  REQUIRE(clu_journal_open(path, &o, &j, NULL) == CLU_OK);
  CHECK(clu_journal_tick(j, clu_os_now()) == INT64_MAX);
  REQUIRE(add(j, 1, 8) == CLU_OK);
  wait = clu_journal_tick(j, clu_os_now());
  CHECK(wait > 0 && wait <= 20000000);
  CHECK(clu_journal_tick(j, clu_os_now() + 30000000) == INT64_MAX);
  REQUIRE(other = opened(0));
  CHECK(has(other, 1, 8) == 1);
  clu_journal_unref(other);
  for (uint32_t i = 2; i < 50; i++) {
    REQUIRE(add(j, i, 8) == CLU_OK);
    REQUIRE(clu_journal_flush(j) == CLU_OK);
    clu_os_pause(200000);
  }
  clu_journal_unref(j);
  end();
}

/* Bytes in the file, whatever machine has written them and reads them. */
TEST(the_time_of_records_is_a_little_endian_number) {
  static const unsigned char a_quarter[CLU_RECORD_TIME_SIZE] = {0, 0, 0, 0, 0, 0, 0xd0, 0x3f};
  unsigned char at_first[CLU_RECORD_TIME_SIZE], put[CLU_RECORD_TIME_SIZE];
  double before = clu_os_date(), time;
  clu_journal *j;
  clu_record r;
  uint64_t at = 0;
  begin();
  clu_record_put_time(put, 0.25);
  CHECK(memcmp(put, a_quarter, sizeof put) == 0);
  REQUIRE(j = opened(1));
  REQUIRE(add(j, 1, 8) == CLU_OK);
  REQUIRE(clu_journal_flush(j) == CLU_OK);
  REQUIRE(clu_journal_next(j, &at, &r) && r.kind == CLU_RECORD_TIME);
  REQUIRE(clu_journal_payload(j, at, &r, at_first) == CLU_OK);
  time = clu_record_get_time(at_first);
  CHECK(time >= before && time <= clu_os_date());
  clu_journal_unref(j);
  end();
}

#ifndef TEST_NO_FORK
TEST(what_would_be_written_to_a_file_without_a_name_is_an_error) {
  char other[120];
  begin();
  snprintf(other, sizeof other, "%s-new", path);
  for (int k = 0; k < 4; k++) { /* removed, or replaced; before a small or a large record */
    clu_journal *j, *instead;
    REQUIRE(j = opened(1));
    REQUIRE(add(j, 1, 8) == CLU_OK && clu_journal_flush(j) == CLU_OK);
    REQUIRE(rename(path, other) == 0);
    REQUIRE(instead = opened(1));
    clu_journal_unref(instead);
    REQUIRE(k % 2 ? remove(other) == 0 : rename(path, other) == 0);
    if (k < 2) {
      CHECK_INT_EQ(add(j, 2, 8), CLU_OK);
      CHECK_INT_EQ(clu_journal_flush(j), CLU_SYS);
    } else {
      CHECK_INT_EQ(add(j, 2, 3000000), CLU_SYS);
    }
    CHECK(clu_journal_error(j) && strstr(clu_journal_error(j)->text, "removed or replaced"));
    clu_journal_unref(j);
    remove(path);
    remove(other);
  }
  end();
}

TEST(a_limit_of_files_is_a_full_disk_and_no_signal) { /* SIGXFSZ */
  clu_journal *j;
  struct rlimit before, few;
  uint32_t taken = 0, there = 0;
  begin();
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  few = before;
  few.rlim_cur = 4096;
  REQUIRE(j = opened(1));
  REQUIRE(setrlimit(RLIMIT_FSIZE, &few) == 0);
  for (uint32_t i = 0; i < 100; i++) taken += add(j, i, 100) == CLU_OK;
  CHECK_INT_EQ(taken, 100); /* all are in memory */
  CHECK_INT_EQ(clu_journal_flush(j), CLU_SYS);
  REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
  CHECK_INT_EQ(clu_journal_error(j)->sys, EFBIG);
  clu_journal_unref(j);
  REQUIRE(j = opened(0));
  CHECK_INT_EQ(clu_journal_count(j).torn, 0);
  for (uint32_t i = 0; i < 100; i++) there += has(j, i, 100) == 1;
  CHECK_INT_EQ(there, (4096 - CLU_JOURNAL_HEAD - clu_record_length(8)) / clu_record_length(100));
  clu_journal_unref(j);
  end();
}

TEST(a_forked_child_forgets_it) {
  clu_journal_options o = {.may_write = 1, .sync_ns = 1000000};
  clu_journal *j = NULL;
  int status;
  pid_t pid;
  begin();
  REQUIRE(clu_journal_open(path, &o, &j, NULL) == CLU_OK);
  REQUIRE(add(j, 1, 8) == CLU_OK);
  REQUIRE(clu_journal_flush(j) == CLU_OK);
  REQUIRE(add(j, 2, 8) == CLU_OK);
  pid = fork();
  if (pid == 0) {
    clu_journals_forget();
    _exit(0);
  }
  REQUIRE(waitpid(pid, &status, 0) == pid);
  clu_journal_unref(j);
  REQUIRE(j = opened(0));
  CHECK_INT_EQ(clu_journal_count(j).keys, 2);
  clu_journal_unref(j);
  end();
}
#endif
