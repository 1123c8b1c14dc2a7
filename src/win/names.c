/* The system's resolver on Windows. */
#include "win/win.h"

#include <stdlib.h>
#include <string.h>

int clu_os_ask_name(const char *host, int numeric, clu_addr addr[CLU_MAX_ADDRS], int *n) {
  ADDRINFOW hints, *found = NULL;
  wchar_t *name;
  int status;
  *n = 0;
  if (clu_win_start(NULL) != CLU_OK) return WSASYSNOTREADY;
  name = clu_win_wide(host);
  if (!name) return WSA_NOT_ENOUGH_MEMORY;
  memset(&hints, 0, sizeof hints);
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = numeric ? AI_NUMERICHOST : AI_ADDRCONFIG;
  status = GetAddrInfoW(name, NULL, &hints, &found);
  free(name);
  if (status) return status;
  for (ADDRINFOW *a = found; a && *n < CLU_MAX_ADDRS; a = a->ai_next)
    if (a->ai_family == AF_INET || a->ai_family == AF_INET6)
      clu_win_put(&addr[(*n)++], a->ai_addr, a->ai_addrlen);
  FreeAddrInfoW(found);
  return *n ? 0 : WSAHOST_NOT_FOUND;
}

const char *clu_os_ask_name_text(int status, char out[CLU_NAME_TEXT]) {
  return clu_win_text(status, out);
}
