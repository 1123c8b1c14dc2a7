/* The ring of a pair begins anew while its reader looks at it. Both are in this process, each with
 * a view of its own. The reader is interrupted where it reads the place that the ring was left at.
 */
#include "test.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/mesh/mesh-layout.h"

enum { LARGE = 10000, SMALL = 600 };
static clu_mesh *session, *writer, *reader;
static pair_ring *out, *in;
static unsigned char *page; /* of the reader's view, with that place */
static uint64_t left_at;

static size_t page_size(void) { return (size_t)sysconf(_SC_PAGESIZE); }

static void put(size_t n) {
  uint64_t tail = 0;
  unsigned char *p = mesh_room(out, n, &tail);
  REQUIRE(p);
  memset(p, 0xEE, n);
  mesh_publish(writer, out, 1, tail, 0);
}

/* The writer has said in begin_anew() that the rest is skipped. It moves the head, and writes
 * beyond the place that was left. */
static void goes_on(int sig) {
  uint64_t pos = left_at, next = atomic_load(&out->tail);
  (void)sig;
  mprotect(page, page_size(), PROT_READ | PROT_WRITE);
  atomic_compare_exchange_strong(&out->head, &pos, next);
  while (atomic_load(&out->tail) < next + left_at + SMALL) put(SMALL);
}

static void begin(void) {
  struct sigaction a;
  REQUIRE(clu_mesh_new(2, "/tmp", &session, NULL) == CLU_OK);
  REQUIRE(clu_mesh_join(clu_mesh_path(session), 2, 0, &writer, NULL) == CLU_OK);
  REQUIRE(clu_mesh_join(clu_mesh_path(session), 2, 1, &reader, NULL) == CLU_OK);
  out = mesh_pair(writer, 0, 1);
  in = mesh_pair(reader, 0, 1);
  REQUIRE(out && in);
  memset(&a, 0, sizeof a);
  a.sa_handler = goes_on;
  sigaction(SIGSEGV, &a, NULL);
  sigaction(SIGBUS, &a, NULL); /* macOS */
}

static void end(void) {
  signal(SIGSEGV, SIG_DFL);
  signal(SIGBUS, SIG_DFL);
  clu_mesh_free(writer);
  clu_mesh_free(reader);
  clu_mesh_free(session);
}

TEST(a_reader_does_not_read_what_was_written_over_the_place_that_was_left) {
  const uint64_t skip = RING_SKIP;
  unsigned char *place;
  size_t n = 0, records = 0;
  begin();
  put(LARGE);
  CHECK(mesh_peek(in, &n) && n == LARGE);
  mesh_took(in, 0);
  left_at = atomic_load(&out->tail);
  memcpy((unsigned char *)(out + 1) + left_at, &skip, sizeof skip);
  atomic_store(&out->tail, PAIR_BYTES);
  place = (unsigned char *)(in + 1) + left_at;
  page = place - (uintptr_t)place % page_size();
  REQUIRE(mprotect(page, page_size(), PROT_NONE) == 0);
  for (; mesh_peek(in, &n); records++) {
    CHECK_INT_EQ(n, SMALL);
    mesh_took(in, 0);
  }
  CHECK_INT_EQ(n, 0);
  CHECK(records > LARGE / SMALL);
  end();
}
