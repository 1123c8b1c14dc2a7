/* The scheduler's queues, each by itself. */
// link: -Wl,--wrap=realloc -Wl,--wrap=calloc -Wl,--wrap=malloc
#include "test.h"

#include "core/base/err.h"
#include "core/sched/sched-queue.h"

static int no_memory;
void *__real_realloc(void *p, size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_malloc(size_t n);
void *__wrap_realloc(void *p, size_t n) { return no_memory ? NULL : __real_realloc(p, n); }
void *__wrap_calloc(size_t n, size_t size) { return no_memory ? NULL : __real_calloc(n, size); }
void *__wrap_malloc(size_t n) { return no_memory ? NULL : __real_malloc(n); }

/* ---- first in, first out ---- */

TEST(what_came_first_leaves_first_however_many_come_and_go) {
  clu_fifo q;
  int in = 0, out = 0;
  memset(&q, 0, sizeof q);
  for (int round = 0; round < 500; round++) {
    for (int k = 0; k < 1 + round % 7; k++, in++)
      REQUIRE(clu_fifo_push(&q, &in, sizeof in) == CLU_OK);
    for (int k = 0; k < round % 6 && out < in; k++, out++) {
      if (*(int *)clu_fifo_at(&q, 0, sizeof(int)) != out)
        CHECK_INT_EQ(*(int *)clu_fifo_at(&q, 0, sizeof(int)), out);
      clu_fifo_pop(&q);
    }
  }
  CHECK_INT_EQ(clu_fifo_length(&q), in - out);
  CHECK_INT_EQ(*(int *)clu_fifo_at(&q, 3, sizeof(int)), out + 3);
  clu_fifo_clear(&q);
  CHECK_INT_EQ(clu_fifo_length(&q), 0);
  clu_fifo_fini(&q);
  clu_fifo_fini(&q);
}

TEST(the_room_of_what_has_left_is_used_again) {
  clu_fifo q;
  int x = 0;
  memset(&q, 0, sizeof q);
  for (int k = 0; k < 3; k++) REQUIRE(clu_fifo_push(&q, &x, sizeof x) == CLU_OK);
  for (x = 1; x < 10000; x++) {
    REQUIRE(clu_fifo_push(&q, &x, sizeof x) == CLU_OK);
    clu_fifo_pop(&q);
  }
  CHECK_INT_EQ(clu_fifo_length(&q), 3);
  CHECK(q.cap <= 256);
  clu_fifo_fini(&q);
}

TEST(a_fifo_without_memory_is_as_it_was) {
  clu_fifo q;
  int x = 7;
  memset(&q, 0, sizeof q);
  REQUIRE(clu_fifo_push(&q, &x, sizeof x) == CLU_OK);
  while (q.end < q.cap) REQUIRE(clu_fifo_push(&q, &x, sizeof x) == CLU_OK);
  no_memory = 1;
  CHECK_INT_EQ(clu_fifo_push(&q, &x, sizeof x), CLU_NOMEM);
  no_memory = 0;
  CHECK_INT_EQ(clu_fifo_length(&q), q.cap);
  CHECK_INT_EQ(*(int *)clu_fifo_at(&q, q.cap - 1, sizeof(int)), 7);
  clu_fifo_fini(&q);
}

/* ---- the tasks of a job that are with no node ---- */

static clu_taken got;
static int takes(clu_pending *q, uint32_t most, int avoid, uint64_t first, uint32_t n) {
  return clu_pending_take(q, most, avoid, &got) && got.first == first && got.n == n;
}

TEST(tasks_that_never_left_leave_in_their_order) {
  clu_pending q;
  clu_pending_init(&q, 10);
  CHECK(clu_pending_has(&q, -1) && clu_pending_has_plain(&q));
  CHECK(takes(&q, 4, -1, 0, 4) && got.attempt == 1 && got.last == -1);
  CHECK_INT_EQ(q.waiting, 6);
  CHECK(takes(&q, 100, -1, 4, 6));
  CHECK(!clu_pending_take(&q, 1, -1, &got) && !clu_pending_has(&q, -1));
  CHECK_INT_EQ(q.waiting, 0);
  clu_pending_fini(&q);
}

TEST(what_was_taken_back_leaves_first_and_in_its_order) {
  clu_pending q;
  clu_pending_init(&q, 20);
  CHECK(takes(&q, 12, -1, 0, 12));
  CHECK_INT_EQ(clu_pending_return(&q, 10, 2), CLU_OK);
  CHECK_INT_EQ(clu_pending_return(&q, 6, 4), CLU_OK); /* before it: one range */
  CHECK_INT_EQ(q.nreturned, 1);
  CHECK_INT_EQ(clu_pending_return(&q, 1, 2), CLU_OK);
  CHECK_INT_EQ(clu_pending_return(&q, 0, 0), CLU_OK); /* nothing */
  CHECK_INT_EQ(q.waiting, 16);
  CHECK(takes(&q, 9, -1, 1, 2) && takes(&q, 5, -1, 6, 5) && takes(&q, 5, -1, 11, 1) &&
        takes(&q, 1, -1, 12, 1));
  CHECK_INT_EQ(q.waiting, 7);
  clu_pending_fini(&q);
}

TEST(what_has_to_stay_leaves_when_it_may) {
  clu_pending q;
  clu_pending_init(&q, 20);
  CHECK(takes(&q, 12, -1, 0, 12));
  CHECK_INT_EQ(clu_pending_return(&q, 3, 2), CLU_OK);
  CHECK_INT_EQ(clu_pending_return(&q, 8, 2), CLU_OK); /* above what may leave first */
  q.until = 4;
  CHECK(clu_pending_offers(&q) && clu_pending_has_plain(&q));
  CHECK(takes(&q, 9, -1, 3, 1));
  CHECK(!clu_pending_offers(&q) && !clu_pending_take(&q, 9, -1, &got));
  CHECK_INT_EQ(clu_pending_retry(&q, 11, 1, 7), CLU_OK); /* a retry leaves at any time */
  CHECK(clu_pending_offers(&q) && takes(&q, 9, -1, 11, 1));
  q.until = 14;
  CHECK(takes(&q, 9, -1, 8, 2) && takes(&q, 9, -1, 4, 1) && takes(&q, 9, -1, 12, 2));
  CHECK(!clu_pending_has(&q, -1));
  q.until = UINT64_MAX;
  CHECK(takes(&q, 9, -1, 14, 6) && !clu_pending_offers(&q));
  CHECK_INT_EQ(q.waiting, 0);
  clu_pending_fini(&q);
}

TEST(a_retry_leaves_before_all_else_but_not_to_its_node) {
  clu_pending q;
  clu_pending_init(&q, 5);
  CHECK(takes(&q, 5, -1, 0, 5));
  CHECK_INT_EQ(clu_pending_first_avoids(&q), -1);
  CHECK_INT_EQ(clu_pending_starts(&q, 3), 0);
  CHECK_INT_EQ(clu_pending_retry(&q, 3, 1, 7), CLU_OK);
  CHECK_INT_EQ(clu_pending_retry(&q, 4, 2, 8), CLU_OK);
  CHECK_INT_EQ(clu_pending_return(&q, 0, 1), CLU_OK);
  CHECK_INT_EQ(clu_pending_first_avoids(&q), 7);
  CHECK_INT_EQ(clu_pending_starts(&q, 4), 2);
  CHECK(takes(&q, 5, 7, 4, 1) && got.attempt == 3 && got.last == 8);
  CHECK(takes(&q, 5, 7, 0, 1) && got.attempt == 1); /* the other retry stays */
  CHECK(!clu_pending_has(&q, 7) && clu_pending_has(&q, 8) && !clu_pending_has_plain(&q));
  CHECK(!clu_pending_take(&q, 5, 7, &got));
  CHECK(takes(&q, 5, -1, 3, 1) && got.attempt == 2 && got.last == 7);
  CHECK_INT_EQ(q.waiting, 0);
  clu_pending_fini(&q);
}

TEST(what_is_cleared_does_not_wait_any_more) {
  clu_pending q;
  clu_pending_init(&q, 5);
  CHECK(takes(&q, 3, -1, 0, 3));
  CHECK_INT_EQ(clu_pending_return(&q, 1, 1), CLU_OK);
  CHECK_INT_EQ(clu_pending_retry(&q, 0, 1, 0), CLU_OK);
  clu_pending_clear(&q);
  CHECK(!clu_pending_has(&q, -1) && !clu_pending_take(&q, 1, -1, &got));
  CHECK_INT_EQ(q.waiting, 0);
  clu_pending_fini(&q);
}

TEST(without_memory_nothing_waits_that_did_not) {
  clu_pending q;
  clu_pending_init(&q, 5);
  CHECK(takes(&q, 5, -1, 0, 5));
  no_memory = 1;
  CHECK_INT_EQ(clu_pending_return(&q, 1, 1), CLU_NOMEM);
  CHECK_INT_EQ(clu_pending_retry(&q, 0, 1, 0), CLU_NOMEM);
  no_memory = 0;
  CHECK(q.waiting == 0 && !clu_pending_has(&q, -1));
  clu_pending_fini(&q);
}

/* ---- the batches of a node ---- */

TEST(batches_are_a_ring_that_grows) {
  clu_batches q;
  clu_batch *b;
  uint64_t in = 0, out = 0;
  memset(&q, 0, sizeof q);
  for (int round = 0; round < 40; round++) {
    for (int k = 0; k < 1 + round % 5; k++) {
      REQUIRE(clu_batches_push(&q, &b) == CLU_OK);
      b->seq = in++;
    }
    for (int k = 0; k < round % 4 && q.len; k++, out++) {
      CHECK_INT_EQ(clu_batches_at(&q, 0)->seq, out);
      clu_batches_pop_first(&q);
    }
  }
  CHECK_INT_EQ(q.len, in - out);
  CHECK_INT_EQ(clu_batches_at(&q, q.len - 1)->seq, in - 1);
  clu_batches_pop_last(&q);
  CHECK_INT_EQ(clu_batches_at(&q, q.len - 1)->seq, in - 2);
  while (q.len < q.cap) REQUIRE(clu_batches_push(&q, &b) == CLU_OK);
  no_memory = 1;
  CHECK_INT_EQ(clu_batches_push(&q, &b), CLU_NOMEM);
  no_memory = 0;
  CHECK_INT_EQ(q.len, q.cap);
  clu_batches_fini(&q);
  clu_batches_fini(&q);
}
