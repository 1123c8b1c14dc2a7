#include "core/tasks/memory-history.h"

#include <stdlib.h>
#include <string.h>

static const uint64_t LEAST_PAUSE = 20000000; /* ns between two samples */
static const uint64_t PAUSE_COST = 100, MEASURE_COST = 400;
/* ns in which a node that is new here is not weighed: that takes 1 ms, while it does its first
 * task. */
static const uint64_t NOT_WEIGHED = 100000000;
static const size_t MOST_SAMPLES = 8192;

/* Each two rounds become one. */
static void thin(clu_memory_history *h) {
  size_t *last = calloc((size_t)h->nnodes, sizeof *last), n = 0; /* where a node's is, and 1 */
  if (!last) {
    h->n = 0;
    return;
  }
  for (size_t k = 0; k < h->n; k++) {
    clu_memory_sample s = h->samples[k];
    clu_memory_sample *to = last[s.node] ? &h->samples[last[s.node] - 1] : NULL;
    s.round /= 2;
    if (to && to->round == s.round) {
      if (to->own < s.own) to->own = s.own;
    } else {
      h->samples[n++] = s;
      last[s.node] = n;
    }
  }
  free(last);
  h->n = n;
  h->round = h->round / 2 + 1;
  h->slower = h->slower ? 2 * h->slower : 2;
}

/* Makes room for one more. 0: there is none. */
static int reserve_sample(clu_memory_history *h) {
  size_t most = MOST_SAMPLES > 4 * (size_t)h->nnodes ? MOST_SAMPLES : 4 * (size_t)h->nnodes;
  size_t cap = h->cap ? 2 * h->cap : 256;
  clu_memory_sample *more;
  if (h->n < h->cap) return 1;
  if (h->cap >= most) {
    thin(h);
    return h->n < h->cap;
  }
  if (cap > most) cap = most;
  more = realloc(h->samples, cap * sizeof *more);
  if (!more) return 0;
  h->samples = more;
  h->cap = cap;
  return 1;
}

/* Bytes that are its own; -1: not known. To weigh it takes long where there is much: between two
 * times that is estimated, unless it is to be known exactly. */
static int64_t own_memory(clu_memory_seen *x, clu_pid pid, uint64_t now, int exactly) {
  clu_process_use *use = &x->use;
  if (!use->at || use->pid != pid) {
    clu_process_use_begin(use, pid);
    x->again = now + NOT_WEIGHED;
    memset(&x->weighed, 0, sizeof x->weighed);
  }
  clu_process_use_look(use, now);
  if (use->own < 0) return clu_os_process_memory(pid, -1);
  if (use->pages.given == x->weighed.given && use->pages.resident == x->weighed.resident)
    return use->own;
  if (exactly || (use->doubt > 0 && now >= x->again)) {
    clu_process_use_weigh(use, now);
    x->weighed = use->pages;
    x->again = now + MEASURE_COST * use->took;
  }
  return use->own;
}

static void sample(clu_memory_history *h, int i, clu_pid pid, int exactly) {
  uint64_t now = clu_os_now();
  int64_t own;
  clu_memory_sample *s;
  if (pid <= 0 || (own = own_memory(&h->nodes[i], pid, now, exactly)) < 0 || !reserve_sample(h))
    return;
  s = &h->samples[h->n++];
  s->at = now;
  s->own = own;
  s->node = (uint32_t)i;
  s->round = h->round;
}

/* Makes what it has of each node, the first time. 0: without memory. */
static int make_ready(clu_memory_history *h, int n) {
  if (!h->nodes && n > 0) {
    h->nodes = calloc((size_t)n, sizeof *h->nodes);
    h->nnodes = h->nodes ? n : 0;
  }
  return h->nnodes > 0;
}

void clu_memory_history_next(clu_memory_history *h, int n, clu_memory_pid *pid, const void *of) {
  uint64_t began = clu_os_now(), pause, least;
  if (!make_ready(h, n)) return;
  sample(h, h->next, pid(of, h->next), 0);
  if (++h->next == h->nnodes) {
    h->next = 0;
    h->round++;
  }
  pause = PAUSE_COST * (clu_os_now() - began);
  least = LEAST_PAUSE * (h->slower ? h->slower : 1);
  h->due = began + (pause > least ? pause : least);
}

void clu_memory_history_all(clu_memory_history *h, int n, clu_memory_pid *pid, const void *of) {
  if (!make_ready(h, n)) return;
  if (h->next > 0) h->round++;
  for (int i = 0; i < h->nnodes; i++) sample(h, i, pid(of, i), 1);
  h->next = 0;
  h->round++;
}

void clu_memory_history_free(clu_memory_history *h) {
  free(h->samples);
  free(h->nodes);
  h->samples = NULL;
  h->nodes = NULL;
  h->n = h->cap = 0;
  h->nnodes = h->next = 0;
}
