/* Engines that make nodes as tasks wait, and end them: the nodes are stubs, and so is the fork
 * server that is asked for them. */
// threads
// link: -Wl,--wrap=clu_node_new_fork -Wl,--wrap=clu_server_ref -Wl,--wrap=clu_server_unref
// link: -Wl,--wrap=clu_server_is_ready -Wl,--wrap=clu_server_status_of
// link: -Wl,--wrap=clu_os_cpu_stalled
#include "engine-fixture.h"

#include "core/node/transports.h"

#define MOST 4

static struct {
  _Atomic int asked; /* nodes */
  _Atomic int begun; /* tasks */
  _Atomic int go;    /* they end */
  int refs;          /* of the server */
  uint64_t settings; /* in force there */
  int fails;         /* no node can be had */
  int dies;          /* nodes end before they are ready */
} server;

static clu_server *the_server(void) { return (clu_server *)(void *)&server; }

int __wrap_clu_node_new_fork(clu_server *s, int kind, clu_node **out, clu_err *e);
int __wrap_clu_node_new_fork(clu_server *s, int kind, clu_node **out, clu_err *e) {
  (void)kind;
  (void)e;
  CHECK(s == the_server());
  atomic_fetch_add(&server.asked, 1);
  if (server.fails) return CLU_DEAD;
  *out = &new_stub()->node;
  if (server.dies) clu_node_close(*out);
  return CLU_OK;
}

clu_server *__wrap_clu_server_ref(clu_server *s);
clu_server *__wrap_clu_server_ref(clu_server *s) {
  server.refs++;
  return s;
}
void __wrap_clu_server_unref(clu_server *s);
void __wrap_clu_server_unref(clu_server *s) {
  CHECK(s == the_server());
  server.refs--;
}
int __wrap_clu_server_is_ready(const clu_server *s);
int __wrap_clu_server_is_ready(const clu_server *s) { return s == the_server(); }
void __wrap_clu_server_status_of(const clu_server *s, clu_server_status *out);
void __wrap_clu_server_status_of(const clu_server *s, clu_server_status *out) {
  (void)s;
  memset(out, 0, sizeof *out);
  out->applied = server.settings;
}

static _Atomic int others_wait; /* all the time, for a core */
int64_t __wrap_clu_os_cpu_stalled(void);
int64_t __wrap_clu_os_cpu_stalled(void) {
  return atomic_load(&others_wait) ? (int64_t)(clu_os_now() / 1000) : 0;
}

/* ---- what is done ---- */

/* Begins, and ends when all may. */
static enum deed waits(uint64_t element, uint32_t attempt) {
  (void)element;
  (void)attempt;
  atomic_fetch_add(&server.begun, 1);
  while (!atomic_load(&server.go)) clu_os_pause(1000000);
  return WELL;
}

static void grows(uint64_t idle_after) {
  clu_engine_growth g = {.first = 1, .most = MOST, .server = the_server(), .settings = 7};
  g.idle_after = idle_after;
  clu_engine_set_growth(x.t, &g);
}

static int enter(void) { return clu_turns_enter(&x.turns, __builtin_frame_address(0)); }

static int notes_of(int what) {
  size_t n;
  const clu_note *note = clu_engine_notes(x.t, &n);
  int count = 0;
  for (size_t k = 0; k < n; k++) count += note[k].what == what;
  return count;
}

/* Asks with the turn, now and then: who comes all the time keeps the thread away. */
static int comes(int (*is_so)(void)) {
  for (int k = 0; k < 100; k++) {
    int mine, so;
    clu_os_pause(100000000);
    mine = enter();
    so = is_so();
    clu_turns_leave(&x.turns, mine);
    if (so) return 1;
  }
  return 0;
}
static int is_blocked(void) { return clu_engine_growth_is_blocked(x.t); }
static int is_one_up(void) { return clu_sched_nodes_up(x.t->sched) == 1; }

static int nodes_up(void) {
  int n = 0;
  for (int i = 0; i < clu_engine_size(x.t); i++) n += clu_engine_has_any(x.t, i);
  return n;
}

/* With `n` tasks that are submitted. */
static int begin(plan *p, int n, uint64_t idle_after, enum deed (*does)(uint64_t, uint32_t)) {
  int mine;
  memset(&server, 0, sizeof server);
  server.settings = 7;
  up_of(1, MOST, does);
  mine = enter();
  clu_engines_set_memory(x.all, -1); /* what this machine has left is not this test's affair */
  grows(idle_after);
  CHECK_INT_EQ(clu_engine_first(x.t), 1);
  CHECK(clu_engine_is_whole(x.t)); /* those that come and go do not count */
  for (int k = 0; k < n; k++) plan_job(&p[k], 0, 1, 0);
  CHECK_INT_EQ(clu_engine_pass(x.t), CLU_OK);
  return mine;
}

static void all_end(plan *p, int n) {
  atomic_store(&server.go, 1);
  for (int k = 0; k < n; k++) {
    CHECK(run(&p[k], UINT64_MAX));
    CHECK(is_each_once(&p[k]));
    drop_job(&p[k]);
  }
}

static void end(int mine) {
  clu_turns_leave(&x.turns, mine);
  down();
  CHECK_INT_EQ(server.refs, 0);
}

/* ---- tests ---- */

TEST(nodes_come_while_the_owner_is_elsewhere_and_no_more_than_there_may_be) {
  plan p[6];
  int mine = begin(p, 6, 10000000000u, waits);
  clu_turns_leave(&x.turns, mine);
  CHECK_SOON(atomic_load(&server.begun) == MOST, 10000);
  mine = enter();
  CHECK_INT_EQ(nodes_up(), MOST);
  CHECK_INT_EQ(notes_of(CLU_NOTE_GROWN), MOST - 1);
  all_end(p, 6);
  CHECK_INT_EQ(atomic_load(&server.asked), MOST - 1);
  end(mine);
}

TEST(no_more_come_than_there_are_tasks) {
  plan p[2];
  int mine = begin(p, 2, 10000000000u, waits);
  clu_turns_leave(&x.turns, mine);
  CHECK_SOON(atomic_load(&server.begun) == 2, 10000);
  clu_os_pause(100000000);
  mine = enter();
  CHECK_INT_EQ(atomic_load(&server.asked), 1);
  all_end(p, 2);
  end(mine);
}

TEST(they_end_when_they_are_idle_and_come_again) {
  plan p[4];
  clu_node *nd;
  int mine = begin(p, 4, 30000000, waits), i, taken = 0;
  clu_turns_leave(&x.turns, mine);
  CHECK_SOON(atomic_load(&server.begun) == 4, 10000);
  mine = enter();
  while ((nd = clu_engine_take_grown(x.t, &i))) { /* some are the caller's */
    CHECK(i >= 1 && i < MOST);
    x.nodes[MOST + taken++] = (stub *)nd;
  }
  CHECK_INT_EQ(taken, MOST - 1);
  all_end(p, 4);
  clu_turns_leave(&x.turns, mine);
  CHECK(comes(is_one_up));
  mine = enter();
  CHECK_INT_EQ(notes_of(CLU_NOTE_SHRUNK), MOST - 1);
  CHECK_INT_EQ(clu_engine_deaths(x.t), 0); /* that is no death */
  atomic_store(&server.go, 0);
  atomic_store(&server.begun, 0);
  for (int k = 0; k < 4; k++) plan_job(&p[k], 0, 1, 0);
  CHECK_INT_EQ(clu_engine_pass(x.t), CLU_OK);
  clu_turns_leave(&x.turns, mine);
  CHECK_SOON(atomic_load(&server.begun) == 4, 10000);
  mine = enter();
  CHECK_INT_EQ(atomic_load(&server.asked), 2 * (MOST - 1));
  all_end(p, 4);
  for (int k = 0; k < taken; k++) clu_node_free(&x.nodes[MOST + k]->node);
  end(mine);
}

TEST(after_one_that_could_not_start_there_is_a_pause) {
  plan p[4];
  int mine = begin(p, 4, 10000000000u, waits);
  for (int how = 0; how < 2; how++) {
    server.fails = how == 0;
    server.dies = how == 1;
    x.t->grow.again = 0;
    atomic_store(&server.asked, 0);
    clu_turns_leave(&x.turns, mine);
    CHECK_SOON(atomic_load(&server.asked) > 0, 10000);
    clu_os_pause(200000000);
    mine = enter();
    CHECK(atomic_load(&server.asked) <= MOST - 1); /* those of one look */
    CHECK(x.t->grow.again > 0);
    CHECK_INT_EQ(nodes_up(), 1);
  }
  CHECK(notes_of(CLU_NOTE_NOT_GROWN) > 0);
  server.dies = 0;
  x.t->grow.again = 0;
  clu_turns_leave(&x.turns, mine);
  CHECK_SOON(atomic_load(&server.begun) == 4, 10000);
  mine = enter();
  all_end(p, 4);
  end(mine);
}

TEST(a_server_with_other_settings_is_the_callers_affair) {
  plan p[4];
  int mine = begin(p, 4, 10000000000u, waits);
  server.settings = 8;
  clu_turns_leave(&x.turns, mine);
  CHECK(comes(is_blocked));
  mine = enter();
  CHECK(clu_engine_growth_is_blocked(x.t));
  CHECK_INT_EQ(atomic_load(&server.asked), 0);
  server.settings = 7;
  grows(10000000000u);
  CHECK(!clu_engine_growth_is_blocked(x.t));
  clu_turns_leave(&x.turns, mine);
  CHECK_SOON(atomic_load(&server.begun) == 4, 10000);
  mine = enter();
  all_end(p, 4);
  end(mine);
}

TEST(those_that_start_are_the_callers_when_nothing_is_to_come_any_more) {
  plan p[4];
  clu_node *nd;
  int mine = begin(p, 4, 10000000000u, waits), i, n = 0;
  uint64_t deadline = clu_os_now() + 10000000000u;
  while (x.t->grow.nstarting == 0 && clu_os_now() < deadline) /* without a look at the sockets */
    REQUIRE(clu_engine_act(x.t, 1) == CLU_OK);
  CHECK(x.t->grow.nstarting > 0);
  clu_engine_end_growth(x.t);
  while ((nd = clu_engine_take_grown(x.t, &i))) {
    clu_node_free(nd);
    n++;
  }
  CHECK_INT_EQ(n, atomic_load(&server.asked));
  CHECK_INT_EQ(server.refs, 0);
  all_end(p, 4);
  end(mine);
}

TEST(one_that_has_died_comes_again_once_the_caller_has_heard_of_it) {
  plan p[4];
  clu_node *nd;
  int mine = begin(p, 4, 10000000000u, waits), i;
  clu_turns_leave(&x.turns, mine);
  CHECK_SOON(atomic_load(&server.begun) == 4, 10000);
  mine = enter();
  clu_node_stop(x.t->nodes[2].node, 0); /* a stub is closed by that, as one that has died */
  x.t->deaths.may_be = 1;
  CHECK_INT_EQ(clu_engine_turn(x.t), CLU_OK);
  CHECK_INT_EQ(clu_engine_deaths(x.t), 1);
  clu_turns_leave(&x.turns, mine);
  clu_os_pause(100000000);
  mine = enter();
  CHECK_INT_EQ(atomic_load(&server.asked), MOST - 1);
  while ((nd = clu_engine_take_grown(x.t, &i))) x.nodes[MOST + i] = (stub *)nd;
  clu_engine_deaths_told(x.t, 1);
  x.t->grow.again = 0;
  x.t->nodes[2].came = 0; /* long ago */
  clu_turns_leave(&x.turns, mine);
  CHECK_SOON(atomic_load(&server.asked) == MOST, 10000);
  mine = enter();
  all_end(p, 4);
  for (i = 1; i < MOST; i++) clu_node_free(&x.nodes[MOST + i]->node);
  end(mine);
}

TEST(a_polite_session_takes_what_others_leave_of_the_cores) {
  CHECK_INT_EQ(clu_polite_most(8, 8, 8, 0.5, -1), 7); /* they have to wait */
  CHECK_INT_EQ(clu_polite_most(8, 8, 3, 0.5, -1), 2);
  CHECK_INT_EQ(clu_polite_most(1, 8, 1, 0.5, -1), 1); /* one always may */
  CHECK_INT_EQ(clu_polite_most(3, 8, 3, 0.05, -1), 3);
  CHECK_INT_EQ(clu_polite_most(3, 8, 3, 0, -1), 4);
  CHECK_INT_EQ(clu_polite_most(8, 8, 8, 0, -1), 8);
  CHECK_INT_EQ(clu_polite_most(8, 8, 4, -1, 7.2), 5); /* by the load */
  CHECK_INT_EQ(clu_polite_most(8, 8, 4, -1, 3), 8);
  CHECK_INT_EQ(clu_polite_most(8, 8, 0, -1, 40), 1);
  CHECK_INT_EQ(clu_polite_most(5, 8, 4, -1, -1), 5); /* nobody tells */
}

TEST(a_polite_session_does_not_grow_while_others_wait_for_a_core) {
  plan p[6];
  int cores = clu_os_cores(), most = cores < MOST ? cores : MOST, mine;
  atomic_store(&others_wait, 1);
  mine = begin(p, 6, 10000000000u, waits);
  clu_engines_set_polite(x.all, 1);
  x.all->polite.most = 1;
  x.all->polite.looked = clu_os_now();
  clu_turns_leave(&x.turns, mine);
  clu_os_pause(800000000);
  CHECK_INT_EQ(atomic_load(&server.asked), 0);
  CHECK_INT_EQ(atomic_load(&server.begun), 1);
  atomic_store(&others_wait, 0);
  CHECK_SOON(atomic_load(&server.begun) == most, 20000);
  mine = enter();
  CHECK_INT_EQ(atomic_load(&server.asked), most - 1);
  clu_engines_set_polite(x.all, 0);
  all_end(p, 6);
  end(mine);
}
