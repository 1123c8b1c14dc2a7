/* Which segments vectors of R have mapped. A process may have so many mappings (65,530 on Linux as
 * it comes), and R needs some for its own vectors: a session that held as many small results as
 * there may be mappings could allocate nothing more. So vectors keep at most half of them; what
 * comes beyond is copied. */
#include "r/share/share.h"

#include <stdlib.h>

#include "core/base/os-machine.h"

typedef struct held_segment {
  const clu_segment *segment;
  long vectors;
  struct held_segment *next; /* with the same hash */
} held_segment;

static held_segment *held[4096];
static int64_t n_held;

/* Where it is, or where it would be. */
static held_segment **place_of(const clu_segment *segment) {
  size_t hash = (size_t)segment / 64 % (sizeof held / sizeof *held);
  held_segment **at = &held[hash];
  while (*at && (*at)->segment != segment) at = &(*at)->next;
  return at;
}

int clu_mapped_has_room(const clu_segment *segment) {
  static int64_t most;
  if (!most) most = clu_os_most_mappings() / 2;
  return n_held < most || *place_of(segment);
}

int clu_mapped_add(const clu_segment *segment) {
  held_segment **at = place_of(segment);
  if (!*at) {
    *at = calloc(1, sizeof **at);
    if (!*at) return 0;
    (*at)->segment = segment;
    n_held++;
  }
  (*at)->vectors++;
  return 1;
}

void clu_mapped_remove(const clu_segment *segment) {
  held_segment **at = place_of(segment), *h = *at;
  if (!h || --h->vectors > 0) return;
  *at = h->next;
  free(h);
  n_held--;
}
