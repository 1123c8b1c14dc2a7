/* The list of requests of one node, alone. */
#include "test.h"

#include "core/node/request.h"

static void add(clu_requests *q, uint64_t seq, uint64_t scope) {
  REQUIRE(clu_requests_reserve(q, NULL) == CLU_OK);
  clu_requests_add(q, seq, scope, (int)seq);
}

TEST(an_empty_list_has_nothing) {
  clu_requests q;
  memset(&q, 0, sizeof q);
  CHECK(clu_requests_first(&q) == NULL && clu_requests_head(&q) == NULL &&
        clu_requests_find(&q, 1) == NULL);
  CHECK(!clu_requests_await(&q, 0, 1) && !clu_requests_some_cancelled(&q));
  CHECK_INT_EQ(clu_requests_waiting(&q), 0);
  clu_requests_drop_cancelled(&q);
  clu_requests_fini(&q);
  clu_requests_fini(&q);
}

TEST(requests_stay_in_the_order_in_which_they_were_sent) {
  clu_requests q;
  memset(&q, 0, sizeof q);
  for (uint64_t seq = 1; seq <= 20; seq++) add(&q, seq, seq % 2);
  CHECK_INT_EQ(q.n, 20);
  CHECK_INT_EQ(clu_requests_first(&q)->seq, 1);
  CHECK_INT_EQ(clu_requests_find(&q, 17)->tag, 17);
  clu_requests_drop(&q, clu_requests_find(&q, 7));
  CHECK(clu_requests_find(&q, 7) == NULL);
  for (int i = 1; i < q.n; i++) CHECK(q.at[i - 1].seq < q.at[i].seq);
  CHECK_INT_EQ(clu_requests_waiting(&q), 19);
  clu_requests_fini(&q);
  CHECK_INT_EQ(q.n, 0);
}

TEST(the_first_is_not_cancelled_and_the_head_is_not_answered) {
  clu_requests q;
  memset(&q, 0, sizeof q);
  for (uint64_t seq = 1; seq <= 3; seq++) add(&q, seq, 5);
  clu_requests_find(&q, 1)->cancelled = 1;
  CHECK_INT_EQ(clu_requests_first(&q)->seq, 2);
  CHECK_INT_EQ(clu_requests_head(&q)->seq, 1); /* the node is still at it */
  clu_requests_drop(&q, clu_requests_find(&q, 1));
  clu_requests_find(&q, 2)->arrival = 1;
  CHECK_INT_EQ(clu_requests_first(&q)->seq, 2);
  CHECK_INT_EQ(clu_requests_head(&q)->seq, 3);
  CHECK(clu_requests_await(&q, 5, 0) && !clu_requests_await(&q, 6, 0) &&
        clu_requests_await(&q, 0, 1));
  clu_requests_find(&q, 3)->arrival = 2;
  CHECK(!clu_requests_await(&q, 5, 0) && !clu_requests_await(&q, 0, 1) &&
        clu_requests_head(&q) == NULL);
  clu_requests_fini(&q);
}

TEST(only_the_cancelled_ones_are_dropped_with_their_bodies) {
  clu_requests q;
  memset(&q, 0, sizeof q);
  for (uint64_t seq = 1; seq <= 6; seq++) {
    add(&q, seq, 1);
    clu_requests_find(&q, seq)->body = clu_blob_new(100); /* a leak would be seen */
    clu_requests_find(&q, seq)->cancelled = seq % 3 == 0;
  }
  CHECK(clu_requests_some_cancelled(&q));
  clu_requests_drop_cancelled(&q);
  CHECK(!clu_requests_some_cancelled(&q));
  CHECK_INT_EQ(q.n, 4);
  CHECK(clu_requests_find(&q, 3) == NULL && clu_requests_find(&q, 6) == NULL);
  clu_requests_fini(&q);
}
