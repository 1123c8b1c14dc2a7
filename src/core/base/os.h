/* The port: everything the core asks of the operating system. src/posix and src/win implement it.
 *
 * No function here blocks unless its comment says so. Every descriptor that is made here is
 * non-blocking and close-on-exec from the start (a leaked one would hide an end of file), and never
 * raises SIGPIPE.
 *
 * Windows has no fork, no signals, and passes no descriptors over sockets. What it lacks is
 * CLU_UNSUPPORTED there; a comment that begins with "Windows:" says so, and what differs else.
 */
#ifndef CLUTCH_OS_H
#define CLUTCH_OS_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"

/* A descriptor. Windows: a SOCKET, or the HANDLE of a file or of shared memory. */
typedef intptr_t clu_fd;
#define CLU_NO_FD ((clu_fd)-1)
typedef int64_t clu_pid;

/* ---- clock and chance ---- */

/* Monotonic nanoseconds; unrelated to the wall clock, which may be set at any time. */
uint64_t clu_os_now(void);
/* Does the same by a coarse clock, which takes less time to read, where there is one. */
uint64_t clu_os_now_coarse(void);
/* Blocks for `ns`, or until a signal comes. */
void clu_os_pause(uint64_t ns);
/* `n` unpredictable bytes from the system's source. Returns CLU_OK or CLU_SYS. */
int clu_os_random(void *out, size_t n);

/* ---- secrets ---- */

/* HMAC-SHA256 of `n` bytes. CLU_OK or CLU_SYS. */
int clu_os_hmac_sha256(const void *key, size_t nkey, const void *msg, size_t n,
                       unsigned char out[32]);
/* `n` bytes that nobody can guess. CLU_OK or CLU_SYS. */
int clu_os_secret_bytes(void *out, size_t n);
/* 1: the same. Takes as long for any two of that length. */
int clu_os_same_secret(const void *a, const void *b, size_t n);
/* Overwrites with zeros, which no compiler leaves out. */
void clu_os_wipe(void *p, size_t n);

/* ---- bytes ---- */

/* A hint that these `n` bytes, just allocated, will all be written: the system may give large
 * pages. */
void clu_os_expect_writes(void *p, size_t n);

typedef struct clu_iov {
  void *base;
  size_t len;
} clu_iov;

/* A wait in the milliseconds that poll() takes: rounded up, -1 for ever, at most a day. */
static inline int clu_os_wait_ms(int64_t ns) {
  const int64_t day = 86400000;
  if (ns < 0) return -1;
  ns = ns / 1000000 + (ns % 1000000 != 0);
  return (int)(ns < day ? ns : day);
}

#define CLU_MAX_IOV 4
#define CLU_MAX_FDS 8 /* descriptors that one read may bring, and one message */

/* A connected pair of stream sockets; the caller owns both ends. CLU_LIMIT where descriptors are
 * used up. Windows: a TCP connection over the loopback, for which it waits (5 s at most). */
int clu_os_pair(clu_fd out[2], clu_err *e);
/* Moves `*fd` to a number of at least `least`, so that code which uses select() (R's own sockets)
 * keeps the low numbers. Best effort: `*fd` stays as it is where that cannot be done. */
void clu_os_move_high(clu_fd *fd, int least);
/* Reads what is there. CLU_OK (`*got` > 0), CLU_AGAIN, CLU_EOF, CLU_RESET (also: the peer is beyond
 * reach) or CLU_SYS. With `fds` not NULL also takes passed descriptors; the caller owns the `*nfds`
 * received (at most CLU_MAX_FDS), all of which came with one byte. `*nfds` -1: some have come that
 * this process has no numbers for, and all of them are closed. On a descriptor made blocking by
 * clu_os_set_blocking() it blocks, and answers CLU_AGAIN when a signal interrupted it. */
int clu_os_readv(clu_fd fd, const clu_iov *iov, int n, size_t *got, clu_fd *fds, int *nfds);
/* Writes what the system takes. CLU_OK (`*put` > 0), CLU_AGAIN, CLU_RESET or CLU_SYS. `pass` are
 * `npass` descriptors to hand over with the first byte; the caller keeps its own copies. Blocks as
 * clu_os_readv() does. Windows: with any of these CLU_UNSUPPORTED; and never are they received. */
int clu_os_writev(clu_fd fd, const clu_iov *iov, int n, const clu_fd *pass, int npass, size_t *put);
int clu_os_set_blocking(clu_fd fd, int blocking);
int clu_os_set_cloexec(clu_fd fd);
/* A close-on-exec copy of `fd`, the caller's to close. */
int clu_os_dup(clu_fd fd, clu_fd *copy);
/* Closes once; what the system answers is of no use to the caller, the descriptor is gone. */
void clu_os_close(clu_fd fd);
/* Waits until `fd` is readable, at most `wait_ns` (< 0: for ever). Blocks. CLU_OK, CLU_TIMEOUT, or
 * CLU_AGAIN when a signal came. */
int clu_os_wait_readable(clu_fd fd, int64_t wait_ns);
/* Looks again and again for at most `ns` whether `fd` is readable, giving way to others in between:
 * to be woken from a sleep costs more than that where the answer comes soon. 1: it is. `*gave`: the
 * longest time in ns that others then took. */
int clu_os_spin_readable(clu_fd fd, uint64_t ns, uint64_t *gave);
void clu_os_yield(void);

/* ---- readiness: a wait costs what is ready, not what is watched ---- */

enum { CLU_READ = 1, CLU_WRITE = 2 };
typedef struct clu_poller clu_poller;
typedef struct clu_event {
  uint64_t id;    /* as given to clu_poller_set() */
  unsigned ready; /* CLU_READ and CLU_WRITE; both after an error or hang-up */
} clu_event;

clu_poller *clu_poller_new(clu_err *e);
void clu_poller_free(clu_poller *p); /* accepts NULL; closes no registered descriptor */
/* In a forked child: closes what the poller itself has open, and writes to no memory.
 * Async-signal-safe. Nothing but this may be done with the poller there: the registrations are the
 * parent's, too. */
void clu_poller_close_in_child(const clu_poller *p);
/* Registers `fd`, changes its interest, or with `interest` 0 forgets it. `known` says whether it is
 * registered now. A descriptor must be forgotten before it is closed. */
int clu_poller_set(clu_poller *p, clu_fd fd, int known, unsigned interest, uint64_t id, clu_err *e);
/* Waits at most `wait_ns` (< 0: for ever; 0: looks only). Blocks. `*n` events; CLU_OK also when a
 * signal came or the time is up (then `*n` is 0), CLU_SYS otherwise. */
int clu_poller_wait(clu_poller *p, clu_event *events, int max, int *n, int64_t wait_ns, clu_err *e);
/* Waits at most `wait_ns` until clu_poller_wait() would have something to tell, or a signal comes.
 * Blocks. For another thread than that which uses the poller, and at the same time. CLU_OK;
 * CLU_UNSUPPORTED, at once: only where readiness is kept in the kernel (Linux). */
int clu_poller_await(const clu_poller *p, int64_t wait_ns);
/* A descriptor that is readable while clu_poller_wait() would have something to tell, for those who
 * wait elsewhere. The poller's. CLU_NO_FD: there is none (but on Linux). */
clu_fd clu_poller_descriptor(const clu_poller *p);

/* ---- sockets: TCP over IPv4 and IPv6, Unix-domain ----
 *
 * The port starts the system's socket library by itself where that is needed. What is written here
 * of TCP's options holds where the family has them; elsewhere they are CLU_UNSUPPORTED. The address
 * stands in the text of every error. Bytes travel by clu_os_readv() and clu_os_writev().
 * Windows: no Unix domain.
 */

enum { CLU_NO_FAMILY = 0, CLU_INET, CLU_INET6, CLU_UNIX };
typedef struct clu_addr {
  int family;
  unsigned len;                          /* bytes used */
  _Alignas(16) unsigned char bytes[128]; /* the system's own sockaddr */
} clu_addr;

/* Room for any address as text: "127.0.0.1:80", "[::1]:80", "/tmp/socket" */
#define CLU_ADDR_TEXT 160

/* The address of CLU_INET or CLU_INET6 with these 4 or 16 bytes, as the network orders them. */
void clu_os_addr_put(int family, const unsigned char *ip, int port, clu_addr *out);
/* Its bytes: 4 or 16, or 0: it is of another family. */
int clu_os_addr_ip(const clu_addr *a, unsigned char ip[16]);
/* A path of the file system; CLU_SYS where it is too long for one. Windows: CLU_UNSUPPORTED, as the
 * functions clu_os_path_*(). */
int clu_os_addr_path(const char *path, clu_addr *out, clu_err *e);
/* Another port of the same host. */
void clu_os_addr_set_port(clu_addr *a, int port);
/* The host alone, in numbers and without brackets, IPv4 within IPv6 as IPv4; and the port (-1: has
 * none). See core/base/addr.h for more. */
int clu_os_addr_host(const clu_addr *a, char *out, size_t cap);

#define CLU_MAX_ADDRS 16
#define CLU_NAME_TEXT 160
/* Asks the system's resolver for the addresses of `host`, in the order in which they should be
 * tried: CLU_MAX_ADDRS at most. `numeric`: only if it is a number, and then at once; else it blocks
 * as long as the resolver likes. 0 and `*n` > 0, or the system's number for why there are none, and
 * `*n` is 0. Any thread may call it. */
int clu_os_ask_name(const char *host, int numeric, clu_addr addr[CLU_MAX_ADDRS], int *n);
/* The sentence for such a number: in `out`, or a constant. */
const char *clu_os_ask_name_text(int status, char out[CLU_NAME_TEXT]);

/* ---- threads and one lock, for core/net/resolve.c ---- */

/* The one lock. Blocks. 1: it is new, in this process nobody has had it before (that is also so in
 * a forked child, where a thread that is not there may have held it); else 0. */
int clu_os_lock(void);
void clu_os_unlock(void);
/* With the lock held: gives it up, waits for clu_os_lock_wake(), `ns` at most, and takes it again.
 * May wake early. */
void clu_os_lock_wait(int64_t ns);
/* With the lock held: wakes all that wait. */
void clu_os_lock_wake(void);
typedef struct clu_thread {
  uint64_t id;
} clu_thread;
/* A thread that runs fn(data); signals are not delivered to it. CLU_OK or CLU_LIMIT. It has to be
 * joined. */
int clu_os_thread_start(void (*fn)(void *), void *data, clu_thread *out, clu_err *e);
/* Waits for its end. Blocks. */
void clu_os_thread_join(clu_thread t);

/* ---- locks of one's own, with a way to wait, for core/loop/turns.c ---- */

typedef struct clu_gate clu_gate;
clu_gate *clu_gate_new(void); /* NULL without memory */
void clu_gate_free(clu_gate *g);
/* Blocks. */
void clu_gate_lock(clu_gate *g);
void clu_gate_unlock(clu_gate *g);
/* With the lock held: gives it up, waits for clu_gate_wake(), `ns` at most (< 0: for ever), and
 * takes it again. May wake early. */
void clu_gate_wait(clu_gate *g, int64_t ns);
/* With the lock held: wakes all that wait. */
void clu_gate_wake(clu_gate *g);

typedef struct clu_listen {
  int backlog;      /* connections that may wait to be accepted; < 0: the most the system allows */
  int keep_address; /* 1: fails while connections of an earlier listener linger at this address.
                       Windows: without effect, what lingers is never in the way */
  int receive_buffer; /* bytes, 0: the system's choice. Accepted sockets inherit it */
} clu_listen;
/* A listening socket. `*granted`: what the system made of the backlog, -1 where it does not tell.
 * CLU_IN_USE, CLU_LIMIT (descriptors), CLU_SYS. A path must not exist. */
int clu_os_listen(const clu_addr *at, const clu_listen *how, clu_fd *fd, int *granted, clu_err *e);
/* The next connection. `peer` may be NULL. CLU_OK: `*fd` is the caller's. CLU_AGAIN: there is none,
 * or it was gone before it could be taken (ECONNABORTED and similar), or a signal came: wait again.
 * CLU_LIMIT: no descriptor is free and the connection stays in the queue, so the listener stays
 * readable: pause. */
int clu_os_accept(clu_fd listener, clu_fd *fd, clu_addr *peer, clu_err *e);

/* Begins to connect; never waits. `send_buffer` and `receive_buffer`: bytes, 0: the system's
 * choice. CLU_OK: connected. CLU_AGAIN: under way, wait for CLU_WRITE, then ask
 * clu_os_connect_finish(). In both cases `*fd` is the caller's. Everything else is a failure and
 * `*fd` is CLU_NO_FD: CLU_REFUSED, CLU_UNREACHABLE, CLU_LIMIT, CLU_SYS, or CLU_BUSY (Unix domain:
 * the listener's queue is full; nothing is under way, try again later). To a loopback address a
 * dead port is refused at once. */
int clu_os_connect_start(const clu_addr *to, int send_buffer, int receive_buffer, clu_fd *fd,
                         clu_err *e);
/* Tells what became of it. CLU_OK, CLU_AGAIN (still under way), or a failure as above, also
 * CLU_RESET and CLU_TIMEOUT (the system's own); the caller closes `fd` then. Connects never twice;
 * to be asked again after CLU_OK is harmless. */
int clu_os_connect_finish(clu_fd fd, const clu_addr *to, clu_err *e);

/* `how`: CLU_READ, CLU_WRITE or both. CLU_OK, CLU_RESET (no longer connected), CLU_SYS. */
int clu_os_shutdown(clu_fd fd, unsigned how);

typedef enum clu_sockopt {
  CLU_OPT_NODELAY,       /* 0 or 1 */
  CLU_OPT_KEEPALIVE,     /* 0 or 1 */
  CLU_OPT_KEEP_IDLE,     /* seconds of silence before the first probe */
  CLU_OPT_KEEP_INTERVAL, /* seconds between probes */
  CLU_OPT_KEEP_COUNT,    /* probes without an answer before the connection counts as gone */
  CLU_OPT_USER_TIMEOUT,  /* milliseconds that sent bytes may stay unacknowledged; 0: the system's */
  CLU_OPT_SEND_BUFFER,   /* bytes */
  CLU_OPT_RECEIVE_BUFFER, /* bytes */
  CLU_OPT_LINGER,         /* seconds; -1: off; 0: close resets the connection */
  CLU_N_OPTS
} clu_sockopt;
/* CLU_OK, CLU_UNSUPPORTED, CLU_RESET (the connection was reset before) or CLU_SYS. Windows: what
 * the keepalive options and the user timeout need came with Windows 10, and a user timeout cannot
 * be set back to 0. */
int clu_os_sockopt_set(clu_fd fd, clu_sockopt which, int value);
int clu_os_sockopt_get(clu_fd fd, clu_sockopt which, int *value);

/* CLU_OK, or CLU_SYS (not a socket), CLU_RESET (has no such address, or not any more). */
int clu_os_local_addr(clu_fd fd, clu_addr *out);
int clu_os_peer_addr(clu_fd fd, clu_addr *out);
/* Whose process is at the other end of a TCP connection that does not leave this machine: this
 * process's user or root, or another one. CLU_PEER_UNKNOWN: it comes from elsewhere, or the system
 * does not tell (only Linux does). */
enum { CLU_PEER_UNKNOWN, CLU_PEER_OWN, CLU_PEER_OTHER };
int clu_os_peer_user(clu_fd fd);

/* In TCP's own words. CLU_TCP_NONE: not TCP, or the system does not tell. */
enum {
  CLU_TCP_NONE = 0,
  CLU_TCP_ESTABLISHED,
  CLU_TCP_SYN_SENT,
  CLU_TCP_SYN_RECV,
  CLU_TCP_FIN_WAIT1,
  CLU_TCP_FIN_WAIT2,
  CLU_TCP_TIME_WAIT,
  CLU_TCP_CLOSED,
  CLU_TCP_CLOSE_WAIT,
  CLU_TCP_LAST_ACK,
  CLU_TCP_LISTEN,
  CLU_TCP_CLOSING,
  CLU_N_TCP
};
enum { CLU_KIND_OTHER = 0, CLU_KIND_STREAM, CLU_KIND_DATAGRAM };
typedef struct clu_sock_status {
  int family, kind; /* CLU_NO_FAMILY: neither TCP/IP nor Unix-domain */
  int tcp;          /* CLU_TCP_* */
  int listening;
  /* -1 where the system does not tell */
  int64_t queued_in;    /* bytes that have come and are not read */
  int64_t queued_out;   /* bytes written and not acknowledged by the peer's system; with the FIN, if
                           sent.   Windows: only those under way */
  int64_t retransmits;  /* segments sent again, in total */
  int64_t rtt_us;       /* smoothed round-trip time */
  int64_t backlog_used; /* of a listener: connections that wait to be accepted */
  int64_t backlog_max;
} clu_sock_status;
/* CLU_OK; CLU_SYS: `fd` is not a socket. */
int clu_os_sock_status(clu_fd fd, clu_sock_status *out);
/* Bytes written and not acknowledged by the peer's system, with the FIN, if sent; -1: the system
 * does not tell. Windows: only those under way. */
int64_t clu_os_unconfirmed(clu_fd fd);
/* 1: what is written to a pipe or socket is read by nobody any more. Of all else, and Windows: 0 */
int clu_os_reader_has_gone(clu_fd fd);
/* Every socket of this process, whoever made it: at most `max`, `*n` there are. CLU_OK, or
 * CLU_UNSUPPORTED (Windows: always). */
int clu_os_sockets(clu_fd *out, int max, int *n);

/* A wait for a set that is made up for this one time. Fields as those of clu_poller_set(). */
typedef struct clu_watch {
  clu_fd fd;      /* CLU_NO_FD: never ready */
  unsigned want;  /* CLU_READ, CLU_WRITE */
  unsigned ready; /* of what is wanted; all of it after an error or hang-up */
} clu_watch;
/* Waits at most `wait_ns` (< 0: for ever; 0: looks only). Blocks. `*n` are ready; CLU_OK also when
 * the time is up or a signal came (then `*n` is 0). No limit on the descriptors' numbers. Readiness
 * can be a lie: the read, write or accept that follows may still answer CLU_AGAIN. */
int clu_os_poll(clu_watch *set, int count, int64_t wait_ns, int *n, clu_err *e);

/* Removes the file of a Unix-domain listener at `path`, if nobody listens there any more
 * (connecting is refused) and it is a socket. CLU_OK: nothing is there now. CLU_IN_USE: somebody
 * listens, or it is no socket. */
int clu_os_path_clear(const char *path);
/* Removes the file of one's own listener; `id` says that it is still the same. */
int clu_os_path_id(const char *path, uint64_t id[2]);
void clu_os_path_remove(const char *path, const uint64_t id[2]);
/* Removes the folder in which `path` is, if nothing else is there. */
void clu_os_path_remove_folder(const char *path);
/* Whose process is at the other end of a Unix-domain connection, or was when it began to listen:
 * CLU_PEER_OWN is this process's user and nobody else. `*pid`: its number; 0: it has none here.
 * CLU_PEER_UNKNOWN: the system does not tell (only Linux does). */
int clu_os_path_peer(clu_fd fd, clu_pid *pid);

/* ---- processes ---- */

typedef struct clu_exit {
  int by_signal; /* 1: `code` is a signal number; 0: an exit status */
  int code;      /* Windows: after a crash the exception's number as status */
} clu_exit;

typedef struct clu_spawn {
  const char *file;    /* path of the program */
  char *const *argv;   /* NULL-terminated */
  char *const *envp;   /* NULL-terminated; NULL: this process's */
  clu_fd in, out, err; /* become 0, 1, 2; CLU_NO_FD: the null device */
  const clu_fd *keep;  /* become 3, 4, ... in this order; everything else is closed. Windows: they
                          have no such numbers, the program gets them by clu_os_kept() only */
  int nkeep;
  int leaves;      /* clu_child_start(): what it has started may outlive it */
  clu_fd *hold;    /* clu_child_start(): closed when it has ended; NULL: there is none */
  int new_session; /* no controlling terminal, so that Ctrl-C there does not reach it */
  int follow;      /* it gets CLU_SIG_TERM when this process ends: Linux only; Windows: always */
} clu_spawn;

/* Starts a program, with signals at their defaults. Blocks until it runs, or its errno is known.
 * Windows: `in`, `out` and `err` are files; it and all that it starts end with this process. */
int clu_os_spawn(const clu_spawn *s, clu_pid *pid, clu_err *e);
/* Starts a program in the same way, but it is nobody's child: it goes on when this process has
 * ended. `in`, `out`, `err` as above; `new_session` is implied, `keep`, `leaves`, `hold` and
 * `follow` are not looked at. Blocks for as long as fork() takes twice. Windows: CLU_UNSUPPORTED.
 */
int clu_os_spawn_detached(const clu_spawn *s, clu_err *e);
/* Makes this process the parent of what its descendants leave. CLU_UNSUPPORTED, but on Linux. */
int clu_os_adopt_orphans(void);
/* This process's children; `*out` is by malloc(). CLU_OK, CLU_UNSUPPORTED, CLU_SYS, CLU_NOMEM. */
int clu_os_children(clu_pid **out, int *n);
/* A variable of the environment of a process, as that was when its program began and is within its
 * own memory. CLU_OK; CLU_EOF: there is none; CLU_SYS: it is not to be read; CLU_UNSUPPORTED. */
int clu_os_env_of(clu_pid pid, const char *name, char *out, size_t cap);
/* Sets a variable of this process where others see it by clu_os_env_of(): in its old place, if
 * there is one for as many bytes. */
void clu_os_mark_env(const char *name, const char *value);
/* Sets what others (ps) see as the command line of this process: cut to its room. Linux only. */
void clu_os_set_title(const char *text);
/* In a program started by clu_os_spawn(): the kept descriptor number `i`, counted from 0. CLU_OK,
 * or CLU_SYS. */
int clu_os_kept(int i, clu_fd *fd);
/* Forks, as fork() does: `*pid` is 0 in the child. The child is the leader of a process group of
 * its own. Flushes nothing. Windows: CLU_UNSUPPORTED. */
int clu_os_fork(clu_pid *pid, clu_err *e);
/* The environment as execve() takes it: NULL-terminated, the system's own memory. */
char **clu_os_environ(void);
/* Sets a variable of it, or with `value` NULL removes it. Returns CLU_OK or CLU_SYS. */
int clu_os_setenv(const char *name, const char *value);
clu_pid clu_os_getpid(void), clu_os_getppid(void);
int clu_os_leads_group(void); /* as what clu_os_spawn() has started. Windows: 0 */
/* Sends a signal to a process, or with `group` to the group it leads. 0, or the system's error.
 * Signal 0 only asks whether that could be done. Windows: also whether it runs; CLU_SIG_TERM and
 * CLU_SIG_KILL end it at once, with `group` all that it has started, too; there is no other. */
int clu_os_kill(clu_pid pid, int sig, int group);
/* Sets the nice value of a process: at 19 it computes where others leave a core. `*before`: what it
 * was; less may need rights. 0, or the system's error. Windows: nothing is done. */
int clu_os_renice(clu_pid pid, int nice, int *before);
/* Returns a name such as "SIGKILL", or NULL: there is no such signal here. Windows: there is
 * none. */
const char *clu_os_signal_name(int sig);
extern const int CLU_SIG_INT, CLU_SIG_TERM, CLU_SIG_KILL, CLU_SIG_STOP, CLU_SIG_CONT;
/* Tells whether the child `pid` has ended. CLU_OK: yes, it is reaped and `*how` says how;
 * CLU_AGAIN: it runs; CLU_DEAD: no such child (somebody else reaped it). Its process group gets
 * SIGKILL first when `group` is set, while the pid cannot yet be anybody else's. */
int clu_os_reap(clu_pid pid, int group, clu_exit *how);
/* Any child that has ended and is not yet reaped: CLU_OK and its pid, or CLU_AGAIN. */
int clu_os_ended_child(clu_pid *pid);
/* Ends this process at once, without any exit handler. Does not return. */
void clu_os_end_self(void);

/* Has this process get CLU_SIG_TERM when its parent ends: by the system (Linux), or within 0.2 s by
 * a thread, if `may_thread`. CLU_DEAD: it has ended. CLU_UNSUPPORTED: neither. CLU_LIMIT: no thread
 * can be started. Windows: CLU_UNSUPPORTED; what clu_os_spawn() started ends with its parent. */
int clu_os_follow_parent(clu_pid parent, int may_thread);
int clu_os_follow_parent_meanwhile(clu_pid parent); /* the same until it is called with 0 */
/* From now on it may outlive its parent, whatever it was told before by these two. CLU_UNSUPPORTED,
 * but on Linux. */
int clu_os_follow_nobody(void);
/* From now on a thread watches the connection `fd`. When the other side has ended it, or it is
 * broken, and this process is still there `grace_ns` later, it gets CLU_SIG_TERM. Elsewhere than on
 * Linux bytes that are not read hide the end. CLU_LIMIT: no thread can be started. Windows:
 * CLU_UNSUPPORTED. */
int clu_os_follow_peer(clu_fd fd, uint64_t grace_ns);
/* From now on CLU_SIG_TERM ends this process at once, and when its parent is no longer `parent`
 * (-1: in any case) the folder `tmp` and all in it is removed as its last act, for which it becomes
 * another program; if it leads a process group, that ends with it. In a process forked by this one
 * it just ends that. Async-signal-safe inside. `tmp` is copied; NULL: the default action again.
 * Windows: CLU_UNSUPPORTED; nothing is told before the end. */
int clu_os_on_term(clu_pid parent, const char *tmp);
/* From now on the end of a child, or CLU_SIG_TERM, makes `*readable` readable: a supervisor's way
 * of waiting for both. CLU_SIG_INT does nothing meanwhile. Started again it is the same watch, and
 * the last clu_os_watch_end() undoes it. clu_os_fork() ends it in the child. Not on Windows. */
int clu_os_watch_start(clu_fd *readable, clu_err *e);
/* Empties it; `*term` becomes 1 when CLU_SIG_TERM came. */
void clu_os_watch_clear(int *term);
void clu_os_watch_end(void);
void clu_os_watch_term(void); /* CLU_SIG_TERM goes to the watch again, see clu_os_on_term() */
/* `task` runs in the handler of CLU_SIG_INT; when it returns 1, the handler that was there before
 * is called after it. Reads and writes under way are interrupted. With 1: clu_os_interrupt() finds
 * that CLU_SIG_INT is ignored now, as system() does while its child runs. Windows: does nothing. */
void clu_os_on_int(int (*task)(int is_ignored));
/* Sends CLU_SIG_INT to the group that `pid` leads, and before it another signal to `pid` itself,
 * which does nothing without a handler. Windows: does nothing. */
void clu_os_interrupt(clu_pid pid);

/* Makes descriptors 1 and 2 copies of `out` and `err`. */
int clu_os_redirect_output(clu_fd out, clu_fd err);
/* Opens `path` for appending, creating it; the caller owns it. "/dev/null" is the null device. */
int clu_os_open_append(const char *path, clu_fd *fd, clu_err *e);

/* ---- memory shared by a supervisor and its nodes ---- */

/* `n` zeroed bytes that stay shared with every process forked later. With `fd` not NULL also a
 * descriptor through which a program started later can map the same bytes. */
int clu_os_shared_new(size_t n, void **p, clu_fd *fd, clu_err *e);
int clu_os_shared_map(clu_fd fd, size_t n, void **p, clu_err *e);
/* Maps what `fd` is in that process of this user. CLU_SYS; CLU_UNSUPPORTED except on Linux. */
int clu_os_shared_of(clu_pid pid, clu_fd fd, size_t n, void **p);
/* Only this process's view of it goes. */
void clu_os_shared_free(void *p, size_t n);

/* ---- what not every system can ---- */

enum {
  CLU_CAN_PROC = 1,          /* /proc tells of processes and of the system, as on Linux */
  CLU_CAN_FOLLOW_PARENT = 2, /* clu_os_follow_parent() without a thread */
  CLU_CAN_FOLLOW_PEER = 4, /* clu_os_follow_peer() sees the end behind bytes that nobody has read */
  CLU_CAN_TCP_INFO = 8,    /* clu_os_sock_status() knows a TCP connection's state and queues */
  CLU_CAN_USER_TIMEOUT = 16, /* CLU_OPT_USER_TIMEOUT */
  CLU_CAN_MEMORY = 32,       /* clu_os_process_memory() */
  CLU_CAN_THREADS = 64,      /* clu_os_thread_count() */
  CLU_CAN_MEMFD = 128,       /* shared memory has a name of its own in the list of mappings */
  CLU_CAN_RELEASE = 256,     /* clu_os_release_memory() does something */
  CLU_CAN_FORK = 512         /* clu_os_fork(), and with it fork servers */
};
unsigned clu_os_can(void); /* those of this system, as sum */

/* ---- limits ---- */

typedef struct clu_limits {
  int64_t fds_soft, fds_hard, fds_open; /* -1: not known or none */
  int64_t procs;                        /* processes of this user, -1: none */
} clu_limits;
void clu_os_limits(clu_limits *out);
/* Raises the soft limit on descriptors to at least `n`. CLU_OK or CLU_LIMIT. */
int clu_os_raise_fds(int64_t n);
int clu_os_affinity_count(void); /* cores in the affinity mask; -1: the system has none */
int clu_os_cores(void);          /* these, or those of the machine; 1: not known */
int clu_os_thread_count(void);   /* threads of this process; -1: the system does not tell */
/* When there is no memory left, this process is to be killed before others of the same size. Only
 * on Linux, elsewhere nothing. */
void clu_os_end_first(void);
/* Bytes of memory that are a process's own: written by it, and shared neither as files nor with the
 * process that it was forked from; with what of them is in swap. -1: the system does not tell. To
 * find out takes long where there is much: it is left at a number that is not too small when that
 * is `enough` or less. Windows: what it has committed. */
int64_t clu_os_process_memory(clu_pid pid, int64_t enough);
/* Bytes of this machine's memory, with its swap; -1: the system does not tell. */
int64_t clu_os_total_memory(void);
/* Gives to the system what memory was freed. Only with the GNU C library, elsewhere nothing. */
void clu_os_release_memory(void);
/* user, system, elapsed, children's user, children's system seconds, as R's proc.time() */
void clu_os_times(double out[5]);
/* How the calling process may be told, when it was forked by others than this package, that these
 * descriptors are not its own: `fn` runs in the child after each fork(). Windows: never. */
int clu_os_after_fork(void (*fn)(void));
/* Does the same with functions that run in the parent, before and after, if it is the calling
 * thread that forks. In the child `fn` is told whether it was. */
int clu_os_around_fork(void (*before)(void), void (*after)(void), void (*fn)(int by_caller));

#endif
