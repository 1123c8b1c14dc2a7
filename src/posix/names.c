/* The system's resolver on POSIX systems. */
#if defined(__linux__)
#define _GNU_SOURCE
#elif defined(__APPLE__)
#define _DARWIN_C_SOURCE
#endif

#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "posix/net.h"

int clu_os_ask_name(const char *host, int numeric, clu_addr addr[CLU_MAX_ADDRS], int *n) {
  struct addrinfo hints, *found = NULL;
  int status;
  memset(&hints, 0, sizeof hints);
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = numeric ? AI_NUMERICHOST : 0;
  status = getaddrinfo(host, NULL, &hints, &found);
  *n = 0;
  if (status) return status;
  for (struct addrinfo *a = found; a && *n < CLU_MAX_ADDRS; a = a->ai_next)
    if (a->ai_family == AF_INET || a->ai_family == AF_INET6)
      clu_net_put(&addr[(*n)++], a->ai_addr, a->ai_addrlen);
  freeaddrinfo(found);
  return *n ? 0 : EAI_NONAME;
}

const char *clu_os_ask_name_text(int status, char out[CLU_NAME_TEXT]) {
  (void)out;
  return gai_strerror(status);
}
