/* Nodes for simulations of an engine, in one thread and with a clock of its own: each is the other
 * end of a real channel, and acts when the simulation says so. What is random comes from dice(), so
 * a seed gives the same run again.
 *
 * Kinds: LOCAL is as one of a fork server of this machine (claim word, result ring, interrupts that
 * are confirmed), PLAIN as one that connects (neither; killed at once), FAR as one of another host
 * (its ring is read there, and it can be cut off).
 * A LOCAL one can be stopped, and its memory is known: tasks of some works fill some in the first
 * half of their time.
 *
 * Who includes this has a line "// link:" with the functions that are wrapped here, and defines
 * what is declared below.
 */
#ifndef SIMULATED_NODES_H
#define SIMULATED_NODES_H

#include "dice.h"
#include "test.h"

#include "core/base/slab.h"
#include "core/node/node-private.h"
#include "core/tasks/engine-private.h"
#include "core/wire/task-message.h"

#define MOST_JOBS 4096 /* of an engine in one run */

/* ---- dice, a clock, what has to hold ---- */

static uint64_t sim_seed, sim_now;
static int once_in(uint64_t n) { return dice(n) == 0; }

static void say_seed(void) { test_say("  CLUTCH_SEED=%llu\n", (unsigned long long)sim_seed); }
/* A condition that does not hold ends the run: all that follows would be of no use. */
#define HOLDS(cond)                                                                       \
  do {                                                                                    \
    if (!test_true(__FILE__, __LINE__, !!(cond), #cond)) say_seed(), fflush(0), _exit(1); \
  } while (0)

uint64_t __wrap_clu_os_now(void);
uint64_t __wrap_clu_os_now(void) { return sim_now += 500; }

/* ---- a node ---- */

/* Kinds of units, with these names; their units are "0", "1" ... */
enum { SIM_KINDS = 2, SIM_UNITS = 3 };
static const char *const sim_kinds[SIM_KINDS] = {"gpu", "licence"};

enum kind { LOCAL, PLAIN, FAR };
enum deed { WELL, BIG, WRONG, DIES, HOGS, DEAF };

typedef struct piece {
  int work;
  uint64_t job, task, seq;
  uint32_t attempt;
  int ring;
  uint32_t cores; /* that its node has for it; 0: nothing was said */
  uint64_t units[SIM_KINDS];
} piece;

typedef struct sim_node {
  clu_node node; /* the first member */
  int kind, serial;
  clu_claim claim;
  clu_ring ring;
  clu_chan chan;    /* the node's end */
  int runs;         /* its process does */
  int frozen;       /* it is stopped, as by SIGSTOP */
  int cut;          /* enum clu_reach */
  int told_end;     /* 1: by itself; 2: it is to be killed */
  uint64_t kill_at; /* when it is, if it has not ended by itself */
  int ends;         /* it has ended: 1: its end is still to be told; 2: nobody will tell how */
  int over;         /* it had too much memory */
  uint64_t limit, memory;
  uint64_t held;              /* since when it is held; 0: it is not */
  uint64_t peak, from, half;  /* its task fills so much, from then on, within so many ns */
  uint64_t cancel, to_cancel; /* the task that it is to give up; the one on its way to its host */
  int signals;                /* interrupts that its host has to confirm */
  uint64_t asked;             /* what is to be taken back, on its way to its host */
  piece *queue;
  size_t head, len, cap;
  piece now; /* what it is at, if `busy` */
  int busy, deed, relays;
  uint64_t until; /* when it is done */
  clu_blob *records;
  unsigned char knows[MOST_JOBS]; /* by number of the job; 2: it has one task */
  int works[MOST_JOBS];
} sim_node;

/* Node `s` begins this task now. What it does, and for how many ns. */
static void work_begins(const sim_node *s, const piece *p);
static int work_deed(const sim_node *s, const piece *p, uint64_t *takes);
/* How much memory that fills. */
static uint64_t work_fills(const piece *p);
/* The session ends it. */
static void work_is_killed(const sim_node *s);
/* Its result is in the node's ring; its node had too much memory, and that is told. */
static void work_answered(const sim_node *s, const piece *p);
static void work_was_over(const sim_node *s, const piece *p);
/* Others act while the session waits, or looks at what has come. */
static void happens_meanwhile(int waits);
/* host_acts() for each: only within clu_loop_pump(). */
static void hosts_act(void);

/* Bytes that it has filled. */
static uint64_t node_has(const sim_node *s) {
  uint64_t now = s->held ? s->held : sim_now;
  if (!s->runs || !s->busy || !s->peak || now < s->from) return 0;
  return now - s->from >= s->half ? s->peak : s->peak * (now - s->from) / s->half;
}

/* Makes what a task gives: which it is, and what it has said before. */
static uint64_t value_of(const piece *p, int relays) {
  return (uint64_t)p->work << 44 | p->task << 16 | (uint64_t)p->attempt << 4 | (uint64_t)relays;
}

static void node_says(sim_node *s, uint8_t kind, uint64_t seq, const void *p, size_t n) {
  HOLDS(clu_chan_send_bytes(&s->chan, kind, seq, p, n, CLU_NO_FD) == CLU_OK);
  if (s->cut == CLU_IS_REACHED) (void)clu_chan_flush(&s->chan);
}

/* Records of a node on another host leave together, and before what leaves by the socket. */
static void send_records(sim_node *s) {
  unsigned char *p = s->records ? s->records->data : NULL;
  if (!p || s->records->size <= CLU_RESULTS_HEAD) return;
  clu_put64(p, clu_os_now());
  node_says(s, CLU_K_RESULTS, 0, p, s->records->size);
  s->records->size = CLU_RESULTS_HEAD;
}

static void write_record(unsigned char *to, const piece *p, uint32_t flags, uint64_t value) {
  clu_put32(to, flags);
  clu_put32(to + 4, 1000 + (uint32_t)dice(50000));
  clu_put64(to + 8, p->seq);
  clu_put64(to + 16, clu_os_now());
  clu_put64(to + 24, value);
}

static int answers_by_ring(sim_node *s, uint32_t flags, uint64_t value) {
  unsigned char *to = clu_ring_room(&s->ring, CLU_RING_RESULT_HEAD + 8);
  if (!to) return 0;
  write_record(to, &s->now, flags, value);
  clu_ring_publish(&s->ring, CLU_RING_RESULT_HEAD + 8);
  work_answered(s, &s->now);
  if (clu_ring_must_tell(&s->ring)) node_says(s, CLU_K_RESULTS_READY, 0, NULL, 0);
  return 1;
}

static void answers_by_relay(sim_node *s, uint32_t flags, uint64_t value) {
  unsigned char record[4 + CLU_RING_RESULT_HEAD + 8];
  unsigned char head[CLU_RESULTS_HEAD] = {0};
  if (!s->records)
    HOLDS((s->records = clu_blob_new(64)) && clu_blob_append(s->records, head, sizeof head) == 0);
  clu_put32(record, CLU_RING_RESULT_HEAD + 8);
  write_record(record + 4, &s->now, flags, value);
  HOLDS(clu_blob_append(s->records, record, sizeof record) == 0);
  if (once_in(3)) send_records(s);
}

static void answers(sim_node *s) {
  unsigned char bytes[6000] = {0};
  uint32_t flags = s->deed == WRONG ? CLU_RESULT_ERROR : 0;
  uint64_t value = value_of(&s->now, s->relays);
  s->busy = 0;
  if (s->deed != BIG && s->relays == 0 && s->kind == FAR && s->now.ring) {
    answers_by_relay(s, flags, value);
    return;
  }
  if (s->deed != BIG && s->relays == 0 && s->kind == LOCAL && s->now.ring &&
      answers_by_ring(s, flags, value))
    return;
  send_records(s);
  clu_put32(bytes, flags);
  clu_put64(bytes + 8, clu_os_now());
  clu_put64(bytes + 16, 1000 + dice(50000));
  clu_put64(bytes + CLU_RESULT_HEAD, value);
  node_says(s, CLU_K_RESULT, s->now.seq, bytes,
            s->deed == BIG ? sizeof bytes : CLU_RESULT_HEAD + 8);
}

static void gives_up(sim_node *s) {
  s->busy = 0;
  send_records(s);
  node_says(s, CLU_K_CANCELLED, s->now.seq, "f()", 3);
}

/* Its process has ended; `ends`: as the member. */
static void node_dies(sim_node *s, int ends) {
  if (!s->runs && s->ends == 1 && ends == 2)
    s->ends = 2; /* its host has ended before it could say */
  if (!s->runs) return;
  s->runs = s->busy = 0;
  s->ends = ends;
  if (ends == 1) send_records(s);          /* what is in its ring is read to the end there */
  if (ends == 1 && s->kind == FAR) return; /* its channel ends when that can be told */
  if (ends == 1) (void)clu_chan_flush(&s->chan);
  clu_chan_fini(&s->chan);
}

/* Output or a condition of the task under way. */
static void says_something(sim_node *s) {
  unsigned char bytes[13] = {0};
  if (!s->busy || s->relays == 3) return;
  send_records(s);
  s->relays++;
  clu_put64(bytes + 1, s->now.task);
  clu_put32(bytes + 9, s->now.attempt);
  node_says(s, CLU_K_RELAY, s->now.seq, bytes, sizeof bytes);
}

static void node_gets(sim_node *s, const piece *p) {
  if (s->head > 0 && s->head == s->len) s->head = s->len = 0;
  if (s->len == s->cap) {
    s->cap = s->cap ? 2 * s->cap : 16;
    HOLDS(s->queue = realloc(s->queue, s->cap * sizeof *s->queue));
  }
  s->queue[s->len++] = *p;
}

/* Reads the lines that say what a batch was given. */
static void read_grant(piece *p, const unsigned char *b, size_t n) {
  char text[200], *rest = text;
  HOLDS(n < sizeof text);
  memcpy(text, b, n);
  text[n] = 0;
  for (char *line; (line = strsep(&rest, "\n")) && *line;) {
    char *value = strchr(line, '=');
    HOLDS(value);
    *value++ = 0;
    if (strcmp(line, "cores") == 0) p->cores = (uint32_t)atoi(value);
    for (int k = 0; k < SIM_KINDS; k++)
      for (char *at = value; strcmp(line, sim_kinds[k]) == 0 && at; at = strchr(at, ',')) {
        at += *at == ',';
        p->units[k] |= (uint64_t)1 << atoi(at);
      }
  }
}

/* Its number, of its name. */
static size_t job_of(uint64_t name) {
  size_t job = (uint32_t)name;
  HOLDS(job < MOST_JOBS);
  return job;
}

static void node_gets_batch(sim_node *s, const clu_msg *m) {
  const unsigned char *b = m->body->data;
  size_t job = job_of(clu_get64(b));
  uint32_t n = clu_get32(b + 8), flags = clu_get32(b + 16);
  size_t at = CLU_TASKS_HEAD;
  piece grant = {0};
  HOLDS(s->knows[job]); /* the JOB message has come before */
  if (flags & CLU_TASKS_ONLY) s->knows[job] = 2;
  if (flags & CLU_TASKS_GRANT) {
    read_grant(&grant, b + at + 8, clu_get32(b + at + 4));
    at += 8 + clu_get32(b + at + 4);
  }
  for (uint32_t k = 0; k < n; k++) {
    piece p = grant;
    p.work = s->works[job];
    p.job = job;
    p.seq = m->seq + k;
    p.attempt = clu_get32(b + 12);
    p.ring = !(flags & CLU_TASKS_NO_RING);
    if (!(flags & CLU_TASKS_BARE)) p.task = clu_get64(b + at + 8 * (size_t)k);
    node_gets(s, &p);
  }
}

static void node_reads(sim_node *s) {
  clu_msg m;
  int rc = clu_chan_fill(&s->chan), r;
  while ((r = clu_chan_next(&s->chan, &m)) == 1) {
    if (m.kind == CLU_K_JOB) {
      HOLDS(s->knows[job_of(m.seq)] != 1); /* once a node */
      s->knows[job_of(m.seq)] = 1;
      s->works[job_of(m.seq)] = (int)clu_get32(m.body->data);
    } else if (m.kind == CLU_K_JOB_END) {
      HOLDS(s->knows[job_of(m.seq)]);
      s->knows[job_of(m.seq)] = 0;
    } else if (m.kind == CLU_K_TASKS) {
      node_gets_batch(s, &m);
    } else if (m.kind == CLU_K_DONE) {
      s->told_end = 1;
    }
    clu_blob_unref(m.body);
  }
  HOLDS(r == 0);
  if (rc != CLU_OK && rc != CLU_AGAIN) node_dies(s, 1); /* the session has closed it */
}

static void node_works(sim_node *s) {
  if (s->busy && s->cancel == s->now.seq && s->deed != DEAF) {
    gives_up(s);
  } else if (s->busy && s->deed != DEAF && clu_os_now() >= s->until) {
    if (s->deed == HOGS && s->limit && s->memory > s->limit) {
      s->over = 1;
      node_dies(s, 1);
    } else if (s->deed == DIES) {
      node_dies(s, 1);
    } else {
      s->memory = 0;
      answers(s);
    }
  } else if (s->busy && once_in(40)) {
    says_something(s);
  }
  while (s->runs && !s->busy && s->head < s->len) {
    uint64_t takes = 0;
    s->now = s->queue[s->head++];
    if (s->kind != PLAIN && !clu_claim_start(&s->claim, s->now.seq)) continue; /* taken back */
    s->busy = 1;
    s->relays = 0;
    work_begins(s, &s->now);
    s->deed = work_deed(s, &s->now, &takes);
    s->from = clu_os_now();
    s->until = s->from + takes;
    s->half = takes / 2 + 1;
    s->peak = s->kind == LOCAL ? work_fills(&s->now) : 0;
    if (s->deed == HOGS) s->memory = 1000000;
  }
  if (s->runs && !s->busy) send_records(s);
}

static void node_acts(sim_node *s) {
  if (!s->runs || s->frozen || s->held) return;
  if (s->cut == CLU_IS_REACHED) node_reads(s);
  if (s->runs) node_works(s);
  if (s->runs && s->cut == CLU_IS_REACHED && clu_chan_pending(&s->chan))
    (void)clu_chan_flush(&s->chan);
  if (s->runs && s->told_end == 1 && !s->busy && once_in(4)) node_dies(s, 1);
}

/* ---- what its host says to the session, and the other way round: within clu_loop_pump() ---- */

static void host_says(sim_node *s, uint8_t kind, uint64_t number) {
  clu_msg m = {kind, 0, clu_blob_new(28)};
  unsigned char body[28] = {0};
  clu_put64(body, number);
  clu_put64(body + 20, number);
  HOLDS(m.body && clu_blob_append(m.body, body, sizeof body) == 0);
  if (s->node.data) s->node.session->hooks->on_message(&s->node, &m);
  clu_blob_unref(m.body);
}

/* Does as node_exited() of core/node/fork-server.c */
static void tell_end(sim_node *s) {
  clu_node *nd = &s->node;
  if (s->chan.fd != CLU_NO_FD) {
    (void)clu_chan_flush(&s->chan);
    clu_chan_fini(&s->chan);
  }
  if (s->kind == PLAIN || s->ends == 2) { /* the connection ends, and that is all */
    s->ends = s->ends == 2 ? 4 : 3;
    if (s->ends == 4) clu_node_close(nd);
    return;
  }
  s->ends = 3;
  nd->how.by_signal = 1;
  nd->how.code = s->told_end || s->over || once_in(2) ? CLU_SIG_KILL : 11;
  nd->how_known = 1;
  nd->over_limit = s->over;
  nd->memory = s->memory;
  if (s->over) work_was_over(s, &s->now);
  clu_node_receive(nd, -1);
  host_says(s, CLU_K_EXITED, clu_claim_first(&s->claim));
  clu_node_close(nd);
}

static void host_acts(sim_node *s) {
  if (s->ends == 2 && once_in(2)) tell_end(s);
  if (s->cut != CLU_IS_REACHED) return;
  if (s->told_end == 2 && s->runs) node_dies(s, 1);
  if (s->told_end == 1 && s->runs && sim_now > s->kill_at) node_dies(s, 1);
  if (s->signals && once_in(2)) {
    int n = s->signals;
    s->cancel = s->to_cancel;
    s->signals = 0;
    for (; n > 0 && s->node.interrupts > 0; n--)
      if (--s->node.interrupts == 0) host_says(s, CLU_K_SIGNALLED, 0);
  }
  if (s->asked && once_in(2)) {
    uint64_t first = clu_claim_take_back(&s->claim, s->asked);
    s->asked = 0;
    host_says(s, CLU_K_TAKEN, first);
  }
  if (s->ends == 1 && once_in(2)) tell_end(s);
}

static sim_node *sim(const clu_node *nd) { return (sim_node *)(uintptr_t)nd; }

static void sim_hold(clu_node *nd, int held) {
  sim_node *s = sim(nd);
  if (!held && s->held) {
    s->from += sim_now - s->held;
    s->until += sim_now - s->held;
  }
  s->held = held ? sim_now : 0;
}

static void sim_stop(clu_node *nd, uint32_t grace_ms) {
  sim_node *s = sim(nd);
  s->told_end = grace_ms ? 1 : 2;
  s->kill_at = sim_now + 1000000 * (uint64_t)grace_ms;
  work_is_killed(s);
  if (grace_ms) sim_hold(nd, 0); /* as a supervisor does */
  if (s->kind != PLAIN || grace_ms) return;
  node_dies(s, 1);
  clu_node_close(nd);
}
static void sim_closed(clu_node *nd) { (void)nd; }
static int sim_end_known(const clu_node *nd) {
  return sim(nd)->kind == PLAIN || nd->how_known || sim(nd)->ends == 4;
}
static void sim_free(clu_node *nd) {
  sim_node *s = sim(nd);
  clu_chan_fini(&s->chan);
  clu_blob_unref(s->records);
  free(s->queue);
  free(s);
}
static void sim_interrupt(clu_node *nd, uint64_t seq) {
  sim_node *s = sim(nd);
  s->to_cancel = seq;
  if (s->kind == PLAIN) {
    s->cancel = seq;
    return;
  }
  s->signals++;
  nd->interrupts++;
}
static int sim_ask_signalled(clu_node *nd) {
  sim(nd)->signals++;
  nd->interrupts++;
  return 1;
}
static void sim_take_back(clu_node *nd, uint64_t end) { sim(nd)->asked = end; }
static void sim_limit(clu_node *nd, uint64_t bytes) { sim(nd)->limit = bytes; }
static clu_claim *sim_claim(const clu_node *nd) { return &sim(nd)->claim; }
static clu_ring *sim_ring(const clu_node *nd) { return &sim(nd)->ring; }
static clu_pid sim_pid(const clu_node *nd) { return sim(nd)->runs ? 1000 + sim(nd)->serial : 0; }
static int sim_clock(const clu_node *nd) { return nd != NULL; }
static int sim_is_cut(const clu_node *nd) { return sim(nd)->cut; }

#define EVERY_KIND                                                                      \
  .stop = sim_stop, .closed = sim_closed, .end_known = sim_end_known, .free = sim_free, \
  .interrupt = sim_interrupt
static const clu_transport sim_transports[] = {
    [LOCAL] = {EVERY_KIND, .claim = sim_claim, .ring = sim_ring, .clock_is_ours = sim_clock,
               .limit_memory = sim_limit, .hold = sim_hold},
    [PLAIN] = {EVERY_KIND, .own_pid = sim_pid, .clock_is_ours = sim_clock},
    [FAR] = {EVERY_KIND, .is_proxied = 1, .is_cut = sim_is_cut, .take_back = sim_take_back,
             .ask_signalled = sim_ask_signalled, .limit_memory = sim_limit}};

/* A new one, which is ready. */
static sim_node *sim_node_new(clu_session *session, int kind, int serial) {
  sim_node *s = calloc(1, sizeof *s);
  clu_fd pair[2];
  unsigned char pid[8] = {0};
  HOLDS(s && clu_os_pair(pair, NULL) == CLU_OK);
  s->kind = kind;
  s->serial = serial;
  s->runs = 1;
  clu_node_init(&s->node, &sim_transports[kind], session);
  HOLDS(clu_node_connect(&s->node, pair[0], 0, NULL) == CLU_OK);
  HOLDS(clu_chan_init(&s->chan, pair[1], INT64_MAX, CLU_TAKES_NONE) == CLU_OK);
  if (kind == LOCAL) clu_put64(pid, 1000 + (uint64_t)serial);
  node_says(s, CLU_K_HELLO, 0, pid, sizeof pid);
  clu_node_receive(&s->node, 1);
  HOLDS(clu_node_is_ready(&s->node));
  return s;
}

/* ---- waits: nodes act meanwhile, and the time goes on ---- */

int __real_clu_poller_wait(clu_poller *p, clu_event *events, int max, int *n, int64_t wait_ns,
                           clu_err *e);
int __wrap_clu_poller_wait(clu_poller *p, clu_event *events, int max, int *n, int64_t wait_ns,
                           clu_err *e);
int __wrap_clu_poller_wait(clu_poller *p, clu_event *events, int max, int *n, int64_t wait_ns,
                           clu_err *e) {
  HOLDS(wait_ns >= 0);
  for (;;) {
    int rc;
    int64_t step = 1000 + (int64_t)dice(1 + (uint64_t)wait_ns / 2);
    happens_meanwhile(wait_ns > 0);
    hosts_act();
    rc = __real_clu_poller_wait(p, events, max, n, 0, e);
    if (rc != CLU_OK || *n > 0 || wait_ns == 0) return rc;
    if (step > wait_ns) step = wait_ns;
    sim_now += (uint64_t)step;
    wait_ns -= step;
  }
}

#endif
