/* Memory that a session shares with its nodes: slots, rings, and where a file may not be so large.
 */
// link: -Wl,--wrap=clu_os_shared_new
#include "test.h"

#include <stddef.h>
#include <sys/wait.h>

#include "core/shm/node-memory.h"

static size_t most; /* bytes that a file may have; 0: any */
int __real_clu_os_shared_new(size_t n, void **p, clu_fd *fd, clu_err *e);
int __wrap_clu_os_shared_new(size_t n, void **p, clu_fd *fd, clu_err *e);
int __wrap_clu_os_shared_new(size_t n, void **p, clu_fd *fd, clu_err *e) {
  if (most && n > most) return clu_fail(e, CLU_LIMIT, 0, "the file may not be so large");
  return __real_clu_os_shared_new(n, p, fd, e);
}

static clu_shared *made(clu_fd *fd) {
  clu_shared *s = NULL;
  clu_err e = {0, 0, ""};
  REQUIRE(clu_shared_new(&s, fd, &e) == CLU_OK);
  return s;
}

TEST(the_first_slots_have_rings) {
  clu_fd fd;
  clu_shared *s = made(&fd);
  CHECK(clu_shared_ring(s, 0) == &s->ring[0]);
  CHECK(clu_shared_ring(s, CLU_RINGS - 1) == &s->ring[CLU_RINGS - 1]);
  CHECK(clu_shared_ring(s, CLU_RINGS) == NULL);
  CHECK(clu_shared_ring(s, CLU_SLOTS - 1) == NULL);
  CHECK(clu_shared_ring(s, -1) == NULL);
  clu_os_shared_free(s, sizeof *s);
  clu_os_close(fd);
}

TEST(what_one_process_writes_the_other_reads) {
  clu_fd fd;
  clu_shared *s = made(&fd);
  size_t n = 0;
  int status = -1;
  pid_t pid = fork();
  REQUIRE(pid >= 0);
  if (pid == 0) { /* by the descriptor, as a node that was started by exec */
    clu_shared *mine = NULL;
    unsigned char *p;
    if (clu_shared_map(&mine, fd, NULL) != CLU_OK) _exit(3);
    mine->cancel[7] = 42;
    atomic_store(&mine->claim[CLU_SLOTS - 1], 43);
    p = clu_ring_room(clu_shared_ring(mine, 7), 5);
    if (!p) _exit(4);
    memcpy(p, "bytes", 5);
    clu_ring_publish(clu_shared_ring(mine, 7), 5);
    clu_os_shared_free(mine, sizeof *mine);
    _exit(0);
  }
  REQUIRE(waitpid(pid, &status, 0) == pid);
  CHECK_INT_EQ(status, 0);
  CHECK_INT_EQ(s->cancel[7], 42);
  CHECK_INT_EQ(atomic_load(&s->claim[CLU_SLOTS - 1]), 43);
  CHECK_MEM_EQ(clu_ring_peek(clu_shared_ring(s, 7), &n), "bytes", 5);
  CHECK_INT_EQ(n, 5);
  clu_os_shared_free(s, sizeof *s);
  clu_os_close(fd);
}

TEST(a_new_node_finds_nothing_of_the_one_before) {
  clu_fd fd;
  clu_shared *s = made(&fd);
  clu_ring *r = clu_shared_ring(s, 3);
  size_t n = 0;
  s->cancel[2] = s->cancel[3] = s->cancel[4] = 9;
  atomic_store(&s->claim[3], 9);
  REQUIRE(clu_ring_room(r, 8));
  clu_ring_publish(r, 8);
  clu_shared_reset(s, 3);
  CHECK_INT_EQ(s->cancel[3], 0);
  CHECK_INT_EQ(atomic_load(&s->claim[3]), 0);
  CHECK(clu_ring_peek(r, &n) == NULL);
  CHECK_INT_EQ(n, 0);
  CHECK_INT_EQ(s->cancel[2], 9); /* its neighbours keep theirs */
  CHECK_INT_EQ(s->cancel[4], 9);
  clu_shared_reset(s, CLU_SLOTS - 1); /* one without a ring */
  clu_os_shared_free(s, sizeof *s);
  clu_os_close(fd);
}

TEST(where_a_file_may_not_be_so_large_there_are_slots_without_rings) {
  clu_fd fd;
  clu_shared *s;
  most = offsetof(clu_shared, ring);
  s = made(&fd);
  CHECK(clu_shared_ring(s, 0) == NULL);
  s->cancel[CLU_SLOTS - 1] = 1;
  atomic_store(&s->claim[CLU_SLOTS - 1], 1);
  clu_shared_reset(s, CLU_SLOTS - 1);
  CHECK_INT_EQ(s->cancel[CLU_SLOTS - 1], 0);
  clu_os_shared_free(s, sizeof *s);
  clu_os_close(fd);
}

TEST(where_there_is_no_room_at_all_that_is_said_and_nothing_is_left) {
  clu_fd fd;
  clu_shared *s = NULL;
  clu_err e = {0, 0, ""};
  most = 1;
  CHECK_INT_EQ(clu_shared_new(&s, &fd, &e), CLU_LIMIT);
  CHECK_INT_EQ(e.code, CLU_LIMIT);
  CHECK(s == NULL);
}
