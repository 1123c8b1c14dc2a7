/* The ring of small results: what is put in comes out, in order and whole, whatever becomes of the
 * writer. */
#include "test.h"

#include <sched.h>
#include <stdint.h>

#include "core/shm/result-ring.h"

static clu_ring *new_ring(void) {
  clu_ring *r = mmap(NULL, sizeof *r, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (r == MAP_FAILED) return NULL;
  clu_ring_reset(r);
  return r;
}

static uint32_t next(uint32_t *seed) { return *seed = *seed * 1664525u + 1013904223u; }
static size_t size_at(uint64_t i) { return 1 + (size_t)(i * 2654435761u % CLU_RING_MOST); }
static unsigned char byte_at(uint64_t i, size_t k) { return (unsigned char)(i * 31 + k * 7); }

static int put(clu_ring *r, uint64_t i) {
  size_t n = size_at(i);
  unsigned char *p = clu_ring_room(r, CLU_RING_MOST);
  if (!p) return 0;
  for (size_t k = 0; k < n; k++) p[k] = byte_at(i, k);
  clu_ring_publish(r, n);
  return 1;
}

static int is(const unsigned char *p, size_t n, uint64_t i) {
  if (n != size_at(i)) return 0;
  for (size_t k = 0; k < n; k++)
    if (p[k] != byte_at(i, k)) return 0;
  return 1;
}

TEST(the_reader_is_told_once_and_not_while_it_looks) {
  clu_ring *r = new_ring();
  REQUIRE(r);
  CHECK(clu_ring_must_tell(r));
  CHECK(!clu_ring_must_tell(r)); /* the first message was not read yet */
  clu_ring_heard(r);
  CHECK(clu_ring_must_tell(r));
  clu_ring_heard(r);
  clu_ring_look(r, 1);
  CHECK(!clu_ring_must_tell(r));
  clu_ring_look(r, 0);
  CHECK(clu_ring_must_tell(r));
  clu_ring_reset(r); /* another node writes from now on */
  CHECK(clu_ring_must_tell(r));
  munmap(r, sizeof *r);
}

TEST(what_goes_in_comes_out_in_order) {
  clu_ring *r = new_ring();
  uint64_t in = 0, out = 0;
  uint32_t seed = 1;
  size_t n;
  const unsigned char *p;
  REQUIRE(r);
  CHECK(clu_ring_peek(r, &n) == NULL);
  while (out < 20000) {
    for (uint32_t k = next(&seed) >> 27; k > 0 && put(r, in); k--) in++;
    for (uint32_t k = next(&seed) >> 27; k > 0 && (p = clu_ring_peek(r, &n)); k--) {
      REQUIRE(is(p, n, out));
      CHECK(clu_ring_peek(r, &n) == p); /* it stays there */
      clu_ring_took(r);
      out++;
    }
  }
  while (clu_ring_peek(r, &n)) clu_ring_took(r), out++;
  CHECK_INT_EQ(in, out);
  CHECK_INT_EQ(clu_ring_used(r), 0);
  munmap(r, sizeof *r);
}

TEST(a_full_ring_takes_no_more_until_something_is_read) {
  clu_ring *r = new_ring();
  uint64_t in = 0;
  size_t n;
  REQUIRE(r);
  while (put(r, in)) in++;
  CHECK(in > 10 && clu_ring_used(r) <= CLU_RING_BYTES);
  CHECK(!put(r, in));
  for (int k = 0; k < 4 && clu_ring_peek(r, &n); k++) clu_ring_took(r);
  CHECK(put(r, in));
  munmap(r, sizeof *r);
}

TEST(another_process_reads_what_one_writes) {
  enum { N = 200000 };
  clu_ring *r = new_ring();
  pid_t pid;
  int status = 0;
  REQUIRE(r);
  REQUIRE((pid = fork()) >= 0);
  if (pid == 0) {
    for (uint64_t i = 0; i < N;)
      if (put(r, i))
        i++;
      else
        sched_yield();
    _exit(0);
  }
  for (uint64_t i = 0; i < N; i++) {
    size_t n;
    const unsigned char *p;
    while (!(p = clu_ring_peek(r, &n))) sched_yield();
    REQUIRE(is(p, n, i));
    clu_ring_took(r);
  }
  CHECK_INT_EQ(waitpid(pid, &status, 0), pid);
  CHECK_INT_EQ(status, 0);
  munmap(r, sizeof *r);
}

TEST(what_was_published_outlives_a_killed_writer) {
  uint32_t seed = (uint32_t)getpid();
  for (int round = 0; round < 50; round++) {
    clu_ring *r = new_ring();
    uint64_t out = 0;
    size_t n;
    const unsigned char *p;
    pid_t pid;
    REQUIRE(r);
    REQUIRE((pid = fork()) >= 0);
    if (pid == 0)
      for (uint64_t i = 0;;)
        if (put(r, i)) i++;
    for (uint32_t k = next(&seed) >> 22; k > 0; k--)
      if ((p = clu_ring_peek(r, &n))) {
        REQUIRE(is(p, n, out));
        out++;
        clu_ring_took(r);
      }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    while ((p = clu_ring_peek(r, &n))) {
      REQUIRE(is(p, n, out));
      out++;
      clu_ring_took(r);
    }
    CHECK(clu_ring_used(r) < 16 + CLU_RING_MOST); /* nothing but a piece that was not published */
    munmap(r, sizeof *r);
  }
}

TEST(a_head_that_changes_between_looking_and_taking_is_not_followed) {
  clu_ring *r = malloc(sizeof *r); /* the sanitizer knows its edges */
  size_t n = 0;
  REQUIRE(r);
  memset(r, 0, sizeof *r);
  REQUIRE(put(r, 1) && clu_ring_peek(r, &n));
  atomic_store(&r->head, (uint64_t)CLU_RING_BYTES - 1);
  clu_ring_took(r);
  CHECK_INT_EQ(atomic_load(&r->head), (uint64_t)CLU_RING_BYTES - 1);
  free(r);
}

TEST(damage_is_never_followed_out_of_the_ring) {
  uint32_t seed = 7;
  for (int round = 0; round < 20000; round++) {
    clu_ring *r = malloc(sizeof *r); /* the sanitizer knows its edges */
    size_t n = 0;
    const unsigned char *p;
    REQUIRE(r);
    for (size_t k = 0; k < CLU_RING_BYTES; k += 4) {
      uint32_t v = next(&seed) >> 30 ? next(&seed) >> 20 : 0;
      memcpy(r->data + k, &v, 4);
    }
    atomic_store(&r->head, (uint64_t)next(&seed) << (next(&seed) >> 27) >> (next(&seed) >> 27));
    atomic_store(&r->tail, atomic_load(&r->head) + (next(&seed) >> (8 + (next(&seed) >> 28))));
    for (int k = 0; k < 100 && (p = clu_ring_peek(r, &n)); k++) {
      REQUIRE(n >= 1 && n <= CLU_RING_MOST && p >= r->data && p + n <= r->data + CLU_RING_BYTES);
      clu_ring_took(r);
    }
    free(r);
    if (TEST_SANITIZED && round > 2000) break;
  }
}

TEST(nothing_and_no_sense_are_told_apart) {
  clu_ring *r = malloc(sizeof *r);
  size_t n = 7;
  uint64_t size;
  REQUIRE(r);
  memset(r, 0, sizeof *r);
  CHECK(clu_ring_peek(r, &n) == NULL && n == 0);
  REQUIRE(put(r, 1) && clu_ring_peek(r, &n) && n > 0);
  clu_ring_took(r);
  CHECK(clu_ring_peek(r, &n) == NULL && n == 0);
  size = CLU_RING_MOST + 1; /* of a record */
  memcpy(r->data + atomic_load(&r->tail) % CLU_RING_BYTES, &size, 8);
  atomic_fetch_add(&r->tail, 64);
  CHECK(clu_ring_peek(r, &n) == NULL && n != 0);
  atomic_store(&r->tail, atomic_load(&r->head) + 4); /* less than a size */
  CHECK(clu_ring_peek(r, &n) == NULL && n != 0);
  atomic_store(&r->tail, atomic_load(&r->head) - 8);
  CHECK(clu_ring_peek(r, &n) == NULL && n != 0);
  free(r);
}
