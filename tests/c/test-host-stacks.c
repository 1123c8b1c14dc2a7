/* Which R calls nodes on another host are in, as observers on the session's host ask: by the view,
 * the link process and the proxy there. */
#include "proxy-fixture.h"
#include "view-fixture.h"

#include <signal.h>

#include "core/shm/node-memory.h"
#include "core/wire/channel.h"

/* The session does not run its loop while this waits. */
static int told(clu_view *v, int i, uint32_t question) {
  watch(v);
  return clu_stack_is_told(&v->memory->stack_word[i], question);
}

static void watch_hosts(host_fixture *h, clu_view *v, int nodes) {
  host_up_with(h, nodes, 60000, 300000);
  for (int i = 0; i < nodes; i++) clu_node_show(h->f.nd[i], v, i, "alpha");
  pass_view(h, v, 7);
  for (int i = 0; i < nodes; i++) CHECK_SOON((watch(v), clu_view_far_of(v, i) != NULL), 10000);
}

TEST(a_busy_node_tells_its_calls_and_an_idle_one_that_it_has_none) {
  host_fixture h;
  clu_view *v = new_view(2);
  clu_stack got;
  uint32_t question;
  watch_hosts(&h, v, 2);
  call(h.f.nd[0], CALLS, 1, 5, 1);
  PUMP(&h.f, (watch(v), clu_view_get(&v->memory->node[0].at_hand) > 0));
  question = clu_view_ask_stack(v, 0);
  CHECK_SOON(told(v, 0, question), 10000);
  REQUIRE(clu_stack_read(&v->memory->stack_word[0], &v->memory->stack[0], &got) == 1);
  CHECK_INT_EQ(got.size, 7);
  CHECK(memcmp(got.text, "f()\ng()", 7) == 0);
  CHECK(got.seq == clu_view_get(&v->memory->node[0].at_hand));
  CHECK(got.taken <= clu_os_now());
  /* it is deaf now: what it has told before is known, and that this is no answer */
  question = clu_view_ask_stack(v, 0);
  clu_os_pause(300000000);
  CHECK(!told(v, 0, question));
  CHECK(told(v, 0, question - 1));
  REQUIRE(clu_stack_read(&v->memory->stack_word[0], &v->memory->stack[0], &got) == 1);
  CHECK_INT_EQ(got.size, 7);
  question = clu_view_ask_stack(v, 1);
  CHECK_SOON(told(v, 1, question), 10000);
  REQUIRE(clu_stack_read(&v->memory->stack_word[1], &v->memory->stack[1], &got) == 1);
  CHECK_INT_EQ(got.size, 0);
  clu_node_cancel(h.f.nd[0], 1);
  PUMP(&h.f, clu_node_cancelled_since(h.f.nd[0]) == 0);
  clu_view_unref(v);
  host_down(&h);
}

TEST(while_it_is_cut_off_nothing_is_told_and_then_the_next_question_is) {
  host_fixture h;
  clu_view *v = new_view(1);
  uint32_t question;
  watch_hosts(&h, v, 1);
  call(h.f.nd[0], CALLS, 100, 5, 1);
  PUMP(&h.f, (watch(v), clu_view_get(&v->memory->node[0].at_hand) > 0));
  REQUIRE(kill(h.far_pid, SIGSTOP) == 0);
  h.proxy->cuts++;
  CHECK_SOON((watch(v), clu_view_get(&clu_view_far_of(v, 0)->state) == CLU_VIEW_HOST_CUT), 10000);
  question = clu_view_ask_stack(v, 0);
  clu_os_pause(200000000);
  CHECK(!told(v, 0, question));
  REQUIRE(kill(h.far_pid, SIGCONT) == 0);
  CHECK_SOON((watch(v), clu_view_get(&clu_view_far_of(v, 0)->state) == CLU_VIEW_HOST_UP), 10000);
  question = clu_view_ask_stack(v, 0);
  CHECK_SOON(told(v, 0, question), 10000);
  clu_node_cancel(h.f.nd[0], 1);
  PUMP(&h.f, clu_node_cancelled_since(h.f.nd[0]) == 0);
  clu_view_unref(v);
  host_down(&h);
}

/* ---- on its host ---- */

/* Its other end is with a process that it has started, so its stream goes on; its slot may be that
 * of another node. */
TEST(a_node_that_has_ended_is_not_looked_at_while_its_stream_goes_on) {
  const clu_proxy_options near = how;
  unsigned char open[13] = {0}, spawn[CLU_HEADER + 5] = {0}, question[4] = {1}, bytes[64];
  clu_header h = {.kind = CLU_K_SPAWN, .len = 5, .seq = 7, .total = 5};
  clu_fd pass[CLU_MAX_FDS], memory;
  clu_iov iov = {bytes, sizeof bytes};
  clu_shared *s;
  clu_chan server, node;
  size_t got = 0;
  int n = 0;
  one o;
  how.near = 0;
  how.epoch = 0;
  one_up(&o);
  how = near;
  clu_link_fini(&o.there);
  REQUIRE(clu_link_init(&o.there, how.epoch, 1 << 20, how.beat) == CLU_OK);
  clu_link_connected(&o.there, 1);
  say(&o);
  CHECK_INT_EQ(turns(&o, 5), CLU_OK);
  hear(&o);
  REQUIRE(o.there.state == CLU_LINK_UP);
  open[8] = CLU_STREAM_DATA;
  open[9] = 3; /* the slot */
  record(&o, CLU_L_OPEN, 7, open, sizeof open);
  clu_header_put(spawn, &h);
  record(&o, CLU_L_BYTES, 0, spawn, sizeof spawn);
  CHECK_INT_EQ(turns(&o, 5), CLU_OK);
  REQUIRE(clu_os_readv(o.control, &iov, 1, &got, pass, &n) == CLU_OK && n == 1);
  REQUIRE(clu_shared_new(&s, &memory, NULL) == CLU_OK);
  REQUIRE(clu_chan_init(&server, o.control, 1 << 20, CLU_TAKES_FDS) == CLU_OK);
  REQUIRE(clu_chan_init(&node, pass[0], 1 << 20, CLU_TAKES_NONE) == CLU_OK);
  REQUIRE(clu_chan_send(&server, CLU_K_READY, 0, NULL, memory) == CLU_OK);
  REQUIRE(clu_chan_send(&node, CLU_K_HELLO, 0, NULL, CLU_NO_FD) == CLU_OK);
  REQUIRE(clu_chan_flush(&server) == CLU_OK && clu_chan_flush(&node) == CLU_OK);
  CHECK_INT_EQ(turns(&o, 5), CLU_OK);
  clu_activity_begin(clu_shared_activity(s, 3), 1, clu_os_now());
  record(&o, CLU_L_ASK_STACK, 7, question, sizeof question);
  CHECK_SOON(turns(&o, 1) == CLU_OK && atomic_load(&s->stack_word[3].asked) == 1, 5000);
  REQUIRE(clu_chan_send(&server, CLU_K_EXITED, 7, NULL, CLU_NO_FD) == CLU_OK);
  REQUIRE(clu_chan_flush(&server) == CLU_OK);
  CHECK_INT_EQ(turns(&o, 20), CLU_OK);
  hear(&o);
  CHECK_INT_EQ(o.seen[CLU_L_AFTER], 1);
  CHECK_INT_EQ(o.seen[CLU_L_CLOSE], 0);
  clu_os_shared_free(s, sizeof *s);
  clu_chan_fini(&node);
  o.control = CLU_NO_FD;
  clu_chan_fini(&server);
  one_down(&o);
}

/* ---- by itself ---- */

static struct {
  int n;
  uint64_t host, id;
  uint32_t question;
} asked;

static void ask(void *data, uint64_t host, uint64_t id, uint32_t question) {
  CHECK(data == &asked);
  asked.n++;
  asked.host = host;
  asked.id = id;
  asked.question = question;
}

TEST(each_question_is_passed_on_once_and_only_to_hosts_that_are_known) {
  clu_near_views n = {0};
  clu_near_shown of = {7, 4, 0};
  clu_proxy_stack x = {22, 5, 10, 5, 20, 1, 0, "f()", 3};
  clu_view *v = new_view(3);
  clu_view_memory *m = v->memory;
  uint32_t question;
  asked.n = 0;
  n.ask = ask;
  n.data = &asked;
  take(&n, 7, v);
  clu_view_set(&m->node[2].id, 22);
  question = clu_view_ask_stack(v, 2);
  clu_near_pass_questions(&n);
  CHECK_INT_EQ(asked.n, 0);
  clu_view_set(&m->far[4].number, 9);
  clu_view_set(&m->node[2].far, 5);
  question = clu_view_ask_stack(v, 2);
  for (int k = 0; k < 2; k++) clu_near_pass_questions(&n);
  CHECK_INT_EQ(asked.n, 1);
  CHECK_INT_EQ(asked.host, 9);
  CHECK_INT_EQ(asked.id, 22);
  CHECK_INT_EQ(asked.question, question);
  x.question = question;
  clu_near_show_stack(&n, &of, &x, 1000);
  CHECK(!clu_stack_is_told(&m->stack_word[2], question));
  CHECK_INT_EQ(m->stack[2].taken, 990);
  CHECK_INT_EQ(clu_view_get(&m->node[2].since), 980);
  x.is_answer = 1;
  clu_near_show_stack(&n, &of, &x, 1000);
  CHECK(clu_stack_is_told(&m->stack_word[2], question));
  x.id = 23; /* nobody's */
  clu_near_show_stack(&n, &of, &x, 1000);
  /* nodes without a place for their calls */
  CHECK_INT_EQ(clu_view_ask_stack(v, CLU_VIEW_STACKS), 0);
  CHECK_INT_EQ(clu_view_ask_stack(v, -1), 0);
  clu_near_views_fini(&n);
  clu_view_unref(v);
}

TEST(what_was_told_before_the_first_question_is_no_answer_to_it) {
  clu_near_views n = {0};
  clu_near_shown of = {7, 0, 0};
  clu_proxy_stack x = {22, 5, 10, 5, 20, 1, 0, "f()", 3};
  clu_view *v = new_view(1);
  clu_stack got;
  take(&n, 7, v);
  clu_view_set(&v->memory->node[0].id, 22);
  x.question = clu_view_ask_stack(v, 0);
  clu_near_show_stack(&n, &of, &x, 1000);
  CHECK(!clu_stack_is_told(v->memory->stack_word, x.question));
  REQUIRE(clu_stack_read(v->memory->stack_word, v->memory->stack, &got) == 1);
  CHECK_INT_EQ(got.size, 3);
  clu_near_views_fini(&n);
  clu_view_unref(v);
}

/* ---- what comes from elsewhere ---- */

TEST(an_answer_that_is_none_ends_the_link) {
  const size_t sizes[] = {0, 36, 37 + CLU_STACK_TEXT + 1};
  for (int k = 0; k < 3; k++) {
    one o;
    static unsigned char bytes[37 + CLU_STACK_TEXT + 1];
    one_up_and_resumed(&o);
    record(&o, CLU_L_STACK, 1, bytes, 37); /* of a node that nobody knows: nothing happens */
    CHECK_INT_EQ(turns(&o, 3), CLU_OK);
    record(&o, CLU_L_STACK, 1, bytes, sizes[k]);
    expect_end(&o, "what came over the connection");
    one_down(&o);
  }
}

TEST(the_other_side_has_nothing_to_ask) {
  one o;
  unsigned char bytes[4] = {0};
  one_up_and_resumed(&o);
  record(&o, CLU_L_ASK_STACK, 1, bytes, 4);
  expect_end(&o, "what came over the connection");
  one_down(&o);
}
