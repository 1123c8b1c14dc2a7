/* Small results of nodes on another host: the proxy there reads their rings. */
#include "link-fixture.h"

#include "core/wire/task-message.h"

/* This is what has come of a node. */
typedef struct taken {
  uint32_t records, messages;
  int wrong;
} taken;

/* In their order, each whole. */
static void take(clu_node *nd, clu_msg *m) {
  taken *t = clu_node_data(nd);
  size_t k = CLU_RESULTS_HEAD;
  if (m->kind == CLU_K_EXITED) return;
  if (m->kind != CLU_K_RESULTS || !m->body) {
    t->wrong = 1;
    return;
  }
  t->messages++;
  while (k < m->body->size && !t->wrong) {
    const unsigned char *p = m->body->data + k + 4;
    uint32_t i = t->records++;
    size_t n = clu_get32(p - 4);
    t->wrong = n != 24 + i * 7919u % 3000 || clu_get64(p + 16) != i || k + 4 + n > m->body->size ||
               (n > 24 && p[n - 1] != (unsigned char)i);
    k += 4 + n;
  }
}

static uint32_t none(const clu_node *nd, uint32_t *cancelled) {
  (void)nd;
  if (cancelled) *cancelled = 0;
  return 0;
}

static void nothing(clu_node *nd) { (void)nd; }

static const clu_task_hooks hooks = {take, none, nothing, nothing};

static void up_listening(host_fixture *h, int nodes, taken *t) {
  host_up(h, nodes);
  clu_session_set_task_hooks(h->f.session, &hooks);
  memset(t, 0, (size_t)nodes * sizeof *t);
  for (int i = 0; i < nodes; i++) clu_node_set_data(h->f.nd[i], &t[i]);
}

TEST(results_come_before_the_answer_behind_them_and_many_together) {
  host_fixture h;
  taken t[2];
  up_listening(&h, 2, t);
  for (uint32_t k = 0; k < 2; k++) call(h.f.nd[k], RING, 2000, 5, 1);
  for (int k = 0; k < 2; k++) {
    PUMP(&h.f, has_answer(h.f.nd[k]));
    CHECK_INT_EQ(t[k].records, 2000);
    CHECK(!t[k].wrong);
    CHECK(t[k].messages < 500);
  }
  host_down(&h);
}

/* A node does not tell of each result. */
TEST(results_of_which_the_node_does_not_tell_come_while_it_goes_on) {
  host_fixture h;
  taken t[1];
  up_listening(&h, 1, t);
  call(h.f.nd[0], QUIET, 50, 5, 7);
  PUMP(&h.f, t[0].records == 50);
  CHECK(!has_answer(h.f.nd[0]) && !t[0].wrong);
  clu_node_cancel(h.f.nd[0], 7);
  PUMP(&h.f, clu_node_in_step(h.f.nd[0]));
  host_down(&h);
}

TEST(results_of_a_node_that_has_died_are_there_and_its_slot_is_of_use_again) {
  host_fixture h;
  clu_err e;
  taken t[1];
  up_listening(&h, 1, t);
  for (int round = 0; round < 3; round++) {
    call(h.f.nd[0], LAST, 60, 5, 1);
    PUMP(&h.f, clu_node_end_known(h.f.nd[0]));
    CHECK_INT_EQ(t[0].records, 60);
    CHECK(!t[0].wrong);
    clu_node_free(h.f.nd[0]);
    memset(t, 0, sizeof t);
    REQUIRE(clu_node_new_host(h.f.s, 0, &h.f.nd[0], &e) == CLU_OK);
    clu_node_set_data(h.f.nd[0], &t[0]);
    PUMP(&h.f, clu_node_is_ready(h.f.nd[0]));
    CHECK_INT_EQ(((clu_fork_node *)h.f.nd[0])->slot, 0);
  }
  call(h.f.nd[0], RING, 100, 5, 1);
  PUMP(&h.f, has_answer(h.f.nd[0]));
  CHECK_INT_EQ(t[0].records, 100);
  CHECK(!t[0].wrong);
  host_down(&h);
}
