#include "r/socket/connection.h"

#include <stdlib.h>

conn *clu_conn_of(Rconnection con) {
  conn *c = con->private;
  if (!c || !c->s) {
    clu_err e;
    clu_fail(&e, CLU_CLOSED, 0, "%s: this connection is not open", con->description);
    clu_raise_socket(NULL, &e, -1);
  }
  return c;
}

int clu_con_room(char **p, size_t *cap, size_t n) {
  char *bigger;
  if (n <= *cap) return 1;
  bigger = realloc(*p, n);
  if (!bigger) return 0;
  *p = bigger;
  *cap = n;
  return 1;
}
