/* Messages between the ranks of a mesh. All ranks are in this process: each has a view of its own.
 */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "core/mesh/mesh-layout.h"

enum { N = 3 };
typedef struct fixture {
  clu_mesh *session, *rank[N];
} fixture;

static void begin(fixture *f) {
  clu_err e = {0};
  memset(f, 0, sizeof *f);
  REQUIRE(clu_mesh_new(N, "/tmp", &f->session, &e) == CLU_OK);
  for (int i = 0; i < N; i++)
    REQUIRE(clu_mesh_join(clu_mesh_path(f->session), N, i, &f->rank[i], &e) == CLU_OK);
}

static void end(fixture *f) {
  for (int i = 0; i < N; i++) clu_mesh_free(f->rank[i]);
  clu_mesh_free(f->session);
}

static clu_blob *text(const char *s) {
  clu_blob *b = clu_blob_new(0);
  REQUIRE(b);
  REQUIRE(clu_blob_append(b, s, strlen(s)) == 0);
  return b;
}

static int try_send(clu_mesh *m, int to, const char *tag, const char *s) {
  clu_sending way = {0};
  clu_blob *b = text(s);
  int rc = clu_mesh_send(m, to, tag, b, &way);
  clu_blob_unref(b);
  return rc;
}

/* "tag:body from", or the code. */
static const char *get(clu_mesh *m, int from, const char *tag) {
  static char out[256];
  clu_message *x = NULL;
  int who = -1, rc = clu_mesh_receive(m, from, tag, 0, &x, &who);
  if (rc != CLU_OK) {
    snprintf(out, sizeof out, "%s %d",
             rc == CLU_AGAIN  ? "again"
             : rc == CLU_DEAD ? "dead"
                              : "?",
             who);
    return out;
  }
  snprintf(out, sizeof out, "%s:%.*s %d", x->tag, (int)x->n, (const char *)x->body, x->from);
  clu_message_free(x);
  return out;
}

TEST(messages_of_a_pair_arrive_in_order_and_by_tag) {
  fixture f;
  begin(&f);
  CHECK_STR_EQ(get(f.rank[1], -1, NULL), "again -1");
  CHECK_INT_EQ(try_send(f.rank[0], 1, "a", "one"), CLU_OK);
  CHECK_INT_EQ(try_send(f.rank[0], 1, "b", "two"), CLU_OK);
  CHECK_INT_EQ(try_send(f.rank[2], 1, "a", "three"), CLU_OK);
  CHECK_INT_EQ(try_send(f.rank[1], 1, "", "self"), CLU_OK);
  CHECK_INT_EQ(try_send(f.rank[0], 1, "\001", "hidden"), CLU_OK);
  CHECK_STR_EQ(get(f.rank[1], 2, NULL), "a:three 2");
  CHECK_STR_EQ(get(f.rank[1], 2, NULL), "again -1");
  CHECK_STR_EQ(get(f.rank[1], -1, "b"), "b:two 0");
  CHECK_STR_EQ(get(f.rank[1], 0, "\001"), "\001:hidden 0");
  CHECK_STR_EQ(get(f.rank[1], -1, NULL), ":self 1");
  CHECK_STR_EQ(get(f.rank[1], 0, NULL), "a:one 0");
  CHECK_STR_EQ(get(f.rank[1], -1, NULL), "again -1");
  CHECK_STR_EQ(get(f.rank[1], 1, NULL), "again -1");
  end(&f);
}

TEST(a_message_that_is_looked_at_stays) {
  fixture f;
  clu_message *x = NULL;
  int who;
  begin(&f);
  CHECK_INT_EQ(try_send(f.rank[0], 1, "a", "one"), CLU_OK);
  CHECK_INT_EQ(clu_mesh_receive(f.rank[1], -1, NULL, 1, &x, &who), CLU_OK);
  CHECK_STR_EQ(x->tag, "a");
  CHECK_STR_EQ(get(f.rank[1], -1, NULL), "a:one 0");
  end(&f);
}

TEST(what_was_sent_before_a_rank_went_can_be_received) {
  fixture f;
  clu_exit how = {1, 9};
  clu_rank_info info;
  begin(&f);
  CHECK_INT_EQ(try_send(f.rank[0], 1, "", "last"), CLU_OK);
  clu_mesh_leave(f.rank[0], 0);
  CHECK_STR_EQ(get(f.rank[1], 0, NULL), ":last 0");
  CHECK_STR_EQ(get(f.rank[1], 0, NULL), "dead 0");
  CHECK_STR_EQ(get(f.rank[1], -1, NULL), "again -1"); /* rank 2 may send */
  CHECK_INT_EQ(try_send(f.rank[1], 0, "", "late"), CLU_DEAD);
  clu_mesh_died(f.session, 2, &how);
  CHECK_STR_EQ(get(f.rank[1], -1, NULL), "dead 2");
  clu_mesh_info(f.rank[1], 2, &info);
  CHECK_INT_EQ(info.state, CLU_RANK_DEAD);
  CHECK_INT_EQ(info.how.by_signal, 1);
  CHECK_INT_EQ(info.how.code, 9);
  end(&f);
}

/* A body of any size goes through, piece by piece. */
static void pass(fixture *f, size_t n) {
  clu_blob *b = clu_blob_new(n);
  clu_sending way = {0};
  clu_message *x = NULL;
  int rc, who, turns = 0;
  REQUIRE(b);
  REQUIRE(clu_blob_append(b, NULL, n) == 0);
  for (size_t i = 0; i < n; i++) b->data[i] = (unsigned char)(i * 7 + i / 256);
  for (;;) {
    rc = clu_mesh_send(f->rank[0], 1, "t", b, &way);
    if (rc != CLU_AGAIN) break;
    REQUIRE(clu_mesh_receive(f->rank[1], 0, NULL, 0, &x, &who) == CLU_AGAIN);
    REQUIRE(++turns < 1000);
  }
  REQUIRE(rc == CLU_OK);
  REQUIRE(clu_mesh_receive(f->rank[1], 0, NULL, 0, &x, &who) == CLU_OK);
  REQUIRE(x->n == n);
  CHECK(n == 0 || memcmp(x->body, b->data, n) == 0);
  clu_message_free(x);
  clu_blob_unref(b);
}

TEST(bodies_of_any_size_go_through) {
  static const size_t sizes[] = {0, 1, 7, 8, 2040, 4096, 262111, 262112, 262113, 1048576, 5000001};
  fixture f;
  begin(&f);
  for (int round = 0; round < 3; round++)
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) pass(&f, sizes[i]);
  end(&f);
}

TEST(a_hundred_thousand_messages_wrap_around_the_ring) {
  fixture f;
  uint32_t seed = 1, sent = 0, got = 0;
  begin(&f);
  while (got < 100000) {
    seed = seed * 1664525u + 1013904223u;
    if (seed >> 31 && sent < 100000) {
      unsigned char bytes[4000];
      clu_sending way = {0};
      size_t n = 4 + (seed >> 8) % (sizeof bytes - 4);
      clu_blob *b = clu_blob_new(n);
      int rc;
      memset(bytes, (int)(sent & 255), sizeof bytes);
      memcpy(bytes, &sent, 4);
      clu_blob_append(b, bytes, n);
      rc = clu_mesh_send(f.rank[0], 1, "", b, &way);
      REQUIRE(rc == CLU_OK || (rc == CLU_AGAIN && !way.begun));
      sent += rc == CLU_OK;
      clu_blob_unref(b);
    } else if ((seed >> 30 & 1) || sent == 100000) {
      clu_message *x = NULL;
      int who, rc = clu_mesh_receive(f.rank[1], seed & 4096 ? 0 : -1, NULL, 0, &x, &who);
      uint32_t number;
      if (rc == CLU_AGAIN) continue;
      REQUIRE(rc == CLU_OK);
      memcpy(&number, x->body, 4);
      REQUIRE(number == got);
      REQUIRE(x->n == 4 || x->body[x->n - 1] == (got & 255));
      got++;
      clu_message_free(x);
    }
  }
  end(&f);
}

TEST(a_sender_waits_where_much_is_not_looked_at) {
  fixture f;
  int sent = 0, rc = CLU_OK;
  uint32_t events;
  begin(&f);
  while (rc == CLU_OK && sent < 100000) sent += (rc = try_send(f.rank[0], 1, "", "x")) == CLU_OK;
  CHECK_INT_EQ(rc, CLU_AGAIN);
  CHECK(sent > 10000);
  events = clu_mesh_events(f.rank[0]);
  CHECK_STR_EQ(get(f.rank[1], 0, NULL), ":x 0");
  CHECK(clu_mesh_events(f.rank[0]) != events); /* there is room: it is told */
  CHECK_INT_EQ(try_send(f.rank[0], 1, "", "x"), CLU_OK);
  end(&f);
}

TEST(an_empty_ring_has_all_its_room_wherever_it_was_read_to) {
  static const int before[] = {0, 1, 20, 40, 100, 3000, 9000};
  for (size_t k = 0; k < sizeof before / sizeof *before; k++) {
    fixture f;
    int sent = 0;
    begin(&f);
    for (int i = 0; i < before[k]; i++) REQUIRE(try_send(f.rank[0], 1, "", "x") == CLU_OK);
    for (int i = 0; i < before[k]; i++) CHECK_STR_EQ(get(f.rank[1], 0, NULL), ":x 0");
    while (sent < 100000 && try_send(f.rank[0], 1, "", "y") == CLU_OK) sent++;
    CHECK(sent > 10000);
    for (int i = 0; i < sent; i++) CHECK_STR_EQ(get(f.rank[1], 0, NULL), ":y 0");
    CHECK_STR_EQ(get(f.rank[1], 0, NULL), "again -1");
    end(&f);
  }
}

TEST(segments_stay_until_they_are_received) {
  fixture f;
  clu_segment *s = clu_segment_new();
  clu_blob *b = text("with a segment");
  clu_sending way = {0};
  clu_message *x = NULL;
  int who;
  char bytes[] = "bytes of the segment";
  if (!s || !(clu_os_can() & CLU_CAN_MEMFD) || !(clu_os_can() & CLU_CAN_PROC)) {
    clu_segment_unref(s);
    clu_blob_unref(b);
    SKIP("segments of other processes cannot be opened here");
  }
  begin(&f);
  REQUIRE(clu_segment_append(s, bytes, sizeof bytes) == CLU_OK);
  REQUIRE(clu_segment_seal(s) == CLU_OK);
  REQUIRE(clu_blob_attach(b, s) == 0);
  CHECK_INT_EQ(clu_mesh_send(f.rank[0], 1, "", b, &way), CLU_OK);
  clu_blob_unref(b);
  CHECK_INT_EQ(clu_mesh_is_needed(f.rank[0]), 1);
  REQUIRE(clu_mesh_receive(f.rank[1], -1, NULL, 0, &x, &who) == CLU_OK);
  CHECK_INT_EQ(clu_mesh_is_needed(f.rank[0]), 0);
  REQUIRE(x->segments.n == 1);
  CHECK_STR_EQ((const char *)clu_segment_bytes(x->segments.of[0], NULL), bytes);
  clu_message_free(x);
  end(&f);
}

/* ---- meeting ---- */

static const clu_meeting BARRIER = {.kind = 1}, OTHER = {.kind = 6, .op = 1, .type = 1, .n = 3};

TEST(nobody_goes_on_before_all_are_there) {
  fixture f;
  uint32_t turn[N];
  int who = -1;
  begin(&f);
  for (int round = 0; round < 5; round++) {
    for (int i = 0; i < N - 1; i++) {
      clu_mesh_meet(f.rank[i], &BARRIER, &turn[i]);
      CHECK_INT_EQ(clu_mesh_has_met(f.rank[i], turn[i], &who), CLU_AGAIN);
    }
    clu_mesh_meet(f.rank[N - 1], &BARRIER, &turn[N - 1]);
    for (int i = 0; i < N; i++) CHECK_INT_EQ(clu_mesh_has_met(f.rank[i], turn[i], &who), CLU_OK);
  }
  end(&f);
}

TEST(who_meets_for_another_reason_is_named_to_all) {
  fixture f;
  uint32_t turn[N];
  int who[2];
  clu_rank_info info;
  begin(&f);
  clu_mesh_meet(f.rank[0], &BARRIER, &turn[0]);
  clu_mesh_meet(f.rank[1], &OTHER, &turn[1]);
  clu_mesh_meet(f.rank[2], &BARRIER, &turn[2]);
  for (int i = 0; i < N; i++) CHECK_INT_EQ(clu_mesh_has_met(f.rank[i], turn[i], who), CLU_PROTO);
  clu_mesh_end(f.session); /* what was said first stays */
  CHECK_INT_EQ(clu_mesh_verdict(f.session, who), CLU_PROTO);
  CHECK_INT_EQ(who[0], 1);
  CHECK_INT_EQ(who[1], 2);
  clu_mesh_info(f.rank[0], 1, &info);
  CHECK_INT_EQ(info.meeting.kind, 6);
  CHECK_INT_EQ(info.meeting.n, 3);
  end(&f);
}

TEST(who_has_gone_is_not_waited_for) {
  fixture f;
  uint32_t turn;
  clu_exit how = {1, 9};
  int who = -1;
  begin(&f);
  clu_mesh_meet(f.rank[0], &BARRIER, &turn);
  clu_mesh_died(f.session, 2, &how);
  CHECK_INT_EQ(clu_mesh_has_met(f.rank[0], turn, &who), CLU_DEAD);
  CHECK_INT_EQ(who, 2);
  end(&f);
}

/* ---- waiting ---- */

static int waits(clu_mesh *m, int what, int who) {
  uint32_t events = clu_mesh_events(m);
  clu_mesh_waits(m, what, who, NULL);
  return clu_mesh_sleep(m, events, 1000000);
}
static int goes_on_waiting(clu_mesh *m) { return clu_mesh_sleep(m, clu_mesh_events(m), 1000000); }

TEST(a_deadlock_is_found) {
  fixture f;
  int who[2];
  begin(&f);
  CHECK_INT_EQ(waits(f.rank[1], CLU_WAIT_MESSAGE, 0), CLU_OK);
  CHECK_INT_EQ(waits(f.rank[0], CLU_WAIT_MESSAGE, 1), CLU_OK);
  for (int i = 0; i < 4; i++) CHECK_INT_EQ(goes_on_waiting(f.rank[0]), CLU_OK); /* 2 computes */
  CHECK_INT_EQ(waits(f.rank[2], CLU_WAIT_MESSAGE, -1), CLU_OK);
  CHECK_INT_EQ(goes_on_waiting(f.rank[0]), CLU_OK); /* once is not enough */
  CHECK_INT_EQ(goes_on_waiting(f.rank[0]), CLU_AGAIN);
  CHECK_INT_EQ(goes_on_waiting(f.rank[2]), CLU_AGAIN);
  CHECK_INT_EQ(clu_mesh_verdict(f.session, who), CLU_AGAIN);
  end(&f);
}

TEST(what_is_under_way_or_has_a_time_is_no_deadlock) {
  fixture f;
  begin(&f);
  CHECK_INT_EQ(waits(f.rank[1], CLU_WAIT_MESSAGE, 0), CLU_OK);
  CHECK_INT_EQ(waits(f.rank[2], CLU_WAIT_FOR_TIME, 0), CLU_OK);
  CHECK_INT_EQ(waits(f.rank[0], CLU_WAIT_MESSAGE, 1), CLU_OK);
  for (int i = 0; i < 4; i++) CHECK_INT_EQ(goes_on_waiting(f.rank[0]), CLU_OK);
  CHECK_INT_EQ(try_send(f.rank[2], 1, "", "not yet looked at"), CLU_OK);
  CHECK_INT_EQ(waits(f.rank[2], CLU_WAIT_MESSAGE, 0), CLU_OK);
  for (int i = 0; i < 4; i++) CHECK_INT_EQ(goes_on_waiting(f.rank[0]), CLU_OK);
  end(&f);
}

TEST(the_end_of_the_run_ends_all_waiting) {
  fixture f;
  begin(&f);
  CHECK_INT_EQ(waits(f.rank[1], CLU_WAIT_MESSAGE, 0), CLU_OK);
  clu_mesh_end(f.session);
  CHECK_INT_EQ(goes_on_waiting(f.rank[1]), CLU_CANCELLED);
  end(&f);
}

/* ---- what others may have written ---- */

/* A message of eight bytes on its way from rank 0 to rank 1. */
static record_head *sent(fixture *f) {
  size_t n;
  CHECK_INT_EQ(try_send(f->rank[0], 1, "tag", "8 bytes."), CLU_OK);
  return (record_head *)mesh_peek(mesh_pair(f->rank[1], 0, 1), &n);
}

TEST(memory_is_had_for_what_has_come_and_not_for_what_is_said) {
  fixture f;
  clu_message *x;
  int who;
  begin(&f);
  sent(&f)->total = SIZE_MAX / 2;
  CHECK_INT_EQ(clu_mesh_receive(f.rank[1], 0, NULL, 0, &x, &who), CLU_AGAIN);
  end(&f);
}

/* The bytes are taken for the number of its segment, which cannot be had. */
TEST(a_body_that_is_a_segment_has_no_other_size) {
  fixture f;
  clu_message *x;
  record_head *h;
  int who;
  begin(&f);
  h = sent(&f);
  h->nsegments = h->is_apart = 1;
  for (int i = 0; i < 2; i++)
    CHECK_INT_EQ(clu_mesh_receive(f.rank[1], 0, NULL, 0, &x, &who), CLU_PROTO);
  end(&f);
}

TEST(a_damaged_ring_is_no_message_and_no_crash) {
  uint32_t seed = 7;
  int damaged = 0;
  for (int round = 0; round < 300; round++) {
    fixture f;
    unsigned char *bytes;
    clu_message *x;
    int who, rc = CLU_OK;
    begin(&f);
    for (int i = 0; i < 20; i++) CHECK_INT_EQ(try_send(f.rank[0], 1, "tag", "some bytes"), CLU_OK);
    bytes = (unsigned char *)f.rank[0]->peers[1].out;
    for (int i = 0; i < 1 + round % 8; i++) {
      seed = seed * 1664525u + 1013904223u;
      bytes[(seed >> 8) % 1600] = (unsigned char)(seed >> 24);
    }
    for (int i = 0; i < 30 && rc == CLU_OK; i++) {
      x = NULL;
      rc = clu_mesh_receive(f.rank[1], 0, NULL, 0, &x, &who);
      if (rc == CLU_OK) clu_message_free(x);
    }
    CHECK(rc == CLU_AGAIN || rc == CLU_PROTO || rc == CLU_NOMEM);
    damaged += rc == CLU_PROTO;
    end(&f);
  }
  CHECK(damaged > 50);
}

/* ---- reductions ---- */

TEST(numbers_of_all_ranks_are_reduced_in_their_order) {
  fixture f;
  enum { M = 10001 };
  static double expected[M];
  void *own, *result;
  int overflow = 0;
  begin(&f);
  for (int i = 0; i < N; i++) {
    REQUIRE(clu_mesh_reduce_room(f.rank[i], M * 8, &own, &result, NULL) == CLU_OK);
    for (int k = 0; k < M; k++) ((double *)own)[k] = 0.1 * i + 1e-3 * k;
  }
  for (int k = 0; k < M; k++)
    expected[k] = 0.1 * 0 + 1e-3 * k + (0.1 * 1 + 1e-3 * k) + (0.1 * 2 + 1e-3 * k);
  for (int i = 0; i < N; i++)
    CHECK_INT_EQ(clu_mesh_reduce(f.rank[i], CLU_REDUCE_SUM, CLU_REDUCE_DOUBLE, M, &overflow, NULL),
                 CLU_OK);
  CHECK(memcmp(result, expected, sizeof expected) == 0);
  CHECK_INT_EQ(clu_mesh_reduce_room(f.rank[0], CLU_REDUCE_BYTES + 1, &own, &result, NULL),
               CLU_LIMIT);
  end(&f);
}

static int reduced(fixture *f, int op, int type, const int in[N], int *overflow) {
  void *own, *result;
  *overflow = 0;
  for (int i = 0; i < N; i++) {
    REQUIRE(clu_mesh_reduce_room(f->rank[i], 4, &own, &result, NULL) == CLU_OK);
    *(int *)own = in[i];
  }
  for (int i = 0; i < N; i++)
    CHECK_INT_EQ(clu_mesh_reduce(f->rank[i], op, type, 1, overflow, NULL), CLU_OK);
  return *(int *)result;
}

TEST(integers_are_reduced_as_R_does) {
  const int missing = INT32_MIN, most = INT32_MAX;
  fixture f;
  int over;
  begin(&f);
#define IS(op, a, b, c) reduced(&f, CLU_REDUCE_##op, CLU_REDUCE_INT, (const int[N]){a, b, c}, &over)
  CHECK_INT_EQ(IS(SUM, 1, 2, 3), 6);
  CHECK_INT_EQ(IS(PRODUCT, 2, 3, -4), -24);
  CHECK_INT_EQ(IS(MIN, 5, -2, 3), -2);
  CHECK_INT_EQ(IS(MAX, 5, -2, 3), 5);
  CHECK_INT_EQ(IS(MAX, 5, missing, 3), missing);
  CHECK_INT_EQ(over, 0);
  CHECK_INT_EQ(IS(SUM, most, 1, -5), missing);
  CHECK_INT_EQ(over, 1);
  CHECK_INT_EQ(IS(AND, 1, missing, 0), 0);
  CHECK_INT_EQ(IS(AND, 1, missing, 1), missing);
  CHECK_INT_EQ(IS(OR, 0, missing, 1), 1);
  CHECK_INT_EQ(IS(OR, 0, missing, 0), missing);
  CHECK_INT_EQ(IS(OR, 0, 0, 0), 0);
  end(&f);
}

TEST(joining_asks_for_the_same_mesh) {
  clu_mesh *m = NULL, *part = NULL;
  clu_err e = {0};
  CHECK_INT_EQ(clu_mesh_new(0, "/tmp", &m, &e), CLU_LIMIT);
  CHECK_INT_EQ(clu_mesh_new(CLU_RANKS_MOST + 1, "/tmp", &m, &e), CLU_LIMIT);
  REQUIRE(clu_mesh_new(4, "/tmp", &m, &e) == CLU_OK);
  CHECK_INT_EQ(clu_mesh_join(clu_mesh_path(m), 5, 0, &part, &e), CLU_SYS);
  CHECK_INT_EQ(clu_mesh_join("/dev/null", 4, 0, &part, &e), CLU_SYS);
  CHECK_INT_EQ(clu_mesh_join("/nowhere/at/all", 4, 0, &part, &e), CLU_SYS);
  CHECK_INT_EQ(clu_mesh_join(clu_mesh_path(m), 4, 4, &part, &e), CLU_PROTO);
  CHECK(part == NULL);
  clu_mesh_free(m);
  clu_mesh_free(NULL);
}
