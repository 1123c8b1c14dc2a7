/* The ring of a pair, as another rank may have written it: messages come out whole, or the answer
 * is that what is there cannot be. The first two bytes choose where in the ring the rest lies. */
#include "fuzz.h"

#include <string.h>

#include "core/mesh/mesh-layout.h"

static void put(pair_ring *r, const uint8_t *p, size_t n, uint64_t head) {
  unsigned char *ring = (unsigned char *)(r + 1);
  for (size_t i = 0; i < n; i++) ring[(head + i) % PAIR_BYTES] = p[i];
  atomic_store(&r->head, head);
  atomic_store(&r->tail, head + n / 8 * 8);
}

static void take_all(clu_mesh *m) {
  clu_message *x;
  int rc, who;
  while ((rc = clu_mesh_receive(m, -1, NULL, 0, &x, &who)) == CLU_OK) {
    FUZZ_CHECK(x->from == 1 && strlen(x->tag) <= CLU_TAG_MOST);
    FUZZ_CHECK(x->lost || x->n == 0 || x->body);
    for (size_t i = 0; i < x->n; i += 512) FUZZ_CHECK(x->body[i] + 1);
    clu_message_free(x);
  }
  FUZZ_CHECK(rc == CLU_AGAIN || rc == CLU_PROTO || rc == CLU_NOMEM);
  if (rc == CLU_AGAIN) FUZZ_CHECK(!(atomic_load(m->pending) & 2));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  clu_mesh *session, *m[2];
  pair_ring *r;
  if (n < 2 || n > 60000) return 0;
  FUZZ_CHECK(clu_mesh_new(2, "/tmp", &session, NULL) == CLU_OK);
  for (int i = 0; i < 2; i++)
    FUZZ_CHECK(clu_mesh_join(clu_mesh_path(session), 2, i, &m[i], NULL) == CLU_OK);
  r = mesh_pair(m[0], 1, 0);
  FUZZ_CHECK(r);
  put(r, data + 2, n - 2, (uint64_t)(data[0] << 8 | data[1]) * 16);
  atomic_store(m[0]->pending, 2);
  take_all(m[0]);
  for (int i = 0; i < 2; i++) clu_mesh_free(m[i]);
  clu_mesh_free(session);
  return 0;
}
