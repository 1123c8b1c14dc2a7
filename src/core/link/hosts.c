#include "core/link/hosts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/grow.h"
#include "core/link/proxy.h"
#include "core/node/fork-server.h"
#include "core/wire/frame.h"

struct clu_link_hosts {
  clu_link_hosts *next; /* of all link processes */
  clu_session *session;
  clu_node *nd; /* the link process; NULL: there is none yet */
  clu_link_host *hosts;
  int n;
  size_t cap;
  clu_timer inspect; /* armed while a host is cut off: has its command ended? */
  uint64_t pause;
};

/* ns between two looks at commands */
#define FIRST_PAUSE 20000000
#define LONGEST_PAUSE 1000000000
#define HEAD 33 /* bytes of CLU_K_HOST_STATE before the text */

static clu_link_hosts *all;

/* ---- hosts ---- */

int clu_link_hosts_count(const clu_link_hosts *k) { return k->n; }
const clu_link_host *clu_link_hosts_at(const clu_link_hosts *k, int i) { return &k->hosts[i]; }

clu_link_host *clu_link_hosts_find(clu_link_hosts *k, int rank) {
  for (int i = 0; i < k->n; i++)
    if (k->hosts[i].rank == rank) return &k->hosts[i];
  return NULL;
}

clu_link_host *clu_link_hosts_add(clu_link_hosts *k, int rank) {
  clu_link_host *h = clu_grow(k->hosts, &k->cap, (size_t)k->n + 1, sizeof *h);
  if (!h) return NULL;
  k->hosts = h;
  h = &k->hosts[k->n++];
  memset(h, 0, sizeof *h);
  h->rank = rank;
  h->since = clu_os_now();
  return h;
}

void clu_link_host_set_command(clu_link_host *h, uint64_t command, int carries) {
  h->command = command;
  h->carries = carries;
}

/* ---- hosts of which nothing is left ---- */

static clu_node *find_node(const clu_session *s, uint64_t id) {
  clu_node *nd = clu_session_nodes(s);
  while (nd && clu_node_id(nd) != id) nd = clu_node_next(nd);
  return nd;
}

/* The status of ssh and srun says how the program there has ended, but for 255: they may have lost
 * their own connection. 1: `text` says so; 0: it is not known; -1: it has not ended. */
static int command_has_ended(const clu_link_hosts *k, const clu_link_host *h, char *text,
                             size_t size) {
  clu_node *nd = h->command ? find_node(k->session, h->command) : NULL;
  clu_node_status st;
  if (!nd) return 0;
  clu_node_status_of(nd, &st);
  if (clu_node_is_open(nd)) return -1;
  if (!st.how_known || ((st.how.by_signal || st.how.code == 255) && !h->carries)) return 0;
  snprintf(text, size, "the command that had started it has ended, %s %d",
           st.how.by_signal ? "killed by signal" : "with exit status", st.how.code);
  return 1;
}

static void inspect_after(clu_link_hosts *k, uint64_t pause) {
  k->pause = pause;
  clu_timer_arm(clu_session_loop(k->session), &k->inspect, clu_os_now() + pause);
}

/* Within the event loop. */
static void inspect_commands(void *self) {
  clu_link_hosts *k = self;
  int some = 0;
  for (int i = 0; i < k->n; i++) {
    const clu_link_host *h = &k->hosts[i];
    char text[100];
    int ended = h->state == CLU_PROXY_CUT ? command_has_ended(k, h, text, sizeof text) : 0;
    if (ended == 1)
      clu_node_pass(k->nd, CLU_K_HOST_STATE, (uint64_t)h->rank, text, strlen(text), CLU_NO_FD);
    some |= ended < 0;
  }
  if (some) inspect_after(k, 2 * k->pause < LONGEST_PAUSE ? 2 * k->pause : LONGEST_PAUSE);
}

/* ---- what the link process says: within the event loop ---- */

static void host_says(clu_node *nd, const clu_msg *m) {
  clu_link_hosts *k = all;
  clu_link_host *h;
  size_t n;
  while (k && k->nd != nd) k = k->next;
  h = k ? clu_link_hosts_find(k, (int)m->seq) : NULL;
  if (!h || !m->body || m->body->size < HEAD) return;
  /* If nothing is left there, its command ends in a moment. */
  if (m->body->data[0] == CLU_PROXY_CUT && h->state != CLU_PROXY_CUT) inspect_after(k, FIRST_PAUSE);
  h->state = m->body->data[0];
  clu_session_host_cut(k->session, clu_node_id(nd), m->seq,
                       h->state == CLU_PROXY_CUT     ? CLU_IS_CUT
                       : h->state == CLU_PROXY_ENDED ? CLU_HAS_SAID_BYE
                                                     : CLU_IS_REACHED);
  for (int i = 0; i < 3; i++) h->counts[i] = clu_get64(m->body->data + 1 + 8 * i);
  h->since = clu_get64(m->body->data + 25);
  n = m->body->size - HEAD;
  if (n >= sizeof h->why) n = sizeof h->why - 1;
  memcpy(h->why, m->body->data + HEAD, n);
  h->why[n] = 0;
  h->answered = 1;
}

void clu_link_hosts_ask(clu_link_hosts *k) {
  for (int i = 0; i < k->n; i++) {
    k->hosts[i].answered = 0;
    clu_node_pass(k->nd, CLU_K_HOST_STATE, (uint64_t)k->hosts[i].rank, NULL, 0, CLU_NO_FD);
  }
}

int clu_link_hosts_are_answered(const clu_link_hosts *k) {
  for (int i = 0; i < k->n; i++)
    if (!k->hosts[i].answered && k->hosts[i].state != CLU_PROXY_ENDED) return 0;
  return 1;
}

/* ---- all of a link process ---- */

clu_link_hosts *clu_link_hosts_new(clu_session *s) {
  clu_link_hosts *k = calloc(1, sizeof *k);
  if (!k) return NULL;
  k->session = s;
  clu_timer_init(&k->inspect, inspect_commands, k);
  k->next = all;
  all = k;
  clu_session_set_host_hook(s, host_says);
  return k;
}

void clu_link_hosts_set_process(clu_link_hosts *k, clu_node *link_process) { k->nd = link_process; }

void clu_link_hosts_free(clu_link_hosts *k) {
  if (!k) return;
  for (clu_link_hosts **at = &all; *at; at = &(*at)->next) {
    if (*at != k) continue;
    *at = k->next;
    break;
  }
  clu_timer_cancel(&k->inspect);
  free(k->hosts);
  free(k);
}
