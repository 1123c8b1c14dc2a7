/* Look-ups of names: shared, few threads, no descriptors. */
// link: -Wl,--wrap=getaddrinfo
#include "test.h"

#include <netdb.h>
#include <stdatomic.h>

#include "core/base/addr.h"

#include "sock-help.h"

static atomic_int resolver_stands,
    asked; /* a resolver that does not answer; how often it was asked for a name */
int __real_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                       struct addrinfo **out);
int __wrap_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                       struct addrinfo **out);
int __wrap_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                       struct addrinfo **out) {
  if (hints->ai_flags & AI_NUMERICHOST) return __real_getaddrinfo(host, service, hints, out);
  asked++;
  while (resolver_stands) test_pause();
  return strncmp(host, "known", 5) == 0 ? __real_getaddrinfo("127.0.0.1", service, hints, out)
                                        : EAI_NONAME;
}

/* Begins to ask for a name, waits a little, and gives it up, as a connect with a short timeout
 * does. */
static void give_up(const char *name) {
  clu_addr a[CLU_MAX_ADDRS];
  int n = 0;
  clu_resolve *r = clu_resolve_start(name, 80, NULL);
  REQUIRE(r);
  CHECK_INT_EQ(clu_resolve_wait(r, 100000, a, &n, NULL), CLU_AGAIN);
  clu_resolve_free(r);
}

static int threads(void) {
#if defined(__linux__)
  return clu_os_thread_count();
#else
  return clu_resolve_threads() + 1;
#endif
}

TEST(abandoned_lookups_of_a_name_are_one) {
  int before = threads(), fds = test_count_fds();
  resolver_stands = 1;
  for (int i = 0; i < 300; i++) give_up("nowhere");
  CHECK_INT_EQ(threads(), before < 0 ? before : before + 1); /* not every system tells */
  CHECK_INT_EQ(test_count_fds(), fds);
  CHECK_SOON(asked == 1, 5000);
  CHECK_INT_EQ(clu_resolve_threads(), 1);
  resolver_stands = 0;
  CHECK_SOON(clu_resolve_threads() == 0, 5000);
  CHECK_SOON(threads() == before, 5000);
  resolver_stands = 1; /* and then it is asked again */
  for (int i = 0; i < 5000 && asked < 2; i++) give_up("nowhere");
  CHECK_INT_EQ(asked, 2);
  resolver_stands = 0;
  CHECK_SOON(clu_resolve_threads() == 0, 5000);
}

TEST(abandoned_lookups_of_many_names_are_few) {
  int before = threads(), fds = test_count_fds();
  resolver_stands = 1;
  for (int i = 0; i < 300; i++) {
    char name[32];
    snprintf(name, sizeof name, "nowhere%d", i);
    give_up(name);
  }
  CHECK(threads() <= before + 16);
  CHECK_INT_EQ(test_count_fds(), fds);
  resolver_stands = 0;
  CHECK_SOON(clu_resolve_threads() == 0, 5000);
  CHECK(asked <= 16); /* those that waited were not asked for in vain */
}

TEST(lookups_are_shared_and_wait_for_their_turn) {
  enum { N = 40 };
  clu_resolve *r[2 * N];
  clu_addr a[CLU_MAX_ADDRS];
  clu_err e = {0, 0, ""};
  char text[CLU_ADDR_TEXT];
  int n = 0;
  resolver_stands = 1;
  for (int i = 0; i < 2 * N; i++) { /* each name twice, for two ports */
    char name[32];
    snprintf(name, sizeof name, i % 4 == 3 ? "nowhere%d" : "known%d", i % N);
    REQUIRE(r[i] = clu_resolve_start(name, 1000 + i, &e));
    CHECK_INT_EQ(clu_resolve_wait(r[i], 0, a, &n, &e), CLU_AGAIN);
  }
  resolver_stands = 0;
  for (int i = 0; i < 2 * N; i++) {
    int rc = clu_resolve_wait(r[i], 10000 * (int64_t)MS, a, &n, &e);
    if (i % 4 == 3) {
      CHECK_INT_EQ(rc, CLU_DNS);
    } else {
      char want[32];
      snprintf(want, sizeof want, "127.0.0.1:%d", 1000 + i);
      CHECK_INT_EQ(rc, CLU_OK);
      CHECK_STR_EQ(clu_addr_text(&a[0], text, sizeof text), want);
    }
    clu_resolve_free(r[i]);
  }
  CHECK_INT_EQ(asked, N);
  CHECK_SOON(clu_resolve_threads() == 0, 5000);
}

TEST(a_forked_child_asks_for_itself) {
  clu_addr a[CLU_MAX_ADDRS];
  clu_resolve *r;
  int n = 0, status = -1;
  pid_t pid;
  resolver_stands = 1;
  REQUIRE(r = clu_resolve_start("known", 80, NULL));
  CHECK_SOON(asked == 1, 5000);
  pid = fork();
  if (pid == 0) {
    clu_resolve *own;
    int ok = clu_resolve_threads() == 0 && clu_resolve_wait(r, 0, a, &n, NULL) == CLU_CLOSED;
    clu_resolve_free(r);
    resolver_stands = 0;
    own = clu_resolve_start("known", 80, NULL);
    ok = ok && own && clu_resolve_wait(own, 10000 * (int64_t)MS, a, &n, NULL) == CLU_OK;
    clu_resolve_free(own);
    _exit(ok ? 0 : 1);
  }
  CHECK(waitpid(pid, &status, 0) == pid && status == 0);
  resolver_stands = 0;
  CHECK_INT_EQ(clu_resolve_wait(r, 10000 * (int64_t)MS, a, &n, NULL), CLU_OK);
  clu_resolve_free(r);
  CHECK_SOON(clu_resolve_threads() == 0, 5000);
}

TEST(a_listener_for_all_addresses_takes_both_families) {
  const char *hosts[] = {"127.0.0.1", "::1"};
  clu_listen how = {5, 0, 0};
  clu_addr any;
  clu_fd fd;
  int port;
  char text[CLU_ADDR_TEXT];
  clu_resolve_any(&any);
  REQUIRE(clu_os_listen(&any, &how, &fd, NULL, NULL) == CLU_OK);
  REQUIRE(clu_os_local_addr(fd, &any) == CLU_OK);
  port = clu_os_addr_host(&any, text, sizeof text);
  for (int i = 0; i < (any.family == CLU_INET6 ? 2 : 1); i++) {
    clu_addr to[CLU_MAX_ADDRS];
    struct sockaddr *at;
    int n = 0, s;
    REQUIRE(clu_resolve_now(hosts[i], port, 1000000000, to, &n, NULL) == CLU_OK && n == 1);
    at = (struct sockaddr *)to[0].bytes;
    s = socket(at->sa_family, SOCK_STREAM, 0);
    CHECK(s >= 0 && connect(s, at, (socklen_t)to[0].len) == 0);
    close(s);
  }
  clu_os_close(fd);
}
