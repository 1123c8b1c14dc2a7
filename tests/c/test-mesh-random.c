/* Runs on one to three hosts, at random: messages to one and to many, receivers that choose, or
 * wait for ever, meetings and reductions, parts that end, fail and die, while what bridges and hub
 * say takes its time. All of it is in this process. A failure prints the seed that repeats it
 * (CLUTCH_SEED).
 *
 * Each message arrives once, in the order of its pair, and also from a part that has gone since.
 * Nobody is taken for gone who is there. A deadlock is found, and only where there is one.
 */
#include "dice.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "core/mesh/bridge-layout.h"
#include "core/mesh/hub.h"

enum { MOST = 6, HOSTS = 3, UNDERWAY = 512, MEETINGS = 6, NUMBERS = 40 };

/* First in, first out. */
typedef struct fifo {
  uint64_t at[UNDERWAY];
  unsigned head, n;
} fifo;

static int push(fifo *q, uint64_t x) {
  if (q->n == UNDERWAY) return 0;
  q->at[(q->head + q->n++) % UNDERWAY] = x;
  return 1;
}

static uint64_t pop(fifo *q) {
  uint64_t x = q->at[q->head];
  q->head = (q->head + 1) % UNDERWAY;
  q->n--;
  return x;
}

enum doing { FREE, SENDING, WAITING, MEETING, GONE };

typedef struct part {
  clu_mesh *m;
  enum doing doing, was; /* before it went */
  int end;               /* enum clu_rank_state, when it is gone */
  int left, all;         /* so much it still does, and did at first */
  int to[MOST], nto;     /* of the message on its way */
  clu_blob *body;
  clu_sending way;
  int from;      /* whom it waits for; -1: any */
  int met, half; /* meetings that are over; it is in the second of a reduction */
  uint32_t turn;
  int told; /* the session has told of its death */
} part;

static struct {
  int n, hosts, host_of[MOST];
  part parts[MOST];
  fifo due[MOST][MOST]; /* numbers of messages that have left and have not come */
  clu_hub *hub;
  clu_mesh *session; /* where there is no hub */
  clu_bridge *bridge[HOSTS];
  fifo up[HOSTS], down[HOSTS]; /* blobs */
  uint64_t numbers, progress;
  int verdict, broken;
  int is_large; /* bodies are, and receivers seldom look: rings are full */
} r;

enum { RECEIVED, MET, REDUCED, ENDS, DEATHS, DEADLOCKS, TO_MANY, CROSSED, LATE, LACKS, COUNTS };
static uint64_t counts[COUNTS]; /* how often each has happened */

#define MUST(cond)                                                 \
  do {                                                             \
    if (!(cond) && !r.broken) {                                    \
      fprintf(stderr, "  %s:%d: %s\n", __FILE__, __LINE__, #cond); \
      r.broken = 1;                                                \
    }                                                              \
  } while (0)

/* ---- between the hosts ---- */

static void from_bridge(void *to, clu_blob *b) {
  MUST(push(to, (uint64_t)(uintptr_t)clu_blob_ref(b)));
}
static void from_hub(void *to, int host, clu_blob *b) {
  counts[CROSSED]++;
  MUST(push((fifo *)to + host, (uint64_t)(uintptr_t)clu_blob_ref(b)));
}

static void deliver(int host) {
  fifo *q = dice(2) ? &r.up[host] : &r.down[host];
  clu_blob *b;
  if (q->n == 0) return;
  b = (clu_blob *)(uintptr_t)pop(q);
  if (q == &r.up[host])
    MUST(clu_hub_heard(r.hub, host, b) == CLU_OK);
  else
    MUST(clu_bridge_heard(r.bridge[host], b) == CLU_OK);
  clu_blob_unref(b);
}

/* It has looked, and found nothing. Asleep it would also look for a deadlock, on one host. */
static void rest(part *p, uint32_t events) {
  atomic_store(&p->m->ranks[clu_mesh_rank(p->m)].events_seen, events);
  if (r.hosts == 1 && dice(20) == 0) clu_mesh_sleep(p->m, events, 1);
}

/* ---- messages ---- */

/* Tells whether others can open them. */
static int has_segments(void) {
  const unsigned need = CLU_CAN_MEMFD | CLU_CAN_PROC;
  return (clu_os_can() & need) == need;
}

static clu_blob *new_body(uint64_t number) {
  static const size_t sizes[] = {0, 10, 100, 1000, 5000, 70000, 300000};
  size_t n = 8 + sizes[r.is_large ? 4 + dice(3) : dice(50) ? dice(4) : dice(7)];
  clu_blob *b = clu_blob_new(n);
  clu_segment *s = dice(20) || !has_segments() ? NULL : clu_segment_new();
  REQUIRE(b);
  REQUIRE(clu_blob_append(b, NULL, n) == 0);
  memset(b->data, (int)(number & 255), n);
  memcpy(b->data, &number, 8);
  if (!s) return b;
  REQUIRE(clu_segment_append(s, &number, 8) == CLU_OK && clu_segment_seal(s) == CLU_OK);
  REQUIRE(clu_blob_attach(b, s) >= 0);
  return b;
}

static void has_sent(part *p, int me) {
  uint64_t number;
  memcpy(&number, p->body->data, 8);
  for (int i = 0; i < p->nto; i++) MUST(push(&r.due[me][p->to[i]], number));
  clu_blob_unref(p->body);
  p->body = NULL;
  p->doing = FREE;
  r.progress++;
}

static void fail(int me);

static void go_on_sending(int me) {
  part *p = &r.parts[me];
  uint32_t events = clu_mesh_events(p->m);
  int rc = p->nto == 1 ? clu_mesh_send(p->m, p->to[0], "", p->body, &p->way)
                       : clu_mesh_send_away(p->m, p->to, p->nto, "", p->body, &p->way);
  if (rc == CLU_OK) {
    clu_mesh_waits(p->m, CLU_WAIT_NONE, -1, NULL);
    has_sent(p, me);
  } else if (rc == CLU_DEAD) {
    MUST(r.parts[p->way.who].doing == GONE);
    clu_blob_unref(p->body);
    p->body = NULL;
    fail(me);
  } else {
    MUST(rc == CLU_AGAIN);
    clu_mesh_waits(p->m, CLU_WAIT_ROOM, p->to[0], "");
    rest(p, events);
  }
}

static int has_room(int me, int to) { return r.due[me][to].n < (r.is_large ? 6 : UNDERWAY / 2); }

static void send(int me) {
  part *p = &r.parts[me];
  p->nto = 0;
  p->to[p->nto++] = (int)dice((uint64_t)r.n);
  if (!clu_mesh_is_here(p->m, p->to[0]))
    for (int i = 0; i < r.n; i++)
      if (!clu_mesh_is_here(p->m, i) && i != p->to[0] && dice(3) == 0) p->to[p->nto++] = i;
  for (int i = 0; i < p->nto; i++)
    if (!has_room(me, p->to[i])) return;
  counts[TO_MANY] += p->nto > 1;
  p->body = new_body(++r.numbers);
  p->way = (clu_sending){0};
  p->doing = SENDING;
  p->left--;
  go_on_sending(me);
}

static void take(int me, clu_message *x) {
  uint64_t number, in_segment;
  MUST(x->n >= 8 && !x->lost && r.due[x->from][me].n > 0);
  if (r.broken) return;
  memcpy(&number, x->body, 8);
  MUST(number == pop(&r.due[x->from][me]));
  for (size_t i = 8; i < x->n; i += 97) MUST(x->body[i] == (number & 255));
  if (x->segments.n) {
    MUST(clu_segment_read(x->segments.of[0], 0, &in_segment, 8) == CLU_OK ||
         memcpy(&in_segment, clu_segment_bytes(x->segments.of[0], NULL), 8));
    MUST(in_segment == number);
  }
  counts[RECEIVED]++;
  r.progress++;
}

/* CLU_OK, CLU_AGAIN, or CLU_DEAD: then all that had left has come. */
static int receive(int me, int from) {
  clu_message *x = NULL;
  int who = -1, rc = clu_mesh_receive(r.parts[me].m, from, NULL, 0, &x, &who);
  if (rc == CLU_OK) take(me, x);
  if (rc == CLU_DEAD) {
    MUST(who >= 0 && who < r.n && r.parts[who].doing == GONE);
    if (from >= 0) MUST(r.due[from][me].n == 0);
  }
  MUST(rc == CLU_OK || rc == CLU_AGAIN || rc == CLU_DEAD);
  clu_message_free(x);
  return rc;
}

static void go_on_waiting(int me) {
  part *p = &r.parts[me];
  uint32_t events = clu_mesh_events(p->m);
  int rc = receive(me, p->from);
  if (rc == CLU_AGAIN) {
    if (atomic_load(&p->m->ranks[me].waits) == CLU_WAIT_NONE)
      clu_mesh_waits(p->m, CLU_WAIT_MESSAGE, p->from, NULL);
    rest(p, events);
    return;
  }
  clu_mesh_waits(p->m, CLU_WAIT_NONE, -1, NULL);
  p->doing = FREE;
  if (rc == CLU_DEAD) fail(me);
}

static void wait_for(int me) {
  part *p = &r.parts[me];
  p->from = dice(3) ? -1 : (int)dice((uint64_t)r.n);
  if (p->from == me) p->from = -1;
  p->doing = WAITING;
  p->left--;
  go_on_waiting(me);
}

/* ---- meetings ---- */

static int is_reduction(int k) { return k % 2; }

static clu_meeting meeting_of(const part *p) {
  clu_meeting why = {.kind = 1 + (uint32_t)p->met % 5};
  if (!is_reduction(p->met)) return why;
  why.op = CLU_REDUCE_SUM;
  why.type = CLU_REDUCE_INT;
  why.n = NUMBERS;
  why.is_of_host = !p->half;
  if (p->half) why.kind += CLU_MEET_RESULT;
  return why;
}

static int *numbers_of(part *p, int **result) {
  void *own, *all;
  REQUIRE(clu_mesh_reduce_room(p->m, NUMBERS * sizeof(int), &own, &all, NULL) == CLU_OK);
  *result = all;
  return own;
}

static void begin_meeting(int me) {
  part *p = &r.parts[me];
  clu_meeting why = meeting_of(p);
  int *result;
  if (is_reduction(p->met) && !p->half)
    for (int i = 0; i < NUMBERS; i++) numbers_of(p, &result)[i] = (me + 1) * (i + p->met);
  p->doing = MEETING;
  clu_mesh_waits(p->m, CLU_WAIT_MEETING, -1, NULL);
  clu_mesh_meet(p->m, &why, &p->turn);
}

static void check_sum(part *p) {
  int *result, all = r.n * (r.n + 1) / 2;
  numbers_of(p, &result);
  for (int i = 0; i < NUMBERS; i++) MUST(result[i] == all * (i + p->met));
  counts[REDUCED]++;
}

static void go_on_meeting(int me) {
  part *p = &r.parts[me];
  uint32_t events = clu_mesh_events(p->m);
  int who = -1, overflow = 0, rc = clu_mesh_has_met(p->m, p->turn, &who);
  if (rc == CLU_AGAIN) {
    rest(p, events);
    return;
  }
  clu_mesh_waits(p->m, CLU_WAIT_NONE, -1, NULL);
  p->doing = FREE;
  if (rc == CLU_DEAD) {
    MUST(who >= 0 && r.parts[who].doing == GONE);
    fail(me);
    return;
  }
  if (rc != CLU_OK) return; /* a verdict */
  r.progress++;
  if (is_reduction(p->met) && !p->half) {
    MUST(clu_mesh_reduce(p->m, CLU_REDUCE_SUM, CLU_REDUCE_INT, NUMBERS, &overflow, NULL) == CLU_OK);
    p->half = 1;
    begin_meeting(me);
    return;
  }
  if (p->half) check_sum(p);
  p->half = 0;
  p->met++;
  counts[MET]++;
}

/* ---- ends ---- */

static void go(int me, int how) {
  part *p = &r.parts[me];
  p->was = p->doing;
  p->doing = GONE;
  p->end = how;
  r.progress++;
  counts[ENDS]++;
  if (how != CLU_RANK_DEAD)
    clu_mesh_leave(p->m, how == CLU_RANK_FAILED);
  else /* a process that is no more is not taken for one that waits; this one is */
    clu_mesh_waits(p->m, CLU_WAIT_NONE, -1, NULL);
}

static void fail(int me) { go(me, CLU_RANK_FAILED); }

static void tell_of_deaths(void) {
  const clu_exit how = {1, 9};
  for (int i = 0; i < r.n; i++) {
    part *p = &r.parts[i];
    if (p->doing != GONE || p->end != CLU_RANK_DEAD || p->told || dice(4)) continue;
    p->told = 1;
    counts[DEATHS]++;
    r.progress++;
    if (r.hub)
      clu_hub_died(r.hub, i, &how);
    else
      clu_mesh_died(r.session, i, &how);
  }
}

/* There is nothing that could go on. A part that has died since, and of which nobody has told, was
 * waiting, too. */
static void check_deadlock(void) {
  int met = 0, alive = 0;
  for (int i = 0; i < r.n; i++) {
    const part *p = &r.parts[i];
    enum doing doing = p->doing == GONE && p->end == CLU_RANK_DEAD && !p->told ? p->was : p->doing;
    if (doing == GONE) continue;
    alive++;
    met += doing == MEETING;
    MUST(doing != FREE);
    for (int from = 0; doing == WAITING && from < r.n; from++)
      if (p->from < 0 || p->from == from) MUST(r.due[from][i].n == 0);
  }
  MUST(met < r.n && alive > 0);
  counts[DEADLOCKS]++;
}

/* ---- the run ---- */

static void act(int me) {
  part *p = &r.parts[me];
  uint64_t what = dice(100);
  int verdict = clu_mesh_verdict(p->m, NULL);
  if (verdict != CLU_OK) {
    MUST(verdict == CLU_AGAIN);
    if (!r.verdict) check_deadlock();
    r.verdict = verdict;
    return;
  }
  if (p->doing == GONE) return;
  if (dice(20000) == 0)
    go(me, CLU_RANK_DEAD);
  else if (p->doing == SENDING)
    go_on_sending(me);
  else if (p->doing == WAITING)
    go_on_waiting(me);
  else if (p->doing == MEETING)
    go_on_meeting(me);
  else if (p->left <= p->all * (MEETINGS - p->met) / (MEETINGS + 1) && p->met < MEETINGS)
    begin_meeting(me);
  else if (p->left <= 0)
    go(me, CLU_RANK_ENDED);
  else if (what < 50)
    send(me);
  else if (what < 53)
    wait_for(me);
  else if (what == 60 && dice(500) == 0)
    fail(me);
  else if (!r.is_large || dice(20) == 0)
    receive(me, dice(2) ? -1 : (int)dice((uint64_t)r.n));
}

static void begin(uint64_t seed) {
  clu_err e = {0};
  memset(&r, 0, sizeof r);
  dice_state = seed * 2654435761u + 1;
  r.n = 2 + (int)dice(MOST - 1);
  r.hosts = 1 + (int)dice(HOSTS);
  r.is_large = dice(8) == 0;
  if (r.hosts > r.n) r.hosts = r.n;
  for (int i = 0; i < r.n; i++) r.host_of[i] = i < r.hosts ? i : (int)dice((uint64_t)r.hosts);
  if (r.hosts == 1 && dice(2)) {
    REQUIRE(clu_mesh_new(r.n, "/tmp", &r.session, &e) == CLU_OK);
  } else {
    r.hub = clu_hub_new(r.n, r.host_of, r.hosts, from_hub, r.down);
    REQUIRE(r.hub);
  }
  for (int k = 0; r.hub && k < r.hosts; k++) {
    char is_here[MOST];
    for (int i = 0; i < r.n; i++) is_here[i] = r.host_of[i] == k;
    REQUIRE(clu_bridge_new(r.n, is_here, "/tmp", from_bridge, &r.up[k], &r.bridge[k], &e) ==
            CLU_OK);
  }
  for (int i = 0; i < r.n; i++) {
    const char *path = r.hub ? clu_bridge_path(r.bridge[r.host_of[i]]) : clu_mesh_path(r.session);
    REQUIRE(clu_mesh_join(path, r.n, i, &r.parts[i].m, &e) == CLU_OK);
    r.parts[i].left = r.parts[i].all = 20 + (int)dice(200);
  }
}

static void drop(fifo *q) {
  while (q->n > 0) clu_blob_unref((clu_blob *)(uintptr_t)pop(q));
}

static void end(void) {
  for (int i = 0; i < r.n; i++) {
    clu_blob_unref(r.parts[i].body);
    clu_mesh_free(r.parts[i].m);
  }
  for (int k = 0; k < HOSTS; k++) {
    drop(&r.up[k]);
    drop(&r.down[k]);
    clu_bridge_free(r.bridge[k]);
  }
  clu_hub_free(r.hub);
  clu_mesh_free(r.session);
}

static int is_over(void) {
  for (int i = 0; i < r.n; i++)
    if (r.parts[i].doing != GONE) return r.verdict != 0;
  return 1;
}

/* How many steps it took. */
static long simulate(uint64_t seed) {
  uint64_t last = 0;
  long steps = 0, since = 0;
  begin(seed);
  for (; !is_over() && !r.broken; steps++) {
    int host = (int)dice((uint64_t)r.hosts);
    act((int)dice((uint64_t)r.n));
    if (dice(3) == 0) tell_of_deaths();
    if (r.hub && dice(2)) clu_bridge_turn(r.bridge[host], dice(4) == 0);
    counts[LATE] += r.hub && r.bridge[host]->has_late;
    counts[LACKS] += r.hub && r.bridge[host]->lacks;
    for (uint64_t k = dice(6); r.hub && k > 0; k--) deliver((int)dice((uint64_t)r.hosts));
    if (r.progress != last) since = steps;
    last = r.progress;
    MUST(steps - since < 50000); /* somebody waits for ever, and nobody sees it */
  }
  if (r.broken) {
    fprintf(stderr, "  seed %llu, step %ld: %d ranks on %d hosts:", (unsigned long long)seed, steps,
            r.n, r.hosts);
    for (int i = 0; i < r.n; i++)
      fprintf(stderr, " %d@%d doing %d met %d", i, r.host_of[i], r.parts[i].doing, r.parts[i].met);
    fprintf(stderr, "\n");
  }
  end();
  return steps;
}

TEST(messages_meetings_and_ends_are_right_whatever_the_order) {
  const char *seed = getenv("CLUTCH_SEED"), *steps = getenv("CLUTCH_STEPS");
  const struct rlimit few = {160, 160}; /* a quarter may be segments: then bodies go by the rings */
  long wanted = steps ? atol(steps) : TEST_SANITIZED ? 200000 : 1000000, done = 0;
  REQUIRE(setrlimit(RLIMIT_NOFILE, &few) == 0);
  if (seed) {
    simulate(strtoull(seed, NULL, 10));
    CHECK_INT_EQ(r.broken, 0);
    return;
  }
  for (uint64_t s = 1; done < wanted && !r.broken; s++) done += simulate(s);
  CHECK_INT_EQ(r.broken, 0);
  for (int i = 0; i < COUNTS && done >= 1000000; i++)
    CHECK(counts[i] > 0 || (i == LACKS && !has_segments()));
}
