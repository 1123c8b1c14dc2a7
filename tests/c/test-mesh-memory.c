/* Messages between the ranks of a mesh where memory is short. */
// link: -Wl,--wrap=realloc
#include "test.h"

#include <string.h>

#include "core/mesh/mesh.h"

static int has_none; /* 1: no memory is to be had */

void *__real_realloc(void *p, size_t n);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_realloc(void *p, size_t n) { return has_none ? NULL : __real_realloc(p, n); }

static clu_mesh *session, *rank[2];

static void begin(void) {
  REQUIRE(clu_mesh_new(2, "/tmp", &session, NULL) == CLU_OK);
  for (int i = 0; i < 2; i++)
    REQUIRE(clu_mesh_join(clu_mesh_path(session), 2, i, &rank[i], NULL) == CLU_OK);
}

static void end(void) {
  for (int i = 0; i < 2; i++) clu_mesh_free(rank[i]);
  clu_mesh_free(session);
}

TEST(a_message_for_which_there_was_no_memory_can_be_received_later) {
  static const char text[] = "a text of some bytes";
  clu_blob *b = clu_blob_new(sizeof text);
  clu_sending way = {0};
  clu_message *x = NULL;
  int who;
  begin();
  REQUIRE(b && clu_blob_append(b, text, sizeof text) == 0);
  CHECK_INT_EQ(clu_mesh_send(rank[0], 1, "t", b, &way), CLU_OK);
  has_none = 1;
  for (int i = 0; i < 2; i++)
    CHECK_INT_EQ(clu_mesh_receive(rank[1], 0, NULL, 0, &x, &who), CLU_NOMEM);
  has_none = 0;
  REQUIRE(clu_mesh_receive(rank[1], 0, NULL, 0, &x, &who) == CLU_OK);
  CHECK_INT_EQ(x->n, sizeof text);
  CHECK_MEM_EQ(x->body, text, sizeof text);
  clu_message_free(x);
  clu_blob_unref(b);
  end();
}
