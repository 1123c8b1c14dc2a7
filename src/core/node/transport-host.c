/* Transport: a node that the fork server of another host has made. It is interrupted, limited and
 * killed as one of this host, by messages to its server. It shares no memory with the session: what
 * it has not begun is taken back by the server, and its small results are sent by the proxy there.
 * Its channel passes descriptors, for it ends in the link process of this host (core/link). */
#include <stdlib.h>
#include <string.h>

#include "core/node/fork-private.h"
#include "core/node/transports.h"

static void host_take_back(clu_node *nd, uint64_t end) {
  unsigned char body[8];
  clu_put64(body, end);
  clu_server_send(((clu_fork_node *)nd)->server, CLU_K_TAKE_BACK, nd->id, body, sizeof body,
                  CLU_NO_FD);
}

static int host_ask_signalled(clu_node *nd) {
  if (clu_server_send(((clu_fork_node *)nd)->server, CLU_K_CANCEL, nd->id, NULL, 0, CLU_NO_FD) !=
      CLU_OK)
    return 0;
  nd->interrupts++;
  return 1;
}

static int host_is_cut(const clu_node *nd) { return ((const clu_fork_node *)nd)->server->cut; }

/* ---- its stack, by messages ---- */

#define LOOK_EVERY 25000000 /* ns between two questions what it has told */

static clu_stack_word *host_stack(clu_node *nd, clu_stack **stack) {
  clu_fork_node *f = (clu_fork_node *)nd;
  if (!f->far) {
    if (!(f->far = calloc(1, sizeof *f->far))) return NULL;
    atomic_store(&f->far->word.asked, 1); /* a number before that of the first question */
  }
  *stack = &f->far->stack;
  return &f->far->word;
}

static void host_ask_stack(clu_node *nd, enum clu_stack_wish what, uint64_t seq) {
  clu_fork_node *f = (clu_fork_node *)nd;
  unsigned char body[9] = {(unsigned char)what};
  uint64_t now = clu_os_now();
  if (!f->far || (what == CLU_STACK_LAST && now - f->far->looked < LOOK_EVERY)) return;
  f->far->looked = now;
  clu_put64(body + 1, seq);
  if (clu_server_send(f->server, CLU_K_STACK, nd->id, body, sizeof body, CLU_NO_FD) == CLU_OK)
    f->far->asking += what != CLU_STACK_LAST;
}

/* The last copy that was asked for was made, or could not be. */
static void host_told_copy(clu_far_stack *far, const unsigned char *p) {
  uint32_t copy = clu_stack_copy_wanted(&far->word);
  char where[CLU_COPY_TEXT + 1] = {0};
  if (clu_get32(p)) far->copy = clu_get32(p);
  if (!copy || far->asking > 0 || !far->copy || clu_get32(p + 4) != far->copy) return;
  memcpy(where, p + 8, CLU_COPY_TEXT);
  clu_stack_tell_copy(&far->word, &far->stack, copy, where);
}

/* All that it has told after the last question is the answer to that; else it was told before. */
static void host_told(clu_node *nd, const clu_blob *answer) {
  clu_far_stack *far = ((clu_fork_node *)nd)->far;
  const unsigned char *p = answer->data;
  uint32_t told, asked;
  uint64_t now = clu_os_now(), ago;
  int is_current;
  if (!far || answer->size < CLU_STACK_HEAD || answer->size > CLU_STACK_HEAD + CLU_STACK_TEXT)
    return;
  told = clu_get32(p + 4);
  ago = clu_get64(p + 16);
  if (clu_get32(p) != 0) {
    far->question = clu_get32(p);
    if (far->asking > 0) far->asking--;
  }
  if (told == 0) return;
  is_current = far->asking == 0 && (int32_t)(told - far->question) >= 0;
  asked = atomic_load(&far->word.asked);
  clu_stack_tell(&far->word, &far->stack, is_current ? asked : asked - 1, clu_get64(p + 8),
                 ago < now ? now - ago : 0, (const char *)p + CLU_STACK_HEAD,
                 answer->size - CLU_STACK_HEAD);
  host_told_copy(far, p + 24);
}

static const clu_transport transport = {
    .stop = clu_fork_node_stop,
    .closed = clu_fork_node_closed,
    .end_known = clu_fork_node_end_known,
    .free = clu_fork_node_free,
    .interrupt = clu_fork_node_interrupt,
    .ask_signalled = host_ask_signalled,
    .take_back = host_take_back,
    .limit_memory = clu_fork_node_limit_memory,
    .deliver = clu_fork_node_deliver,
    .stack = host_stack,
    .ask_stack = host_ask_stack,
    .told = host_told,
    .takes_segments = 1,
    .is_cut = host_is_cut,
    .is_proxied = 1,
    .describe = clu_fork_node_describe,
};

int clu_node_new_host(clu_server *s, int kind, clu_node **out, clu_err *e) {
  return clu_fork_node_new(s, &transport, kind, out, e);
}
