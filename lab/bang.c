/* All-to-all messages in the C core, every message by itself: each of N processes sends a question
 * to each (itself, too) and answers those that come, 2 N^2 messages in all. It is the program of
 * lab/bang.erl, on stub nodes, without R.
 *
 *   bang NODES N,N,... WARM     Prints "N seconds" for each N. Up to WARM processes a round goes
 *                               before that is not counted.
 *
 * A process is a mailbox and what it has counted; its node is a forked system process with an event
 * loop. A message is a frame (core/wire/frame.h) with a header of its own, sequence number: who is
 * to get it and who sent it. Within a node the frame is put into the receiver's mailbox. To another
 * node it goes over the channel between the two (core/wire/channel.h, a socket pair), which writes
 * each frame by a system call of its own. The receiving process takes one frame after the other out
 * of its mailbox, decodes it, and handles it.
 *
 * The clock runs from the order to begin, which follows when all processes are there, until each
 * has counted N questions and N answers and all that its node had to send has been written.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/os.h"
#include "core/loop/channel-watch.h"
#include "core/loop/event-loop.h"
#include "core/wire/channel.h"

#define MOST_NODES 64

enum { QUESTION = CLU_K_CALL, ANSWER = CLU_K_VALUE, PREPARE = CLU_K_SETUP, READY = CLU_K_READY };
enum { BEGIN = CLU_K_TASKS, DONE = CLU_K_RESULT };

typedef struct process {
  unsigned char *mail;     /* frames, a ring */
  uint32_t cap, head, n;   /* in frames */
  uint32_t asked, answers; /* questions that it has answered, answers that it has */
  int begun, queued;
} process;

struct node;

typedef struct peer { /* another node, or the one who measures */
  clu_chan chan;
  clu_watch_id watch;
  struct node *of;
} peer;

typedef struct node {
  clu_loop loop;
  peer peers[MOST_NODES + 1]; /* the last: the one who measures */
  int me, nodes;
  process *all; /* of all nodes; the own ones are used */
  uint32_t n;
  uint32_t *queue, first, queued; /* own processes that have something to do, a ring */
  int begun, told;
  uint32_t finished, own;
  uint64_t handled;
} node;

static void fail(const char *what) {
  fprintf(stderr, "bang: %s\n", what);
  exit(1);
}

static void check(int rc, const char *what) {
  if (rc != CLU_OK) fail(what);
}

/* ---- a process ---- */

static void wake(node *nd, uint32_t id) {
  if (nd->all[id].queued) return;
  nd->all[id].queued = 1;
  nd->queue[(nd->first + nd->queued++) % nd->n] = id;
}

static void put_in_mailbox(node *nd, uint8_t kind, uint64_t seq) {
  process *p = &nd->all[seq >> 32];
  clu_header h = {.kind = kind, .seq = seq};
  if (p->n == p->cap) {
    uint32_t cap = p->cap ? 2 * p->cap : 64;
    unsigned char *mail = malloc((size_t)cap * CLU_HEADER);
    if (!mail) fail("not enough memory");
    for (uint32_t i = 0; i < p->n; i++)
      memcpy(mail + (size_t)i * CLU_HEADER, p->mail + (size_t)((p->head + i) % p->cap) * CLU_HEADER,
             CLU_HEADER);
    free(p->mail);
    p->mail = mail;
    p->cap = cap;
    p->head = 0;
  }
  clu_header_put(p->mail + (size_t)((p->head + p->n++) % p->cap) * CLU_HEADER, &h);
  wake(nd, (uint32_t)(seq >> 32));
}

static void send(node *nd, uint8_t kind, uint32_t from, uint32_t to) {
  int at = (int)(to % (uint32_t)nd->nodes);
  uint64_t seq = (uint64_t)to << 32 | from;
  if (at == nd->me)
    put_in_mailbox(nd, kind, seq);
  else
    check(clu_chan_send(&nd->peers[at].chan, kind, seq, NULL, CLU_NO_FD), "not enough memory");
}

static void handle(node *nd, uint32_t me, const unsigned char *frame) {
  process *p = &nd->all[me];
  clu_header h;
  check(clu_header_get(frame, &h), "no frame");
  nd->handled++;
  if (h.kind == QUESTION) {
    p->asked++;
    send(nd, ANSWER, me, (uint32_t)h.seq);
  } else {
    p->answers++;
  }
  if (p->asked == nd->n && p->answers == nd->n) nd->finished++;
}

/* One turn of a process: first its questions to all, later what is in its mailbox. */
static void turn(node *nd, uint32_t me) {
  process *p = &nd->all[me];
  p->queued = 0;
  if (!p->begun) {
    p->begun = 1;
    for (uint32_t to = 0; to < nd->n; to++) send(nd, QUESTION, me, to);
  }
  while (p->n > 0) {
    unsigned char frame[CLU_HEADER];
    memcpy(frame, p->mail + (size_t)p->head * CLU_HEADER, CLU_HEADER);
    p->head = (p->head + 1) % p->cap;
    p->n--;
    handle(nd, me, frame); /* which may put one into this mailbox */
  }
}

/* ---- a node ---- */

static void drop_processes(node *nd) {
  for (uint32_t i = 0; i < nd->n; i++) free(nd->all[i].mail);
  free(nd->all);
  free(nd->queue);
}

static void prepare(node *nd, uint32_t n) {
  drop_processes(nd);
  nd->n = n;
  nd->all = calloc(n, sizeof *nd->all);
  nd->queue = calloc(n, sizeof *nd->queue);
  if (!nd->all || !nd->queue) fail("not enough memory");
  nd->begun = nd->told = 0;
  nd->first = nd->queued = nd->finished = nd->own = 0;
  nd->handled = 0;
  for (uint32_t i = (uint32_t)nd->me; i < n; i += (uint32_t)nd->nodes) nd->own++;
}

static void take(node *nd, const clu_msg *m) {
  switch (m->kind) {
  case PREPARE:
    prepare(nd, (uint32_t)m->seq);
    check(clu_chan_send(&nd->peers[nd->nodes].chan, READY, 0, NULL, CLU_NO_FD), "no memory");
    break;
  case BEGIN:
    nd->begun = 1;
    for (uint32_t i = (uint32_t)nd->me; i < nd->n; i += (uint32_t)nd->nodes) wake(nd, i);
    break;
  default: put_in_mailbox(nd, m->kind, m->seq);
  }
}

static void on_ready(void *self, unsigned ready) {
  peer *p = self;
  clu_msg m;
  int rc;
  if (ready & CLU_WRITE) clu_chan_watch_flush(&p->of->loop, &p->chan, p->watch);
  if (!(ready & CLU_READ)) return;
  rc = clu_chan_fill(&p->chan);
  if (rc == CLU_AGAIN) return;
  if (rc != CLU_OK) clu_os_end_self(); /* the one who measures has ended */
  while ((rc = clu_chan_next(&p->chan, &m)) == 1) take(p->of, &m);
  if (rc < 0) fail("not the protocol");
}

/* Writes what there is for others; 1 when nothing is left. */
static int flush_all(node *nd) {
  int left = 0;
  for (int i = 0; i <= nd->nodes; i++) {
    peer *p = &nd->peers[i];
    if (i == nd->me || !clu_chan_pending(&p->chan)) continue;
    clu_chan_watch_flush(&nd->loop, &p->chan, p->watch);
    left |= clu_chan_pending(&p->chan);
  }
  return !left;
}

static void serve(node *nd) {
  check(clu_loop_init(&nd->loop, NULL), "no event loop");
  for (int i = 0; i <= nd->nodes; i++)
    if (i != nd->me)
      check(clu_loop_watch(&nd->loop, nd->peers[i].chan.fd, CLU_READ, on_ready, &nd->peers[i],
                           &nd->peers[i].watch, NULL),
            "cannot watch");
  for (;;) {
    int busy = nd->begun && nd->queued > 0, written;
    check(clu_loop_pump(&nd->loop, busy ? 0 : -1, NULL), "cannot wait");
    if (nd->begun && nd->queued > 0) {
      uint32_t id = nd->queue[nd->first];
      nd->first = (nd->first + 1) % nd->n;
      nd->queued--;
      turn(nd, id);
    }
    written = flush_all(nd);
    if (!nd->begun || nd->told || nd->finished < nd->own || !written) continue;
    nd->told = 1;
    check(clu_chan_send(&nd->peers[nd->nodes].chan, DONE, nd->handled, NULL, CLU_NO_FD),
          "not enough memory");
    flush_all(nd);
  }
}

/* ---- the one who measures ---- */

/* Makes a socket pair between each two nodes (`pair[i][j]` is the end of i), and one between each
 * node and the one who measures, who is number `nodes`. Forks the nodes. */
static void start(int nodes, clu_chan *out) {
  static clu_fd pair[MOST_NODES + 1][MOST_NODES + 1];
  static node nd;
  for (int i = 0; i <= nodes; i++)
    for (int j = i + 1; j <= nodes; j++) {
      clu_fd two[2];
      check(clu_os_pair(two, NULL), "no socket pair");
      pair[i][j] = two[0];
      pair[j][i] = two[1];
    }
  for (int i = 0; i < nodes; i++) {
    clu_pid pid;
    check(clu_os_fork(&pid, NULL), "cannot fork");
    if (pid != 0) continue;
    for (int k = 0; k <= nodes; k++)
      for (int j = 0; j <= nodes; j++)
        if (j != k && k != i) clu_os_close(pair[k][j]);
    nd.me = i;
    nd.nodes = nodes;
    for (int j = 0; j <= nodes; j++) {
      nd.peers[j].of = &nd;
      if (j != i) check(clu_chan_init(&nd.peers[j].chan, pair[i][j], 0, 0), "not enough memory");
    }
    serve(&nd);
  }
  for (int k = 0; k < nodes; k++)
    for (int j = 0; j <= nodes; j++)
      if (j != k) clu_os_close(pair[k][j]);
  for (int i = 0; i < nodes; i++) {
    check(clu_os_set_blocking(pair[nodes][i], 1), "cannot block");
    check(clu_chan_init(&out[i], pair[nodes][i], 0, 0), "not enough memory");
  }
}

/* Tells every node, waits for the answer of each. Returns the sum of their numbers. */
static uint64_t tell_all(clu_chan *chans, int nodes, uint8_t kind, uint64_t seq, uint8_t wanted) {
  uint64_t sum = 0;
  for (int i = 0; i < nodes; i++) {
    check(clu_chan_send(&chans[i], kind, seq, NULL, CLU_NO_FD), "not enough memory");
    check(clu_chan_flush(&chans[i]), "cannot write");
  }
  for (int i = 0; i < nodes; i++) {
    clu_msg m;
    while (clu_chan_next(&chans[i], &m) == 0) check(clu_chan_fill(&chans[i]), "a node has ended");
    if (m.kind != wanted) fail("not the answer");
    sum += m.seq;
  }
  return sum;
}

int main(int argc, char **argv) {
  static clu_chan chans[MOST_NODES];
  int nodes = argc == 4 ? atoi(argv[1]) : 0;
  uint64_t warm = argc == 4 ? strtoull(argv[3], NULL, 10) : 0;
  if (nodes < 1 || nodes > MOST_NODES) fail("see the head of lab/bang.c");
  start(nodes, chans);
  for (char *s = strtok(argv[2], ","); s; s = strtok(NULL, ",")) {
    uint64_t n = strtoull(s, NULL, 10);
    if (n < 1) fail("see the head of lab/bang.c");
    for (int r = n > warm; r < 2; r++) {
      uint64_t began, handled;
      tell_all(chans, nodes, PREPARE, n, READY);
      began = clu_os_now();
      handled = tell_all(chans, nodes, BEGIN, 0, DONE);
      if (handled != 2 * n * n) fail("messages were lost");
      if (r > 0) printf("%d %.6f\n", (int)n, 1e-9 * (double)(clu_os_now() - began));
    }
  }
  for (int i = 0; i < nodes; i++) clu_chan_fini(&chans[i]); /* so the nodes end */
  return 0;
}
