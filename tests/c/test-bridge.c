/* Bridges and the hub of a run on two hosts. */
#include "bridge-fixture.h"

TEST(messages_cross_in_order_and_by_tag) {
  begin();
  settle();
  CHECK_INT_EQ(try_send(0, 2, "a", "one"), CLU_OK);
  CHECK_INT_EQ(try_send(0, 2, "b", "two"), CLU_OK);
  CHECK_INT_EQ(try_send(0, 3, "", "three"), CLU_OK);
  CHECK_INT_EQ(try_send(0, 1, "", "here"), CLU_OK);
  CHECK_INT_EQ(try_send(3, 0, "\001", "hidden"), CLU_OK);
  CHECK_INT_EQ(try_send(1, 2, "a", "of 1"), CLU_OK);
  settle();
  CHECK_STR_EQ(get(2, 1, NULL), "a:of 1 1");
  CHECK_STR_EQ(get(2, -1, "b"), "b:two 0");
  CHECK_STR_EQ(get(2, 0, NULL), "a:one 0");
  CHECK_STR_EQ(get(3, -1, NULL), ":three 0");
  CHECK_STR_EQ(get(1, -1, NULL), ":here 0");
  CHECK_STR_EQ(get(0, -1, NULL), "again -1");
  CHECK_STR_EQ(get(0, 3, "\001"), "\001:hidden 3");
  end();
}

/* Also to ranks that have one ring, in the order of all that was sent. */
TEST(a_message_to_many_crosses_once) {
  static const int both[] = {2, 3};
  clu_sending way = {0};
  clu_blob *b = text("to both", 7);
  int before;
  begin();
  settle();
  CHECK_INT_EQ(try_send(0, 3, "", "first"), CLU_OK);
  settle();
  before = f.said;
  CHECK_INT_EQ(clu_mesh_send_away(f.rank[0], both, 2, "", b, &way), CLU_OK);
  settle();
  CHECK_INT_EQ(f.said - before, 2); /* to the hub, and to the host */
  CHECK_STR_EQ(get(2, -1, NULL), ":to both 0");
  CHECK_STR_EQ(get(3, -1, NULL), ":first 0");
  CHECK_STR_EQ(get(3, -1, NULL), ":to both 0");
  clu_blob_unref(b);
  end();
}

/* A body of any size, and segments, of which each receiver has the bytes. */
static void pass(size_t n, size_t in_segment) {
  clu_blob *b = clu_blob_new(n);
  clu_segment *s = in_segment ? clu_segment_new() : NULL;
  clu_sending way = {0};
  clu_message *x = NULL;
  int who, rc = CLU_AGAIN;
  REQUIRE(b);
  if (n) REQUIRE(clu_blob_append(b, NULL, n) == 0);
  for (size_t i = 0; i < n; i++) b->data[i] = (unsigned char)(i * 7 + i / 251);
  if (s) {
    REQUIRE(clu_segment_append(s, b->data, in_segment) == CLU_OK);
    REQUIRE(clu_segment_seal(s) == CLU_OK);
    REQUIRE(clu_blob_attach(b, s) == 0);
  }
  for (int i = 0; i < 1000 && rc == CLU_AGAIN; i++) {
    rc = clu_mesh_send(f.rank[1], 2, "x", b, &way);
    settle();
  }
  CHECK_INT_EQ(rc, CLU_OK);
  rc = CLU_AGAIN;
  for (int i = 0; i < 1000 && rc == CLU_AGAIN; i++) {
    rc = clu_mesh_receive(f.rank[2], 1, "x", 0, &x, &who);
    settle();
  }
  REQUIRE(rc == CLU_OK);
  CHECK_INT_EQ(x->n, n);
  CHECK(n == 0 || memcmp(x->body, b->data, n) == 0);
  CHECK_INT_EQ(x->lost, 0);
  CHECK_INT_EQ(x->segments.n, s ? 1 : 0);
  if (s && x->segments.n == 1) {
    CHECK_INT_EQ(clu_segment_size(x->segments.of[0]), in_segment);
    CHECK(memcmp(clu_segment_bytes(x->segments.of[0], NULL), b->data, in_segment) == 0);
  }
  clu_message_free(x);
  clu_blob_unref(b);
}

TEST(bodies_of_all_sizes_cross) {
  static const size_t sizes[] = {0, 1, 64, 4096, 5000, 262144, 300000, 3000000, 20000000};
  const unsigned need = CLU_CAN_MEMFD | CLU_CAN_PROC;
  begin();
  settle();
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) pass(sizes[i], 0);
  if ((clu_os_can() & need) == need) {
    pass(100, 100);
    pass(3000000, 2000000);
  }
  end();
}

/* Messages that wait at a receiver keep their order, and no other message waits for them. */
TEST(what_finds_no_room_waits_in_order) {
  char s[32];
  int sent = 0;
  begin();
  settle();
  for (int i = 0; i < 30000; i++) {
    snprintf(s, sizeof s, "%d of many messages", i);
    if (try_send(0, 2, "", s) != CLU_OK) break;
    sent++;
    if (i % 1000 == 0) settle();
  }
  CHECK_INT_EQ(sent, 30000);
  CHECK_INT_EQ(try_send(0, 3, "", "another"), CLU_OK);
  CHECK_INT_EQ(try_send(1, 2, "", "of another"), CLU_OK);
  clu_mesh_leave(f.rank[0], 0);
  settle();
  CHECK_STR_EQ(get(3, -1, NULL), ":another 0");
  CHECK_STR_EQ(get(2, 1, NULL), ":of another 1");
  for (int i = 0; i < sent; i++) {
    char want[64];
    const char *got = get(2, 0, NULL);
    snprintf(want, sizeof want, ":%d of many messages 0", i);
    for (int k = 0; k < 10 && strcmp(got, "again -1") == 0; k++) {
      settle();
      got = get(2, 0, NULL);
    }
    if (strcmp(want, got) != 0) {
      CHECK_STR_EQ(got, want);
      break;
    }
  }
  settle();
  CHECK_STR_EQ(get(2, 0, NULL), "dead 0"); /* it had ended, behind all that */
  end();
}

/* A sender waits when the receiver has looked at nothing for long. */
TEST(a_sender_waits_for_a_receiver_elsewhere) {
  clu_blob *b = clu_blob_new(1 << 25);
  clu_message *x = NULL;
  int sent = 0, got = 0, rc = CLU_OK, who;
  REQUIRE(b);
  REQUIRE(clu_blob_append(b, NULL, 1 << 25) == 0);
  memset(b->data, 1, 1 << 25);
  begin();
  settle();
  while (sent < 20 && rc == CLU_OK) {
    clu_sending way = {0};
    while ((rc = clu_mesh_send(f.rank[0], 2, "", b, &way)) == CLU_AGAIN && way.begun) settle();
    sent += rc == CLU_OK;
    settle();
  }
  CHECK_INT_EQ(rc, CLU_AGAIN);
  CHECK(sent >= 7 && sent < 10);
  for (int i = 0; i < 1000 && got < sent; i++) {
    if (clu_mesh_receive(f.rank[2], 0, NULL, 0, &x, &who) == CLU_OK) {
      got++;
      clu_message_free(x);
    }
    settle();
  }
  CHECK_INT_EQ(got, sent);
  for (int i = 0; i < 2; i++) {
    clu_sending way = {0};
    while ((rc = clu_mesh_send(f.rank[0], 2, "", b, &way)) == CLU_AGAIN && way.begun) settle();
    CHECK_INT_EQ(rc, CLU_OK);
  }
  clu_blob_unref(b);
  end();
}

TEST(ends_and_deaths_are_known_elsewhere) {
  clu_exit how = {1, 9};
  clu_rank_info info;
  begin();
  settle();
  clu_mesh_info(f.rank[2], 0, &info);
  CHECK_INT_EQ(info.state, CLU_RANK_HERE);
  CHECK_INT_EQ(info.pid, clu_os_getpid());
  CHECK_INT_EQ(try_send(0, 2, "", "last"), CLU_OK);
  clu_mesh_leave(f.rank[0], 0);
  settle();
  CHECK_STR_EQ(get(2, 0, NULL), ":last 0");
  CHECK_STR_EQ(get(2, 0, NULL), "dead 0");
  CHECK_INT_EQ(try_send(2, 0, "", "late"), CLU_DEAD);
  CHECK_INT_EQ(try_send(1, 3, "", "of one who dies"), CLU_OK);
  clu_hub_died(f.hub, 1, &how);
  settle();
  CHECK_STR_EQ(get(3, 1, NULL), ":of one who dies 1");
  CHECK_STR_EQ(get(3, 1, NULL), "dead 1");
  clu_mesh_info(f.rank[3], 1, &info);
  CHECK_INT_EQ(info.state, CLU_RANK_DEAD);
  CHECK_INT_EQ(info.how.code, 9);
  CHECK_INT_EQ(info.how.by_signal, 1);
  end();
}

/* Others fail because of it, and are told apart from it elsewhere. */
TEST(the_first_who_has_died_is_named_elsewhere) {
  clu_exit how = {1, 9};
  begin();
  settle();
  clu_hub_died(f.hub, 1, &how);
  hear(0);
  clu_mesh_leave(f.rank[0], 1);
  settle();
  CHECK_STR_EQ(get(0, 1, NULL), "dead 1");
  CHECK_STR_EQ(get(3, 0, NULL), "dead 1");
  end();
}

static const clu_meeting barrier = {.kind = 1};

static void meet(int rank, const clu_meeting *why, uint32_t *turn) {
  clu_mesh_waits(f.rank[rank], CLU_WAIT_MEETING, -1, NULL);
  clu_mesh_meet(f.rank[rank], why, turn);
}

static int met(int rank, uint32_t turn) {
  int who;
  return clu_mesh_has_met(f.rank[rank], turn, &who);
}

TEST(all_hosts_meet) {
  uint32_t turn[N];
  begin();
  for (int k = 0; k < 3; k++) {
    for (int i = 0; i < N; i++) {
      settle();
      for (int j = 0; j < i; j++) CHECK_INT_EQ(met(j, turn[j]), CLU_AGAIN);
      meet(i, &barrier, &turn[i]);
    }
    settle();
    for (int i = 0; i < N; i++) CHECK_INT_EQ(met(i, turn[i]), CLU_OK);
  }
  end();
}

TEST(hosts_that_do_not_call_the_same_are_told) {
  const clu_meeting other = {.kind = 2, .root = 1};
  clu_rank_info info;
  uint32_t turn[N];
  int who[2];
  begin();
  for (int i = 0; i < N; i++) meet(i, i < 2 ? &barrier : &other, &turn[i]);
  settle();
  for (int i = 0; i < N; i++) {
    CHECK_INT_EQ(clu_mesh_verdict(f.rank[i], who), CLU_PROTO);
    CHECK_INT_EQ(who[0], 0);
    CHECK_INT_EQ(who[1], 2);
  }
  clu_mesh_info(f.rank[0], 2, &info);
  CHECK_INT_EQ(info.meeting.kind, 2);
  CHECK_INT_EQ(info.meeting.root, 1);
  end();
}

static void reduce(int op, int type, const void *of[N], size_t n, void *out, int *overflow) {
  clu_meeting why = {.kind = 7, .op = (uint32_t)op, .type = (uint32_t)type, .n = n};
  size_t bytes = n * clu_reduce_width(type);
  uint32_t turn[N];
  void *own, *result;
  why.is_of_host = 1;
  for (int i = 0; i < N; i++) {
    REQUIRE(clu_mesh_reduce_room(f.rank[i], bytes, &own, &result, NULL) == CLU_OK);
    memcpy(own, of[i], bytes);
    meet(i, &why, &turn[i]);
  }
  for (int i = 0; i < N; i++) {
    CHECK_INT_EQ(met(i, turn[i]), CLU_OK);
    REQUIRE(clu_mesh_reduce(f.rank[i], op, type, n, overflow, NULL) == CLU_OK);
  }
  why.is_of_host = 0;
  why.kind += CLU_MEET_RESULT;
  for (int i = 0; i < N; i++) meet(i, &why, &turn[i]);
  settle();
  for (int i = 0; i < N; i++) {
    CHECK_INT_EQ(met(i, turn[i]), CLU_OK);
    REQUIRE(clu_mesh_reduce_room(f.rank[i], bytes, &own, &result, NULL) == CLU_OK);
    if (i == 0) memcpy(out, result, bytes);
    CHECK(memcmp(out, result, bytes) == 0);
  }
}

TEST(vectors_of_all_hosts_become_one) {
  enum { MANY = 50000 };
  double *x = malloc(N * MANY * sizeof *x), *sum = malloc(MANY * sizeof *sum);
  static const int ints[N][2] = {{1, 2000000000}, {2, 0}, {3, 2000000000}, {4, 0}};
  const void *of[N];
  int got[2], overflow = 0;
  begin();
  REQUIRE(x && sum);
  for (int i = 0; i < N * MANY; i++) x[i] = i / 3.0;
  for (int i = 0; i < N; i++) of[i] = x + i * MANY;
  reduce(CLU_REDUCE_SUM, CLU_REDUCE_DOUBLE, of, MANY, sum, &overflow);
  for (int i = 0; i < MANY; i++)
    if (sum[i] != (x[i] + x[MANY + i]) + (x[2 * MANY + i] + x[3 * MANY + i])) {
      CHECK_INT_EQ(i, -1);
      break;
    }
  CHECK_INT_EQ(clu_mesh_has_overflowed(f.rank[0]), 0);
  for (int i = 0; i < N; i++) of[i] = ints[i];
  reduce(CLU_REDUCE_SUM, CLU_REDUCE_INT, of, 2, got, &overflow);
  CHECK_INT_EQ(got[0], 10);
  CHECK_INT_EQ(overflow, 0); /* not on one host */
  CHECK_INT_EQ(clu_mesh_has_overflowed(f.rank[3]), 1);
  reduce(CLU_REDUCE_MAX, CLU_REDUCE_INT, of, 0, got, &overflow);
  CHECK_INT_EQ(clu_mesh_has_overflowed(f.rank[3]), 0);
  free(x);
  free(sum);
  end();
}

static void wait_for(int rank, int from, const char *tag) {
  uint32_t events = clu_mesh_events(f.rank[rank]);
  CHECK_STR_EQ(get(rank, from, tag), "again -1");
  clu_mesh_waits(f.rank[rank], CLU_WAIT_MESSAGE, from, tag);
  atomic_store(&f.rank[rank]->ranks[rank].events_seen, events);
}

TEST(a_deadlock_of_two_hosts_is_found) {
  clu_rank_info info;
  uint32_t turn;
  begin();
  settle();
  wait_for(0, 2, "reply");
  wait_for(2, 0, NULL);
  wait_for(3, -1, NULL);
  settle_as(1);
  settle_as(1);
  CHECK_INT_EQ(clu_mesh_verdict(f.rank[0], NULL), CLU_OK); /* rank 1 goes on */
  CHECK_INT_EQ(try_send(1, 3, "", "go on"), CLU_OK);
  meet(1, &barrier, &turn);
  atomic_store(&f.rank[1]->ranks[1].events_seen, clu_mesh_events(f.rank[1]));
  settle_as(1);
  settle_as(1);
  CHECK_INT_EQ(clu_mesh_verdict(f.rank[0], NULL), CLU_OK); /* rank 3 has not looked at that */
  CHECK_STR_EQ(get(3, -1, NULL), ":go on 1");
  wait_for(3, -1, NULL);
  settle_as(1);
  settle_as(1);
  for (int i = 0; i < N; i++) CHECK_INT_EQ(clu_mesh_verdict(f.rank[i], NULL), CLU_AGAIN);
  clu_mesh_info(f.rank[3], 0, &info);
  CHECK_INT_EQ(info.waits, CLU_WAIT_MESSAGE);
  CHECK_INT_EQ(info.wait_for, 2);
  CHECK_STR_EQ(info.tag, "reply");
  end();
}

/* It comes when some were taken; meanwhile nobody is told of a deadlock. */
TEST(a_message_whose_segments_cannot_be_made_waits) {
  const unsigned need = CLU_CAN_MEMFD | CLU_CAN_PROC;
  struct rlimit before, few;
  clu_blob *b = text("with a segment", 14);
  enum { MANY = 16 };
  clu_segment *s, *others[MANY];
  clu_sending way = {0};
  if ((clu_os_can() & need) != need) SKIP("there are no segments here");
  begin();
  settle();
  REQUIRE((s = clu_segment_new()) != NULL);
  REQUIRE(clu_segment_append(s, "bytes", 5) == CLU_OK && clu_segment_seal(s) == CLU_OK);
  REQUIRE(clu_blob_attach(b, s) == 0);
  CHECK_INT_EQ(clu_mesh_send(f.rank[0], 2, "", b, &way), CLU_OK);
  clu_bridge_turn(f.bridge[0], 0);
  for (int i = 0; i < MANY; i++) REQUIRE((others[i] = clu_segment_new()) != NULL);
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  few = before;
  few.rlim_cur = 4 * MANY; /* a quarter may be segments */
  REQUIRE(setrlimit(RLIMIT_NOFILE, &few) == 0);
  settle();
  for (int i = 0; i < N; i++) wait_for(i, i == 2 ? 0 : 2, NULL);
  for (int i = 0; i < 3; i++) settle_as(1);
  CHECK_INT_EQ(clu_mesh_verdict(f.rank[2], NULL), CLU_OK);
  CHECK_STR_EQ(get(2, 0, NULL), "again -1");
  REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
  for (int i = 0; i < MANY; i++) clu_segment_unref(others[i]);
  settle();
  CHECK_STR_EQ(get(2, 0, NULL), ":with a segment 0");
  clu_blob_unref(b);
  end();
}

/* Its message cannot be read, and who has sent it is there: nobody waits for it in vain. */
TEST(a_bridge_without_descriptors_ends_the_run) {
  const unsigned need = CLU_CAN_MEMFD | CLU_CAN_PROC;
  clu_blob *b = text("with a segment", 14);
  clu_sending way = {0};
  struct rlimit before, none;
  clu_segment *s;
  if ((clu_os_can() & need) != need) SKIP("there are no segments here");
  begin();
  REQUIRE((s = clu_segment_new()) != NULL);
  REQUIRE(clu_segment_append(s, "bytes", 5) == CLU_OK && clu_segment_seal(s) == CLU_OK);
  REQUIRE(clu_blob_attach(b, s) == 0);
  CHECK_INT_EQ(clu_mesh_send(f.rank[0], 2, "", b, &way), CLU_OK);
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  none = before;
  none.rlim_cur = 0;
  REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
  clu_bridge_turn(f.bridge[0], 0);
  REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK_INT_EQ(clu_mesh_verdict(f.rank[1], NULL), CLU_CANCELLED);
  clu_blob_unref(b);
  end();
}

TEST(the_end_and_a_lost_host_end_all_waiting) {
  begin();
  settle();
  clu_hub_end(f.hub);
  settle();
  for (int i = 0; i < N; i++) CHECK_INT_EQ(clu_mesh_verdict(f.rank[i], NULL), CLU_CANCELLED);
  end();
  begin();
  settle();
  clu_hub_lost(f.hub, 0);
  settle();
  CHECK_INT_EQ(clu_mesh_verdict(f.rank[3], NULL), CLU_CANCELLED);
  CHECK_INT_EQ(clu_mesh_verdict(f.rank[0], NULL), CLU_OK);
  end();
  begin();
  clu_mesh_end(f.rank[1]); /* a part that was interrupted half-way */
  settle();
  for (int i = 0; i < N; i++) CHECK_INT_EQ(clu_mesh_verdict(f.rank[i], NULL), CLU_CANCELLED);
  end();
}

TEST(what_cannot_be_is_refused) {
  clu_bridge_text t;
  begin();
  settle();
  clu_bridge_begin(&t, CLU_BRIDGE_SEND);
  clu_bridge_number(&t, 2, 4); /* a rank of another host says that it is of the first */
  clu_bridge_number(&t, 0, 4);
  CHECK_INT_EQ(clu_hub_heard(f.hub, 0, t.b), CLU_PROTO);
  CHECK_INT_EQ(clu_hub_is_lost(f.hub, 0), 1);
  CHECK_INT_EQ(clu_bridge_heard(f.bridge[1], t.b), CLU_PROTO);
  CHECK_INT_EQ(clu_mesh_verdict(f.rank[2], NULL), CLU_CANCELLED);
  clu_blob_unref(t.b);
  end();
  begin();
  clu_bridge_begin(&t, CLU_BRIDGE_VERDICT);
  clu_bridge_number(&t, CLU_AGAIN, 1);
  clu_bridge_number(&t, 0, 8);
  clu_bridge_number(&t, 0, 5);
  clu_bridge_number(&t, 0x80000000, 4); /* a rank waits for one that there cannot be */
  clu_bridge_bytes(&t, "\0\0", 2);
  clu_bridge_meeting(&t, &barrier);
  CHECK_INT_EQ(clu_bridge_heard(f.bridge[1], t.b), CLU_PROTO);
  clu_blob_unref(t.b);
  end();
}
