/* Addresses of sockets (core/base/os.h), as far as they are the same on each system: for the ports,
 * too, and so without a file of its own. Nothing blocks or fails. */
#ifndef CLUTCH_ADDR_H
#define CLUTCH_ADDR_H

#include <stdio.h>
#include <string.h>

#include "core/base/os.h"

/* Every address of this machine at `port` (0: the system chooses one). CLU_INET6 takes IPv4, too.
 */
static inline void clu_addr_any(int family, int port, clu_addr *out) {
  static const unsigned char any[16];
  clu_os_addr_put(family, any, port, out);
}

/* Writes it as text, numbers only; IPv4 within IPv6 is shown as IPv4. Returns `out`. An address
 * without a name (the connecting end of a Unix-domain connection) is "". */
static inline const char *clu_addr_text(const clu_addr *a, char *out, size_t cap) {
  char host[CLU_ADDR_TEXT - 10];
  int port = clu_os_addr_host(a, host, sizeof host);
  if (port < 0)
    snprintf(out, cap, "%s", host);
  else
    snprintf(out, cap, strchr(host, ':') ? "[%s]:%d" : "%s:%d", host, port);
  return out;
}

static inline int clu_addr_bytes_are_mapped(const unsigned char ip[16]) {
  static const unsigned char prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return memcmp(ip, prefix, sizeof prefix) == 0;
}

/* IPv4 within IPv6, as a socket for both has it */
static inline int clu_addr_is_mapped(const clu_addr *a) {
  unsigned char ip[16];
  return clu_os_addr_ip(a, ip) == 16 && clu_addr_bytes_are_mapped(ip);
}

/* 127.0.0.0/8, ::1, those within IPv6, and every Unix-domain address */
static inline int clu_addr_is_loopback(const clu_addr *a) {
  static const unsigned char one[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  unsigned char ip[16];
  switch (clu_os_addr_ip(a, ip)) {
  case 4: return ip[0] == 127;
  case 16:
    return memcmp(ip, one, sizeof one) == 0 || (clu_addr_bytes_are_mapped(ip) && ip[12] == 127);
  default: return a->family == CLU_UNIX;
  }
}

#endif
