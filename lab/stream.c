/* What TLS costs: bytes from one process to another over loopback or between two network
 * namespaces, plain and inside TLS in turn.
 *
 *   stream ROUNDS MB CALLS             both ends here, over 127.0.0.1
 *   stream serve PORT                  one end, on every address; ends when the other says so
 *   stream to HOST PORT ROUNDS MB CALLS  the other end
 *
 * A block is MB megabytes in one direction and one byte back; a call is 100 bytes there and back,
 * and CALLS of them are one measurement. Prints lines "kind what microseconds", kind: plain or tls.
 * For two machines, both ends take their keys from the file that STREAM_KEYS names; who serves
 * makes it.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <signal.h>
#include <unistd.h>

#include "core/base/addr.h"
#include "core/net/tls.h"
#include "core/net/resolve.h"

enum { PIECE = 1 << 18 };
typedef struct {
  char own[2][CLU_TLS_TEXT], certificate[2][CLU_TLS_TEXT];
} identities;

static unsigned char block[PIECE];

static void must(int ok, const char *what) {
  if (ok) return;
  fprintf(stderr, "%s\n", what);
  exit(1);
}

static double now_us(void) { return (double)clu_os_now() / 1e3; }

static void await(clu_conn *s, unsigned what) {
  unsigned want = clu_conn_wants(s, what);
  struct pollfd p = {(int)s->fd, 0, 0};
  if (want & CLU_READ) p.events |= POLLIN;
  if (want & CLU_WRITE) p.events |= POLLOUT;
  must(poll(&p, 1, 60000) == 1, "nothing comes");
}

/* As a node in the event loop would: tries first, waits when there is nothing. */
static int get(clu_conn *s, size_t n) {
  while (n > 0) {
    size_t got;
    int rc = clu_conn_read(s, block, n < PIECE ? n : PIECE, &got);
    if (rc == CLU_EOF) return 0;
    must(rc == CLU_OK || rc == CLU_AGAIN, s->err.text);
    n -= got;
    if (rc == CLU_AGAIN) await(s, CLU_READ);
  }
  return 1;
}

static void give(clu_conn *s, size_t n) {
  int rc;
  while (n > 0) {
    size_t put;
    rc = clu_conn_write(s, block, n < PIECE ? n : PIECE, &put);
    must(rc == CLU_OK || rc == CLU_AGAIN, s->err.text);
    n -= put;
    if (rc == CLU_AGAIN) await(s, CLU_WRITE);
  }
  while ((rc = clu_conn_flush(s)) == CLU_AGAIN) await(s, 0);
  must(rc == CLU_OK, s->err.text);
}

static clu_tls_keys *keys_of(const identities *id, int side) {
  clu_tls_keys *k;
  clu_err e;
  must(clu_tls_keys_new(id->own[side], id->certificate[1 - side], &k, &e) == CLU_OK, e.text);
  return k;
}

static clu_conn *open_stream(clu_fd fd, clu_tls_keys *k, int server) {
  clu_conn *s = NULL;
  clu_err e;
  int rc;
  clu_os_sockopt_set(fd, CLU_OPT_NODELAY, 1);
  if (!k)
    must(!!(s = clu_conn_plain(fd)), "memory");
  else
    must((server ? clu_conn_tls_server(fd, k, &s, &e) : clu_conn_tls_client(fd, k, &s, &e)) ==
             CLU_OK,
         e.text);
  while ((rc = clu_conn_handshake(s)) == CLU_AGAIN) await(s, 0);
  must(rc == CLU_OK, s->err.text);
  return s;
}

/* Serves one connection: its first byte says plain or TLS, then orders of 8 bytes: how many bytes
 * come, how many go back. */
static void serve_one(clu_fd fd, clu_tls_keys *k) {
  clu_conn *s;
  char kind;
  struct pollfd p = {(int)fd, POLLIN, 0};
  must(poll(&p, 1, 60000) == 1 && read((int)fd, &kind, 1) == 1, "no first byte");
  s = open_stream(fd, kind == 't' ? k : NULL, 1);
  while (get(s, 8)) {
    uint32_t order[2];
    memcpy(order, block, sizeof order);
    get(s, order[0]);
    give(s, order[1]);
  }
  clu_conn_close(s);
}

static clu_fd listen_at(const clu_addr *at) {
  clu_listen how = {8, 0, 0};
  clu_err e;
  clu_fd fd;
  int granted;
  must(clu_os_listen(at, &how, &fd, &granted, &e) == CLU_OK, e.text);
  return fd;
}

static void serve(clu_fd listener, clu_tls_keys *k, int connections) {
  for (int i = 0; i < connections; i++) {
    clu_err e;
    clu_fd fd;
    int rc;
    struct pollfd p = {(int)listener, POLLIN, 0};
    while ((rc = clu_os_accept(listener, &fd, NULL, &e)) == CLU_AGAIN) poll(&p, 1, 60000);
    must(rc == CLU_OK, e.text);
    serve_one(fd, k);
  }
}

static clu_conn *dial(const clu_addr *to, clu_tls_keys *k) {
  clu_err e;
  clu_fd fd;
  int rc = clu_os_connect_start(to, 0, 0, &fd, &e);
  char kind = k ? 't' : 'p';
  while (rc == CLU_AGAIN) {
    struct pollfd p = {(int)fd, POLLOUT, 0};
    poll(&p, 1, 60000);
    rc = clu_os_connect_finish(fd, to, &e);
  }
  must(rc == CLU_OK, e.text);
  must(write((int)fd, &kind, 1) == 1, "write");
  return open_stream(fd, k, 0);
}

static double ask(clu_conn *s, uint32_t there, uint32_t back) {
  uint32_t order[2] = {there, back};
  double from = now_us();
  memcpy(block, order, sizeof order);
  if (there <= 1000) { /* with its order, as one message */
    give(s, sizeof order + there);
  } else {
    give(s, sizeof order);
    give(s, there);
  }
  get(s, back);
  return now_us() - from;
}

static void measure(const clu_addr *to, clu_tls_keys *k, int rounds, int mb, int calls) {
  const char *names[] = {"plain", "tls"};
  clu_conn *s[2];
  for (int i = 0; i < 2; i++) s[i] = NULL;
  for (int r = 0; r < rounds; r++)
    for (int i = 0; i < 2; i++) {
      double us = now_us();
      s[i] = dial(to, i ? k : NULL);
      printf("%s connect %.0f\n", names[i], now_us() - us);
      us = ask(s[i], 1000, 1);
      if (mb > 0) printf("%s block %.0f\n", names[i], ask(s[i], (uint32_t)mb * 1000000u, 1));
      us = 0;
      for (int c = 0; c < calls; c++) us += ask(s[i], 92, 100);
      if (calls > 0) printf("%s call %.2f\n", names[i], us / calls);
      while (clu_conn_finish(s[i]) == CLU_AGAIN) await(s[i], 0);
      clu_conn_close(s[i]);
    }
}

static void share_keys(identities *id, int make) {
  const char *path = getenv("STREAM_KEYS");
  clu_err e;
  FILE *f = path ? fopen(path, make ? "w" : "r") : NULL;
  must(!!f, "STREAM_KEYS names no file");
  if (make)
    for (int i = 0; i < 2; i++)
      must(clu_tls_make_identity(id->own[i], id->certificate[i], &e) == CLU_OK, e.text);
  must((make ? fwrite(id, sizeof *id, 1, f) : fread(id, sizeof *id, 1, f)) == 1, "the keys");
  fclose(f);
}

static int both_here(int rounds, int mb, int calls) {
  static identities id;
  clu_addr at;
  clu_err e;
  clu_fd listener;
  clu_resolve *r = clu_resolve_start("127.0.0.1", 0, &e);
  clu_addr found[CLU_MAX_ADDRS];
  int n;
  must(r && clu_resolve_wait(r, 0, found, &n, &e) == CLU_OK, "127.0.0.1");
  clu_resolve_free(r);
  for (int i = 0; i < 2; i++)
    must(clu_tls_make_identity(id.own[i], id.certificate[i], &e) == CLU_OK, e.text);
  listener = listen_at(&found[0]);
  must(clu_os_local_addr(listener, &at) == CLU_OK, "address");
  if (fork() == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    serve(listener, keys_of(&id, 0), 2 * rounds);
    _exit(0);
  }
  measure(&at, keys_of(&id, 1), rounds, mb, calls);
  return 0;
}

int main(int argc, char **argv) {
  static identities id;
  if (argc == 4 && strcmp(argv[1], "serve") == 0) {
    clu_addr at;
    share_keys(&id, 1);
    clu_addr_any(CLU_INET, atoi(argv[2]), &at);
    serve(listen_at(&at), keys_of(&id, 0), atoi(argv[3]));
    return 0;
  }
  if (argc == 7 && strcmp(argv[1], "to") == 0) {
    clu_addr found[CLU_MAX_ADDRS];
    clu_err e;
    int n;
    clu_resolve *r = clu_resolve_start(argv[2], atoi(argv[3]), &e);
    must(r && clu_resolve_wait(r, 0, found, &n, &e) == CLU_OK, "no such host");
    clu_resolve_free(r);
    share_keys(&id, 0);
    measure(&found[0], keys_of(&id, 1), atoi(argv[4]), atoi(argv[5]), atoi(argv[6]));
    return 0;
  }
  must(argc == 4, "see the head of stream.c");
  return both_here(atoi(argv[1]), atoi(argv[2]), atoi(argv[3]));
}
