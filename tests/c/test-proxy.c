/* Proxies: a host's fork server and nodes through one connection, which is cut. */
#include "link-fixture.h"

#include "core/link/proxy.h"

enum { BIG_SEGMENT = TEST_SANITIZED ? 20000000 : 100000000 };

TEST(nodes_of_a_host_start_answer_and_end) {
  host_fixture h;
  host_up(&h, 16);
  echo_all(&h.f, -1);
  for (int i = 0; i < 16; i++) call(h.f.nd[i], ECHO, (uint32_t)i, (size_t)1 << i, 1);
  for (int i = 0; i < 16; i++) expect_echo(&h.f, h.f.nd[i], ECHO, (uint32_t)i, (size_t)1 << i);
  CHECK_INT_EQ(host_state(&h, 1, NULL), CLU_PROXY_UP);
  host_down(&h);
}

TEST(messages_of_several_frames_pass) {
  host_fixture h;
  host_up(&h, 2);
  call(h.f.nd[0], ECHO, 1, 5 * 1000 * 1000 + 3, 1);
  call(h.f.nd[1], ECHO, 2, 3 * (1 << 20), 1);
  call(h.f.nd[1], ECHO, 3, 10, 1);
  expect_echo(&h.f, h.f.nd[0], ECHO, 1, 5 * 1000 * 1000 + 3);
  expect_echo(&h.f, h.f.nd[1], ECHO, 2, 3 * (1 << 20));
  expect_echo(&h.f, h.f.nd[1], ECHO, 3, 10);
  host_down(&h);
}

TEST(a_call_is_cancelled_there) {
  host_fixture h;
  host_up(&h, 2);
  call(h.f.nd[0], SLEEP, 0, 5, 7);
  pump_for(&h.f, 30);
  clu_node_cancel(h.f.nd[0], 7);
  PUMP(&h.f, clu_node_in_step(h.f.nd[0]));
  CHECK_INT_EQ(clu_node_requests(h.f.nd[0]), 0);
  echo_all(&h.f, -1);
  host_down(&h);
}

/* A large answer, then the end: all of the answer is there although EXITED is another channel. */
TEST(an_answer_before_the_end_counts) {
  host_fixture h;
  host_up(&h, 4);
  for (int i = 0; i < 3; i++) {
    call(h.f.nd[i], BIG, 3000000, 5, 1);
    call(h.f.nd[i], EXIT, 0, 5, 1);
  }
  for (int i = 0; i < 3; i++) {
    PUMP(&h.f, clu_node_end_known(h.f.nd[i]));
    CHECK(clu_node_is_lost(h.f.nd[i]));
    CHECK(h.f.nd[i]->how_known && h.f.nd[i]->how.code == 0 && !h.f.nd[i]->how.by_signal);
    if (CHECK(has_answer(h.f.nd[i]))) {
      clu_blob *b = clu_node_take_first(h.f.nd[i]);
      CHECK(b && b->size == 3000000);
      clu_blob_unref(b);
    }
  }
  call(h.f.nd[3], ECHO, 9, 100, 1);
  expect_echo(&h.f, h.f.nd[3], ECHO, 9, 100);
  host_down(&h);
}

TEST(a_killed_node_is_told_and_replaced) {
  host_fixture h;
  clu_err e;
  host_up(&h, 4);
  kill((pid_t)h.f.nd[2]->pid, SIGKILL);
  PUMP(&h.f, clu_node_end_known(h.f.nd[2]));
  CHECK(h.f.nd[2]->how.by_signal && h.f.nd[2]->how.code == SIGKILL);
  clu_node_free(h.f.nd[2]);
  REQUIRE(clu_node_new_host(h.f.s, 0, &h.f.nd[2], &e) == CLU_OK);
  PUMP(&h.f, clu_node_is_ready(h.f.nd[2]));
  echo_all(&h.f, -1);
  host_down(&h);
}

TEST(a_stopped_node_ends_and_the_others_stay) {
  host_fixture h;
  host_up(&h, 3);
  clu_node_stop(h.f.nd[1], 2000);
  PUMP(&h.f, clu_node_end_known(h.f.nd[1]));
  CHECK(!clu_node_is_lost(h.f.nd[1]));
  echo_all(&h.f, 1);
  host_down(&h);
}

TEST(cuts_lose_nothing_and_repeat_nothing) {
  host_fixture h;
  uint64_t counts[3];
  host_up(&h, 8);
  for (int round = 0; round < 40; round++) {
    for (int i = 0; i < 8; i++)
      for (int k = 0; k < 10; k++)
        call(h.f.nd[i], ECHO, (uint32_t)(1000 * round + k), (size_t)(k == 9 ? 200000 : 300 + k), 1);
    if (round % 2) h.proxy->cuts++;
    for (int i = 0; i < 8; i++)
      for (int k = 0; k < 10; k++)
        expect_echo(&h.f, h.f.nd[i], ECHO, (uint32_t)(1000 * round + k),
                    (size_t)(k == 9 ? 200000 : 300 + k));
    for (int i = 0; i < 8; i++) CHECK_INT_EQ(clu_node_requests(h.f.nd[i]), 0);
  }
  CHECK_INT_EQ(host_state(&h, 1, counts), CLU_PROXY_UP);
  CHECK(counts[2] >= 10);
  host_down(&h);
}

TEST(silence_is_noticed_and_healed) {
  host_fixture h;
  double from;
  host_up_with(&h, 4, 200, 300000);
  h.proxy->hold = 1;
  from = test_ms();
  call(h.f.nd[0], ECHO, 1, 1000, 1);
  while (host_state(&h, 1, NULL) == CLU_PROXY_UP && test_ms() - from < 5000) pump_for(&h.f, 5);
  CHECK(test_ms() - from < 1000); /* the heartbeat is 200 ms */
  CHECK_INT_EQ(host_state(&h, 1, NULL), CLU_PROXY_CUT);
  h.proxy->cuts++;
  h.proxy->hold = 0;
  expect_echo(&h.f, h.f.nd[0], ECHO, 1, 1000);
  echo_all(&h.f, -1);
  host_down(&h);
}

TEST(a_quiet_connection_lasts) {
  host_fixture h;
  uint64_t counts[3];
  host_up_with(&h, 1, 800, 300000); /* it is told each 267 ms that it lasts */
  pump_for(&h.f, 1800);
  CHECK_INT_EQ(host_state(&h, 1, counts), CLU_PROXY_UP);
  CHECK_INT_EQ(counts[2], 0);
  host_down(&h);
}

TEST(a_host_that_is_cut_off_for_too_long_is_given_up_on_both_sides) {
  host_fixture h;
  host_up_with(&h, 3, 200, 500);
  h.proxy->hold = 1; /* no answer: connections are taken by the system */
  PUMP(&h.f, h.f.s->state == CLU_SERVER_ENDED);
  CHECK(clu_node_is_lost(h.f.nd[0]));
  CHECK_SOON(all_gone(&h.f), 9000);
  end_process(&h.far_pid, 1);
  host_down(&h);
}

TEST(all_ends_when_the_session_is_killed) {
  host_fixture h;
  double from;
  host_up(&h, 16);
  from = test_ms();
  clu_chan_fini(&h.near);
  CHECK_SOON(all_gone(&h.f), 2000);
  end_process(&h.far_pid, 0);
  CHECK(test_ms() - from < 2000);
  host_down(&h);
}

TEST(all_ends_when_the_link_process_is_killed) {
  host_fixture h;
  host_up(&h, 16);
  kill(h.near_pid, SIGKILL);
  end_process(&h.near_pid, -1);
  h.proxy->refuse = 1;
  PUMP(&h.f, h.f.s->state == CLU_SERVER_ENDED);
  CHECK_SOON(all_gone(&h.f), 2000);
  end_process(&h.far_pid, 1);
  host_down(&h);
}

TEST(all_there_ends_when_its_proxy_is_killed) {
  host_fixture h;
  host_up_with(&h, 8, 100, 300);
  kill(h.far_pid, SIGKILL);
  end_process(&h.far_pid, -1);
  CHECK_SOON(all_gone(&h.f), 2000);
  PUMP(&h.f, h.f.s->state == CLU_SERVER_ENDED);
  host_down(&h);
}

TEST(a_host_that_is_told_to_end_says_so_and_ends_at_once) {
  host_fixture h;
  host_up(&h, 8);            /* a cut would last for 300 s */
  kill(h.near_pid, SIGSTOP); /* it reads what that host says and the end at once */
  kill(h.far_pid, SIGTERM);
  end_process(&h.far_pid, 1);
  pump_for(&h.f, 50);
  kill(h.near_pid, SIGCONT);
  CHECK_SOON(host_state(&h, 1, NULL) == CLU_PROXY_ENDED, 2000);
  CHECK_STR_EQ(h.why, CLU_FAR_TOLD);
  CHECK_SOON(all_gone(&h.f), 2000);
  PUMP(&h.f, h.f.s->state == CLU_SERVER_ENDED);
  CHECK_INT_EQ(h.f.s->state, CLU_SERVER_ENDED);
  host_down(&h);
}

/* The session knows before the cut is noticed, or later. */
TEST(a_host_of_which_nothing_is_left_is_given_up_at_once) {
  for (int before = 0; before < 2; before++) {
    host_fixture h;
    host_up(&h, 2);
    if (before) {
      clu_chan_send_bytes(&h.near, CLU_K_HOST_STATE, 1, "nobody", 6, CLU_NO_FD);
      CHECK_INT_EQ(host_state(&h, 1, NULL), CLU_PROXY_UP);
      echo_all(&h.f, -1); /* what is there counts */
    }
    kill(h.far_pid, SIGKILL);
    end_process(&h.far_pid, -1);
    if (!before) {
      CHECK_SOON(host_state(&h, 1, NULL) == CLU_PROXY_CUT, 3000);
      clu_chan_send_bytes(&h.near, CLU_K_HOST_STATE, 1, "nobody", 6, CLU_NO_FD);
      CHECK_SOON(clu_chan_flush(&h.near) == CLU_OK, 1000);
    }
    PUMP(&h.f, h.f.s->state == CLU_SERVER_ENDED);
    host_down(&h);
  }
}

TEST(a_killed_fork_server_ends_its_host) {
  host_fixture h;
  char path[64];
  int server = 0;
  FILE *f;
  host_up(&h, 8);
  snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)h.far_pid, (int)h.far_pid);
  f = fopen(path, "re");
  REQUIRE(f && fscanf(f, "%d", &server) == 1);
  fclose(f);
  kill(server, SIGKILL);
  PUMP(&h.f, h.f.s->state == CLU_SERVER_ENDED);
  CHECK_SOON(all_gone(&h.f), 2000);
  end_process(&h.far_pid, 1); /* and says why */
  host_down(&h);
}

TEST(closing_a_server_ends_its_host_only) {
  host_fixture h;
  clu_server *other;
  pid_t far;
  clu_err e;
  clu_node *nd;
  host_up(&h, 2);
  other = add_host(&h, 2);
  far = start_far(&h, h.proxy_port, 2, link_secret, 10000);
  PUMP(&h.f, other->state == CLU_SERVER_READY);
  REQUIRE(clu_node_new_host(other, 0, &nd, &e) == CLU_OK);
  PUMP(&h.f, clu_node_is_ready(nd));
  clu_server_close(other);
  end_process(&far, 0);
  CHECK_SOON(gone(nd->pid), 2000);
  clu_node_free(nd);
  clu_server_unref(other);
  echo_all(&h.f, -1);
  host_down(&h);
}

/* One that does not read keeps nobody from anything, and gets all in the end. */
TEST(a_node_that_does_not_read_stops_no_other) {
  host_fixture h;
  double from;
  host_up(&h, 4);
  call(h.f.nd[0], LATE, 10000, 20, 1);
  pump_for(&h.f, 20);
  call(h.f.nd[0], ECHO, 5, 20 * 1000 * 1000, 1);
  from = test_ms();
  pump_for(&h.f, 100);
  for (int k = 0; k < 10; k++)
    for (int i = 1; i < 4; i++) {
      call(h.f.nd[i], ECHO, (uint32_t)k, 20000, 1);
      expect_echo(&h.f, h.f.nd[i], ECHO, (uint32_t)k, 20000);
    }
  CHECK(test_ms() - from < 9500);
  CHECK(h.proxy->to_host < 10 * 1000 * 1000 + 30 * 21000);
  expect_echo(&h.f, h.f.nd[0], LATE, 10000, 20);
  expect_echo(&h.f, h.f.nd[0], ECHO, 5, 20 * 1000 * 1000);
  host_down(&h);
}

TEST(a_segment_for_many_nodes_crosses_once) {
  host_fixture h;
  clu_blob *b;
  clu_err e;
  uint64_t before;
  host_up(&h, 8);
  b = blob_with_segment(BIG_SEGMENT, SUM);
  before = h.proxy->to_host;
  for (int i = 0; i < 8; i++) REQUIRE(clu_node_call(h.f.nd[i], b, 1, 0, &e) == CLU_OK);
  for (int i = 0; i < 8; i++) expect_sum(&h, h.f.nd[i], BIG_SEGMENT);
  CHECK(h.proxy->to_host - before >= BIG_SEGMENT);
  CHECK(h.proxy->to_host - before < BIG_SEGMENT + BIG_SEGMENT / 100);
  /* and not again when it is sent again */
  before = h.proxy->to_host;
  for (int i = 0; i < 8; i++) REQUIRE(clu_node_call(h.f.nd[i], b, 1, 0, &e) == CLU_OK);
  for (int i = 0; i < 8; i++) expect_sum(&h, h.f.nd[i], BIG_SEGMENT);
  CHECK(h.proxy->to_host - before < 10000);
  clu_blob_unref(b);
  host_down(&h);
}

TEST(segments_survive_cuts_and_pass_small_messages) {
  host_fixture h;
  clu_err e;
  host_up(&h, 4);
  for (int k = 0; k < 3; k++) {
    clu_blob *b = blob_with_segment(BIG_SEGMENT / 5 + (uint32_t)k, SUM);
    for (int i = 0; i < 2; i++) REQUIRE(clu_node_call(h.f.nd[i], b, 1, 0, &e) == CLU_OK);
    clu_blob_unref(b);
    call(h.f.nd[2], ECHO, 1, 1000, 1);
    pump_for(&h.f, 5);
    h.proxy->cuts++;
    expect_echo(&h.f, h.f.nd[2], ECHO, 1, 1000);
    for (int i = 0; i < 2; i++) expect_sum(&h, h.f.nd[i], BIG_SEGMENT / 5 + (uint32_t)k);
  }
  host_down(&h);
}

TEST(a_segment_comes_back) {
  host_fixture h;
  host_up(&h, 2);
  for (int k = 0; k < 3; k++) {
    clu_blob *b;
    call(h.f.nd[0], GIVE, 3000000 + (uint32_t)k, 5, 1);
    PUMP(&h.f, has_answer(h.f.nd[0]));
    b = clu_node_take_first(h.f.nd[0]);
    if (CHECK(b && b->segments && b->segments->n == 1)) {
      clu_segment *s = b->segments->of[0];
      CHECK_INT_EQ(clu_segment_size(s), 3000000 + k);
      CHECK(clu_segment_bytes(s, NULL) && clu_segment_bytes(s, NULL)[2999999] == 3);
    }
    clu_blob_unref(b);
  }
  host_down(&h);
}

/* All of it inside TLS: nothing of it can be read on the way, and cuts are survived. */
TEST(connections_may_be_encrypted) {
  host_fixture h;
  clu_blob *b;
  clu_err e;
  pid_t far;
  int was;
  host_up_by(&h, 1, 4, 10000, 300000);
  for (int round = 0; round < 10; round++) {
    for (int i = 0; i < 4; i++) call(h.f.nd[i], ECHO, (uint32_t)round, 300000, 1);
    if (round % 3 == 0) h.proxy->cuts++;
    for (int i = 0; i < 4; i++) expect_echo(&h.f, h.f.nd[i], ECHO, (uint32_t)round, 300000);
  }
  b = blob_with_segment(5000000, SUM);
  for (int i = 0; i < 4; i++) REQUIRE(clu_node_call(h.f.nd[i], b, 1, 0, &e) == CLU_OK);
  for (int i = 0; i < 4; i++) expect_sum(&h, h.f.nd[i], 5000000);
  clu_blob_unref(b);
  /* who knows the secret only */
  was = h.tls;
  h.tls = 0;
  far = start_far(&h, h.port, 1, link_secret, 300);
  end_process(&far, 1);
  h.tls = was;
  echo_all(&h.f, -1);
  host_down(&h);
}

TEST(peers_that_prove_nothing_get_nothing) {
  static const unsigned char wrong[CLU_SECRET] = "this one is not the right secret";
  host_fixture h;
  pid_t far;
  int fds[100];
  host_up(&h, 1);
  far = start_far(&h, h.port, 1, wrong, 300);
  end_process(&far, 1);
  far = start_far(&h, h.port, 9, link_secret, 300); /* no such host */
  end_process(&far, 1);
  far = start_far(&h, h.port, 1, link_secret, 3000); /* another process than the host's */
  end_process(&far, 1);
  for (int i = 0; i < 100; i++) {
    fds[i] = connect_here(h.port);
    if (fds[i] >= 0 && write(fds[i], "GET / HTTP/1.1\r\n\r\n", 18) < 0) close(fds[i]), fds[i] = -1;
  }
  echo_all(&h.f, -1);
  h.proxy->cuts++;
  echo_all(&h.f, -1);
  for (int i = 0; i < 100; i++)
    if (fds[i] >= 0) close(fds[i]);
  host_down(&h);
}
