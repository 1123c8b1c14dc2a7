/* A bridge and the hub of a run on two hosts hear what the other side may have written.
 * The first byte chooses who hears it; a message has 2 bytes of length before it. */
#include "fuzz.h"

#include "core/mesh/bridge-message.h"
#include "core/mesh/bridge.h"
#include "core/mesh/hub.h"

static size_t said;

static void say(void *to, clu_blob *body) {
  (void)to;
  said += body->size;
}

static void say_to(void *to, int host, clu_blob *body) {
  (void)to;
  FUZZ_CHECK(host == 0 || host == 1);
  said += body->size;
}

static clu_blob *next(const uint8_t **data, size_t *n) {
  size_t size = (size_t)(*data)[0] | (size_t)(*data)[1] << 8;
  clu_blob *b = clu_blob_new(0);
  *data += 2;
  *n -= 2;
  if (size > *n) size = *n;
  FUZZ_CHECK(b && (size == 0 || clu_blob_append(b, *data, size) == 0));
  *data += size;
  *n -= size;
  return b;
}

static void to_bridge(const uint8_t *data, size_t n) {
  static const char is_here[] = {1, 0, 1, 0};
  clu_bridge *b;
  clu_mesh *part;
  FUZZ_CHECK(clu_bridge_new(4, is_here, "/tmp", say, NULL, &b, NULL) == CLU_OK);
  FUZZ_CHECK(clu_mesh_join(clu_bridge_path(b), 4, 0, &part, NULL) == CLU_OK);
  while (n > 2) {
    clu_blob *body = next(&data, &n);
    int rc = clu_bridge_heard(b, body), who;
    clu_message *x;
    FUZZ_CHECK(rc == CLU_OK || rc == CLU_PROTO || rc == CLU_NOMEM || rc == CLU_CANCELLED);
    clu_bridge_turn(b, 1);
    while (clu_mesh_receive(part, -1, NULL, 0, &x, &who) == CLU_OK) clu_message_free(x);
    clu_blob_unref(body);
  }
  clu_mesh_free(part);
  clu_bridge_free(b);
}

static void to_hub(const uint8_t *data, size_t n) {
  static const int host_of[] = {0, 1, 0, 1};
  clu_hub *h = clu_hub_new(4, host_of, 2, say_to, NULL);
  FUZZ_CHECK(h);
  for (int host = 0; n > 2; host ^= 1) {
    clu_blob *body = next(&data, &n);
    clu_hub_heard(h, host, body);
    clu_blob_unref(body);
  }
  clu_hub_end(h);
  clu_hub_free(h);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  if (n < 3 || n > 20000) return 0;
  if (data[0] & 1)
    to_bridge(data + 1, n - 1);
  else
    to_hub(data + 1, n - 1);
  FUZZ_CHECK(said != 1);
  return 0;
}
