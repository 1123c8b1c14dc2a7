#include "r/socket/connection.h"

#include <stdlib.h>

void clu_raise_not_open(Rconnection con) {
  clu_err e;
  clu_fail(&e, CLU_CLOSED, 0, "%s: this connection is not open", con->description);
  clu_raise_socket(NULL, &e, -1);
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
