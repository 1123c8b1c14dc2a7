#include "core/supervisor/orphans.h"

#include <stdlib.h>
#include <string.h>

static void put_digits(char *out, uint64_t v) {
  for (int i = 15; i >= 0; i--, v >>= 4) out[i] = "0123456789abcdef"[v & 15];
}

/* 0: these are no digits */
static int get_digits(const char *p, uint64_t *v) {
  *v = 0;
  for (int i = 0; i < 16; i++) {
    const char *digits = "0123456789abcdef", *d = p[i] ? strchr(digits, p[i]) : NULL;
    if (!d) return 0;
    *v = *v << 4 | (uint64_t)(d - digits);
  }
  return 1;
}

void clu_mark_text(char out[CLU_MARK_DIGITS + 1], uint64_t family, uint64_t node) {
  put_digits(out, family);
  put_digits(out + 16, node);
  out[CLU_MARK_DIGITS] = 0;
}

void clu_mark_self(uint64_t family, uint64_t node) {
  char text[CLU_MARK_DIGITS + 1];
  clu_mark_text(text, family, node);
  clu_os_mark_env(CLU_MARK, text);
}

static const uint64_t COPY = UINT64_MAX; /* in place of a node's number */

static int get_mark(const char *text, uint64_t *family, uint64_t *node) {
  return strlen(text) == CLU_MARK_DIGITS && get_digits(text, family) && get_digits(text + 16, node);
}

void clu_mark_copy(void) {
  const char *text = getenv(CLU_MARK);
  uint64_t family, node;
  if (text && get_mark(text, &family, &node)) clu_mark_self(family, COPY);
}

/* Whether it has to end. */
static int is_to_end(const clu_orphans *o, clu_pid pid, int all) {
  char text[CLU_MARK_DIGITS + 2];
  uint64_t family, node;
  if (clu_os_env_of(pid, CLU_MARK, text, sizeof text) != CLU_OK || !get_mark(text, &family, &node))
    return 0; /* what has no mark was given another environment: it is to go on */
  if (family == 0)
    return 0; /* of the fork server itself, or of one within a node, which sees to its own */
  if (node == COPY && family == o->family) return o->at_end;
  return all || family != o->family || !o->is_alive(o->data, node);
}

int clu_orphans_end(const clu_orphans *o, int all) {
  clu_pid *children;
  int n = 0, killed = 0;
  if (clu_os_children(&children, &n) != CLU_OK) return 0;
  for (int i = 0; i < n; i++) {
    if (o->is_node(o->data, children[i]) || !is_to_end(o, children[i], all)) continue;
    clu_os_kill(children[i], CLU_SIG_KILL, 1); /* where it leads a group */
    if (clu_os_kill(children[i], CLU_SIG_KILL, 0) == CLU_OK) killed++;
  }
  free(children);
  return killed;
}
